//! The error type of this crate.

use std::fmt;

/// Why a recording could not begin or continue.
#[derive(Debug)]
pub enum Error {
    /// The operating system refused something.
    System(linux::Error),
    /// The kernel refused the BPF programs.
    Bpf(String),
    /// The kernel refused text events.
    Tracefs(String),
    /// The kernel refused both BPF programs and tracefs; in the order in which they were tried.
    Neither(Box<[Error; 2]>),
    /// The recording could not be written.
    Write(std::io::Error),
    /// The recording could not be written; its logs are still in this folder.
    Unmerged(std::path::PathBuf, std::io::Error),
    /// The file of the recording could not be created at this path.
    Create(std::path::PathBuf, std::io::Error),
    /// The command could not be run.
    Command(String, std::io::Error),
    /// The options are invalid on this machine.
    Usage(String),
}

impl Error {
    /// The reasons of a refusal, without the prefix that names what was refused.
    pub fn reasons(&self) -> Vec<String> {
        match self {
            Error::Neither(both) => both.iter().flat_map(Error::reasons).collect(),
            Error::Bpf(what) | Error::Tracefs(what) => vec![what.clone()],
            other => vec![other.to_string()],
        }
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
            Error::System(error) => error.fmt(f),
            Error::Tracefs(what) => write!(f, "text events: {what}"),
            Error::Bpf(what) => write!(f, "BPF: {what}"),
            Error::Neither(both) => write!(f, "{}; and {}", both[0], both[1]),
            Error::Create(path, error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                write!(f, "{}: the file exists; give another name, or remove it", path.display())
            }
            Error::Create(path, error) => {
                write!(f, "{}: cannot create the recording: {error}", path.display())
            }
            Error::Write(error) if error.kind() == std::io::ErrorKind::StorageFull => {
                write!(f, "cannot write the recording: {error}; choose a disk with more room")
            }
            Error::Write(error) => write!(f, "cannot write the recording: {error}"),
            Error::Unmerged(folder, error) => write!(
                f,
                "cannot write the recording: {error}; its logs are kept: rebuild the recording on a \
                 disk with room by pagewise-agent record --allocations --recover {} -o FILE",
                folder.display()
            ),
            Error::Command(command, error) => write!(f, "cannot run {command}: {error}"),
            Error::Usage(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {}
