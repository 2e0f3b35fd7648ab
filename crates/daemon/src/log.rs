//! A daemon's log: a line of `key=value` pairs per event. Writing allocates nothing and never blocks: if the
//! reader is slow, lines are dropped and counted.

use std::fmt::{self, Write};
use std::fs::File;

use linux::log_file::{LINE_MAX, LogFile};

/// A buffer for one line; a longer line is cut.
#[derive(Debug)]
pub struct Line {
    bytes: [u8; LINE_MAX],
    length: usize,
}

impl Line {
    fn new() -> Line {
        Line { bytes: [0; LINE_MAX], length: 0 }
    }

    fn finish(&mut self) -> &[u8] {
        self.bytes[self.length] = b'\n';
        &self.bytes[..=self.length]
    }
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // The last byte is for the newline.
        let room = LINE_MAX - 1 - self.length;
        let taken = text.len().min(room);
        self.bytes[self.length..self.length + taken].copy_from_slice(&text.as_bytes()[..taken]);
        self.length += taken;
        if taken < text.len() { Err(fmt::Error) } else { Ok(()) }
    }
}

/// A text of at most ROOM bytes, without allocation.
#[derive(Debug)]
pub struct TextRoom<const ROOM: usize> {
    bytes: [u8; ROOM],
    length: usize,
}

impl<const ROOM: usize> TextRoom<ROOM> {
    /// A text of no bytes.
    pub fn empty() -> TextRoom<ROOM> {
        TextRoom { bytes: [0; ROOM], length: 0 }
    }

    /// The text, padded with zeros.
    pub fn whole(&self) -> &[u8] {
        &self.bytes
    }

    /// Appends words; returns whether there was room.
    pub fn put(&mut self, words: fmt::Arguments<'_>) -> bool {
        self.write_fmt(words).is_ok()
    }

    /// Appends bytes; returns whether there was room.
    pub fn put_bytes(&mut self, bytes: &[u8]) -> bool {
        let end = self.length + bytes.len();
        let Some(place) = self.bytes.get_mut(self.length..end) else { return false };
        place.copy_from_slice(bytes);
        self.length = end;
        true
    }
}

impl<const ROOM: usize> fmt::Write for TextRoom<ROOM> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.put_bytes(text.as_bytes()) { Ok(()) } else { Err(fmt::Error) }
    }
}

/// The destination of log lines.
#[derive(Debug)]
pub struct Output {
    file: LogFile,
    /// Lines that were dropped because the reader was slow.
    pub lost: u64,
}

impl Output {
    /// Writes to standard output.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn standard() -> std::io::Result<Output> {
        Ok(Output { file: LogFile::standard()?, lost: 0 })
    }

    /// Writes to the caller's file.
    pub fn to(file: File) -> Output {
        Output { file: LogFile::to(file), lost: 0 }
    }

    /// Writes the line that `fill` composes, or drops and counts it if the reader is not ready.
    pub fn say(&mut self, fill: impl FnOnce(&mut Line) -> fmt::Result) {
        let mut line = Line::new();
        // A line that is too long is cut.
        let _ = fill(&mut line);
        if !self.file.write(line.finish()) {
            self.lost += 1;
        }
    }

    /// Logs a feature that the daemon runs without.
    pub fn say_absent(&mut self, what: impl fmt::Display) {
        self.say(|line| {
            put(line, "event", "absent")?;
            put_words(line, "what", what)
        });
    }
}

/// Appends `key=value`, with a blank before it unless it is the first pair.
pub fn put(line: &mut Line, key: &str, value: impl fmt::Display) -> fmt::Result {
    let blank = if line.length == 0 { "" } else { " " };
    write!(line, "{blank}{key}={value}")
}

/// Appends `key="words"`.
pub fn put_words(line: &mut Line, key: &str, words: impl fmt::Display) -> fmt::Result {
    put(line, key, "\"")?;
    write!(Words(line), "{words}")?;
    line.write_str("\"")
}

/// Writes words between quotes: replaces letters that would end the quotes or the line.
struct Words<'line>(&'line mut Line);

impl fmt::Write for Words<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|letter| {
            self.0.write_char(match letter {
                '"' => '\'',
                letter if letter.is_control() => ' ',
                letter => letter,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::OwnedFd;

    #[test]
    fn quotes_and_newlines_in_words_are_replaced() {
        let mut line = Line::new();
        put(&mut line, "event", "test").unwrap();
        put_words(&mut line, "why", format_args!("no user \"{}\"\non this machine", "anna"))
            .unwrap();
        assert_eq!(line.finish(), b"event=test why=\"no user 'anna' on this machine\"\n");
    }

    #[test]
    fn lines_to_a_full_pipe_are_dropped_and_counted() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let mut output = Output::to(File::from(OwnedFd::from(writer)));
        let words = "x".repeat(5000);
        for _ in 0..100 {
            output.say(|line| {
                put(line, "event", "test")?;
                put_words(line, "why", &words)
            });
        }
        assert!((1..100).contains(&output.lost), "{}", output.lost);
        let lost = output.lost;
        drop(output);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text.lines().count() as u64, 100 - lost);
        assert!(
            text.lines()
                .all(|line| line.len() == LINE_MAX - 1 && line.starts_with("event=test why=\"x"))
        );
    }
}
