//! A place in the metadata of a trace.dat file, from which numbers, strings and blocks are read.

use super::order::ByteOrder;
use crate::whole::Whole;
use crate::{Error, ErrorKind, Position};

/// Longest string of the metadata, such as the name of an instance.
const STRING_BYTES_MAX: usize = 4096;

/// Longest block of the metadata that is read into memory: a format file, or the names of all tasks.
pub(super) const BLOCK_BYTES_MAX: u64 = 64 << 20;

/// A position in a file or in a section that was decompressed.
pub(super) struct Cursor {
    whole: Whole,
    /// Offset of the next byte.
    pub(super) at: u64,
    pub(super) order: ByteOrder,
    /// Offset in the file of the section that was decompressed.
    section: Option<u64>,
}

impl Cursor {
    /// A cursor at `at` in the file.
    pub(super) fn new(whole: &Whole, at: u64, order: ByteOrder) -> Cursor {
        Cursor { whole: whole.clone(), at, order, section: None }
    }

    /// A cursor at the beginning of the decompressed bytes of the section at `section` in the file.
    pub(super) fn within(whole: &Whole, section: u64, bytes: Vec<u8>, order: ByteOrder) -> Cursor {
        let whole = Whole::of_memory(whole.path(), bytes.into());
        Cursor { whole, at: 0, order, section: Some(section) }
    }

    /// The error for damage at the last byte that was read, or in its section.
    pub(super) fn corrupt(&self, message: impl Into<String>) -> Error {
        match self.section {
            None => self.whole.corrupt(self.at, message),
            Some(section) => self.in_section(section, &message.into()),
        }
    }

    fn in_section(&self, section: u64, message: &str) -> Error {
        let message = format!("in byte {} of the unpacked section: {message}", self.at);
        Error::new(ErrorKind::Corrupt, self.whole.path(), message).at(Position::Byte(section))
    }

    /// The error for a file with the text of a latency tracer.
    pub(super) fn holds_text(&self) -> Error {
        self.corrupt(
            "holds the text of a latency tracer, not events: import the output of `trace-cmd report`",
        )
    }

    /// Bytes that are left.
    pub(super) fn left(&self) -> u64 {
        self.whole.length().saturating_sub(self.at)
    }

    /// The next bytes, which fill `target`.
    pub(super) fn fill(&mut self, target: &mut [u8]) -> Result<(), Error> {
        if target.len() as u64 > self.left() {
            let (wanted, left) = (target.len(), self.left());
            return Err(
                self.corrupt(format!("needs {wanted} bytes here, but only {left} are left"))
            );
        }
        self.whole.read_at(self.at, target)?;
        self.at += target.len() as u64;
        Ok(())
    }

    /// The next number of `size` bytes, at most eight.
    pub(super) fn number(&mut self, size: usize) -> Result<u64, Error> {
        let mut bytes = [0; 8];
        let bytes = &mut bytes[..size.min(8)];
        self.fill(bytes)?;
        Ok(self.order.number(bytes))
    }

    /// The next number of 4 bytes.
    pub(super) fn u32(&mut self) -> Result<u32, Error> {
        // It has only four bytes.
        Ok(self.number(4)? as u32)
    }

    /// The next `length` bytes. `what` names them in the error.
    pub(super) fn block(&mut self, length: u64, what: &str) -> Result<Vec<u8>, Error> {
        if length > self.left().min(BLOCK_BYTES_MAX) {
            let left = self.left();
            return Err(self.corrupt(format!(
                "{what} of {length} bytes: {left} are left, and at most {BLOCK_BYTES_MAX} are read"
            )));
        }
        let mut bytes = vec![0; length as usize];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    /// Passes over `length` bytes. `what` names them in the error.
    pub(super) fn skip(&mut self, length: u64, what: &str) -> Result<(), Error> {
        if length > self.left() {
            let left = self.left();
            return Err(self.corrupt(format!("{what} of {length} bytes, but only {left} are left")));
        }
        self.at += length;
        Ok(())
    }

    /// The next string, which ends in a zero byte.
    pub(super) fn string(&mut self) -> Result<Vec<u8>, Error> {
        let length = self.left().min(STRING_BYTES_MAX as u64) as usize;
        let mut bytes = vec![0; length];
        let start = self.at;
        self.fill(&mut bytes)?;
        self.at = start;
        let Some(end) = memchr::memchr(0, &bytes) else {
            return Err(self.corrupt(if length < STRING_BYTES_MAX {
                "the file ends within a string".to_owned()
            } else {
                format!("expected a string of less than {length} bytes")
            }));
        };
        bytes.truncate(end);
        self.at = start + end as u64 + 1;
        Ok(bytes)
    }
}
