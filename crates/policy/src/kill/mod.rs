//! Whether memory is so short that a process must die, and which one (low-memory killing, S2).
//!
//! The driver takes a [`Snapshot`]: the memory of a machine or of a group at one instant, and every
//! process that could be killed. A policy ranks the candidates and returns how many of the ranking die
//! now. The killer on a device, the simulator and the replay of a recording drive the same object.

mod importance;
mod largest;
mod lmkd;
mod minfree;
mod pressure;
mod ranking;
mod restart_cost;
pub mod search;

pub use importance::{adj_by_use, start_cost, used_longest_ago};
pub use ranking::{CandidateIndex, Ranked, Ranking, Score};

use crate::options::{OptionRow, Values};
use types::{Bytes, Nanos};

/// The lowest `oom_score_adj`; the kernel never kills such a process either.
pub const ADJ_NEVER: i16 = -1000;
/// The highest `oom_score_adj` of an application that its user perceives (Android's scale).
pub const ADJ_PERCEPTIBLE: i16 = 200;

/// All that a policy may see at one instant.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// Time since any fixed instant; never decreases.
    pub time: Nanos,
    /// Memory of the machine or group.
    pub memory: Memory,
    /// Every process, each once.
    pub candidates: &'a [Candidate],
}

impl<'a> Snapshot<'a> {
    /// The candidate with this index.
    pub fn candidate(&self, index: CandidateIndex) -> &'a Candidate {
        &self.candidates[index.0]
    }
}

/// Memory of a machine or of a group. A field that the kernel does not report is absent.
///
/// `free <= available <= total`. Compressed memory holds its pages in memory, so its swap areas count
/// in `swap_*` and not in `disk_swap_*`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// The memory of the machine, or the limit of the group.
    pub total: Bytes,
    /// Unused memory.
    pub free: Bytes,
    /// Memory that the kernel can allocate without swapping.
    pub available: Bytes,
    /// Free memory that the kernel reserves for itself.
    pub reserved: Bytes,
    /// Pages of files in memory, without shared memory.
    pub files: Bytes,
    /// Size of swap areas of every kind.
    pub swap_total: Bytes,
    /// Free part of `swap_total`.
    pub swap_free: Bytes,
    /// Size of swap areas on devices.
    pub disk_swap_total: Bytes,
    /// Free part of `disk_swap_total`.
    pub disk_swap_free: Bytes,
    /// Free memory at which the kernel begins and ends to reclaim.
    pub watermarks: Option<Watermarks>,
    /// How long tasks stalled for memory recently.
    pub pressure: Option<PressureShares>,
    /// Pages scanned by direct reclaim, so far.
    pub scanned_directly: Option<u64>,
    /// Pages scanned by kswapd, so far.
    pub scanned_by_kswapd: Option<u64>,
    /// Refaults of file pages, so far.
    pub file_refaults: Option<u64>,
    /// The pressure event, if one woke the driver.
    pub stall: Stall,
}

/// Free memory at which the kernel allocates only for itself, wakes kswapd, and lets kswapd sleep:
/// `min <= low <= high`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watermarks {
    /// Below it only the kernel allocates.
    pub min: Bytes,
    /// Below it the kernel wakes kswapd.
    pub low: Bytes,
    /// Above it kswapd sleeps.
    pub high: Bytes,
}

/// Shares of the last ten seconds in which tasks stalled, in hundredths of a per cent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PressureShares {
    /// Share in which some task stalled.
    pub some_basis_points: u32,
    /// Share in which every task that was not idle stalled.
    pub full_basis_points: u32,
}

/// Stall of some task per second above which Android's daemon is woken (psi_partial_stall_ms of
/// lmkd, Android 13; 200 ms on devices of little memory).
pub const PARTIAL_STALL: Nanos = Nanos(70_000_000);
/// Stall of every task per second above which Android's daemon is woken (psi_complete_stall_ms).
pub const COMPLETE_STALL: Nanos = Nanos(700_000_000);

/// A pressure event of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stall {
    /// No event.
    #[default]
    None,
    /// Some tasks stalled longer than allowed.
    Partial,
    /// Every task stalled longer than allowed.
    Complete,
}

impl Stall {
    /// The event that wakes Android's daemon, if in a second some tasks stalled for `some`, and every
    /// task for `every`.
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
    /// Process id.
    pub process: u32,
    /// Number of the process's group, equal for all its members.
    pub group: u64,
    /// `oom_score_adj`: from -1000, never killed, to 1000, killed first.
    pub adj: i16,
    /// Memory that only this process uses: its end frees it.
    pub resident: Bytes,
    /// Swap that only this process uses.
    pub swapped: Bytes,
    /// How long ago it last used a processor.
    pub idle: Nanos,
    /// Time that a user waits when the process is started again.
    pub restart_cost: Nanos,
    /// Standing from the user's settings or from an earlier kill.
    pub standing: Standing,
}

