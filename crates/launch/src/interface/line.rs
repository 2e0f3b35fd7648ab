//! Lines of standard input and output.

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout};

use super::Conversation;

/// Longer lines are taken for a program that does not speak in lines.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// A program that reads requests and writes answers, a line each.
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
        let filled = |text: &str| text.replace("{round}", &round.to_string());
        let request = filled(&self.request) + "\n";
        let written = self.input.write_all(request.as_bytes());
        written.map_err(|error| format!("the request cannot be written: {error}"))?;
        self.wait_for(&filled(&self.answer))
    }
}

impl Line {
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
