//! Events in the order of time, from a reader whose parts are out of order, in bounded memory.
//!
//! Perfetto reads one CPU after the other, and writes one buffer after the other. So an event may come long
//! after later ones. The adapter holds up to a number of events, sorts them when it is full, and passes the
//! older half on. A file of at most [`SORTED_EVENTS`] events is therefore sorted as a whole.

use super::{Event, Names, SystemReader, Tally};
use crate::{Error, Reject};

/// Events that are held by default: 64 MiB, and as much again for their order and for the younger half.
pub const SORTED_EVENTS: usize = 1 << 20;

/// Events that a call passes on.
const EVENTS_PER_READ: usize = 8192;

/// The problem that is counted for an event that comes after later ones were passed on.
const LATE: &str = "events passed on out of order: more than half a million later ones came before";

/// A reader whose events are in the order of time; events of the same time keep the file's order.
pub struct Sorted<R> {
    reader: R,
    /// The events held, in the order in which they were read.
    held: Vec<Event>,
    /// The time of each held event and its place in `held`, in the order of time. Only these pairs are sorted, since
    /// an event is four times as large. Pairs before `final_end` are final, and those before `taken` passed on.
    order: Vec<(i64, u32)>,
    taken: usize,
    final_end: usize,
    /// The younger events while `held` is refilled, kept to save an allocation.
    staying: Vec<Event>,
    events_max: usize,
    is_read: bool,
    last_ns: i64,
}

impl<R: SystemReader> Sorted<R> {
    /// Sorts the events of `reader`, of which it holds at most about [`SORTED_EVENTS`].
    pub fn new(reader: R) -> Sorted<R> {
        Sorted::with_limit(reader, SORTED_EVENTS)
    }

    /// Sorts the events of `reader` and holds `events_max` of them and one call's more; every event may come
    /// after half as many later ones.
    pub fn with_limit(reader: R, events_max: usize) -> Sorted<R> {
        Sorted {
            reader,
            held: Vec::new(),
            order: Vec::new(),
            taken: 0,
            final_end: 0,
            staying: Vec::new(),
            events_max: events_max.clamp(2, u32::MAX as usize / 2),
            is_read: false,
            last_ns: i64::MIN,
        }
    }

    /// The reader whose events are sorted.
    pub fn inner(&self) -> &R {
        &self.reader
    }

    /// The reader whose events are sorted.
    pub fn inner_mut(&mut self) -> &mut R {
        &mut self.reader
    }

    /// Reads until the buffer is full, as many events are read, or the file ends, and sorts; the older half is final.
    fn refill(&mut self, tally: &mut Tally) -> Result<(), Error> {
        self.staying.clear();
        let staying = self.order[self.taken..].iter().map(|&(_, place)| self.held[place as usize]);
        self.staying.extend(staying);
        self.held.clear();
        self.held.extend_from_slice(&self.staying);
        self.taken = 0;
        let full = self.reader.events_read().map(|read| read + self.events_max as u64);
        while !self.is_read && self.held.len() < self.events_max {
            self.is_read = !self.reader.read(&mut self.held, tally)?;
            // So that progress shows, and the user can end it, while few events are passed on.
            if self.reader.events_read().is_some_and(|read| Some(read) >= full) {
                break;
            }
        }
        self.order.clear();
        self.order.extend((0..).zip(&self.held).map(|(place, event)| (event.time_ns, place)));
        self.order.sort_by_key(|&(time_ns, _)| time_ns);
        self.final_end = if self.is_read { self.order.len() } else { self.order.len().div_ceil(2) };
        let before = self.last_ns;
        let late = self.order.iter().take_while(|&&(time_ns, _)| time_ns < before).count();
        tally.clock_problem(LATE, late as u64);
        Ok(())
    }
}

impl<R: SystemReader> SystemReader for Sorted<R> {
    fn read(&mut self, events: &mut Vec<Event>, tally: &mut Tally) -> Result<bool, Error> {
        if self.taken == self.final_end {
            if self.is_read {
                return Ok(false);
            }
            self.refill(tally)?;
        }
        let end = self.final_end.min(self.taken + EVENTS_PER_READ);
        let batch = &self.order[self.taken..end];
        self.last_ns = batch.last().map_or(self.last_ns, |&(time_ns, _)| self.last_ns.max(time_ns));
        events.extend(batch.iter().map(|&(_, place)| self.held[place as usize]));
        self.taken = end;
        Ok(self.taken < self.final_end || !self.is_read)
    }

    fn names(&self) -> &Names {
        self.reader.names()
    }

    fn rejects(&self) -> (u64, &[Reject]) {
        self.reader.rejects()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::*;
    use proptest::prelude::*;

    /// A reader of these times, three a call.
    struct Times(Vec<i64>, usize, Names);

    impl SystemReader for Times {
        fn read(&mut self, events: &mut Vec<Event>, _: &mut Tally) -> Result<bool, Error> {
            for (place, &time_ns) in self.0.iter().enumerate().skip(self.1).take(3) {
                let kind = Kind::KswapdSleep { node: place as u32 };
                events.push(Event { time_ns, cpu: None, tid: 0, kind });
            }
            self.1 += 3;
            Ok(self.1 < self.0.len())
        }

        fn names(&self) -> &Names {
            &self.2
        }
    }

    fn sorted(times: &[i64], limit: usize) -> (Vec<Event>, u64) {
        let reader = Times(times.to_vec(), 0, Names::default());
        let (mut events, mut tally) = (Vec::new(), Tally::default());
        let mut sorted = Sorted::with_limit(reader, limit);
        while sorted.read(&mut events, &mut tally).unwrap() {}
        (events, tally.clock_problems().map(|(_, count)| count).sum())
    }

    proptest! {
        #[test]
        fn events_within_the_limit_are_sorted_and_stable(
            times in proptest::collection::vec(0i64..50, 0..100),
        ) {
            let (events, late) = sorted(&times, 200);
            let mut expected: Vec<_> = times.iter().copied().zip(0u32..).collect();
            expected.sort_by_key(|&(time, _)| time);
            let found: Vec<_> = events
                .iter()
                .map(|event| match event.kind {
                    Kind::KswapdSleep { node } => (event.time_ns, node),
                    other => panic!("{other:?}"),
                })
                .collect();
            prop_assert_eq!(found, expected);
            prop_assert_eq!(late, 0);
        }

        #[test]
        fn nothing_is_lost_or_unnoticed_beyond_the_limit(
            times in proptest::collection::vec(0i64..1000, 0..300),
            limit in 2usize..20,
        ) {
            let (events, late) = sorted(&times, limit);
            prop_assert_eq!(events.len(), times.len());
            let is_ordered = events.is_sorted_by_key(|event| event.time_ns);
            prop_assert_eq!(is_ordered, late == 0);
        }
    }
}
