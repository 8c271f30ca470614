//! Where output goes and how a command ends.

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU8, Ordering};

use clap::ValueEnum;
use serde::Serialize;

/// How a command that could do its work ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Yes, or clean: exit status 0.
    Yes,
    /// No, or findings: exit status 1.
    No,
    /// Part of the input could not be answered; the output already says so: exit status 2.
    Unanswered,
}

impl Outcome {
    /// [`Outcome::Yes`] when `yes`, else [`Outcome::No`].
    pub(crate) fn from_yes(yes: bool) -> Self {
        if yes { Self::Yes } else { Self::No }
    }
}

/// The exit status of a command; an error is printed first.
pub(crate) fn exit_code(result: anyhow::Result<Outcome>) -> ExitCode {
    match result {
        Ok(Outcome::Yes) => ExitCode::SUCCESS,
        Ok(Outcome::No) => ExitCode::from(1),
        Ok(Outcome::Unanswered) => ExitCode::from(2),
        // Whoever reads the output has seen enough, as `head` does: that is no error of anybody.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            crate::report::error(&error);
            ExitCode::from(2)
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|error| error.kind() == ErrorKind::BrokenPipe)
}

/// Standard output, buffered also when it is a terminal. To be flushed at the end: dropping it hides errors.
pub(crate) fn stdout() -> io::BufWriter<io::StdoutLock<'static>> {
    io::BufWriter::with_capacity(1 << 16, io::stdout().lock())
}

/// Writes an answer as JSON that people can read too.
pub(crate) fn json(answer: &impl Serialize, out: &mut impl Write) -> anyhow::Result<()> {
    serde_json::to_writer_pretty(&mut *out, answer)?;
    writeln!(out)?;
    Ok(())
}

/// Writes `text` to standard error, where nobody can help when that fails.
pub(crate) fn to_stderr(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless `NO_COLOR` is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

static COLOR: AtomicU8 = AtomicU8::new(0);

impl Color {
    /// Makes this the choice of the process. Called once, before any output.
    pub(crate) fn write_global(self) {
        COLOR.store(self as u8, Ordering::Relaxed);
    }

    fn applies(stream: &impl IsTerminal) -> bool {
        match COLOR.load(Ordering::Relaxed) {
            1 => true,
            2 => false,
            _ => stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        }
    }
}

/// Whether standard output takes colour.
pub(crate) fn color_on_stdout() -> bool {
    Color::applies(&io::stdout())
}

/// Whether standard error takes colour.
pub(crate) fn color_on_stderr() -> bool {
    Color::applies(&io::stderr())
}
