//! The one error type of this crate.

use std::fmt;

/// Why a recording could not begin or go on.
#[derive(Debug)]
pub enum Error {
    /// The operating system refused something.
    System(linux::Error),
    /// The kernel refused the BPF programs.
    Bpf(String),
    /// The recording could not be written.
    Write(std::io::Error),
    /// What was asked for makes no sense here.
    Usage(String),
}

impl From<linux::Error> for Error {
    fn from(error: linux::Error) -> Error {
        Error::System(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::System(error) => error.fmt(f),
            Error::Bpf(what) => write!(f, "BPF: {what}"),
            Error::Write(error) => write!(f, "cannot write the recording: {error}"),
            Error::Usage(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {}
