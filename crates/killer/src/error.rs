//! The one error type of this crate.

use std::fmt;
use std::path::{Path, PathBuf};

/// Settings that make no sense, or what the operating system refused.
#[derive(Debug)]
pub enum Error {
    /// A file of settings, the line, and what is wrong there.
    Config {
        /// The file.
        path: PathBuf,
        /// Its line, from 1; 0 where the file as a whole is meant.
        line: usize,
        /// What is wrong, and what was expected.
        what: String,
    },
    /// What the operating system refused.
    Refused(String),
}

impl Error {
    pub(crate) fn config(path: &Path, line: usize, what: impl Into<String>) -> Error {
        Error::Config { path: path.to_owned(), line, what: what.into() }
    }

    /// `what` was refused, with the reason.
    pub(crate) fn refused(what: &str, error: impl fmt::Display) -> Error {
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
