//! Whether memory is so short that a process must die for it, and which (low-memory killing, S2).
//!
//! The driver takes a [`Snapshot`]: the memory of a machine or of a group at one instant, and every
//! process that could be killed. A policy ranks it and says how many of the ranking die now. The
//! killer on a device, the simulator and the replay of a recording drive this same object.

mod importance;
mod largest;
mod lmkd;
mod minfree;
mod pressure;
mod ranking;
mod restart_cost;

pub use importance::{adj_by_use, start_cost, used_longest_ago};
pub use ranking::{Ranked, Ranking, Score};

use crate::options::{OptionRow, Values};
use types::{Bytes, Nanos};

/// The lowest `oom_score_adj`: the kernel kills no such process either.
pub const ADJ_NEVER: i16 = -1000;
/// The highest `oom_score_adj` of an application that its user perceives (Android's scale).
pub const ADJ_PERCEPTIBLE: i16 = 200;

/// All that a policy may see at one instant.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// Since any fixed instant; never goes back.
    pub time: Nanos,
    /// The memory.
    pub memory: Memory,
    /// Every process, each once.
    pub candidates: &'a [Candidate],
}

/// Memory of a machine or of a group. What the kernel does not tell is absent.
///
/// `free <= available <= total`; what compressed memory holds lies in memory, so its swap areas are
/// counted in `swap_*` and not in `disk_swap_*`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// All there is: the memory of the machine, or the limit of the group.
    pub total: Bytes,
    /// What nobody has.
    pub free: Bytes,
    /// What could be had without swapping.
    pub available: Bytes,
    /// What the kernel keeps of the free memory for itself.
    pub reserved: Bytes,
    /// Pages of files in memory, without shared memory.
    pub files: Bytes,
    /// Swap areas of every kind.
    pub swap_total: Bytes,
    /// What is free of them.
    pub swap_free: Bytes,
    /// Swap areas on devices.
    pub disk_swap_total: Bytes,
    /// What is free of them.
    pub disk_swap_free: Bytes,
    /// Free memory at which the kernel begins and ends to reclaim.
    pub watermarks: Option<Watermarks>,
    /// How long tasks stalled for memory of late.
    pub pressure: Option<Pressure>,
    /// Pages looked at by whoever needed memory at once, so far.
    pub scanned_directly: Option<u64>,
    /// Pages looked at by the kernel's own thread, so far.
    pub scanned_by_kswapd: Option<u64>,
    /// Pages of files that were read again soon after they had been evicted, so far.
    pub file_refaults: Option<u64>,
    /// Pressure that the kernel woke the driver for.
    pub stall: Stall,
}

/// Free memory at which the kernel allocates only for itself, wakes its reclaiming thread, and lets
/// it sleep: `min <= low <= high`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watermarks {
    /// Below it only the kernel allocates.
    pub min: Bytes,
    /// Below it the reclaiming thread is woken.
    pub low: Bytes,
    /// Above it the reclaiming thread sleeps.
    pub high: Bytes,
}

/// Shares of the last ten seconds in which tasks stalled, in hundredths of a per cent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    /// Some task.
    pub some_basis_points: u32,
    /// Every task that was not idle.
    pub full_basis_points: u32,
}

/// How long some task stalls in a second before Android's daemon is woken (psi_partial_stall_ms of
/// lmkd, Android 13; 200 ms on devices of little memory).
pub const PARTIAL_STALL: Nanos = Nanos(70_000_000);
/// How long every task does (psi_complete_stall_ms).
pub const COMPLETE_STALL: Nanos = Nanos(700_000_000);

/// Pressure that the kernel woke the driver for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stall {
    /// None.
    #[default]
    None,
    /// Some tasks stalled longer than allowed.
    Partial,
    /// Every task stalled longer than allowed.
    Complete,
}

impl Stall {
    /// What the kernel wakes Android's daemon for when in a second some tasks stalled for so long, and
    /// every task for so long.
    pub fn of(some: Nanos, every: Nanos) -> Stall {
        match (every >= COMPLETE_STALL, some >= PARTIAL_STALL) {
            (true, _) => Stall::Complete,
            (false, true) => Stall::Partial,
            (false, false) => Stall::None,
        }
    }
}

/// A process that could be killed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Candidate {
    /// Its number.
    pub process: u32,
    /// A number of its group, the same for all in it.
    pub group: u64,
    /// `oom_score_adj`: from -1000, never killed, to 1000, killed first.
    pub adj: i16,
    /// What it has in memory and shares with no other process: what its end gives back.
    pub resident: Bytes,
    /// What it has in swap and shares with no other process.
    pub swapped: Bytes,
    /// How long ago it last used a processor.
    pub idle: Nanos,
    /// What its user waits for when it is started again.
    pub restart_cost: Nanos,
    /// What its user said of it, or what became of it.
    pub standing: Standing,
}

/// How a candidate stands beside others, whatever its score.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Never killed.
    Protected,
    /// The operating system did not let it be killed.
    Refused,
    /// Killed already, and not gone yet.
    Dying,
    /// Killed after all others.
    Avoided,
    /// By its score.
    #[default]
    Neutral,
    /// Killed before all others.
    Preferred,
}

impl Candidate {
    /// Whether a policy may name it.
    pub fn is_eligible(&self) -> bool {
        self.may_die() && self.bytes().0 > 0
    }

    /// Whether it may be killed at all, also where its end gives nothing back.
    pub fn may_die(&self) -> bool {
        self.standing >= Standing::Avoided && self.adj > ADJ_NEVER && self.process > 1
    }

    /// All that it has, in memory and in swap.
    pub fn bytes(&self) -> Bytes {
        Bytes(self.resident.0.saturating_add(self.swapped.0))
    }

