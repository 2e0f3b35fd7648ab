//! `lackey`: the output of `valgrind --tool=lackey --trace-mem=yes`: `I  04016b80,3`, and ` L`, ` S` and
//! ` M` for data read, written and modified, with the address in hexadecimal and the size in decimal. A
//! modification by one instruction is one reference, a write. Valgrind's own lines begin with `==`.

use types::ReferenceKind;

use super::{Format, LineReader, size, take_hexadecimal};
use crate::lines::{Expected, Lines};
use crate::references::Reference;
use crate::sniff::{Confidence, head_lines};
use crate::text::decimal;

/// The row of this format.
pub const FORMAT: Format = Format {
    name: "lackey",
    summary: "text of valgrind --tool=lackey --trace-mem=yes",
    sniff,
    has_lines: true,
    open: |input| Ok(Box::new(LineReader { lines: Lines::new(input), parse })),
};

/// Lines that recognition checks.
const LINES_SNIFFED: usize = 1000;

const EXPECTED: Expected =
    Expected("I, L, S or M, an address in hexadecimal, a comma and a size below 64 KiB");

fn sniff(head: &[u8]) -> Confidence {
    let lines = head_lines(head, LINES_SNIFFED);
    let is_reference = |line: &&[u8]| matches!(parse(line), Ok(Some(_)));
    let references = lines.iter().filter(|line| is_reference(line)).count();
    // The output of the program may be mixed with its trace and must not hide it.
    Confidence::Likely.when(references > 0 && 2 * references >= lines.len())
}

fn parse(line: &[u8]) -> Result<Option<Reference>, Expected> {
    if line.starts_with(b"==") || line.is_empty() {
        return Ok(None);
    }
    reference(line.trim_ascii_start()).map(Some).ok_or(EXPECTED)
}

#[inline]
fn reference(line: &[u8]) -> Option<Reference> {
    let (kind, rest) = match line {
        [b'I', b' ', b' ', rest @ ..] => (ReferenceKind::Instruction, rest),
        [b'L', b' ', rest @ ..] => (ReferenceKind::Read, rest),
        [b'S' | b'M', b' ', rest @ ..] => (ReferenceKind::Write, rest),
        _ => return None,
    };
    let (address, rest) = take_hexadecimal(rest)?;
    let bytes = size(decimal(rest.strip_prefix(b",")?)?)?;
    Some(Reference { kind, address, bytes })
}
