//! Text recordings: the parser of the format reads complete lines from an input. A bad line is counted
//! and skipped; it ends the import only if the ledger is strict.

use memchr::{memchr, memrchr};

use crate::Error;
use crate::input::{BUFFER_BYTES, Input};
use crate::ledger::Ledger;
use crate::record::{Record, RecordReader, Traits};
use crate::text::BYTE_ORDER_MARK;

/// What a bad line lacks, as text for the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected(pub &'static str);

/// The rules of one text format.
pub trait LineParser: Send {
    /// Reads a line, without its line end, and appends its records.
    ///
    /// # Errors
    /// Names what it expected.
    fn line(
        &mut self,
        line: &[u8],
        records: &mut Vec<Record>,
        ledger: &mut Ledger,
    ) -> Result<(), Expected>;

    /// A fast path for common lines: reads the line that `text` begins with, appends its records and
    /// returns its length without the line end. `None`, without any effect, for lines that `line` must
    /// read. `text` extends to the end of the block, so that the parser itself finds the end of the line.
    #[inline(always)]
    fn usual_line(
        &mut self,
        _text: &[u8],
        _records: &mut Vec<Record>,
        _ledger: &mut Ledger,
    ) -> Option<usize> {
        None
    }

    /// Adds the parser's own counts to the ledger; called after every block of lines.
    fn end_block(&mut self, _ledger: &mut Ledger) {}

    /// The traits of every record.
    fn traits(&self) -> Traits;
}

/// The lines of an input, in blocks that fit into memory.
pub struct Lines {
    input: Input,
    /// Lines delivered so far.
    count: u64,
    /// Whether the rest of an overlong line is being skipped.
    is_inside_overlong: bool,
}

impl Lines {
    /// The lines of `input`, without a byte order mark at its start.
    pub fn new(mut input: Input) -> Lines {
        if input.held().starts_with(BYTE_ORDER_MARK) {
            input.consume(BYTE_ORDER_MARK.len());
        }
        Lines { input, count: 0, is_inside_overlong: false }
    }

    /// The next complete lines, and the number of the first of them. A line longer than the buffer is
    /// cut.
    fn block(&mut self) -> Result<Option<(&[u8], u64)>, Error> {
        if self.is_inside_overlong {
            self.pass_over_line()?;
        }
        self.input.fill()?;
        let (held, is_at_end) = (self.input.held(), self.input.is_at_end());
        if held.is_empty() {
            return Ok(None);
        }
        let length = match memrchr(b'\n', held) {
            _ if is_at_end => held.len(),
            Some(line_end) => line_end + 1,
            None => {
                self.is_inside_overlong = true;
                held.len()
            }
        };
        Ok(Some((&self.input.held()[..length], self.count + 1)))
    }

    /// Calls `take` for each line of the next block, without its end, and counts the lines that it
    /// refuses; false at the end of the input.
    ///
    /// # Errors
    /// If the input cannot be read; if the ledger is strict, the first refused line.
    pub fn read_block(
        &mut self,
        ledger: &mut Ledger,
        mut take: impl FnMut(&[u8]) -> Result<(), Expected>,
    ) -> Result<bool, Error> {
        self.walk_block(ledger, |rest, _| {
            let line_end = line_end(rest);
            (line_end, take(trimmed(&rest[..line_end])))
        })
    }

    /// Like `read_block`, but calls `take` with the rest of the block; `take` finds the end of the line.
    #[inline(always)]
    fn walk_block(
        &mut self,
        ledger: &mut Ledger,
        mut take: impl FnMut(&[u8], &mut Ledger) -> (usize, Result<(), Expected>),
    ) -> Result<bool, Error> {
        let path = self.input.path().to_owned();
        let Some((block, first)) = self.block()? else {
            return Ok(false);
        };
        let (mut rest, mut number) = (block, first);
        while !rest.is_empty() {
            let (line_end, taken) = take(rest, ledger);
            if let Err(Expected(what)) = taken {
                ledger.reject(&path, number, trimmed(&rest[..line_end]), what)?;
            }
            rest = rest.get(line_end + 1..).unwrap_or_default();
            number += 1;
        }
        let length = block.len();
        self.count = number - 1;
        self.input.consume(length);
        Ok(true)
    }

    fn pass_over_line(&mut self) -> Result<(), Error> {
        loop {
            let held = self.input.fill()?;
            if held.is_empty() {
                break;
            }
            let line_end = memchr(b'\n', held);
            self.input.consume(line_end.map_or(BUFFER_BYTES, |line_end| line_end + 1));
            if line_end.is_some() {
                break;
            }
        }
        self.is_inside_overlong = false;
        Ok(())
    }