    /// The kernel's badness as `/proc/PID/oom_score` counts it, in bytes: what it has, moved by its
    /// adj in thousandths of all memory (`oom_badness` in mm/oom_kill.c); never below 0.
    pub fn badness(&self, memory: &Memory) -> u64 {
        let all = i128::from(memory.total.0) + i128::from(memory.swap_total.0);
        let bytes = i128::from(self.bytes().0) + i128::from(self.adj) * all / 1000;
        u64::try_from(bytes.max(0)).unwrap_or(u64::MAX)
    }
}

impl Memory {
    /// The memory once victims have given back what they had in memory and in swap, up to all there
    /// is. How much tasks stalled is as it was.
    pub fn once_back(mut self, resident: Bytes, swapped: Bytes) -> Memory {
        let add = |to: &mut Bytes, bytes: Bytes, most: Bytes| {
            to.0 = to.0.saturating_add(bytes.0).min(most.0);
        };
        add(&mut self.free, resident, self.total);
        add(&mut self.available, resident, self.total);
        add(&mut self.swap_free, swapped, self.swap_total);
        add(&mut self.disk_swap_free, swapped, self.disk_swap_total);
        self
    }

    /// Whether available memory is at most this share of all, in per cent.
    pub fn is_available_within(&self, percent: u64) -> bool {
        is_within(self.available, self.total, percent)
    }

    /// Whether free swap on devices is at most this share of it, in per cent; also where there is
    /// none, and where it is all compressed memory, which is no room beside memory.
    pub fn is_disk_swap_within(&self, percent: u64) -> bool {
        is_within(self.disk_swap_free, self.disk_swap_total, percent)
    }

    /// Why somebody dies when available memory and free swap on devices are within their limits.
    fn without_room(&self) -> &'static str {
        match (self.swap_total.0, self.disk_swap_total.0) {
            (0, _) => "little memory is available and there is no swap",
            (_, 0) => "little memory is available and there is no swap on devices",
            _ => "little memory is available and little swap is left",
        }
    }
}

/// Whether `part` is at most `percent` of `whole`.
fn is_within(part: Bytes, whole: Bytes, percent: u64) -> bool {
    u128::from(part.0) * 100 <= u128::from(whole.0) * u128::from(percent)
}

/// `percent` of `whole`.
fn share(whole: Bytes, percent: u64) -> Bytes {
    Bytes((u128::from(whole.0) * u128::from(percent) / 100) as u64)
}

/// What is to be done, and the rule that says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nobody dies.
    Spare {
        /// Why not.
        why: &'static str,
    },
    /// The first of the ranking die.
    Kill {
        /// Why.
        why: &'static str,
        /// How many of them, at least one.
        victims: usize,
    },
}

impl Decision {
    /// The first of the ranking dies, where there is one.
    fn first(why: &'static str, ranking: &Ranking) -> Decision {
        match ranking.is_empty() {
            true => Decision::Spare { why: NOBODY },
            false => Decision::Kill { why, victims: 1 },
        }
    }
}

/// Memory is short and no candidate may be named.
const NOBODY: &str = "memory is short, and nobody is left that may be killed";

/// Chooses who dies when memory is short.
pub trait Kill: Send {
    /// Ranks the candidates, the first to die first, and says how many die now. Without need it may
    /// leave the ranking empty. Nothing is allocated.
    fn decide(&mut self, snapshot: &Snapshot<'_>, ranking: &mut Ranking) -> Decision;

    /// How much memory may still go before this policy would look for somebody: the driver looks
    /// the more often, the faster that shrinks.
    fn margin(&self, memory: &Memory) -> Bytes;
}

/// One policy of the catalog.
pub struct Row {
    /// Its name on the command line, in settings and in results.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// What may be set.
    pub options: &'static [OptionRow],
    make: fn(&Values<'_>) -> Result<Box<dyn Kill>, String>,
}

impl Row {
    /// The policy, with what was set; the rest as [`OptionRow::default`] says.
    ///
    /// # Errors
    /// An option that it does not have, or a value that is none.
    pub fn build(&self, given: &[(&str, &str)]) -> Result<Box<dyn Kill>, String> {
        (self.make)(&Values::new(self.name, self.options, given)?)
    }
}

/// Every kill policy, in the order in which lists show them.
pub const CATALOG: &[Row] = &[
    Row {
        name: "minfree",
        summary: "Android's table: below so many free pages, whoever is at least so unimportant",
        options: minfree::OPTIONS,
        make: minfree::make,
    },
    Row {
        name: "lmkd",
        summary: "Android's daemon: swap, watermarks and thrashing, under its property names",
        options: lmkd::OPTIONS,
        make: lmkd::make,
    },
    Row {
        name: "largest",
        summary: "earlyoom's rule: little available and little swap left, so the largest dies",
        options: largest::OPTIONS,
        make: largest::make,
    },
    Row {
        name: "pressure",
        summary: "systemd-oomd's rule: a group that swaps or stalls most, held for some seconds",
        options: pressure::OPTIONS,
        make: pressure::make,
    },
    Row {
        name: "restart-cost",
        summary: "whoever is missed least for the memory that comes back, and no more than needed",
        options: restart_cost::OPTIONS,
        make: restart_cost::make,
    },
];

/// The policy with this name.
///
/// # Errors
/// That there is none, with the names that there are.
pub fn find(name: &str) -> Result<&'static Row, String> {
    CATALOG.iter().find(|row| row.name == name).ok_or_else(|| {
        let names: Vec<&str> = CATALOG.iter().map(|row| row.name).collect();
        format!("there is no kill policy {name:?}; there are {}", names.join(", "))
    })
}
