//! `pressure`: systemd-oomd's two rules (oomd.conf(5), version 257). When swap and memory are nearly used
//! up, the group that swaps most dies. When stalls stay above a limit for some seconds, the group that
//! uses most dies. Departs from it: stalls kill only if memory is short as well, since slow storage
//! makes a machine stall that has memory to spare.

use types::{Bytes, Nanos};

use super::ranking::{Ranking, Score};
use super::{Candidate, Decision, KillPolicy, Memory, Snapshot, share};
use crate::options::{OptionRow, Values};

pub(super) const OPTIONS: &[OptionRow] = &[
    OptionRow {
        name: "swap_used_limit",
        default: "90",
        summary: "use of swap, and of memory, above which a group dies at once, in per cent",
    },
    OptionRow {
        name: "memory_pressure_limit",
        default: "60",
        summary: "share of ten seconds in which all tasks stall, above which a group dies",
    },
    OptionRow {
        name: "memory_pressure_duration_s",
        default: "20",
        summary: "seconds for which all tasks must stall",
    },
    OptionRow {
        name: "available_percent_max",
        default: "25",
        summary: "available memory above which stalls kill no group, in per cent of all",
    },
];

struct PressurePolicy {
    swap_used_limit: u64,
    memory_pressure_limit: u64,
    duration: Nanos,
    available_percent_max: u64,
    /// Start of the time in which tasks stall above the limit.
    since: Option<Nanos>,
}

pub(super) fn make(values: &Values<'_>) -> Result<Box<dyn KillPolicy>, String> {
    let seconds = values.number("memory_pressure_duration_s", 0..=3600)? as i64;
    Ok(Box::new(PressurePolicy {
        swap_used_limit: values.number("swap_used_limit", 0..=100)?,
        memory_pressure_limit: values.number("memory_pressure_limit", 0..=100)?,
        duration: Nanos(seconds * 1_000_000_000),
        available_percent_max: values.number("available_percent_max", 1..=100)?,
        since: None,
    }))
}

impl PressurePolicy {
    fn is_swap_used_up(&self, memory: &Memory) -> bool {
        let left = 100 - self.swap_used_limit;
        memory.swap_total.0 > 0
            && super::is_within(memory.swap_free, memory.swap_total, left)
            && memory.is_available_within(left)
    }

    /// Whether every task has stalled for long enough.
    fn has_stalled(&mut self, snapshot: &Snapshot<'_>) -> bool {
        let limit = self.memory_pressure_limit * 100;
        let share = snapshot.memory.pressure.map_or(0, |pressure| pressure.full_basis_points);
        if u64::from(share) <= limit {
            self.since = None;
            return false;
        }
        let since = *self.since.get_or_insert(snapshot.time);
        snapshot.time.0.saturating_sub(since.0) >= self.duration.0
    }
}

/// Ranks by the total of a candidate's group, the largest of a group first.
fn rank_groups(
    snapshot: &Snapshot<'_>,
    ranking: &mut Ranking,
    bytes: impl Fn(&Candidate) -> Bytes,
) {
    let all = snapshot.candidates;
    ranking.rank(snapshot, |candidate| {
        let same = all.iter().filter(|other| other.group == candidate.group);
        let group: u64 = same.filter(|other| other.is_eligible()).map(|other| bytes(other).0).sum();
        Some(Score(group, candidate.bytes().0))
    });
}

impl KillPolicy for PressurePolicy {
    fn decide(&mut self, snapshot: &Snapshot<'_>, ranking: &mut Ranking) -> Decision {
        ranking.clear();
        let has_stalled = self.has_stalled(snapshot);
        if self.is_swap_used_up(&snapshot.memory) {
            rank_groups(snapshot, ranking, |candidate| candidate.swapped);
            return Decision::first("memory and swap are used up", ranking);
        }
        if !has_stalled {
            return Decision::Spare { why: "neither is swap used up nor do all tasks stall" };
        }
        if !snapshot.memory.is_available_within(self.available_percent_max) {
            return Decision::Spare { why: "tasks stall, yet memory is available" };
        }
        rank_groups(snapshot, ranking, Candidate::bytes);
        Decision::first("all tasks have stalled for memory", ranking)
    }

    fn margin(&self, memory: &Memory) -> Bytes {
        let least = share(memory.total, 100 - self.swap_used_limit);
        Bytes(memory.available.0.saturating_sub(least.0))
    }
}
