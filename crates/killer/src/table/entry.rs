//! A process that could be killed, and its last measurements.

use std::os::fd::OwnedFd;

use linux::held_process::HeldProcess;
use linux::kernel_file::bytes;
use linux::stat::Stat;
use linux::weight::{Weighed, resident_and_anonymous};
use policy::kill::{Candidate, Standing, start_cost};
use rustix::io::Errno;
use types::Nanos;

use super::groups::{hash, memory_group};
use super::name::Name;
use crate::rules::{self, Rule, Traits};

mod own;

/// How long killd does not try again to kill a process after the kernel refused.
const REFUSED_FOR: Nanos = Nanos(60_000_000_000);
/// How long a killed process counts as dying, even if it never ends.
const DYING_FOR: Nanos = Nanos(30_000_000_000);
/// How long no process is killed for one whose memory the kernel is freeing already: some GiB take that long.
const ENDING_FOR: Nanos = Nanos(1_000_000_000);
/// Fields of `/proc/PID/stat` (proc_pid_stat(5)).
const PROCESS_GROUP: usize = 5;
const MAJOR_FAULTS: usize = 12;
const NICE: usize = 19;

/// A process with an open descriptor.
#[derive(Debug)]
pub(crate) struct Entry {
    pub process: HeldProcess,
    /// Unique for each entry, even if the PID is reused.
    pub serial: u64,
    pub name: Name,
    /// The start time of the process, in ticks since boot.
    pub start: u64,
    pub parent: u32,
    /// The ID of the process group.
    process_group: u32,
    /// Whether the process will not die soon: it is in uninterruptible sleep, or has a low priority.
    pub is_slow: bool,
    pub seen: Seen,
    /// The time and the result of its last weighing.
    weighed: Option<(Nanos, Weighed)>,
    /// Whether the last list of processes included it.
    pub is_listed: bool,
    user: u32,
    group: u64,
    mask: u64,
    cpu: Nanos,
    /// The last measurement at which its CPU time had grown.
    ran: Nanos,
    refused_until: Nanos,
    dying_until: Nanos,
    /// Since when it has no address space although it has not ended, and the bytes that it had: the kernel is
    /// freeing them.
    ending: Option<(Nanos, u64)>,
}

/// The size of a process, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// All pages in memory.
    pub resident: u64,
    /// Pages neither of files nor of shared memory; memory shared by fork counts in full.
    pub anonymous: u64,
    /// Pages in swap; memory shared by fork counts in full.
    pub swapped: u64,
}

/// Units of the kernel's numbers on this machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    /// Length of one tick of CPU times.
    pub tick: Nanos,
    pub page: u64,
    pub has_swap: bool,
}

/// The state of the table that `Entry::measure` needs.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub rules: &'a [Rule],
    pub now: Nanos,
    pub scale: Scale,
}

/// Why a process has no entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpenError {
    /// The process has ended.
    Ended,
    /// The process is a thread of the kernel.
    KernelThread,
    /// The limit of open files is reached.
    NoDescriptor,
}

impl Seen {
    /// Parses the text of `/proc/PID/statm`.
    pub(crate) fn of(statm: &[u8], page: u64) -> Option<Seen> {
        let (resident, anonymous) = resident_and_anonymous(statm, page)?;
        Some(Seen { resident, anonymous, swapped: 0 })
    }

    /// All memory that the process uses: the most that its end can free.
    pub(crate) fn all(&self) -> u64 {
        self.resident + self.swapped
    }
}

impl Entry {
    /// Opens process `number`, and classifies it.
    pub(super) fn open(
        processes: &OwnedFd,
        number: u32,
        serial: u64,
        context: Context<'_>,
    ) -> Result<Entry, OpenError> {
        let process = match HeldProcess::open(processes, number) {
            Ok(process) => process,
            Err(Errno::MFILE | Errno::NFILE) => return Err(OpenError::NoDescriptor),
            Err(_) => return Err(OpenError::Ended),
        };
        let mut buffer = [0; 1024];
        let stat = process.read(c"stat", &mut buffer).ok().and_then(Stat::parse);
        let stat = stat.ok_or(OpenError::Ended)?;
        if stat.is_kernel_thread().is_none_or(|is_kernel| is_kernel) {
            return Err(OpenError::KernelThread);
        }
        let mut entry = Entry {
            serial,
            name: Name::of(stat.name()),
            start: stat.start_ticks().unwrap_or(0),
            parent: 0,
            process_group: 0,
            is_slow: is_slow(&stat),
            seen: Seen::default(),
            weighed: None,
            is_listed: true,
            user: 0,
            group: 0,
            mask: 0,
            cpu: Nanos(0),
            ran: context.now,
            refused_until: Nanos(i64::MIN),
            dying_until: Nanos(i64::MIN),
            ending: None,
            process,
        };
        entry.classify(context.rules, &mut buffer);
        entry.read_size(context);
        Ok(entry)
    }

    /// Determines which rules it matches.
    pub(super) fn classify(&mut self, rules: &[Rule], buffer: &mut [u8]) {
        self.user = self.process.user().unwrap_or(u32::MAX);
        let groups = self.process.read(c"cgroup", buffer).unwrap_or_default();
        let cgroup = memory_group(groups);
        self.group = hash(cgroup);
        let name = self.name.text().as_bytes();
        self.mask = rules::mask(rules, Traits { name, user: self.user, cgroup });
    }

