//! The one error type of this crate.

use std::fmt;
use std::path::{Path, PathBuf};

/// The kind of an error, for callers that decide by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The operating system refused to open, read or write.
    Io,
    /// The bytes violate the format.
    Corrupt,
    /// No format recognises the file, or the named format does not fit it.
    UnknownFormat,
    /// The request makes no sense for this file.
    Usage,
    /// The caller asked to stop.
    Cancelled,
}

/// Where in the input the error occurred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// Byte offset in the (uncompressed) input.
    Byte(u64),
    /// Line number, counted from 1.
    Line(u64),
}

/// An error with its file, position and reason.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    path: PathBuf,
    position: Option<Position>,
    message: String,
}

impl Error {
    /// An error in `path`; `message` says what was expected and what was found.
    pub fn new(kind: ErrorKind, path: impl AsRef<Path>, message: impl Into<String>) -> Error {
        Error { kind, path: path.as_ref().to_owned(), position: None, message: message.into() }
    }

    /// The error of a call that stopped at the caller's request while it worked on `path`.
    pub fn cancelled(path: impl AsRef<Path>) -> Error {
        Error::new(ErrorKind::Cancelled, path, "stopped by the caller")
    }

    /// Adds the position in the input to the error.
    #[must_use]
    pub fn at(mut self, position: Position) -> Error {
        self.position = Some(position);
        self
    }

    /// The kind of the error, for callers that decide by it.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The file that was being read or written.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Position in the input, if it is known.
    pub fn position(&self) -> Option<Position> {
        self.position
    }

    /// The message without file and position: what was expected and what was found.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        match self.position {
            Some(Position::Byte(offset)) => write!(f, " at byte {offset}")?,
            Some(Position::Line(line)) => write!(f, ":{line}")?,
            None => {}
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for Error {}
