//! The guard of a run (`linux::guard`): undoes the changes in the undo log of a killed run; after an orderly end
//! the log is gone. The guard shares the run's lock, so that no other run begins meanwhile.

use std::process::Command;

use linux::guard::Guard;

use crate::Error;
use crate::lock::Lock;

/// The arguments that make `pagewise-agent` a guard.
const ARGUMENTS: [&str; 3] = ["launch", "--undo", "--guard"];

/// Starts a guard that shares `lock`.
///
/// # Errors
/// The operating system refuses.
pub(crate) fn start(lock: &Lock) -> Result<Guard, Error> {
    let shared = lock.share().map_err(|error| linux::Error::call("dup", error))?;
    let mut command = Command::new("/proc/self/exe");
    Ok(Guard::start(command.args(ARGUMENTS).stdout(shared))?)
}
