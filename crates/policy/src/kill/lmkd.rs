//! `lmkd`: the rules of Android's low memory killer daemon (system/memory/lmkd/lmkd.cpp, mp_event_psi,
//! Android 13), under the names of its properties. The snapshot supplies what Android's framework sends
//! the daemon over a socket: the order of last use. Departs from it: a complete stall kills only while
//! free memory is below the high watermark.

use types::{Bytes, Nanos, PAGE_BYTES};

use super::ranking::{Ranking, Score};
use super::{ADJ_PERCEPTIBLE, Decision, KillPolicy, Memory, Snapshot, Stall};
use crate::options::{OptionRow, Values};

pub(super) const OPTIONS: &[OptionRow] = &[
    OptionRow {
        name: "thrashing_limit",
        default: "100",
        summary: "refaults of file pages in a second that count as thrashing, in per cent of all",
    },
    OptionRow {
        name: "thrashing_limit_decay",
        default: "10",
        summary: "by how much the limit falls with each kill for thrashing, in per cent",
    },
    OptionRow {
        name: "thrashing_limit_critical",
        default: "200",
        summary: "thrashing from which perceptible applications die as well, in per cent",
    },
    OptionRow {
        name: "swap_free_low_percentage",
        default: "10",
        summary: "free swap that is low, in per cent of it",
    },
    OptionRow {
        name: "swap_util_max",
        default: "100",
        summary: "swapped share of swappable memory above which low free memory kills, in per cent",
    },
    OptionRow {
        name: "filecache_min_kb",
        default: "0",
        summary: "file cache below which a process dies after thrashing, in KiB",
    },
    OptionRow {
        name: "stall_limit_critical",
        default: "100",
        summary: "share of ten seconds in which all tasks stall, above which any process may die",
    },
    OptionRow {
        name: "kill_heaviest_task",
        default: "false",
        summary: "whether the largest of an adj dies, rather than the least recently used",
    },
];

/// Length of the window in which thrashing is counted.
const WINDOW: Nanos = Nanos(1_000_000_000);

struct Lmkd {
    properties: Properties,
    /// The limit in force: it falls with kills for thrashing.
    thrashing_limit: u64,
    /// The start of the window, if one has begun.
    window: Option<Window>,
    scanned: Scanned,
    has_killed: bool,
    is_thrashing: bool,
}

struct Properties {
    thrashing_limit: u64,
    thrashing_limit_decay: u64,
    thrashing_limit_critical: u64,
    swap_free_low_percentage: u64,
    swap_util_max: u64,
    filecache_min: Bytes,
    stall_limit_critical: u64,
    kill_heaviest_task: bool,
}

#[derive(Clone, Copy)]
struct Window {
    began: Nanos,
    refaults: u64,
    files: Bytes,
}

#[derive(Clone, Copy, Default)]
struct Scanned {
    directly: Option<u64>,
    by_kswapd: Option<u64>,
}

/// How the kernel reclaimed since the last snapshot.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reclaim {
    None,
    ByKswapd,
    Directly,
}

/// Free memory relative to the watermarks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    BelowMin,
    BelowLow,
    BelowHigh,
    Above,
}

/// A rule that applies, and the lowest adj that it may kill.
struct AppliedRule {
    why: &'static str,
    adj_min: i16,
    is_for_thrashing: bool,
}

pub(super) fn make(values: &Values<'_>) -> Result<Box<dyn KillPolicy>, String> {
    let properties = Properties {
        thrashing_limit: values.number("thrashing_limit", 0..=10_000)?,
        thrashing_limit_decay: values.number("thrashing_limit_decay", 0..=100)?,
        thrashing_limit_critical: values.number("thrashing_limit_critical", 0..=100_000)?,
        swap_free_low_percentage: values.number("swap_free_low_percentage", 0..=100)?,
        swap_util_max: values.number("swap_util_max", 0..=100)?,
        filecache_min: Bytes(values.number("filecache_min_kb", 0..=1 << 40)? << 10),
        stall_limit_critical: values.number("stall_limit_critical", 0..=100)?,
        kill_heaviest_task: values.is_set("kill_heaviest_task")?,
    };
    Ok(Box::new(Lmkd {
        thrashing_limit: properties.thrashing_limit,
        properties,
        window: None,
        scanned: Scanned::default(),
        has_killed: false,
        is_thrashing: false,
    }))
}

fn level(memory: &Memory) -> Level {
    let Some(marks) = memory.watermarks else { return Level::Above };
    match memory.free {
        free if free < marks.min => Level::BelowMin,
        free if free < marks.low => Level::BelowLow,
        free if free < marks.high => Level::BelowHigh,
        _ => Level::Above,
    }
}

impl Lmkd {
    fn reclaim(&mut self, memory: &Memory) -> Reclaim {
        let now =
            Scanned { directly: memory.scanned_directly, by_kswapd: memory.scanned_by_kswapd };
        let before = std::mem::replace(&mut self.scanned, now);
        let rose =
            |now: Option<u64>, before: Option<u64>| now.zip(before).is_some_and(|(n, b)| n > b);
        match (rose(now.directly, before.directly), rose(now.by_kswapd, before.by_kswapd)) {
            (true, _) => Reclaim::Directly,
            (false, true) => Reclaim::ByKswapd,
            (false, false) => Reclaim::None,
        }
    }

