//! Foreign formats of memory references: a file and a catalog row for each.

mod addresses;
mod drmemtrace;
mod lackey;
mod refs3;

use crate::input::Input;
use crate::ledger::Ledger;
use crate::lines::{Expected, Lines};
use crate::sniff::{Confidence, Sniff, surest};
use crate::{Error, ErrorKind, Position};

use super::filter::Reference;

/// The longest reference accepted. An instruction that saves all registers writes several kilobytes, and
/// every 512 bytes are a step.
const REFERENCE_BYTES_MAX: u32 = 64 * 1024;

/// Reads the references of a file, in order.
pub trait ReferenceReader: Send {
    /// Appends the next references; false at the end of the file.
    ///
    /// # Errors
    /// If the file cannot be read, with the position.
    fn read(&mut self, references: &mut Vec<Reference>, ledger: &mut Ledger)
    -> Result<bool, Error>;

    /// Number of threads whose references were read so far; `None` if the format does not name threads.
    fn threads(&self) -> Option<u64> {
        None
    }
}

/// A foreign format of references.
pub struct Format {
    /// Name of the format on the command line, in files and in docs.
    pub name: &'static str,
    /// Description of the format in one line.
    pub summary: &'static str,
    /// Judges by the first bytes how surely a file has this format.
    pub sniff: Sniff,
    /// Whether the file is text, so that a bad line is left out; damage of any other file is an error.
    pub has_lines: bool,
    /// Opens a reader of the file.
    pub open: fn(Input) -> Result<Box<dyn ReferenceReader>, Error>,
}

/// Every format. If two formats are equally sure, the first is chosen.
pub const CATALOG: &[Format] =
    &[drmemtrace::FORMAT, lackey::FORMAT, refs3::FORMAT, addresses::FORMAT];

/// The format with this name.
pub fn by_name(name: &str) -> Option<&'static Format> {
    CATALOG.iter().find(|format| format.name == name)
}

/// The names of all formats, for messages.
pub fn names() -> String {
    CATALOG.iter().map(|format| format.name).collect::<Vec<_>>().join(", ")
}

/// Whether a file that begins with these decompressed bytes has any of these formats.
pub fn is_recognised(head: &[u8]) -> bool {
    CATALOG.iter().any(|format| (format.sniff)(head) > Confidence::No)
}

/// The format of a file, by its content.
///
/// # Errors
/// `UnknownFormat` if no format recognises it.
pub fn recognise(input: &mut Input) -> Result<&'static Format, Error> {
    surest(input, CATALOG, |format| format.sniff)?.ok_or_else(|| {
        let message = format!("no known format of references; formats are {}", names());
        Error::new(ErrorKind::UnknownFormat, input.path(), message).at(Position::Byte(0))
    })
}

/// Reads a file with a reference per line, without state between lines.
struct LineReader {
    lines: Lines,
    /// Parses a line; `None` for a line that may be skipped.
    parse: fn(&[u8]) -> Result<Option<Reference>, Expected>,
}

impl ReferenceReader for LineReader {
    fn read(
        &mut self,
        references: &mut Vec<Reference>,
        ledger: &mut Ledger,
    ) -> Result<bool, Error> {
        self.lines.read_block(ledger, |line| {
            references.extend((self.parse)(line)?);
            Ok(())
        })
    }
}

/// A size in bytes, if a reference may be that long.
fn size(bytes: u64) -> Option<u32> {
    u32::try_from(bytes).ok().filter(|&bytes| bytes <= REFERENCE_BYTES_MAX)
}

/// The hexadecimal number that `text` begins with, and the rest of the text.
fn take_hexadecimal(text: &[u8]) -> Option<(u64, &[u8])> {
    let length = text.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(text.len());
    let digits = std::str::from_utf8(&text[..length]).ok()?;
    Some((u64::from_str_radix(digits, 16).ok()?, &text[length..]))
}

#[cfg(test)]
mod tests;