    /// Reads only the header: the first line that is neither empty nor a comment (`#`). Empty if the
    /// input has no such line.
    ///
    /// # Errors
    /// If the input cannot be read.
    pub fn header(&mut self) -> Result<Vec<u8>, Error> {
        loop {
            if self.is_inside_overlong {
                self.pass_over_line()?;
            }
            let held = self.input.fill()?;
            let line_end = memchr(b'\n', held);
            let line = trimmed(&held[..line_end.unwrap_or(held.len())]).to_vec();
            let is_end = held.is_empty();
            self.is_inside_overlong = line_end.is_none();
            self.input.consume(line_end.map_or(BUFFER_BYTES, |line_end| line_end + 1));
            self.count += u64::from(!is_end);
            if is_end || !is_passed_over(&line) {
                return Ok(line);
            }
        }
    }

    /// The number of the last line read, from 1.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The input that the lines come from.
    pub fn input(&self) -> &Input {
        &self.input
    }
}

/// Length of the line that `rest` begins with, without its end.
#[inline(always)]
fn line_end(rest: &[u8]) -> usize {
    memchr(b'\n', rest).unwrap_or(rest.len())
}

/// Whether a line has only blanks or a comment, in formats with comments.
#[inline]
pub fn is_passed_over(line: &[u8]) -> bool {
    line.first() == Some(&b'#') || line.trim_ascii().is_empty()
}

/// A line without the carriage return before its line feed.
pub fn trimmed(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// If a line ends at the start of `rest`, the text from its line feed on; `None` within a line.
#[inline(always)]
pub fn after_line(rest: &[u8]) -> Option<&[u8]> {
    match rest {
        [] | [b'\n', ..] => Some(rest),
        [b'\r'] | [b'\r', b'\n', ..] => Some(&rest[1..]),
        _ => None,
    }
}

/// Reads a text recording by the rules of its format.
pub struct TextReader<P> {
    lines: Lines,
    parser: P,
}

impl<P: LineParser> TextReader<P> {
    /// A reader of the remaining `lines`.
    pub fn new(lines: Lines, parser: P) -> TextReader<P> {
        TextReader { lines, parser }
    }
}

impl<P: LineParser> RecordReader for TextReader<P> {
    fn read(&mut self, records: &mut Vec<Record>, ledger: &mut Ledger) -> Result<bool, Error> {
        let parser = &mut self.parser;
        let is_read = self.lines.walk_block(ledger, |rest, ledger| {
            if let Some(line_end) = parser.usual_line(rest, records, ledger) {
                return (line_end, Ok(()));
            }
            let line_end = line_end(rest);
            (line_end, parser.line(trimmed(&rest[..line_end]), records, ledger))
        })?;
        if is_read {
            self.parser.end_block(ledger);
        }
        Ok(is_read)
    }

    fn traits(&self) -> Traits {
        self.parser.traits()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Operation;

    /// Reads lines of digits and refuses other lines.
    struct Digits;

    impl LineParser for Digits {
        fn line(
            &mut self,
            line: &[u8],
            records: &mut Vec<Record>,
            _ledger: &mut Ledger,
        ) -> Result<(), Expected> {
            let number = crate::text::decimal(line).ok_or(Expected("a number"))?;
            records.push(Record::new(Operation::Read, number));
            Ok(())
        }

        fn traits(&self) -> Traits {
            Traits::BARE_IDS
        }
    }

    fn read(text: &[u8]) -> (Vec<u64>, Ledger) {
        let lines = Lines::new(Input::from_bytes("t", text.to_vec()).unwrap());
        let mut reader = TextReader::new(lines, Digits);
        let (mut records, mut ledger) = (Vec::new(), Ledger::new(false));
        while reader.read(&mut records, &mut ledger).unwrap() {}
        (records.iter().map(|record| record.address).collect(), ledger)
    }

    #[test]
    fn line_ends_of_every_kind_are_read() {
        assert_eq!(read(b"\xef\xbb\xbf1\r\n2\n3").0, [1, 2, 3]);
        assert_eq!(read(b"1\n").0, [1]);
    }

    #[test]
    fn a_bad_line_is_reported_with_its_number() {
        let mut text = b"7\n".repeat(BUFFER_BYTES);
        text.extend_from_slice(b"seven\n8");
        let (numbers, ledger) = read(&text);
        assert_eq!(numbers.len(), BUFFER_BYTES + 1);
        let (count, rejects) = ledger.rejects();
        assert_eq!((count, rejects[0].line), (1, BUFFER_BYTES as u64 + 1));
    }

    #[test]
    fn an_overlong_line_counts_as_one_line() {
        let text = [b"1\n".to_vec(), vec![b'x'; 3 * BUFFER_BYTES], b"\n2\nx\n".to_vec()].concat();
        let (numbers, ledger) = read(&text);
        assert_eq!(numbers, [1, 2]);
        let lines: Vec<u64> = ledger.rejects().1.iter().map(|reject| reject.line).collect();
        assert_eq!(lines, [2, 4]);
    }
}
