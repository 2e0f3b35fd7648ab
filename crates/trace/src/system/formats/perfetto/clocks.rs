//! From the clocks of a trace to the time since boot (CLOCK_BOOTTIME), by its snapshots of all clocks
//! (protos/perfetto/trace/clock_snapshot.proto).

use std::collections::HashMap;

use super::wire::Message;
use crate::system::Tally;

/// Numbers of the built-in clocks.
pub const REALTIME: u32 = 1;
pub const MONOTONIC_RAW: u32 = 5;
pub const BOOTTIME: u32 = 6;

/// Clocks with these numbers belong to the sequence of packets that has their snapshot.
const OF_SEQUENCE: std::ops::Range<u32> = 64..128;

/// Clocks, snapshots of each and clocks of sequences that are kept; a bound on hostile files.
const CLOCKS_MAX: usize = 64;
const SNAPSHOTS_MAX: usize = 1 << 14;
const SEQUENCE_CLOCKS_MAX: usize = 1 << 14;

/// Every snapshot of every clock, and the clocks of sequences.
#[derive(Debug, Default)]
pub struct Clocks {
    /// Per clock its time and the time since boot, by its time.
    snapshots: HashMap<u32, Vec<(i64, i64)>>,
    of_sequences: HashMap<(u32, u32), SequenceClock>,
}

/// A clock of a sequence. Its times may be differences.
#[derive(Clone, Copy, Debug)]
struct SequenceClock {
    unit_ns: i64,
    is_incremental: bool,
    /// The time of the snapshot or, of an incremental clock, the last time.
    last: i64,
    /// Time since boot at `last`.
    boot_ns: i64,
}

impl Clocks {
    /// Adds a packet's snapshot.
    pub fn add(&mut self, snapshot: &[u8], sequence: u32, tally: &mut Tally) {
        let mut clocks: Vec<(u32, i64, bool, i64)> = Vec::new();
        for (field, value) in Message::new(snapshot) {
            if field != 1 || clocks.len() == 64 {
                continue;
            }
            let (mut id, mut time, mut is_incremental, mut unit_ns) = (0, 0i64, false, 1i64);
            for (field, value) in Message::new(value.bytes()) {
                match field {
                    1 => id = value.number() as u32,
                    2 => time = value.number() as i64,
                    3 => is_incremental = value.number() != 0,
                    4 => unit_ns = (value.number() as i64).max(1),
                    other => tally.unknown_field("ClockSnapshot.Clock", other),
                }
            }
            clocks.push((id, time.saturating_mul(unit_ns), is_incremental, unit_ns));
        }
        let Some(&(_, boot_ns, ..)) = clocks.iter().find(|(id, ..)| *id == BOOTTIME) else {
            return tally.clock_problem("clock snapshots without the time since boot", 1);
        };
        for (id, time, is_incremental, unit_ns) in clocks {
            if OF_SEQUENCE.contains(&id) {
                let key = (sequence, id);
                let clock = SequenceClock { unit_ns, is_incremental, last: time, boot_ns };
                if self.of_sequences.len() < SEQUENCE_CLOCKS_MAX
                    || self.of_sequences.contains_key(&key)
                {
                    self.of_sequences.insert(key, clock);
                }
                continue;
            }
            if self.snapshots.len() >= CLOCKS_MAX && !self.snapshots.contains_key(&id) {
                tally.clock_problem("snapshots of clocks beyond the limit", 1);
                continue;
            }
            let known = self.snapshots.entry(id).or_default();
            if known.len() < SNAPSHOTS_MAX {
                let place = known.partition_point(|&(other, _)| other <= time);
                // The file is read twice.
                if place.checked_sub(1).and_then(|last| known.get(last)) != Some(&(time, boot_ns)) {
                    known.insert(place, (time, boot_ns));
                }
            }
        }
    }

    /// Forgets the clocks of sequences, before the file is read again.
    pub fn forget_sequences(&mut self) {
        self.of_sequences.clear();
    }

    /// The time since boot at `time` of a clock, in nanoseconds: by the last snapshot before it, or else the
    /// first after it. `None` if no snapshot has the clock.
    pub fn boot_ns(&mut self, clock: u32, sequence: u32, time: i64) -> Option<i64> {
        if clock == BOOTTIME || clock == 0 {
            return Some(time);
        }
        if OF_SEQUENCE.contains(&clock) {
            let known = self.of_sequences.get_mut(&(sequence, clock))?;
            let time = time.saturating_mul(known.unit_ns);
            if known.is_incremental {
                known.last = known.last.saturating_add(time);
                known.boot_ns = known.boot_ns.saturating_add(time);
                return Some(known.boot_ns);
            }
            return Some(known.boot_ns.saturating_add(time.saturating_sub(known.last)));
        }
        let known = self.snapshots.get(&clock)?;
        let after = known.partition_point(|&(other, _)| other <= time);
        let &(at, boot_ns) = known.get(after.saturating_sub(1))?;
        Some(boot_ns.saturating_add(time.saturating_sub(at)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::varint::put_varint;

    fn snapshot(clocks: &[(u64, u64, u64, u64)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for &(id, time, is_incremental, unit) in clocks {
            let mut clock = Vec::new();
            for (field, number) in [(1, id), (2, time), (3, is_incremental), (4, unit)] {
                put_varint(field << 3, &mut clock);
                put_varint(number, &mut clock);
            }
            put_varint(1 << 3 | 2, &mut bytes);
            put_varint(clock.len() as u64, &mut bytes);
            bytes.extend(clock);
        }
        bytes
    }

    #[test]
    fn times_follow_the_last_snapshot_before_them() {
        let (mut clocks, mut tally) = (Clocks::default(), Tally::default());
        assert_eq!(clocks.boot_ns(REALTIME, 1, 5), None);
        // The wall clock is set forward by 1000 in between.
        clocks.add(&snapshot(&[(6, 100, 0, 0), (1, 5000, 0, 0)]), 1, &mut tally);
        clocks.add(&snapshot(&[(6, 200, 0, 0), (1, 6100, 0, 0)]), 1, &mut tally);
        let read: Vec<_> =
            [4990, 5050, 6200].map(|time| clocks.boot_ns(REALTIME, 1, time).unwrap()).to_vec();
        assert_eq!(read, [90, 150, 300]);
        assert_eq!(clocks.boot_ns(BOOTTIME, 1, 7), Some(7));
        clocks.add(&snapshot(&[(1, 5000, 0, 0)]), 1, &mut tally);
        assert_eq!(tally.clock_problems().map(|(_, count)| count).sum::<u64>(), 1);
    }

    #[test]
    fn clocks_of_a_sequence_may_count_differences() {
        let (mut clocks, mut tally) = (Clocks::default(), Tally::default());
        clocks.add(
            &snapshot(&[(6, 5000, 0, 0), (64, 3, 1, 1000), (65, 3, 0, 1000)]),
            7,
            &mut tally,
        );
        assert_eq!(clocks.boot_ns(64, 7, 2), Some(7000));
        assert_eq!(clocks.boot_ns(64, 7, 2), Some(9000));
        assert_eq!(clocks.boot_ns(65, 7, 4), Some(6000));
        assert_eq!(clocks.boot_ns(64, 8, 2), None);
    }
}
