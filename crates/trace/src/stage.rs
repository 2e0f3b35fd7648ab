//! Chooses the stage at which requests count. A block recording may have a request at several stages, but
//! an access must count once. Issues count if the recording has any, otherwise queueings, otherwise
//! completions.
//!
//! The choice needs lookahead. Records are held back until the first issue, which comes almost at once in
//! a recording with issues. A recording without issues is held back up to a bound, and the held records
//! decide. So the same rule holds for a file and for standard input, which cannot be read twice.

use crate::Error;
use crate::ledger::Ledger;
use crate::record::{IdReader, Operation, Record, RecordReader, Stage, Traits};

/// Records held back over all recordings of an import: 25 MB, in addition to a full numbering table.
/// Issues that come only after this number of queueings count as lost.
pub const HELD_MAX: usize = 1 << 19;

/// A recording read at one stage of its requests.
pub struct Staged<R> {
    reader: R,
    choice: StageChoice,
    is_read: bool,
    batch: Vec<Record>,
}

impl<R: RecordReader> Staged<R> {
    /// Holds back at most `held_max` records of `reader`.
    pub fn new(reader: R, held_max: usize) -> Staged<R> {
        let choice = StageChoice { held: Vec::new(), held_max, chosen: None };
        Staged { reader, choice, is_read: false, batch: Vec::new() }
    }
}

impl<R: RecordReader> RecordReader for Staged<R> {
    fn read(&mut self, records: &mut Vec<Record>, ledger: &mut Ledger) -> Result<bool, Error> {
        if self.is_read {
            return Ok(false);
        }
        self.is_read = !self.reader.read(&mut self.batch, ledger)?;
        self.choice.pick(&mut self.batch, self.is_read, ledger);
        if records.is_empty() {
            std::mem::swap(records, &mut self.batch);
        }
        records.append(&mut self.batch);
        self.batch.shrink_to(BATCH_KEPT);
        Ok(true)
    }

    fn traits(&self) -> Traits {
        Traits { has_stages: false, ..self.reader.traits() }
    }

    fn ids(&mut self) -> Option<&mut dyn IdReader> {
        self.reader.ids()
    }
}

/// Capacity, in records, that is kept from batch to batch.
const BATCH_KEPT: usize = 1 << 16;

/// Picks the records of one stage out of a stream.
#[derive(Debug)]
struct StageChoice {
    held: Vec<Record>,
    held_max: usize,
    chosen: Option<Stage>,
}

impl StageChoice {
    /// Replaces `records`, the next of the stream, by the records to use now. Call it with `is_end`
    /// after the last.
    fn pick(&mut self, records: &mut Vec<Record>, is_end: bool, ledger: &mut Ledger) {
        if self.chosen.is_none() {
            self.decide(records, is_end);
        }
        let Some(chosen) = self.chosen else {
            return;
        };
        records.retain(|record| {
            let is_picked = record.stage == chosen;
            if !is_picked && record.stage == Stage::Issue {
                ledger.lose("issues that came too late to count instead of queueings", 1);
            }
            is_picked
        });
    }

    /// Decides if possible and returns all held records; otherwise holds `records` back too.
    fn decide(&mut self, records: &mut Vec<Record>, is_end: bool) {
        self.chosen = has_access(records, Stage::Issue).then_some(Stage::Issue);
        if self.chosen.is_none() || !self.held.is_empty() {
            self.held.append(records);
        }
        if self.chosen.is_none() && (is_end || self.held.len() >= self.held_max) {
            let has_queue = has_access(&self.held, Stage::Queue);
            self.chosen = Some(if has_queue { Stage::Queue } else { Stage::Complete });
        }
        if self.chosen.is_some() && !self.held.is_empty() {
            std::mem::swap(records, &mut self.held);
            self.held = Vec::new();
        }
    }
}

/// Whether any record of this stage moves data.
fn has_access(records: &[Record], stage: Stage) -> bool {
    records.iter().any(|record| {
        let is_access = matches!(record.operation, Operation::Read | Operation::Write);
        record.stage == stage && is_access && record.bytes > 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record((number, stage): (usize, &Stage)) -> Record {
        let record = Record::new(Operation::Read, number as u64);
        Record { stage: *stage, bytes: 512, ..record }
    }

    /// Yields the records in batches of the given size.
    struct Batches(Vec<Record>, usize);

    impl RecordReader for Batches {
        fn read(&mut self, records: &mut Vec<Record>, _: &mut Ledger) -> Result<bool, Error> {
            let count = self.1.min(self.0.len());
            records.extend(self.0.drain(..count));
            Ok(count > 0)
        }

        fn traits(&self) -> Traits {
            Traits::BLOCK_EVENTS
        }
    }

    fn read(all: Vec<Record>, batch: usize, held_max: usize) -> Vec<Record> {
        let mut staged = Staged::new(Batches(all, batch), held_max);
        let (mut records, mut ledger) = (Vec::new(), Ledger::new(false));
        while staged.read(&mut records, &mut ledger).unwrap() {}
        records
    }

    fn picked(stages: &[Stage], batch: usize, held_max: usize) -> Vec<u64> {
        let all = stages.iter().enumerate().map(record).collect();
        read(all, batch, held_max).iter().map(|record| record.address).collect()
    }

    /// The rule, applied to all records at once.
    fn naive(stages: &[Stage]) -> Vec<u64> {
        let order = [Stage::Issue, Stage::Queue, Stage::Complete];
        let chosen = order.into_iter().find(|stage| stages.contains(stage));
        let is_chosen = |&(_, stage): &(usize, &Stage)| Some(*stage) == chosen;
        stages.iter().enumerate().filter(is_chosen).map(|(number, _)| number as u64).collect()
    }

    #[test]
    fn a_late_issue_is_counted_as_lost() {
        let stages = [Stage::Queue, Stage::Queue, Stage::Issue];
        assert_eq!(picked(&stages, 1, 2), [0, 1]);
        assert_eq!(picked(&stages, 1, 3), [2]);
    }

    #[test]
    fn a_stage_without_data_is_not_chosen() {
        let flush = Record { bytes: 0, ..record((0, &Stage::Issue)) };
        let records = read(vec![flush, record((1, &Stage::Complete))], 1, HELD_MAX);
        assert_eq!(records.len(), 1);
        assert_eq!(records[0].stage, Stage::Complete);
    }

    proptest! {
        #[test]
        fn the_lookahead_decides_like_the_rule_on_all_records(
            picks in proptest::collection::vec(0usize..8, 0..60), batch in 1usize..9,
        ) {
            // Issues are rare, so that many streams have none.
            let stages: Vec<Stage> = picks
                .iter()
                .map(|pick| match pick { 0 => Stage::Issue, 1..4 => Stage::Queue, _ => Stage::Complete })
                .collect();
            prop_assert_eq!(picked(&stages, batch, HELD_MAX), naive(&stages));
        }
    }
}
