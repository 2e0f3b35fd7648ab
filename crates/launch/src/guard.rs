//! The guard of a run (`linux::guard`): undoes the changes in the undo log of a killed run; after an orderly end
//! the log is gone. The guard shares the run's lock, so that no other run begins meanwhile.

use std::process::Command;

use linux::Root;
use linux::guard::{self, Guard};

use crate::Error;
use crate::changes::{self, Lock};

/// The arguments that make `pagewise-agent` a guard.
const ARGUMENTS: [&str; 3] = ["launch", "--undo", "--guard"];

/// Starts a guard.
///
/// # Errors
/// The operating system refuses.
pub(crate) fn start(lock: &Lock) -> Result<Guard, Error> {
    let shared = lock.share().map_err(|error| linux::Error::call("dup", error))?;
    let mut command = Command::new("/proc/self/exe");
    Ok(Guard::start(command.args(ARGUMENTS).stdout(shared))?)
}

/// Waits for the end of the run, then undoes its changes; returns their number.
///
/// # Errors
/// A change could not be undone.
pub fn stand(root: &Root) -> Result<usize, Error> {
    guard::wait();
    changes::undo(root)
}
