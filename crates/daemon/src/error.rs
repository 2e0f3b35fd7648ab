//! The error type of the daemons.

use std::fmt;
use std::path::{Path, PathBuf};

/// Invalid settings, or a refusal by the operating system.
#[derive(Debug)]
pub enum Error {
    /// An invalid setting.
    Config {
        /// The file.
        path: PathBuf,
        /// The line in the file, from 1; 0 for the file as a whole.
        line: usize,
        /// The error, and what was expected.
        what: String,
    },
    /// The operating system refused; the text names the operation and the reason.
    Refused(String),
}

impl Error {
    /// The error for an invalid setting in line `line` of the file at `path`; 0 for the file as a whole.
    pub fn config(path: &Path, line: usize, what: impl Into<String>) -> Error {
        Error::Config { path: path.to_owned(), line, what: what.into() }
    }

    /// The error for a refused operation: `what` completes "cannot ...".
    pub fn refused(what: &str, error: impl fmt::Display) -> Error {
        Error::Refused(format!("cannot {what}: {error}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Config { path, line: 0, what } => write!(f, "{}: {what}", path.display()),
            Error::Config { path, line, what } => write!(f, "{}:{line}: {what}", path.display()),
            Error::Refused(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {}

impl From<linux::Error> for Error {
    fn from(error: linux::Error) -> Error {
        Error::Refused(error.to_string())
    }
}
