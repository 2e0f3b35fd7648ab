//! One access is one request, yet a block recording shows a request at several stages. What the
//! recording has decides: issues where it has any, else queueings, else completions.
//!
//! The choice needs a look ahead. Records are held back until the first issue comes, which in a
//! recording with issues is nearly at once; a recording without is held back whole, up to a bound,
//! and then decided by what was held. This way standard input, which cannot be read twice, and
//! several files merged into one stream are decided by the same rule as a file.

use crate::ledger::Ledger;
use crate::record::{Operation, Record, Stage};

/// Records held back: 64 MB. An issue that comes only after so many queueings is booked as lost.
const HELD_MAX: usize = 1 << 20;

/// Picks the records of one stage out of a stream.
#[derive(Debug)]
pub struct StageChoice {
    held: Vec<Record>,
    held_max: usize,
    chosen: Option<Stage>,
}

impl StageChoice {
    /// Nothing is decided yet.
    pub fn new() -> StageChoice {
        StageChoice { held: Vec::new(), held_max: HELD_MAX, chosen: None }
    }

    /// Replaces `records`, the next of the stream, by those to use now. Call it with `is_end` after
    /// the last.
    pub fn pick(&mut self, records: &mut Vec<Record>, is_end: bool, ledger: &mut Ledger) {
        if self.chosen.is_none() {
            self.decide(records, is_end);
        }
        let Some(chosen) = self.chosen else {
            return;
        };
        records.retain(|record| {
            let is_picked = record.stage == chosen || record.stage == Stage::Only;
            if !is_picked && record.stage == Stage::Issue {
                ledger.lose("issues that came too late to be told from queueings", 1);
            }
            is_picked
        });
    }

    /// Decides if it can, and hands back everything held; else holds `records` back too.
    fn decide(&mut self, records: &mut Vec<Record>, is_end: bool) {
        let is_single = records.iter().any(|record| record.stage == Stage::Only);
        // Recordings with one record per access are the most: they pass through at once.
        self.chosen = if is_single {
            Some(Stage::Only)
        } else if has_access(records, Stage::Issue) {
            Some(Stage::Issue)
        } else {
            None
        };
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

    fn picked(stages: &[Stage], batch: usize, held_max: usize) -> Vec<u64> {
        let mut choice = StageChoice { held_max, ..StageChoice::new() };
        let mut ledger = Ledger::new(false);
        let all: Vec<Record> = stages.iter().enumerate().map(record).collect();
        let mut out = Vec::new();
        for part in all.chunks(batch) {
            let mut part = part.to_vec();
            choice.pick(&mut part, false, &mut ledger);
            out.extend(part);
        }
        let mut rest = Vec::new();
        choice.pick(&mut rest, true, &mut ledger);
        out.extend(rest);
        out.iter().map(|record| record.address).collect()
    }

    /// What the rule says, seeing everything at once.
    fn naive(stages: &[Stage]) -> Vec<u64> {
        let order = [Stage::Issue, Stage::Queue, Stage::Complete];
        let chosen = order.into_iter().find(|stage| stages.contains(stage));
        let is_chosen = |&(_, stage): &(usize, &Stage)| Some(*stage) == chosen;
        stages.iter().enumerate().filter(is_chosen).map(|(number, _)| number as u64).collect()
    }

    #[test]
    fn a_late_issue_is_booked() {
        let stages = [Stage::Queue, Stage::Queue, Stage::Issue];
        assert_eq!(picked(&stages, 1, 2), [0, 1]);
        assert_eq!(picked(&stages, 1, 3), [2]);
    }

    #[test]
    fn a_stage_without_data_does_not_count() {
        let mut choice = StageChoice::new();
        let flush = Record { bytes: 0, ..record((0, &Stage::Issue)) };
        let mut records = vec![flush, record((1, &Stage::Complete))];
        choice.pick(&mut records, true, &mut Ledger::new(false));
        assert_eq!(records.len(), 1);
        assert_eq!(records[0].stage, Stage::Complete);
    }

    proptest! {
        #[test]
        fn the_look_ahead_decides_like_full_knowledge(
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
