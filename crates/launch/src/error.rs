//! The error type of this crate.

use std::fmt;
use std::path::Path;

/// Why a plan could not be run.
#[derive(Debug)]
pub enum Error {
    /// The plan is invalid.
    Plan(String),
    /// This machine cannot run the plan: something is missing, or memory would run out.
    Refused(String),
    /// The operating system refused.
    System(linux::Error),
}

impl Error {
    /// The error for a file that cannot be `done` (read, written).
    pub(crate) fn file(done: &str, path: &Path, error: &std::io::Error) -> Error {
        Error::Refused(format!("{}: cannot be {done}: {error}", path.display()))
    }
}

impl From<linux::Error> for Error {
    fn from(error: linux::Error) -> Error {
        Error::System(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Plan(message) | Error::Refused(message) => f.write_str(message),
            Error::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {}
