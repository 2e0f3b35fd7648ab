//! Requests and answers as lines of standard input and output.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout};

use super::Conversation;

/// The longest line of a program.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// A program that reads a request and writes an answer as a line each.
pub(crate) struct Line {
    pub(crate) input: ChildStdin,
    pub(crate) output: BufReader<ChildStdout>,
    pub(crate) ready: String,
    pub(crate) request: String,
    pub(crate) answer: String,
}

impl Conversation for Line {
    fn wait_until_ready(&mut self, _is_over: &dyn Fn() -> bool) -> Result<(), String> {
        let ready = self.ready.clone();
        self.wait_for(&ready)
    }

    fn ask(&mut self, round: u32) -> Result<(), String> {
        self.skip_unread().map_err(|error| format!("its output cannot be read: {error}"))?;
        let filled = |text: &str| text.replace("{round}", &round.to_string());
        let request = filled(&self.request) + "\n";
        let written = self.input.write_all(request.as_bytes());
        written.map_err(|error| format!("the request cannot be written: {error}"))?;
        self.wait_for(&filled(&self.answer))
    }
}

impl Line {
    /// Skips output since its last answer, because it does not answer the next request.
    fn skip_unread(&mut self) -> io::Result<()> {
        loop {
            let held = self.output.buffer().len();
            self.output.consume(held);
            if rustix::io::ioctl_fionread(self.output.get_ref())? == 0 {
                return Ok(());
            }
            self.output.fill_buf()?;
        }
    }

    fn wait_for(&mut self, start: &str) -> Result<(), String> {
        loop {
            let mut line = Vec::new();
            let mut limited = std::io::Read::take(&mut self.output, LINE_BYTES_MAX);
            match limited.read_until(b'\n', &mut line) {
                Ok(0) => return Err(format!("its output ended before a line {start:?}")),
                Ok(_) if line.starts_with(start.as_bytes()) => return Ok(()),
                Ok(_) => {}
                Err(error) => return Err(format!("its output cannot be read: {error}")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_second_answer_does_not_answer_the_next_request() {
        let program = "echo ready; read -r line; printf 'done\ndone\n'; read -r line";
        let mut child = Command::new("sh")
            .args(["-c", program])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = Line {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()),
            ready: "ready".to_owned(),
            request: "visit {round}".to_owned(),
            answer: "done".to_owned(),
        };
        line.wait_until_ready(&|| false).unwrap();
        line.ask(0).unwrap();
        let why = line.ask(1).unwrap_err();
        child.wait().unwrap();
        assert!(why.contains("its output ended before"), "{why}");
    }
}
