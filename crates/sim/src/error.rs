//! The one error type of this crate.

use std::fmt;

/// Kind of error, for callers that branch on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The trace cannot be read (the source is a `trace::Error`), or is invalid.
    Trace,
    /// The caller asked for something that does not exist or is invalid.
    Usage,
    /// A device file is invalid or incomplete.
    Device,
    /// The caller asked to stop.
    Cancelled,
}

/// An error with its kind and reason.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<trace::Error>,
}

impl Error {
    /// An error of `kind`; `message` states what was expected and what was found.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error { kind, message: message.into(), source: None }
    }

    /// An error about an unknown name; `message` lists the known ones.
    pub fn usage(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Usage, message)
    }

    /// Kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The reader's own error, if reading the trace failed.
    pub fn trace_error(&self) -> Option<&trace::Error> {
        self.source.as_ref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Some(source) => write!(f, "{source}"),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}

impl From<trace::Error> for Error {
    fn from(source: trace::Error) -> Error {
        let kind = match source.kind() {
            trace::ErrorKind::Cancelled => ErrorKind::Cancelled,
            trace::ErrorKind::Usage => ErrorKind::Usage,
            _ => ErrorKind::Trace,
        };
        Error { kind, message: String::new(), source: Some(source) }
    }
}

impl From<devices::Error> for Error {
    fn from(source: devices::Error) -> Error {
        let kind = match source.kind() {
            devices::ErrorKind::Usage => ErrorKind::Usage,
            devices::ErrorKind::Device => ErrorKind::Device,
        };
        Error::new(kind, source.to_string())
    }
}

impl From<types::Cancelled> for Error {
    fn from(_: types::Cancelled) -> Error {
        Error::new(ErrorKind::Cancelled, "stopped by the caller")
    }
}
