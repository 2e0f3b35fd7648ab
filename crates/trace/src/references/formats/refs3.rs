//! `refs3`: three columns separated by blanks: `readi`, `readd` or `write`, the address in
//! hexadecimal, and the size in bytes. It is the format of github.com/oslab-ewha/memtrace.

use types::ReferenceKind;

use super::{Format, LineReader, size, take_hexadecimal};
use crate::lines::{Expected, Lines};
use crate::references::Reference;
use crate::sniff::{Confidence, head_lines};
use crate::text::{decimal, take_word};

/// The row of this format.
pub const FORMAT: Format = Format {
    name: "refs3",
    summary: "text with readi, readd or write, address and size, of oslab-ewha/memtrace",
    sniff,
    has_lines: true,
    open: |input| Ok(Box::new(LineReader { lines: Lines::new(input), parse })),
};

/// Lines that recognition checks.
const LINES_SNIFFED: usize = 1000;

const EXPECTED: Expected =
    Expected("readi, readd or write, an address in hexadecimal and a size below 64 KiB");

fn sniff(head: &[u8]) -> Confidence {
    let lines = head_lines(head, LINES_SNIFFED);
    let references = lines.iter().filter(|line| reference(line).is_some()).count();
    // A line that is cut or mixed with another line is a bad line, not another format.
    Confidence::Likely.when(references > 0 && 2 * references >= lines.len())
}

fn parse(line: &[u8]) -> Result<Option<Reference>, Expected> {
    let line = line.trim_ascii();
    if line.is_empty() || line.starts_with(b"#") {
        return Ok(None);
    }
    reference(line).map(Some).ok_or(EXPECTED)
}

fn reference(line: &[u8]) -> Option<Reference> {
    let (word, rest) = take_word(line)?;
    let kind = match word {
        b"readi" => ReferenceKind::Instruction,
        b"readd" => ReferenceKind::Read,
        b"write" => ReferenceKind::Write,
        _ => return None,
    };
    let (address, rest) = take_word(rest)?;
    let digits = address.strip_prefix(b"0x").or(address.strip_prefix(b"0X")).unwrap_or(address);
    let (address, []) = take_hexadecimal(digits)? else { return None };
    let (bytes, rest) = take_word(rest)?;
    let bytes = size(decimal(bytes)?)?;
    rest.trim_ascii().is_empty().then_some(Reference { kind, address, bytes })
}
