//! Naive models of kill policies in the order of their documentation, and snapshots to test them.

use crate::generate::SplitMix;

/// A process that could be killed; sizes in pages, times in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Pid of the process.
    pub process: u32,
    /// Group of the process.
    pub group: u64,
    /// `oom_score_adj`, from -1000 to 1000.
    pub adj: i16,
    /// Resident pages.
    pub resident_pages: u64,
    /// Pages in swap.
    pub swapped_pages: u64,
    /// Time since the process last ran.
    pub idle_s: i64,
    /// Time of a restart.
    pub restart_ms: i64,
    /// 0 protected, 1 refused, 2 dying, 3 avoided, 4 neutral, 5 preferred.
    pub standing: u8,
}

/// A machine or a group; sizes in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// All memory.
    pub total_pages: u64,
    /// Free memory.
    pub free_pages: u64,
    /// Available memory.
    pub available_pages: u64,
    /// File pages.
    pub file_pages: u64,
    /// Swap, and its free part.
    pub swap_pages: (u64, u64),
    /// Swap on devices, and its free part.
    pub disk_swap_pages: (u64, u64),
    /// Stalls of some and of all tasks, in hundredths of a per cent.
    pub pressure: (u32, u32),
    /// Pages scanned directly, by kswapd, and refaulted, so far.
    pub counters: (u64, u64, u64),
    /// Stall event: 0 none, 1 partial, 2 complete.
    pub stall: u8,
}

/// A random machine, often short of memory, with 0 to 60 processes.
pub fn snapshot(random: &mut SplitMix) -> (Memory, Vec<Candidate>) {
    let total = 1 + random.below(1 << 20);
    let some = |random: &mut SplitMix, all: u64| match random.below(3) {
        // Thresholds are a few percent.
        0 => random.below(all / 10 + 1),
        1 => random.below(all / 100 + 1),
        _ => random.below(all + 1),
    };
    let available = some(random, total);
    let swap = random.below(2) * random.below(1 << 20);
    let disk = random.below(swap + 1);
    let (swap_free, disk_free) = (some(random, swap), some(random, disk));
    let memory = Memory {
        total_pages: total,
        free_pages: some(random, available),
        available_pages: available,
        file_pages: some(random, total),
        swap_pages: (swap, swap_free.max(disk_free)),
        disk_swap_pages: (disk, disk_free),
        pressure: (random.below(10_001) as u32, random.below(10_001) as u32),
        counters: (random.below(1000), random.below(1000), random.below(100_000)),
        stall: random.below(3) as u8,
    };
    let count = random.below(61) as u32;
    (memory, (0..count).map(|index| candidate(random, index)).collect())
}

fn candidate(random: &mut SplitMix, index: u32) -> Candidate {
    const ADJ: [i16; 10] = [-1000, -999, -900, 0, 0, 100, 200, 700, 900, 1000];
    Candidate {
        process: index * 3,
        group: random.below(5),
        adj: ADJ[random.below(10) as usize],
        resident_pages: random.below(4) * random.below(50_000),
        swapped_pages: random.below(2) * random.below(50_000),
        idle_s: random.below(10_000) as i64,
        restart_ms: random.below(20_000) as i64,
        standing: random.below(6) as u8,
    }
}

/// Whether a policy may kill the process.
pub fn may_die(candidate: &Candidate) -> bool {
    candidate.standing >= 3
        && candidate.adj > -1000
        && candidate.process > 1
        && candidate.resident_pages + candidate.swapped_pages > 0
}

/// Processes in the order in which `minfree` kills them by the paper's rule; empty if it spares all.
/// `levels` are free pages and adj, fewest pages first.
pub fn minfree(
    levels: &[(u64, i16)],
    memory: &Memory,
    candidates: &[Candidate],
) -> Option<Vec<u32>> {
    let level = levels.iter().find(|(pages, _)| memory.free_pages < *pages)?;
    let mut dying: Vec<&Candidate> = candidates
        .iter()
        .filter(|candidate| may_die(candidate) && candidate.adj >= level.1)
        .collect();
    // The last key of a stable sort is the first to decide.
    dying.sort_by_key(|candidate| candidate.process);
    dying.sort_by_key(|candidate| candidate.resident_pages);
    dying.sort_by_key(|candidate| candidate.adj);
    dying.sort_by_key(|candidate| candidate.standing);
    Some(dying.into_iter().rev().map(|candidate| candidate.process).collect())
}

/// Processes in the order in which `largest` kills them; empty if it spares all.
pub fn largest(
    memory_percent: u64,
    swap_percent: u64,
    memory: &Memory,
    candidates: &[Candidate],
) -> Option<Vec<u32>> {
    let (swap, swap_free) = memory.disk_swap_pages;
    if memory.available_pages * 100 > memory.total_pages * memory_percent
        || swap_free * 100 > swap * swap_percent
    {
        return None;
    }
    let all_bytes = (memory.total_pages + memory.swap_pages.0) as i64 * 4096;
    let weight = |candidate: &Candidate| {
        let bytes = (candidate.resident_pages + candidate.swapped_pages) as i64 * 4096;
        (bytes + i64::from(candidate.adj) * all_bytes / 1000).max(0)
    };
    let mut dying: Vec<&Candidate> =
        candidates.iter().filter(|candidate| may_die(candidate)).collect();
    dying.sort_by_key(|candidate| candidate.process);
    dying.sort_by_key(|candidate| candidate.resident_pages);
    dying.sort_by_key(|candidate| weight(candidate));
    dying.sort_by_key(|candidate| candidate.standing);
    Some(dying.into_iter().rev().map(|candidate| candidate.process).collect())
}
