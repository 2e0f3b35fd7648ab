//! `arc`: the .lis text of the ARC paper's traces (Megiddo and Modha, FAST 2003). A line
//! `START COUNT IGNORED NUMBER` stands for accesses to COUNT consecutive blocks.

use super::{Format, ReadOptions};
use crate::Error;
use crate::input::Input;
use crate::ledger::Ledger;
use crate::lines::{Expected, LineParser, Lines, TextReader};
use crate::record::{Operation, Record, RecordReader, Traits};
use crate::sniff::{Confidence, head_lines};
use crate::text::{decimal, take_word};

/// The row of this format.
pub const FORMAT: Format = Format {
    name: "arc",
    summary: "text of the ARC paper's traces (.lis): runs of blocks",
    has_columns: false,
    has_parts: false,
    has_accesses: true,
    sniff,
    open,
};

/// The longest run accepted; the paper's traces have less than a thousand blocks a line.
const BLOCKS_MAX: u64 = 1 << 20;

fn sniff(head: &[u8]) -> Confidence {
    let lines = head_lines(head, 100);
    let fits = !lines.is_empty() && lines.iter().all(|line| parse(line).is_some());
    Confidence::Likely.when(fits)
}

fn open(input: Input, _options: &ReadOptions) -> Result<Box<dyn RecordReader>, Error> {
    Ok(Box::new(TextReader::new(Lines::new(input), Arc)))
}

/// First block and number of blocks.
fn parse(line: &[u8]) -> Option<(u64, u64)> {
    let (start, rest) = take_word(line)?;
    let (count, rest) = take_word(rest)?;
    let (ignored, rest) = take_word(rest)?;
    let (number, rest) = take_word(rest)?;
    decimal(ignored).and(decimal(number))?;
    rest.trim_ascii().is_empty().then_some((decimal(start)?, decimal(count)?))
}

struct Arc;

impl LineParser for Arc {
    fn line(
        &mut self,
        line: &[u8],
        records: &mut Vec<Record>,
        ledger: &mut Ledger,
    ) -> Result<(), Expected> {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let (start, count) = parse(line).ok_or(Expected("`START COUNT IGNORED NUMBER`"))?;
        let end = start.checked_add(count).filter(|_| count <= BLOCKS_MAX);
        let end = end.ok_or(Expected("a run of at most 1048576 blocks"))?;
        ledger.see(b"run of blocks", 1);
        if count == 0 {
            ledger.skip("zero length");
        }
        records.extend((start..end).map(|block| Record::new(Operation::Read, block)));
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
    fn a_run_is_one_access_per_block() {
        let text = "5 3 0 0\n9 0 0 1\n 18446744073709551615 1 0 2\n1 99999999 0 3\n\n7 1 0";
        let (records, ledger) = read_text(&FORMAT, text);
        let blocks: Vec<u64> = records.iter().map(|record| record.address).collect();
        assert_eq!(blocks, [5, 6, 7]);
        let lines: Vec<u64> = ledger.rejects().1.iter().map(|reject| reject.line).collect();
        assert_eq!(lines, [3, 4, 6]);
    }
}
