//! `largest`: earlyoom's rule. When both available memory and swap are low, the largest process dies.
//! Departs from earlyoom: swap in compressed memory does not count as room. If zram is the only swap,
//! earlyoom waits until zram is full, and the machine stalls meanwhile.

use types::Bytes;

use super::ranking::{Ranking, Score};
use super::{Decision, KillPolicy, Memory, Snapshot, share};
use crate::options::{OptionRow, Values};

pub(super) const OPTIONS: &[OptionRow] = &[
    OptionRow {
        name: "memory_percent",
        default: "10",
        summary: "available memory at which the largest process dies, in per cent of all",
    },
    OptionRow {
        name: "swap_percent",
        default: "10",
        summary: "free swap on devices at which it dies (both must hold), in per cent of it",
    },
];

struct Largest {
    memory_percent: u64,
    swap_percent: u64,
}

pub(super) fn make(values: &Values<'_>) -> Result<Box<dyn KillPolicy>, String> {
    Ok(Box::new(Largest {
        memory_percent: values.number("memory_percent", 1..=99)?,
        swap_percent: values.number("swap_percent", 0..=100)?,
    }))
}

impl KillPolicy for Largest {
    fn decide(&mut self, snapshot: &Snapshot<'_>, ranking: &mut Ranking) -> Decision {
        ranking.clear();
        let memory = &snapshot.memory;
        if !memory.is_available_within(self.memory_percent) {
            return Decision::Spare { why: "enough memory is available" };
        }
        if !memory.is_disk_swap_within(self.swap_percent) {
            return Decision::Spare { why: "there is swap left" };
        }
        ranking.rank(snapshot, |candidate| {
            Some(Score(candidate.badness(memory), candidate.resident.0))
        });
        Decision::first(memory.without_room(), ranking)
    }

    fn margin(&self, memory: &Memory) -> Bytes {
        let least = share(memory.total, self.memory_percent);
        Bytes(memory.available.0.saturating_sub(least.0))
    }
}
