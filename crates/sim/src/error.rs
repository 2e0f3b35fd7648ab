//! The one error type of this crate.

use std::fmt;

/// What went wrong, for callers that decide by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The trace could not be read, where the source is a `trace::Error`, or is not what it must be.
    Trace,
    /// The caller asked for something that does not exist or makes no sense.
    Usage,
    /// A device file does not say what a device file must say.
    Device,
    /// The caller asked to stop.
    Cancelled,
}

/// A refusal with its reason.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<trace::Error>,
}

impl Error {
    /// An error of `kind`; `message` says what was expected and what was found.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error { kind, message: message.into(), source: None }
    }

    /// A demand that names nothing that exists; `message` lists what does.
    pub fn usage(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Usage, message)
    }

    /// What went wrong, for callers that decide by it.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The reader's own error, where reading the trace failed.
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

impl From<types::Cancelled> for Error {
    fn from(_: types::Cancelled) -> Error {
        Error::new(ErrorKind::Cancelled, "stopped by the caller")
    }
}
