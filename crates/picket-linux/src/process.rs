//! Programs that this process starts.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::process::{Signal, set_parent_process_death_signal};

use crate::{Error, NetworkNamespace, Result};

/// Makes `command`'s process die when the thread that starts it ends, also when this process is killed.
#[expect(unsafe_code, reason = "code between fork and exec is unsafe to add")]
pub fn die_with_parent(command: &mut Command) -> &mut Command {
    // SAFETY: the closure makes one system call: it allocates nothing and takes no lock.
    unsafe { command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?)) }
}

/// Runs `command` inside `namespace` with `input` as its standard input, waits, and returns its standard output.
///
/// # Errors
/// [`Error::Enter`]; [`Error::Start`] with `install` (the package to install) when there is no such program;
/// [`Error::Program`] with its standard error when it fails.
pub fn run_with_input(
    namespace: &NetworkNamespace,
    command: &mut Command,
    input: &[u8],
    install: &str,
) -> Result<Vec<u8>> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = namespace.run(|| {
        let mut child = die_with_parent(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let stdin = child.stdin.take();
        std::thread::scope(|scope| {
            // A program that writes much before it has read all would wait for us, and we for it.
            let writer = scope.spawn(move || stdin.map_or(Ok(()), |mut stdin| stdin.write_all(input)));
            let output = child.wait_with_output();
            match writer.join() {
                Ok(Err(error)) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
                _ => output,
            }
        })
    })?;
    match output {
        Err(source) => Err(Error::Start {
            hint: if source.kind() == io::ErrorKind::NotFound {
                format!(": install the package `{install}`, for example with `apt-get install {install}`")
            } else {
                String::new()
            },
            program,
            source,
        }),
        Ok(output) if output.status.success() => Ok(output.stdout),
        Ok(output) => Err(Error::Program {
            message: match String::from_utf8_lossy(&output.stderr).trim() {
                "" => output.status.to_string(),
                text => text.to_owned(),
            },
            program,
        }),
    }
}