    /// Reads its size; None once it has ended.
    fn read_size(&mut self, context: Context<'_>) -> Option<()> {
        let mut buffer = [0; 4096];
        let statm = self.process.read(c"statm", &mut buffer).ok()?;
        let seen = Seen::of(statm, context.scale.page)?;
        self.ending = match statm.starts_with(b"0 ") {
            true => self.ending.or(Some((context.now, self.own().0 + self.own_swapped().0))),
            false => None,
        };
        let status = if context.scale.has_swap {
            self.process.read(c"status", &mut buffer).ok()
        } else {
            None
        };
        let swapped = status.and_then(|text| bytes(text, b"VmSwap")).unwrap_or(0);
        self.seen = Seen { swapped, ..seen };
        Some(())
    }

    /// Measures it for policies; None once it has ended.
    pub(super) fn measure(&mut self, context: Context<'_>) -> Option<Candidate> {
        let mut buffer = [0; 1024];
        let stat = Stat::parse(self.process.read(c"stat", &mut buffer).ok()?)?;
        let is_headless = stat.has_main_thread_ended();
        if stat.has_ended() || (is_headless && !self.process.follow_thread()) {
            return None;
        }
        let time = |ticks: u64| Nanos(ticks as i64 * context.scale.tick.0);
        let (cpu, user) = (time(stat.cpu_ticks()?), time(stat.user_ticks()?));
        if cpu != self.cpu {
            (self.cpu, self.ran) = (cpu, context.now);
        }
        self.is_slow = is_slow(&stat);
        (self.parent, self.process_group) = (stat.parent()?, stat.number(PROCESS_GROUP)?);
        let major_faults: i64 = stat.number(MAJOR_FAULTS)?;
        let name = Name::of(stat.name());
        if name != self.name {
            // It has called exec, and shares nothing now.
            self.name = name;
            self.weighed = None;
            self.classify(context.rules, &mut buffer);
        }
        self.read_size(context)?;
        let adj = signed(self.process.read(c"oom_score_adj", &mut buffer).ok()?)?;
        let rule = rules::first(context.rules, self.mask, adj);
        // The kernel's time for taking memory would make a hog dear.
        let start = start_cost(user, u64::try_from(major_faults).unwrap_or(0));
        Some(Candidate {
            process: self.process.number(),
            group: self.group,
            adj,
            resident: self.own(),
            swapped: self.own_swapped(),
            idle: Nanos(context.now.0 - self.ran.0),
            restart_cost: rule.and_then(|rule| rule.restart).unwrap_or(start),
            standing: self.standing(rule, context.now),
        })
    }

    fn standing(&self, rule: Option<&Rule>, now: Nanos) -> Standing {
        match rule.map_or(Standing::Neutral, |rule| rule.standing) {
            Standing::Protected => Standing::Protected,
            _ if self.is_dying(now) => Standing::Dying,
            _ if now < self.refused_until => Standing::Refused,
            standing => standing,
        }
    }

    pub(super) fn is_dying(&self, now: Nanos) -> bool {
        now < self.dying_until
    }

    /// Bytes that come back soon because it is ending, but not by a kill of this killer.
    pub(super) fn freeing(&self, now: Nanos) -> u64 {
        let is_soon = |&(since, _): &(Nanos, u64)| now.0 - since.0 < ENDING_FOR.0;
        let bytes = self.ending.filter(is_soon).map_or(0, |(_, bytes)| bytes);
        if self.is_dying(now) { 0 } else { bytes }
    }

    /// Marks it as refused: the kernel did not permit the kill.
    pub(super) fn mark_refused(&mut self, now: Nanos) {
        self.refused_until = Nanos(now.0.saturating_add(REFUSED_FOR.0));
    }

    /// Marks it as killed.
    pub(super) fn mark_dying(&mut self, now: Nanos) {
        self.dying_until = Nanos(now.0.saturating_add(DYING_FOR.0));
    }
}

/// Whether a process will not die soon by itself.
fn is_slow(stat: &Stat<'_>) -> bool {
    stat.state() == Some(b'D') || stat.number(NICE).is_some_and(|nice: i64| nice > 0)
}

fn signed(text: &[u8]) -> Option<i16> {
    std::str::from_utf8(text).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_in_uninterruptible_sleep_or_of_low_priority_is_slow() {
        for (state, nice, expected) in [("S", -5, false), ("D", 0, true), ("S", 5, true)] {
            let text = format!("7 (x) {state} 1 7 7 0 -1 64 5 0 6 0 11 12 0 0 20 {nice} 1 0 9");
            let stat = Stat::parse(text.as_bytes()).unwrap();
            assert_eq!(is_slow(&stat), expected, "{text}");
        }
    }

    #[test]
    fn file_pages_are_not_anonymous_memory() {
        let seen = Seen::of(b"900 500 120 1 0 300 0\n", 4096).unwrap();
        assert_eq!((seen.resident, seen.anonymous), (500 * 4096, 380 * 4096));
        assert!(Seen::of(b"900", 4096).is_none());
    }
}
