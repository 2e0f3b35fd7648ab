//! The one error type of this crate.

use std::fmt;
use std::path::Path;

/// Why a plan could not be run to its end.
#[derive(Debug)]
pub enum Error {
    /// The plan makes no sense.
    Plan(String),
    /// This machine cannot run it: something is missing, or would be at risk.
    Refused(String),
    /// The operating system refused something.
    System(linux::Error),
}

impl Error {
    /// The file at `path` could not be `done` (read, written).
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
