//! The error type of this crate.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A refusal by the operating system, or a file of the kernel with unexpected text.
#[derive(Debug)]
pub struct Error {
    what: String,
    path: Option<PathBuf>,
    source: Option<io::Error>,
}

impl Error {
    /// The error for an operation on `path`; `what` completes "cannot ...".
    pub fn refused(what: &str, path: impl AsRef<Path>, source: io::Error) -> Error {
        let path = Some(path.as_ref().to_owned());
        Error { what: format!("cannot {what}"), path, source: Some(source) }
    }

    /// The error for a system call without a path.
    pub fn call(name: &str, source: impl Into<io::Error>) -> Error {
        Error { what: format!("{name} was refused"), path: None, source: Some(source.into()) }
    }

    /// The error for a file with unexpected text.
    pub fn unexpected(path: impl AsRef<Path>, what: impl Into<String>) -> Error {
        Error { what: what.into(), path: Some(path.as_ref().to_owned()), source: None }
    }

    /// The kind of the operating system's error, if there is one.
    pub fn io_kind(&self) -> Option<io::ErrorKind> {
        self.source.as_ref().map(io::Error::kind)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            write!(f, "{}: ", path.display())?;
        }
        write!(f, "{}", self.what)?;
        match &self.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}
