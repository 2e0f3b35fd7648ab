//! The exit statuses of `pagewise-agent`, the same as those of `pagewise`.

use std::fmt;
use std::process::ExitCode;

/// The exit status of a command, or the reason why it failed.
pub type ExitOutcome = Result<ExitCode, Exit>;

/// Why a command failed.
#[derive(Debug)]
pub enum Exit {
    /// The arguments or the settings are invalid.
    Usage(String),
    /// An input cannot be read, or the operating system refused.
    Refused(String),
    /// The command to run does not exist.
    CommandNotFound(String),
    /// The command to run exists, but the operating system refuses to run it.
    CommandNotRun(String),
}

/// More data was lost than allowed.
pub const DATA_LOST: u8 = 4;
/// Interrupted by the user.
pub const INTERRUPTED: u8 = 130;

impl Exit {
    /// Why `command` could not be run.
    pub fn of_command(command: &str, error: &std::io::Error) -> Exit {
        let message = format!("cannot run {command}: {error}");
        match error.kind() {
            std::io::ErrorKind::NotFound => Exit::CommandNotFound(message),
            _ => Exit::CommandNotRun(message),
        }
    }

    /// The exit status; if a program could not be run, the status that `env` and shells use.
    pub fn status(&self) -> ExitCode {
        ExitCode::from(match self {
            Exit::Usage(_) => 2,
            Exit::Refused(_) => 3,
            Exit::CommandNotRun(_) => 126,
            Exit::CommandNotFound(_) => 127,
        })
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Exit::Usage(message)
        | Exit::Refused(message)
        | Exit::CommandNotRun(message)
        | Exit::CommandNotFound(message)) = self;
        f.write_str(message)
    }
}

impl From<recorder::Error> for Exit {
    fn from(error: recorder::Error) -> Exit {
        match error {
            recorder::Error::Usage(message) => Exit::Usage(message),
            recorder::Error::Command(command, error) => Exit::of_command(&command, &error),
            error => Exit::Refused(error.to_string()),
        }
    }
}

impl From<launch::Error> for Exit {
    fn from(error: launch::Error) -> Exit {
        match error {
            launch::Error::Plan(message) => Exit::Usage(message),
            error => Exit::Refused(error.to_string()),
        }
    }
}

impl From<daemon::Error> for Exit {
    fn from(error: daemon::Error) -> Exit {
        match error {
            daemon::Error::Config { .. } => Exit::Usage(error.to_string()),
            daemon::Error::Refused(message) => Exit::Refused(message),
        }
    }
}

impl From<swapd::Error> for Exit {
    fn from(error: swapd::Error) -> Exit {
        match error {
            swapd::Error::Usage(message) => Exit::Usage(message),
            swapd::Error::Refused(message) => Exit::Refused(message),
        }
    }
}

impl From<linux::Error> for Exit {
    fn from(error: linux::Error) -> Exit {
        Exit::Refused(error.to_string())
    }
}
