//! Programs that this process starts.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::process::{
    Pid, Signal, geteuid, getpid, getppid, kill_process, set_parent_process_death_signal, setsid,
};

use rustix::net::sockopt;

use crate::{Error, NetworkNamespace, Result};

/// Makes `command`'s process die when the thread that starts it ends, also when this process is killed. To be called by
/// the process that starts it.
#[expect(unsafe_code, reason = "code between fork and exec is unsafe to add")]
pub fn die_with_parent(command: &mut Command) -> &mut Command {
    let parent = getpid();
    let ask = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // A parent that died before it was asked for sends no signal.
        if getppid() == Some(parent) {
            Ok(())
        } else {
            Err(io::Error::from(io::ErrorKind::Interrupted))
        }
    };
    // SAFETY: the closure makes two system calls: it allocates nothing and takes no lock.
    unsafe { command.pre_exec(ask) }
}

/// Makes this process one of the background: a session of its own, standard input, output and error from and to
/// nowhere.
///
/// # Errors
/// [`Error::Start`] when `/dev/null` is not there.
pub fn leave_terminal() -> Result<()> {
    // A process that leads its group cannot begin a session, and then has one already.
    let _leader = setsid();
    let redirect = || {
        let nowhere = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/null")?;
        rustix::stdio::dup2_stdin(&nowhere)?;
        rustix::stdio::dup2_stdout(&nowhere)?;
        rustix::stdio::dup2_stderr(&nowhere)?;
        Ok(())
    };
    redirect().map_err(|source: io::Error| Error::Start {
        program: "the background process".to_owned(),
        hint: String::new(),
        source,
    })
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

/// Kills the process with this number, if there is one.
pub fn kill(process: u32) {
    if let Some(process) = i32::try_from(process).ok().and_then(Pid::from_raw) {
        // It may have ended just now.
        let _ended = kill_process(process, Signal::KILL);
    }
}

/// The number of the user of this process, as its user namespace has it.
pub fn user_of_process() -> u32 {
    geteuid().as_raw()
}

/// The number of the user at the other end of a connection, when it began; `None` when the kernel does not say.
pub fn peer_user(stream: &UnixStream) -> Option<u32> {
    sockopt::socket_peercred(stream)
        .ok()
        .map(|credentials| credentials.uid.as_raw())
}
