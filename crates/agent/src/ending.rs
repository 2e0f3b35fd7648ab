//! The end of a recording, and the command that is recorded.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use recorder::Stop;
use trace::recording::Missing;

use crate::interrupt::Interrupt;
use crate::output::say;

/// Ends the recording on a signal, after `--for`, or when the command exits.
pub struct Ending {
    interrupt: Interrupt,
    command: Vec<String>,
    /// Environment variables that the command gets in addition to those of record.
    pub environment: Vec<(&'static str, OsString)>,
    /// Whether record needs standard output for itself, so that the command writes to standard error.
    is_json: bool,
    child: Option<Child>,
    is_passed_on: bool,
    duration: Option<Duration>,
    deadline: Option<Instant>,
}

impl Ending {
    /// The end of a recording of `command`, if it is not empty, or of `duration`; `is_json` keeps
    /// standard output for the report.
    pub fn new(
        interrupt: Interrupt,
        command: Vec<String>,
        duration: Option<Duration>,
        is_json: bool,
    ) -> Ending {
        Ending {
            interrupt,
            command,
            environment: Vec::new(),
            is_json,
            child: None,
            is_passed_on: false,
            duration,
            deadline: None,
        }
    }
}

impl Stop for Ending {
    fn ready(&mut self, absent: &[Missing]) {
        if !self.is_json {
            for missing in absent {
                say(format_args!("not recorded: {}: {}", missing.what, missing.why));
            }
        }
    }

    fn start(&mut self) -> std::io::Result<()> {
        self.deadline = self.duration.and_then(|duration| Instant::now().checked_add(duration));
        if let Some((program, rest)) = self.command.split_first() {
            let mut command = Command::new(program);
            command.envs(self.environment.iter().map(|(name, value)| (name, value)));
            if self.is_json {
                command.stdout(std::io::stderr());
            }
            linux::passed_on::to(&mut command);
            self.child = Some(command.args(rest).spawn()?);
        }
        Ok(())
    }

    fn is_over(&mut self) -> Option<Option<i32>> {
        if let Some(child) = &mut self.child {
            // Ctrl-C also reaches the command, and its exit ends the recording. Another signal may
            // have reached only the recorder, so pass it on.
            if self.interrupt.came_from_elsewhere() && !self.is_passed_on {
                linux::process::terminate(child.id());
                self.is_passed_on = true;
            }
            if let Ok(Some(status)) = child.try_wait() {
                let by_signal = status.signal().map(|signal| 128 + signal);
                return Some(status.code().or(by_signal));
            }
        } else if self.interrupt.came() {
            return Some(None);
        }
        let is_late = self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        is_late.then_some(None)
    }
}

impl Drop for Ending {
    /// Kills the command if it outlives the recording's time: it was started for the recording.
    fn drop(&mut self) {
        if let Some(child) = &mut self.child
            && matches!(child.try_wait(), Ok(None))
        {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
