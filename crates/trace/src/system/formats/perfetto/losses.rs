//! What Perfetto itself says it lost: `FtraceStats` of the kernel's ring buffers, `TraceStats` of its own
//! buffers. Both hold totals, so the last of a session counts.

use std::collections::HashMap;

use super::wire::Message;
use crate::system::Tally;

/// CPUs that are remembered; a bound on hostile files.
const CPUS_MAX: usize = 4096;

/// The stats of the current session.
#[derive(Debug, Default)]
pub struct Losses {
    /// Per CPU the events overwritten and dropped at the start and at the end.
    cpus: HashMap<u32, [u64; 2]>,
    overwritten: u64,
    packets_lost: u64,
    damaged: u64,
}

impl Losses {
    /// Reads `FtraceStats`: phase 1 is the start, 2 the end of the session.
    pub fn ftrace(&mut self, stats: &[u8]) {
        let phase = super::wire::last_of(stats, 1).map_or(0, |value| value.number());
        let end = usize::from(phase == 2);
        for (field, value) in Message::new(stats) {
            if field != 2 {
                continue;
            }
            let (mut cpu, mut lost) = (0, 0u64);
            for (field, value) in Message::new(value.bytes()) {
                match field {
                    1 => cpu = value.number() as u32,
                    // Overrun, commit overrun, dropped events.
                    3 | 4 | 8 => lost = lost.saturating_add(value.number()),
                    _ => {}
                }
            }
            if self.cpus.len() < CPUS_MAX || self.cpus.contains_key(&cpu) {
                self.cpus.entry(cpu).or_default()[end] = lost;
            }
        }
    }

    /// Reads `TraceStats`, whose field 1 is a buffer's.
    pub fn trace(&mut self, stats: &[u8]) {
        (self.overwritten, self.packets_lost, self.damaged) = (0, 0, 0);
        for (field, value) in Message::new(stats) {
            if field != 1 {
                continue;
            }
            for (field, value) in Message::new(value.bytes()) {
                let count = match field {
                    3 => &mut self.overwritten,
                    19 => &mut self.packets_lost,
                    6 | 9 => &mut self.damaged,
                    _ => continue,
                };
                *count = count.saturating_add(value.number());
            }
        }
    }

    /// Counts the losses of the session that ends, and begins another.
    pub fn flush(&mut self, tally: &mut Tally) {
        let lost = self.cpus.values().map(|[start, end]| end.saturating_sub(*start));
        let lost = lost.fold(0u64, u64::saturating_add);
        tally.lose("events that the kernel's ring buffers overwrote or dropped", lost);
        tally.lose("chunks of packets that Perfetto's buffers overwrote", self.overwritten);
        tally.lose("packets that did not fit into Perfetto's shared memory", self.packets_lost);
        tally.lose("packets that Perfetto could not complete", self.damaged);
        *self = Losses::default();
    }
}
