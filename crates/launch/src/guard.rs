//! A process that outlives a killed run and undoes what it left.
//!
//! It waits for the end of its standard input, a pipe whose other end only the run holds: the kernel
//! closes it however the run ends. Then it undoes what the undo log still holds, which after an
//! orderly end is nothing. It shares the run's lock, so that no other run begins meanwhile.

use std::io::{self, Read};
use std::process::{Child, Command, Stdio};

use linux::Root;

use crate::Error;
use crate::changes::{self, Lock};

/// The arguments that make `pagewise-agent` a guard.
const ARGUMENTS: [&str; 3] = ["launch", "--undo", "--guard"];

/// A guard that waits. Dropped, it is let go and waited for.
#[derive(Debug)]
pub(crate) struct Guard(Child);

impl Guard {
    /// Starts one.
    ///
    /// # Errors
    /// What the operating system refuses.
    pub(crate) fn start(lock: &Lock) -> Result<Guard, Error> {
        let start = || {
            Command::new("/proc/self/exe")
                .args(ARGUMENTS)
                .stdin(Stdio::piped())
                .stdout(lock.share()?)
                .spawn()
        };
        start().map(Guard).map_err(|error: io::Error| {
            Error::Refused(format!("cannot start the process that undoes a killed run: {error}"))
        })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// What a guard does; says how many changes it undid.
///
/// # Errors
/// What could not be undone.
pub fn stand(root: &Root) -> Result<usize, Error> {
    // Signals to the run's session, such as those of its terminal, must not reach the guard.
    let _ = rustix::process::setsid();
    let _ = io::stdin().read_to_end(&mut Vec::new());
    changes::undo(root)
}