/// Standing of a candidate beside others, independent of its score.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Is never killed.
    Protected,
    /// The operating system refused to let it be killed.
    Refused,
    /// Was killed and has not ended yet.
    Dying,
    /// Is killed after all others.
    Avoided,
    /// Is killed by its score.
    #[default]
    Neutral,
    /// Is killed before all others.
    Preferred,
}

impl Candidate {
    /// Whether a policy may rank it.
    pub fn is_eligible(&self) -> bool {
        self.may_die() && self.bytes().0 > 0
    }

    /// Whether the candidate may be killed, even if its end frees nothing.
    pub fn may_die(&self) -> bool {
        self.standing >= Standing::Avoided && self.adj > ADJ_NEVER && self.process > 1
    }

    /// The candidate's memory and swap together.
    pub fn bytes(&self) -> Bytes {
        Bytes(self.resident.0.saturating_add(self.swapped.0))
    }

    /// The kernel's badness as `/proc/PID/oom_score` counts it, in bytes: memory and swap, adjusted by
    /// adj thousandths of all memory (`oom_badness` in mm/oom_kill.c); never below 0.
    pub fn badness(&self, memory: &Memory) -> u64 {
        let all = i128::from(memory.total.0) + i128::from(memory.swap_total.0);
        let bytes = i128::from(self.bytes().0) + i128::from(self.adj) * all / 1000;
        u64::try_from(bytes.max(0)).unwrap_or(u64::MAX)
    }
}

impl Memory {
    /// The memory once victims have freed these amounts of memory and of swap, at most the total. The
    /// pressure stays unchanged.
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

    /// Whether free swap on devices is at most this share of it, in per cent. True if there is no such
    /// swap: compressed memory does not count as room.
    pub fn is_disk_swap_within(&self, percent: u64) -> bool {
        is_within(self.disk_swap_free, self.disk_swap_total, percent)
    }

    /// The reason to kill when available memory and free swap on devices are within their limits.
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

/// What the driver should do, and the rule that applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Kill no process.
    Spare {
        /// Reason.
        why: &'static str,
    },
    /// Kill the first candidates of the ranking.
    Kill {
        /// Reason.
        why: &'static str,
        /// Number of victims, at least one.
        victims: usize,
    },
}

impl Decision {
    /// Kills the first of the ranking, if it is not empty.
    fn first(why: &'static str, ranking: &Ranking) -> Decision {
        match ranking.is_empty() {
            true => Decision::Spare { why: NO_CANDIDATE },
            false => Decision::Kill { why, victims: 1 },
        }
    }
}

/// Memory is short and no candidate may be killed.
const NO_CANDIDATE: &str = "memory is short, and no candidate may be killed";

/// Chooses victims when memory is short.
pub trait KillPolicy: Send {
    /// Ranks the candidates, the first to die first, and returns how many die now. Without need it may
    /// leave the ranking empty. Allocates nothing.
    fn decide(&mut self, snapshot: &Snapshot<'_>, ranking: &mut Ranking) -> Decision;

    /// Memory that may still be used before this policy would choose a victim. The faster the margin
    /// shrinks, the more often the driver takes a snapshot.
    fn margin(&self, memory: &Memory) -> Bytes;
}

/// One policy of the catalog.
pub struct Row {
    /// Name on the command line, in settings and in results.
    pub name: &'static str,
    /// One line that says what the policy does.
    pub summary: &'static str,
    /// Options that users may set.
    pub options: &'static [OptionRow],
    make: fn(&Values<'_>) -> Result<Box<dyn KillPolicy>, String>,
}

impl Row {
    /// Builds the policy with the given options; the others keep [`OptionRow::default`].
    ///
    /// # Errors
    /// An unknown option or an invalid value.
    pub fn build(&self, given: &[(&str, &str)]) -> Result<Box<dyn KillPolicy>, String> {
        (self.make)(&Values::new(self.name, self.options, given)?)
    }
}

/// Every kill policy, in the order in which lists show them.
pub const CATALOG: &[Row] = &[
    Row {
        name: "minfree",
        summary: "Android's table: below a number of free pages, a process of at least an adj dies",
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
        summary: "lowest restart cost for the memory that comes back, and no more kills than needed",
        options: restart_cost::OPTIONS,
        make: restart_cost::make,
    },
];

/// The policy with this name.
///
/// # Errors
/// An unknown name; the message lists the known ones.
pub fn find(name: &str) -> Result<&'static Row, String> {
    CATALOG.iter().find(|row| row.name == name).ok_or_else(|| {
        let names: Vec<&str> = CATALOG.iter().map(|row| row.name).collect();
        format!("there is no kill policy {name:?}; there are {}", names.join(", "))
    })
}
