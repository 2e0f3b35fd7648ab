//! The guard of a server: a process that waits until the server has ended, and goes on as the next server if it was
//! killed.
//!
//! Contract: the guard's standard input is a pipe whose other end only the server holds. The server says when nothing
//! is left to take over. If the pipe ends without that, the server was killed. The kernel closes it only after the
//! server's requests to the disk have ended, so none of them can overwrite what the successor writes.

use std::io::{self, Read, Write};
use std::process::{Child, Command, Stdio};

use rustix::process::setsid;

use crate::Error;

/// Nothing is left to take over.
const OVER: &str = "over";
/// The server runs a command: its process id and its start follow.
const COMMAND: &str = "command";

/// The server's end.
#[derive(Debug)]
pub struct Guard(Child);

impl Guard {
    /// Starts `command`, which keeps the frames in memory and then calls [`wait`].
    ///
    /// # Errors
    /// The program cannot be run.
    pub fn start(command: &mut Command) -> Result<Guard, Error> {
        let started = command.stdin(Stdio::piped()).spawn();
        started.map(Guard).map_err(|error| Error::refused("start the guard", error))
    }

    /// Says which command the server runs: the successor ends when the command has ended.
    pub fn say_command(&mut self, process: u32, start: u64) {
        self.say(format_args!("{COMMAND} {process} {start}\n"));
    }

    /// Ends the guard, which takes over nothing.
    pub fn finish(mut self) {
        self.say(format_args!("{OVER}\n"));
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }

    fn say(&mut self, words: std::fmt::Arguments<'_>) {
        if let Some(pipe) = &mut self.0.stdin {
            // A guard that was killed hears nothing.
            let _ = pipe.write_fmt(words);
        }
    }
}

/// What a guard has to do after the end of its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// End: nothing is left to take over.
    End,
    /// To take over, until a command ends if there is one: its process id and start.
    TakeOver(Option<(u32, u64)>),
}

/// Waits for the end of the server. Signals of the server's terminal do not reach this process from now on.
///
/// # Errors
/// The operating system refuses.
pub fn wait() -> Result<Task, Error> {
    let _ = setsid();
    let mut message = Vec::new();
    // An interrupted read is repeated.
    let read = io::stdin().read_to_end(&mut message);
    read.map_err(|error| Error::refused("wait for the end of the server", error))?;
    Ok(task(&String::from_utf8_lossy(&message)))
}

fn task(message: &str) -> Task {
    let mut command = None;
    for line in message.lines() {
        let mut words = line.split(' ');
        match words.next() {
            Some(OVER) => return Task::End,
            Some(COMMAND) => {
                let numbers = words.next().zip(words.next());
                command = numbers.and_then(|(process, start)| {
                    Some((process.parse().ok()?, start.parse().ok()?))
                });
            }
            _ => {}
        }
    }
    Task::TakeOver(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_reported_nothing_was_killed() {
        assert_eq!(task(""), Task::TakeOver(None));
        assert_eq!(task("command 7 99\n"), Task::TakeOver(Some((7, 99))));
        assert_eq!(task("command 7 99\nover\n"), Task::End);
        assert_eq!(task("command x\n"), Task::TakeOver(None));
    }

    #[test]
    fn a_guard_ends_with_its_server_unless_that_was_killed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("message");
        let script = format!("cat > {}", path.display());
        let mut guard = Guard::start(Command::new("sh").args(["-c", &script])).unwrap();
        guard.say_command(12, 34);
        guard.finish();
        assert_eq!(std::fs::read_to_string(path).unwrap(), "command 12 34\nover\n");
    }
}
