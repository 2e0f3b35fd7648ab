//! A guard is a process that outlives its parent, however that ends, and undoes its changes.
//!
//! Contract: the guard's standard input is a pipe. Only the parent holds its other end, and the kernel closes it
//! when the parent ends. Until then the guard does nothing.

use std::io::{self, Read};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

use crate::Error;

/// A waiting guard. When dropped, it is released, and the drop waits for its end.
#[derive(Debug)]
pub struct Guard(Child);

impl Guard {
    /// Starts `command`, which calls [`wait`] before anything else.
    ///
    /// # Errors
    /// The program cannot be run.
    pub fn start(command: &mut Command) -> Result<Guard, Error> {
        let program = command.get_program().to_owned();
        let started = command.stdin(Stdio::piped()).spawn();
        started.map(Guard).map_err(|error| Error::refused("run the guard", program, error))
    }

    /// The standard output of the guard, if its command has a pipe for it.
    pub fn output(&mut self) -> Option<ChildStdout> {
        self.0.stdout.take()
    }

    /// Releases the guard, waits for its end, and returns its exit status.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn finish(mut self) -> io::Result<ExitStatus> {
        self.release()
    }

    fn release(&mut self) -> io::Result<ExitStatus> {
        drop(self.0.stdin.take());
        self.0.wait()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.release();
    }
}

/// Waits for the parent to end, or to release its guard. Signals to the parent's session, such as those
/// of its terminal, do not reach this process from now on.
pub fn wait() {
    detach();
    let _ = io::stdin().read_to_end(&mut Vec::new());
}

/// Leaves the parent's session, so that signals to it do not reach this process. For a guard that makes the change
/// itself before it waits.
pub fn detach() {
    let _ = rustix::process::setsid();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_works_once_it_is_release() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("done");
        let script = format!("cat; touch {}; exit 3", path.display());
        let guard = Guard::start(Command::new("sh").args(["-c", &script])).unwrap();
        assert!(!path.exists());
        assert_eq!(guard.finish().unwrap().code(), Some(3));
        assert!(path.exists());
        let error = Guard::start(&mut Command::new("/no/such/program")).unwrap_err().to_string();
        assert!(error.contains("/no/such/program: cannot run the guard"), "{error}");
    }
}
