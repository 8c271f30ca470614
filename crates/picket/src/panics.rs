//! What a process that runs on and on does where it has a fault.

use std::panic;
use std::process;

/// From now on a panic of any thread, or of any task, ends the process. Otherwise what that one did would not be done any more, and
/// nobody would know. Whoever runs the process starts it again; what is in force stays meanwhile.
pub(crate) fn end_the_process() {
    let tell = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        tell(panic);
        tracing::error!(%panic, "a fault in picket: it ends here, and what is in force stays");
        process::abort();
    }));
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;
    use std::thread;

    const INSIDE: &str = "PICKET_TEST_PANICS";

    #[test]
    fn a_process_ends_with_the_first_thread_that_panics() {
        if env::var_os(INSIDE).is_some() {
            super::end_the_process();
            let _ = thread::spawn(|| panic!("as it is to")).join();
            return;
        }
        let (_, module) = module_path!().split_once("::").unwrap();
        let name = format!("{module}::a_process_ends_with_the_first_thread_that_panics");
        let mut process = Command::new(env::current_exe().unwrap());
        process.args(["--exact", &name, "--nocapture"]).env(INSIDE, "yes");
        let ran = process.output().unwrap();
        let told = String::from_utf8_lossy(&ran.stderr);
        assert!(
            ran.status.signal().is_some() && told.contains("as it is to"),
            "{:?}: {told}",
            ran.status
        );
    }
}