    /// Refaults of file pages in this window, in per cent of the file pages in memory at its start.
    fn thrashing(&mut self, snapshot: &Snapshot<'_>) -> u64 {
        let Some(refaults) = snapshot.memory.file_refaults else { return 0 };
        let fresh = Window { began: snapshot.time, refaults, files: snapshot.memory.files };
        let window = self.window.get_or_insert(fresh);
        let pages = refaults.saturating_sub(window.refaults);
        let thrashing = pages * 100 / window.files.pages().max(1);
        if snapshot.time.0 - window.began.0 >= WINDOW.0 {
            *window = fresh;
            // The limit recovers in a window without thrashing.
            if thrashing < self.thrashing_limit {
                self.thrashing_limit = self.properties.thrashing_limit;
                self.is_thrashing = false;
            }
        }
        thrashing
    }

    /// The first rule that applies, in the daemon's order.
    fn finding(&self, memory: &Memory, reclaim: Reclaim, thrashing: u64) -> Option<AppliedRule> {
        let properties = &self.properties;
        let level = level(memory);
        let low = properties.swap_free_low_percentage;
        let is_swap_low =
            memory.swap_total.0 > 0 && super::is_within(memory.swap_free, memory.swap_total, low);
        let is_thrashing = thrashing > self.thrashing_limit;
        let is_critical = thrashing > properties.thrashing_limit_critical;
        // Applications that the user perceives die only as a last resort.
        let spared = if is_critical { 0 } else { ADJ_PERCEPTIBLE + 1 };
        let spared_above_min = if level == Level::BelowMin { 0 } else { spared };
        let finding =
            |why, adj_min, is_for_thrashing| Some(AppliedRule { why, adj_min, is_for_thrashing });
        if self.has_killed && level <= Level::BelowMin {
            return finding("free memory is below the min watermark after a kill", 0, false);
        }
        if memory.stall == Stall::Complete && level < Level::Above {
            return finding("every task stalls and free memory is low", 0, false);
        }
        if is_swap_low && is_thrashing {
            return finding(
                "swap is low and files are read again and again",
                spared_above_min,
                true,
            );
        }
        if is_swap_low && level < Level::Above {
            return finding("free memory and swap are low", spared_above_min, false);
        }
        if level < Level::Above && swap_use_percent(memory) > properties.swap_util_max {
            return finding(
                "free memory is low and most of it is swapped",
                spared_above_min,
                false,
            );
        }
        if level < Level::Above && is_thrashing {
            return finding("free memory is low and files are read again and again", spared, true);
        }
        if reclaim == Reclaim::Directly && is_thrashing {
            return finding("programs make room themselves and files are read again", spared, true);
        }
        if self.is_thrashing && memory.files < properties.filecache_min {
            return finding(
                "the cache of files is small after thrashing",
                ADJ_PERCEPTIBLE + 1,
                false,
            );
        }
        None
    }
}

/// Swapped memory in per cent of all that could be swapped: what is in swap, and all memory but
/// files.
fn swap_use_percent(memory: &Memory) -> u64 {
    let swapped = memory.swap_total.0.saturating_sub(memory.swap_free.0);
    let taken = memory.total.0.saturating_sub(memory.free.0).saturating_sub(memory.files.0);
    (u128::from(swapped) * 100 / u128::from((swapped + taken).max(1))) as u64
}

impl KillPolicy for Lmkd {
    fn decide(&mut self, snapshot: &Snapshot<'_>, ranking: &mut Ranking) -> Decision {
        ranking.clear();
        let memory = &snapshot.memory;
        let reclaim = self.reclaim(memory);
        let thrashing = self.thrashing(snapshot);
        let is_quiet = reclaim == Reclaim::None && memory.stall == Stall::None;
        if is_quiet && level(memory) > Level::BelowMin {
            self.has_killed = false;
            return Decision::Spare { why: "the kernel has no need to make room" };
        }
        let Some(mut finding) = self.finding(memory, reclaim, thrashing) else {
            self.has_killed = false;
            return Decision::Spare { why: "the kernel makes room, and no rule applies" };
        };
        let stalls = memory.pressure.map_or(0, |pressure| pressure.full_basis_points);
        if u64::from(stalls) > self.properties.stall_limit_critical * 100 {
            finding.adj_min = 0;
        }
        let is_by_weight = self.properties.kill_heaviest_task;
        ranking.rank(snapshot, |candidate| {
            let adj = (i64::from(candidate.adj) + 1000) as u64;
            // Among perceptible applications the daemon always takes the heaviest.
            let is_by_weight = is_by_weight || candidate.adj <= ADJ_PERCEPTIBLE;
            let order = if is_by_weight { candidate.resident.0 } else { candidate.idle.0 as u64 };
            (candidate.adj >= finding.adj_min).then_some(Score(adj, order))
        });
        if !ranking.is_empty() {
            self.has_killed = true;
            if finding.is_for_thrashing {
                self.is_thrashing = true;
                let kept = 100 - self.properties.thrashing_limit_decay;
                self.thrashing_limit = self.thrashing_limit * kept / 100;
            }
        }
        Decision::first(finding.why, ranking)
    }

    fn margin(&self, memory: &Memory) -> Bytes {
        let high = memory.watermarks.map_or(Bytes(64 * PAGE_BYTES), |marks| marks.high);
        Bytes(memory.free.0.saturating_sub(high.0))
    }
}
