//! `ids`: one object id a line, numeric or not.

use sha2::{Digest, Sha256};

use super::{Confidence, Format, ReadOptions, head_lines};
use crate::Error;
use crate::input::Input;
use crate::ledger::Ledger;
use crate::lines::{Expected, LineParser, Lines, TextReader};
use crate::record::{AddressUnit, Mapping, Operation, Record, RecordReader, Traits};
use crate::text::decimal;

/// The row of this format.
pub const FORMAT: Format = Format {
    name: "ids",
    summary: "text with one object id a line, numeric or not",
    has_columns: false,
    sniff,
    open,
};

fn sniff(head: &[u8]) -> Confidence {
    let lines = head_lines(head, 1000);
    let is_id = |line: &&[u8]| line.iter().all(|byte| byte.is_ascii_graphic() && *byte != b',');
    Confidence::Possible.when(!lines.is_empty() && lines.iter().all(is_id))
}

fn open(input: Input, _options: &ReadOptions) -> Result<Box<dyn RecordReader>, Error> {
    Ok(Box::new(TextReader::new(Lines::new(input), Ids)))
}

/// The number of an object: the id itself where it is a decimal number, else the first 64 bits of
/// its SHA-256, so that the same name has the same number in every recording. Among ten million
/// names the odds of two with one number are below one to a hundred thousand.
pub(super) fn object_id(text: &[u8]) -> u64 {
    decimal(text).unwrap_or_else(|| {
        let digest = Sha256::digest(text);
        digest.iter().take(8).fold(0, |number, &byte| number << 8 | u64::from(byte))
    })
}

struct Ids;

impl LineParser for Ids {
    fn line(
        &mut self,
        line: &[u8],
        records: &mut Vec<Record>,
        ledger: &mut Ledger,
    ) -> Result<(), Expected> {
        let id = line.trim_ascii();
        if !id.is_empty() && !id.starts_with(b"#") {
            ledger.see(b"id", 1);
            records.push(Record::new(Operation::Read, object_id(id)));
        }
        Ok(())
    }

    fn traits(&self) -> Traits {
        Traits {
            address: AddressUnit::Id,
            mapping: Mapping::Objects,
            has_clock: false,
            has_operations: false,
            has_sizes: false,
            has_durations: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::tests::read_text;

    #[test]
    fn names_and_numbers_are_ids() {
        let text = "7\nuser:1\n 7 \r\n\n# note\n99999999999999999999\nuser:1";
        let (records, _) = read_text(&FORMAT, text);
        let ids: Vec<u64> = records.iter().map(|record| record.address).collect();
        assert_eq!(ids, [7, object_id(b"user:1"), 7, object_id(b"99999999999999999999"), ids[1]]);
        assert_eq!(object_id(b"abc"), 0xba78_16bf_8f01_cfea);
    }
}
