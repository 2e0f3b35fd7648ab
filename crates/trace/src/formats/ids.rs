//! `ids`: one object id a line, numeric or not.

use sha2::{Digest, Sha256};

use super::{Format, ReadOptions};
use crate::Error;
use crate::input::Input;
use crate::ledger::Ledger;
use crate::lines::{Expected, LineParser, Lines, TextReader};
use crate::record::{Operation, Record, RecordReader, Traits};
use crate::sniff::{Confidence, head_lines};
use crate::text::decimal;

/// The row of this format.
pub const FORMAT: Format = Format {
    name: "ids",
    summary: "text with one object id a line, numeric or not",
    has_columns: false,
    has_parts: false,
    has_accesses: true,
    sniff,
    open,
};

/// Fewest lines by which text is recognised as ids: a single line of text could be any word.
const LINES_MIN: usize = 2;

/// The longest id that is recognised; `--format ids` reads any.
const ID_BYTES_MAX: usize = 256;

fn sniff(head: &[u8]) -> Confidence {
    let lines = head_lines(head, 1000);
    Confidence::Possible.when(lines.len() >= LINES_MIN && lines.iter().all(|line| is_id(line)))
}

/// Whether a line may be an id: a single word of letters, digits and the signs of keys and paths.
fn is_id(line: &[u8]) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.:/@#+=%~".contains(byte);
    line.len() <= ID_BYTES_MAX
        && line.iter().all(is_part)
        && line.iter().any(u8::is_ascii_alphanumeric)
}

fn open(input: Input, _options: &ReadOptions) -> Result<Box<dyn RecordReader>, Error> {
    Ok(Box::new(TextReader::new(Lines::new(input), Ids)))
}

/// The number of an object: the id itself if it is a decimal number, otherwise the first 64 bits of its
/// SHA-256, so that a name has the same number in every recording. Among ten million names the
/// probability of a collision is below 1 in 100,000.
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
        Traits::BARE_IDS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::tests::read_text;

    #[test]
    fn only_text_of_single_words_is_recognised() {
        for good in ["7\n8\n", "user:1\r\n/a/b.txt\r\n", "# ids\n\n1\n2\n3"] {
            assert_eq!(sniff(good.as_bytes()), Confidence::Possible, "{good}");
        }
        for bad in ["", "abc", "7\n", "a b\nc d\n", "{\n}\n", "a\u{1}\nb\n", "\u{e4}\nb\n"] {
            assert_eq!(sniff(bad.as_bytes()), Confidence::No, "{bad}");
        }
    }

    #[test]
    fn names_and_numbers_are_ids() {
        let text = "7\nuser:1\n 7 \r\n\n# note\n99999999999999999999\nuser:1";
        let (records, _) = read_text(&FORMAT, text);
        let ids: Vec<u64> = records.iter().map(|record| record.address).collect();
        assert_eq!(ids, [7, object_id(b"user:1"), 7, object_id(b"99999999999999999999"), ids[1]]);
        assert_eq!(object_id(b"abc"), 0xba78_16bf_8f01_cfea);
    }
}
