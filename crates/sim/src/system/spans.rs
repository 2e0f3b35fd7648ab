//! Times that belong together, joined into intervals, with the processes that had a part in each.

use std::collections::BTreeMap;

use super::tasks::ProcessIndex;

/// What is less apart than this is one interval.
pub const GAP_NS: i64 = 100_000_000;

/// Intervals of a kind that are kept; further ones are counted.
const SPANS_MAX: usize = 4096;

/// Processes of an interval that have amounts of their own; further ones count as unknown.
const PROCESSES_MAX: usize = 1024;

/// Processes of a finished interval that are kept.
pub const PROCESSES_KEPT: usize = 5;

/// A process's part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Time, summed over threads.
    pub time_ns: i64,
    /// Bytes.
    pub bytes: u64,
}

/// Parts by process, in bounded memory.
#[derive(Clone, Debug, Default)]
pub struct Amounts(BTreeMap<ProcessIndex, Amount>);

impl Amounts {
    /// Adds a part.
    pub fn add(&mut self, process: ProcessIndex, time_ns: i64, bytes: u64) {
        let is_known = self.0.len() < PROCESSES_MAX || self.0.contains_key(&process);
        let amount = self.0.entry(if is_known { process } else { 0 }).or_default();
        amount.time_ns = amount.time_ns.saturating_add(time_ns);
        amount.bytes = amount.bytes.saturating_add(bytes);
    }

    /// Forgets all parts and returns them.
    pub fn take(&mut self) -> Amounts {
        std::mem::take(self)
    }

    fn join(&mut self, other: Amounts) {
        for (process, amount) in other.0 {
            self.add(process, amount.time_ns, amount.bytes);
        }
    }

    /// The sum of all parts.
    pub fn sum(&self) -> Amount {
        self.0.values().fold(Amount::default(), |sum, amount| Amount {
            time_ns: sum.time_ns.saturating_add(amount.time_ns),
            bytes: sum.bytes.saturating_add(amount.bytes),
        })
    }

    /// The processes with the largest parts, by time and then by bytes, after `join` named each by the process
    /// that it belongs to.
    pub fn largest(
        &self,
        count: usize,
        joined: impl Fn(ProcessIndex) -> ProcessIndex,
    ) -> Vec<(ProcessIndex, Amount)> {
        let mut together = Amounts::default();
        for (&process, amount) in &self.0 {
            together.add(joined(process), amount.time_ns, amount.bytes);
        }
        let mut all: Vec<_> = together.0.into_iter().collect();
        all.sort_by_key(|&(process, amount)| {
            (std::cmp::Reverse((amount.time_ns, amount.bytes)), process)
        });
        all.truncate(count);
        all
    }
}

/// An interval.
#[derive(Clone, Debug, Default)]
pub struct BusySpan {
    /// Begin, in nanoseconds.
    pub from_ns: i64,
    /// End, in nanoseconds.
    pub to_ns: i64,
    /// The parts of the processes.
    pub amounts: Amounts,
    /// The largest share of time in which some task stalled, if that is how the interval was found.
    pub share: Option<f64>,
}

/// Intervals in order of time.
#[derive(Clone, Debug, Default)]
pub struct Spans {
    spans: Vec<BusySpan>,
    left_out: u64,
}

impl Spans {
    /// The intervals, in order of time, none within [`GAP_NS`] of another.
    pub fn all(&self) -> &[BusySpan] {
        &self.spans
    }

    /// Number of intervals that were not kept.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// The sum of time over all processes and intervals.
    pub fn sum(&self) -> Amount {
        self.spans.iter().map(|span| span.amounts.sum()).fold(Amount::default(), |sum, amount| {
            Amount {
                time_ns: sum.time_ns.saturating_add(amount.time_ns),
                bytes: sum.bytes.saturating_add(amount.bytes),
            }
        })
    }

    /// Whether an interval overlaps a range.
    pub fn touches(&self, from_ns: i64, to_ns: i64) -> bool {
        let first = self.spans.partition_point(|span| span.to_ns < from_ns);
        self.spans.get(first).is_some_and(|span| span.from_ns <= to_ns)
    }

    /// Adds the time of a process.
    pub fn add(
        &mut self,
        (from_ns, to_ns): (i64, i64),
        process: ProcessIndex,
        time_ns: i64,
        bytes: u64,
    ) {
        let mut amounts = Amounts::default();
        amounts.add(process, time_ns, bytes);
        self.push(BusySpan { from_ns, to_ns, amounts, share: None });
    }

    /// Adds an interval, and joins it with those that it is close to.
    pub fn push(&mut self, span: BusySpan) {
        let is_apart = |before: &BusySpan, after: &BusySpan| {
            after.from_ns > before.to_ns.saturating_add(GAP_NS)
        };
        if self.spans.last().is_none_or(|last| is_apart(last, &span)) {
            if self.spans.len() == SPANS_MAX {
                self.left_out += 1;
            } else {
                self.spans.push(span);
            }
            return;
        }
        let mut joined = span;
        while let Some(last) = self.spans.pop_if(|last| !is_apart(last, &joined)) {
            if joined.to_ns.saturating_add(GAP_NS) < last.from_ns {
                // Far before the last one, by a time that goes back: it stays the last.
                self.spans.push(last);
                self.left_out += 1;
                return;
            }
            joined.from_ns = joined.from_ns.min(last.from_ns);
            joined.to_ns = joined.to_ns.max(last.to_ns);
            joined.share = match (joined.share, last.share) {
                (Some(early), Some(late)) => Some(early.max(late)),
                (early, late) => early.or(late),
            };
            let mut amounts = last.amounts;
            amounts.join(joined.amounts);
            joined.amounts = amounts;
        }
        self.spans.push(joined);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_are_close_are_one_interval_with_the_parts_of_each() {
        let mut spans = Spans::default();
        let ms = 1_000_000;
        spans.add((0, 10 * ms), 1, 10 * ms, 0);
        spans.add((50 * ms, 60 * ms), 2, 10 * ms, 5);
        spans.add((900 * ms, 950 * ms), 1, 50 * ms, 0);
        spans.add((40 * ms, 970 * ms), 1, 930 * ms, 0);
        let found: Vec<_> = spans.all().iter().map(|span| (span.from_ns, span.to_ns)).collect();
        assert_eq!(found, [(0, 970 * ms)]);
        let largest = spans.all()[0].amounts.largest(5, |process| process);
        assert_eq!(largest[0], (1, Amount { time_ns: 990 * ms, bytes: 0 }));
        assert_eq!(largest[1], (2, Amount { time_ns: 10 * ms, bytes: 5 }));
        assert!(spans.touches(970 * ms, 980 * ms));
        assert!(!spans.touches(971 * ms, 980 * ms));
    }

    #[test]
    fn intervals_and_processes_are_bounded() {
        let mut spans = Spans::default();
        for number in 0..SPANS_MAX as i64 + 10 {
            let from = number * 10 * GAP_NS;
            spans.add((from, from + 1), 1, 1, 0);
        }
        assert_eq!((spans.all().len(), spans.left_out()), (SPANS_MAX, 10));
        let mut amounts = Amounts::default();
        for process in 0..10 * PROCESSES_MAX as u32 {
            amounts.add(process, 1, 1);
        }
        assert_eq!(amounts.0.len(), PROCESSES_MAX);
        assert_eq!(amounts.sum().time_ns, 10 * PROCESSES_MAX as i64);
    }
}
