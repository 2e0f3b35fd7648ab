//! Merges the files of a recording: by time if they have a clock, otherwise one after the other. At most
//! one batch of records of each file is in memory.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::Error;
use crate::ledger::Ledger;
use crate::record::{IdReader, Record, RecordReader, Traits};

/// Records per merged batch.
const BATCH_RECORDS: usize = 4096;

/// A file and its records that are read but not yet merged.
struct Lane {
    reader: Box<dyn RecordReader>,
    records: Vec<Record>,
    next: usize,
    is_done: bool,
}

impl Lane {
    /// The next record; `None` at the end of the file.
    fn peek(&mut self, ledger: &mut Ledger) -> Result<Option<&Record>, Error> {
        while self.next == self.records.len() && !self.is_done {
            self.records.clear();
            self.next = 0;
            self.is_done = !self.reader.read(&mut self.records, ledger)?;
        }
        Ok(self.records.get(self.next))
    }
}

/// Files merged into one stream of records.
pub struct Merge {
    lanes: Vec<Lane>,
    has_clock: bool,
    /// Without a clock: number of files read to their end.
    finished: usize,
    /// With a clock: the time of each file's next record, earliest first; in a tie the first file.
    waiting: Option<BinaryHeap<Reverse<(i64, usize)>>>,
}

impl Merge {
    /// Merges `readers`, at least one, by time if all their records have one.
    pub fn new(readers: Vec<Box<dyn RecordReader>>) -> Merge {
        let has_clock = readers.iter().all(|reader| reader.traits().has_clock);
        let lane = |reader| Lane { reader, records: Vec::new(), next: 0, is_done: false };
        Merge {
            lanes: readers.into_iter().map(lane).collect(),
            has_clock,
            finished: 0,
            waiting: None,
        }
    }

    fn read_by_time(
        &mut self,
        records: &mut Vec<Record>,
        ledger: &mut Ledger,
    ) -> Result<bool, Error> {
        let mut waiting = match self.waiting.take() {
            Some(waiting) => waiting,
            None => {
                let mut waiting = BinaryHeap::with_capacity(self.lanes.len());
                for (index, lane) in self.lanes.iter_mut().enumerate() {
                    if let Some(record) = lane.peek(ledger)? {
                        waiting.push(Reverse((record.time_ns, index)));
                    }
                }
                waiting
            }
        };
        let goal = records.len() + BATCH_RECORDS;
        while records.len() < goal
            && let Some(Reverse((_, index))) = waiting.pop()
        {
            let lane = &mut self.lanes[index];
            records.push(lane.records[lane.next]);
            lane.next += 1;
            if let Some(record) = lane.peek(ledger)? {
                waiting.push(Reverse((record.time_ns, index)));
            }
        }
        let is_more = !waiting.is_empty();
        self.waiting = Some(waiting);
        Ok(is_more || records.len() == goal)
    }
}

impl RecordReader for Merge {
    fn read(&mut self, records: &mut Vec<Record>, ledger: &mut Ledger) -> Result<bool, Error> {
        if self.lanes.len() > 1 && self.has_clock {
            return self.read_by_time(records, ledger);
        }
        while let Some(lane) = self.lanes.get_mut(self.finished) {
            if lane.reader.read(records, ledger)? {
                return Ok(true);
            }
            self.finished += 1;
        }
        Ok(false)
    }

    /// Clock and operations if all files have them, sizes and durations if any file has them.
    fn traits(&self) -> Traits {
        let mut all = self.lanes.iter().map(|lane| lane.reader.traits());
        let first = all.next().expect("a merge has at least one file");
        all.fold(first, |merged, other| Traits {
            has_clock: merged.has_clock && other.has_clock,
            has_operations: merged.has_operations && other.has_operations,
            has_sizes: merged.has_sizes || other.has_sizes,
            has_durations: merged.has_durations || other.has_durations,
            has_stages: merged.has_stages || other.has_stages,
            ..merged
        })
    }

    fn ids(&mut self) -> Option<&mut dyn IdReader> {
        match self.lanes.as_mut_slice() {
            [lane] => lane.reader.ids(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Operation;
    use proptest::prelude::*;

    /// Yields given times in batches of three; the address of each record is the number of its file.
    struct Times {
        times: Vec<i64>,
        file: u64,
        has_clock: bool,
    }

    impl RecordReader for Times {
        fn read(&mut self, records: &mut Vec<Record>, _: &mut Ledger) -> Result<bool, Error> {
            if self.times.is_empty() {
                return Ok(false);
            }
            let count = self.times.len().min(3);
            records.extend(
                self.times
                    .drain(..count)
                    .map(|time_ns| Record { time_ns, ..Record::new(Operation::Read, self.file) }),
            );
            Ok(true)
        }

        fn traits(&self) -> Traits {
            Traits { has_clock: self.has_clock, ..Traits::BARE_IDS }
        }
    }

    fn merged(files: &[Vec<i64>], has_clock: bool) -> Vec<(i64, u64)> {
        let reader = |(file, times): (usize, &Vec<i64>)| -> Box<dyn RecordReader> {
            Box::new(Times { times: times.clone(), file: file as u64, has_clock })
        };
        let mut merge = Merge::new(files.iter().enumerate().map(reader).collect());
        let (mut records, mut ledger) = (Vec::new(), Ledger::new(false));
        while merge.read(&mut records, &mut ledger).unwrap() {}
        records.iter().map(|record| (record.time_ns, record.address)).collect()
    }

    #[test]
    fn files_without_a_clock_follow_one_another() {
        let files = [vec![5, 6, 7, 8], vec![], vec![1]];
        assert_eq!(merged(&files, false), [(5, 0), (6, 0), (7, 0), (8, 0), (1, 2)]);
    }

    proptest! {
        #[test]
        fn ordered_files_merge_like_a_stable_sort(mut files: Vec<Vec<i64>>) {
            files.iter_mut().for_each(|times| times.sort_unstable());
            let mut expected: Vec<(i64, u64)> = files
                .iter()
                .enumerate()
                .flat_map(|(file, times)| times.iter().map(move |&time| (time, file as u64)))
                .collect();
            expected.sort_by_key(|&(time, _)| time);
            prop_assert_eq!(merged(&files, true), expected);
        }
    }
}
