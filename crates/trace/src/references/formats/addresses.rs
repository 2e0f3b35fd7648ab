//! `addresses`: delimited text (comma, semicolon, tab) with a header line that has a column
//! `address`, decimal or hexadecimal after `0x`. Columns `type` (`i`, `r` or `w`, or a word that
//! begins with it) and `size` in bytes are optional. Without a type all references are reads; without a
//! size each has one byte. Any tool can write this format.

use types::ReferenceKind;

use super::{Format, ReferenceReader, size};
use crate::Error;
use crate::input::Input;
use crate::ledger::Ledger;
use crate::lines::{Expected, Lines, is_passed_over};
use crate::references::Reference;
use crate::sniff::{Confidence, head_lines};
use crate::text::{decimal, decimal_or_hex, take_field};

/// The row of this format.
pub const FORMAT: Format = Format {
    name: "addresses",
    summary: "CSV with a column address, and perhaps type (i, r, w) and size",
    sniff,
    has_lines: true,
    open,
};

const EXPECTED: Expected =
    Expected("an address (hexadecimal after 0x), a type i, r or w, a size below 64 KiB");

fn sniff(head: &[u8]) -> Confidence {
    let header = head_lines(head, 1).first().copied().unwrap_or_default();
    Confidence::Likely.when(Columns::of(header).is_some())
}

fn open(input: Input) -> Result<Box<dyn ReferenceReader>, Error> {
    let mut lines = Lines::new(input);
    let header = lines.header()?;
    let expected = "expected a header line with a column named address";
    let columns = Columns::of(&header).ok_or_else(|| lines.input().corrupt(expected))?;
    Ok(Box::new(Addresses { lines, columns }))
}

/// Index of each column, from 0.
struct Columns {
    delimiter: u8,
    address: usize,
    kind: Option<usize>,
    size: Option<usize>,
}

impl Columns {
    fn of(header: &[u8]) -> Option<Columns> {
        let header = std::str::from_utf8(header).ok()?.to_lowercase();
        let delimiter =
            *b",;\t".iter().find(|&&byte| header.contains(char::from(byte))).unwrap_or(&b',');
        let names: Vec<&str> =
            header.split(char::from(delimiter)).map(|name| name.trim().trim_matches('"')).collect();
        let column = |name| names.iter().position(|known| *known == name);
        Some(Columns {
            delimiter,
            address: column("address")?,
            kind: column("type"),
            size: column("size"),
        })
    }

    fn reference(&self, line: &[u8]) -> Option<Reference> {
        let field = |column: usize| nth_field(line, self.delimiter, column);
        let kind = match self.kind.map(field) {
            None => ReferenceKind::Read,
            Some(word) => match word?.first()?.to_ascii_lowercase() {
                b'i' => ReferenceKind::Instruction,
                b'r' => ReferenceKind::Read,
                b'w' => ReferenceKind::Write,
                _ => return None,
            },
        };
        let bytes = match self.size.map(field) {
            None => 1,
            Some(digits) => size(decimal(digits?)?)?,
        };
        Some(Reference { kind, address: decimal_or_hex(field(self.address)?)?, bytes })
    }
}

/// The field in this column, counted from 0, without blanks and quotes around it.
fn nth_field(line: &[u8], delimiter: u8, column: usize) -> Option<&[u8]> {
    let mut rest = Some(line);
    for _ in 0..column {
        rest = take_field(rest?, delimiter).1;
    }
    Some(take_field(rest?, delimiter).0.trim_ascii())
}

struct Addresses {
    lines: Lines,
    columns: Columns,
}

impl ReferenceReader for Addresses {
    fn read(
        &mut self,
        references: &mut Vec<Reference>,
        ledger: &mut Ledger,
    ) -> Result<bool, Error> {
        let columns = &self.columns;
        self.lines.read_block(ledger, |line| {
            if !is_passed_over(line) {
                references.push(columns.reference(line).ok_or(EXPECTED)?);
            }
            Ok(())
        })
    }
}
