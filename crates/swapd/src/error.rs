//! The error type of this crate.

use std::fmt;

/// Invalid options, or a refusal by the operating system.
#[derive(Debug)]
pub enum Error {
    /// An invalid option; the text says what is wrong and what to do.
    Usage(String),
    /// The operating system refused, or the machine lacks something; the text says what to do.
    Refused(String),
}

impl Error {
    /// The error for a refused operation: `what` completes "cannot ...".
    pub fn refused(what: &str, error: impl fmt::Display) -> Error {
        Error::Refused(format!("cannot {what}: {error}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Error::Usage(what) | Error::Refused(what)) = self;
        f.write_str(what)
    }
}

impl std::error::Error for Error {}

impl From<linux::Error> for Error {
    fn from(error: linux::Error) -> Error {
        Error::Refused(error.to_string())
    }
}
