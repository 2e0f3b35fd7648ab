//! A process that outlives its parent, however that ends, and puts right what it left.
//!
//! Contract: its standard input is a pipe whose other end the parent alone holds, and which the kernel
//! closes with the parent. Until then the guard does nothing.

use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus, Stdio};

use crate::Error;

/// A guard that waits. Dropped, it is let go and waited for.
#[derive(Debug)]
pub struct Guard(Child);

impl Guard {
    /// Starts `command`, which calls [`wait`] before anything else.
    ///
    /// # Errors
    /// A program that cannot be run.
    pub fn start(command: &mut Command) -> Result<Guard, Error> {
        let program = command.get_program().to_owned();
        let started = command.stdin(Stdio::piped()).spawn();
        started.map(Guard).map_err(|error| Error::refused("run the guard", program, error))
    }

    /// Lets it go, and says how its work ended.
    ///
    /// # Errors
    /// What the operating system refuses.
    pub fn finish(mut self) -> io::Result<ExitStatus> {
        self.let_go()
    }

    fn let_go(&mut self) -> io::Result<ExitStatus> {
        drop(self.0.stdin.take());
        self.0.wait()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.let_go();
    }
}

/// Waits for the parent to end, or to let its guard go. Signals to the parent's session, such as those
/// of its terminal, do not reach this process from now on.
pub fn wait() {
    let _ = rustix::process::setsid();
    let _ = io::stdin().read_to_end(&mut Vec::new());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_works_once_it_is_let_go() {
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
