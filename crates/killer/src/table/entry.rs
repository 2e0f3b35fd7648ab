//! One process that could be killed, and what was last read of it.

use std::os::fd::OwnedFd;

use linux::held_process::HeldProcess;
use linux::kernel_file::bytes;
use linux::stat::Stat;
use linux::weight::Weight;
use policy::kill::{Candidate, Standing, start_cost};
use rustix::io::Errno;
use types::{Bytes, Nanos};

use crate::rules::{self, Rule, Traits};

/// For how long a process that may not be killed is not asked for again.
const REFUSED_FOR: Nanos = Nanos(60_000_000_000);
/// For how long a killed process counts as dying, should it never go.
const DYING_FOR: Nanos = Nanos(30_000_000_000);
/// For how long a weight is good whatever becomes of the process.
const WEIGHED_FOR: Nanos = Nanos(1_000_000_000);
/// A longer time holds only while the process grows and shrinks by less than one part in this many.
const CHANGED_PART: u64 = 8;
/// A process that shares less than this with others belongs to no family.
const SHARED_MIN: u64 = 256 << 10;
/// Fields of `/proc/PID/stat` (proc_pid_stat(5)).
const PARENT: usize = 4;
const TEAM: usize = 5;
const FLAGS: usize = 9;
const MAJOR_FAULTS: usize = 12;
const NICE: usize = 19;
/// Flag of the kernel's own threads (PF_KTHREAD).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// A process that is held.
#[derive(Debug)]
pub(crate) struct Entry {
    pub process: HeldProcess,
    /// Different for each process that was ever held, whatever its number.
    pub serial: u64,
    pub name: Name,
    /// When it began, in ticks since boot.
    pub start: u64,
    pub parent: u32,
    /// Its process group, as shells know it.
    pub team: u32,
    /// Whether it will not die soon by itself: it waits where no signal reaches it, or others come
    /// first on the processors.
    pub is_slow: bool,
    pub seen: Seen,
    weighed: Option<Weighed>,
    /// The number of the family with which it shares memory; 0 where it shares none.
    pub family: u32,
    /// Whether the last list of processes had it.
    pub is_listed: bool,
    user: u32,
    group: u64,
    mask: u64,
    cpu: Nanos,
    /// When it was last seen to have run.
    ran: Nanos,
    refused_until: Nanos,
    dying_until: Nanos,
}

/// What the process's map counts, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// All pages in memory.
    pub resident: u64,
    /// Those that are no file's and no shared memory's; memory shared by fork counts in full.
    pub anonymous: u64,
    /// Pages in swap; memory shared by fork counts in full.
    pub swapped: u64,
}

/// What the weigher found.
#[derive(Clone, Copy, Debug)]
struct Weighed {
    at: Nanos,
    /// None where it could not be read.
    weight: Option<Weight>,
    /// `Seen::anonymous` at that time.
    anonymous: u64,
    is_borrowed: bool,
}

/// How numbers of the kernel are read on this machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    /// Length of one tick of CPU times.
    pub tick: Nanos,
    pub page: u64,
    pub has_swap: bool,
}

/// What `Entry::measure` needs beside the entry.
#[derive(Clone, Copy)]
pub(super) struct Look<'a> {
    pub rules: &'a [Rule],
    pub now: Nanos,
    pub scale: Scale,
}

/// Why a process is not held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unheld {
    /// It has ended.
    Ended,
    /// It is a thread of the kernel.
    OfKernel,
    /// No descriptor is left for it.
    NoDescriptor,
}

/// The name of a process as a line can hold it: at most 15 bytes, zeros behind, and no letters that could
/// be taken for something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name(pub [u8; 16]);

impl Name {
    pub(super) fn of(name: &[u8]) -> Name {
        let mut kept = [0; 16];
        for (to, &from) in kept.iter_mut().zip(name).take(15) {
            *to = if from.is_ascii_graphic() && !b"\"'\\:,=".contains(&from) { from } else { b'?' };
        }
        Name(kept)
    }

    /// Its letters.
    pub(crate) fn text(&self) -> &str {
        let end = self.0.iter().position(|&byte| byte == 0).unwrap_or(self.0.len());
        std::str::from_utf8(&self.0[..end]).unwrap_or("?")
    }
}

impl Seen {
    /// From the text of `/proc/PID/statm`.
    pub(crate) fn of(statm: &[u8], page: u64) -> Option<Seen> {
        let mut numbers = statm.split(|&byte| byte == b' ').skip(1);
        let mut number = || std::str::from_utf8(numbers.next()?).ok()?.parse::<u64>().ok();
        let (resident, of_files) = (number()?, number()?);
        let anonymous = resident.saturating_sub(of_files) * page;
        Some(Seen { resident: resident * page, anonymous, swapped: 0 })
    }

    /// All that the process could see; no process gives back more.
    pub(crate) fn all(&self) -> u64 {
        self.resident + self.swapped
    }
}

impl Entry {
    /// Holds process `number`, to be classified and measured.
    pub(super) fn open(
        processes: &OwnedFd,
        number: u32,
        serial: u64,
        look: Look<'_>,
    ) -> Result<Entry, Unheld> {
        let process = match HeldProcess::open(processes, number) {
            Ok(process) => process,
            Err(Errno::MFILE | Errno::NFILE) => return Err(Unheld::NoDescriptor),
            Err(_) => return Err(Unheld::Ended),
        };
        let mut buffer = [0; 1024];
        let stat = process.read(c"stat", &mut buffer).ok().and_then(Stat::parse);
        let stat = stat.ok_or(Unheld::Ended)?;
        if stat.number(FLAGS).is_none_or(|flags: u64| flags & KERNEL_THREAD != 0) {
            return Err(Unheld::OfKernel);
        }
        let mut entry = Entry {
            serial,
            name: Name::of(stat.name()),
            start: stat.start_ticks().unwrap_or(0),
            parent: 0,
            team: 0,
            is_slow: is_slow(&stat),
            seen: Seen::default(),
            weighed: None,
            family: 0,
            is_listed: true,
            user: 0,
            group: 0,
            mask: 0,
            cpu: Nanos(0),
            ran: look.now,
            refused_until: Nanos(i64::MIN),
            dying_until: Nanos(i64::MIN),
            process,
        };
        entry.classify(look.rules, &mut buffer);
        entry.look_at_size(look);
        Ok(entry)
    }

    /// Finds out which rules it matches.
    pub(super) fn classify(&mut self, rules: &[Rule], buffer: &mut [u8]) {
        self.user = self.process.user().unwrap_or(u32::MAX);
        let groups = self.process.read(c"cgroup", buffer).unwrap_or_default();
        let cgroup = memory_group(groups);
        self.group = hash(cgroup);
        let name = self.name.text().as_bytes();
        self.mask = rules::mask(rules, Traits { name, user: self.user, cgroup });
    }

    /// Reads how much memory it has; none once it has ended.
    fn look_at_size(&mut self, look: Look<'_>) -> Option<()> {
        let mut buffer = [0; 4096];
        let seen = Seen::of(self.process.read(c"statm", &mut buffer).ok()?, look.scale.page)?;
        let status =
            if look.scale.has_swap { self.process.read(c"status", &mut buffer).ok() } else { None };
        let swapped = status.and_then(|text| bytes(text, b"VmSwap")).unwrap_or(0);
        self.seen = Seen { swapped, ..seen };
        Some(())
    }

    /// What a policy may see of it now; none once it has ended.
    pub(super) fn measure(&mut self, look: Look<'_>) -> Option<Candidate> {
        let mut buffer = [0; 1024];
        let stat = Stat::parse(self.process.read(c"stat", &mut buffer).ok()?)?;
        if matches!(stat.state()?, b'Z' | b'X') {
            return None;
        }
        let cpu = Nanos(stat.cpu_ticks()? as i64 * look.scale.tick.0);
        if cpu != self.cpu {
            (self.cpu, self.ran) = (cpu, look.now);
        }
        self.is_slow = is_slow(&stat);
        (self.parent, self.team) = (stat.number(PARENT)?, stat.number(TEAM)?);
        let major_faults: i64 = stat.number(MAJOR_FAULTS)?;
        let name = Name::of(stat.name());
        if name != self.name {
            // It runs another program now, which shares nothing.
            self.name = name;
            self.weighed = None;
            self.classify(look.rules, &mut buffer);
        }
        self.look_at_size(look)?;
        let adj = signed(self.process.read(c"oom_score_adj", &mut buffer).ok()?)?;
        let rule = rules::first(look.rules, self.mask, adj);
        let start = start_cost(cpu, u64::try_from(major_faults).unwrap_or(0));
        Some(Candidate {
            process: self.process.number(),
            group: self.group,
            adj,
            resident: self.own(),
            swapped: self.own_swapped(),
            idle: Nanos(look.now.0 - self.ran.0),
            restart_cost: rule.and_then(|rule| rule.restart).unwrap_or(start),
            standing: self.standing(rule, look.now),
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

    /// What its end gives back: as last weighed, and what it took or gave since. Before that all of its
    /// anonymous memory, which is the most.
    pub(super) fn own(&self) -> Bytes {
        let Some(Weighed { weight: Some(weight), anonymous, .. }) = self.weighed else {
            return Bytes(self.seen.anonymous);
        };
        if self.is_borrowed() {
            return Bytes(0);
        }
        Bytes((self.seen.anonymous + weight.own).saturating_sub(anonymous))
    }

    pub(super) fn own_swapped(&self) -> Bytes {
        if self.is_borrowed() {
            return Bytes(0);
        }
        let weight = self.weighed.and_then(|weighed| weighed.weight).unwrap_or_default();
        Bytes(self.seen.swapped.saturating_sub(weight.shared_swapped))
    }

    /// Its part of shared memory without a name.
    pub(super) fn shared_part(&self) -> u64 {
        let weight = self.weighed.and_then(|weighed| weighed.weight);
        weight.filter(|_| !self.is_borrowed()).map_or(0, |weight| weight.shared)
    }

    /// Its proportional share, where it shares memory that comes back with the last who shares it.
    pub(super) fn share(&self) -> Option<u64> {
        let Weighed { weight, anonymous, .. } = self.weighed?;
        let weight = weight.filter(|_| !self.is_borrowed())?;
        let share = (self.seen.anonymous + weight.proportional).saturating_sub(anonymous);
        (weight.proportional >= weight.own + SHARED_MIN).then_some(share)
    }

    /// Whether its memory is that of its parent: between vfork and exec.
    pub(crate) fn is_borrowed(&self) -> bool {
        self.weighed.is_some_and(|weighed| weighed.is_borrowed)
    }

    /// Whether it is known what it shares.
    pub(super) fn has_weight(&self) -> bool {
        self.weighed.is_some_and(|weighed| weighed.weight.is_some())
    }

    /// Whether its weight is good: for a second in any case, and for `longest` while its size stays.
    pub(super) fn is_weighed(&self, now: Nanos, longest: Nanos) -> bool {
        self.weighed.is_some_and(|weighed| {
            let age = now.0 - weighed.at.0;
            let changed = self.seen.anonymous.abs_diff(weighed.anonymous);
            age < WEIGHED_FOR.0 || (age < longest.0 && changed <= weighed.anonymous / CHANGED_PART)
        })
    }

    pub(super) fn is_dying(&self, now: Nanos) -> bool {
        now < self.dying_until
    }

    /// What the weigher found: `counted` is what the map counted as anonymous memory before and after.
    pub(super) fn weigh(
        &mut self,
        now: Nanos,
        weight: Option<Weight>,
        counted: (u64, u64),
        is_borrowed: bool,
    ) {
        // A process that grows meanwhile grows by memory of its own.
        let own = weight.map_or(0, |weight| weight.own - weight.own_shared);
        let (before, after) = (counted.0.min(counted.1), counted.0.max(counted.1));
        let anonymous = own.clamp(before, after);
        self.weighed = Some(Weighed { at: now, weight, anonymous, is_borrowed });
    }

    pub(super) fn forget_weight(&mut self) {
        self.weighed = None;
    }

    /// The operating system did not let it be killed.
    pub(super) fn refuse(&mut self, now: Nanos) {
        self.refused_until = Nanos(now.0.saturating_add(REFUSED_FOR.0));
    }

    /// It was killed.
    pub(super) fn doom(&mut self, now: Nanos) {
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

/// The path of the memory cgroup in `/proc/PID/cgroup`: of the controller's own hierarchy, else of
/// the one of version 2.
fn memory_group(groups: &[u8]) -> &[u8] {
    controller_group(groups, b"memory").or_else(|| controller_group(groups, b"")).unwrap_or(b"/")
}

/// The path of the cgroup in the hierarchy with `controller`; version 2 is the one without any name.
pub(crate) fn controller_group<'a>(groups: &'a [u8], controller: &[u8]) -> Option<&'a [u8]> {
    groups.split(|&byte| byte == b'\n').find_map(|line| {
        let mut parts = line.splitn(3, |&byte| byte == b':').skip(1);
        let (names, path) = (parts.next()?, parts.next()?);
        names.split(|&byte| byte == b',').any(|name| name == controller).then_some(path)
    })
}

/// FNV-1a, so that equal paths have one number.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use linux::Root;
    use linux::held_process::open_processes;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_hostile_name_hides_nothing() {
        assert_eq!(Name::of(b"\") Z (\n=x").text(), "?)?Z?(??x");
        assert_eq!(Name::of(b"a name of 20 letters").text(), "a?name?of?20?le");
    }

    #[test]
    fn who_waits_or_comes_last_is_slow() {
        for (state, nice, expected) in [("S", -5, false), ("D", 0, true), ("S", 5, true)] {
            let text = format!("7 (x) {state} 1 7 7 0 -1 64 5 0 6 0 11 12 0 0 20 {nice} 1 0 9");
            let stat = Stat::parse(text.as_bytes()).unwrap();
            assert_eq!(is_slow(&stat), expected, "{text}");
        }
    }

    #[test]
    fn the_memory_group_is_found_in_either_version() {
        let both = b"4:memory:/a b\n1:cpu,cpuacct:/c\n0::/unified\n";
        assert_eq!(memory_group(both), b"/a b");
        assert_eq!(controller_group(both, b"cpuacct"), Some(&b"/c"[..]));
        assert_eq!(memory_group(b"0::/x:y\n"), b"/x:y");
        assert_eq!(memory_group(b""), b"/");
    }

    #[test]
    fn files_are_no_anonymous_memory() {
        let seen = Seen::of(b"900 500 120 1 0 300 0\n", 4096).unwrap();
        assert_eq!((seen.resident, seen.anonymous), (500 * 4096, 380 * 4096));
        assert!(Seen::of(b"900", 4096).is_none());
    }

    /// This process, as if its map counted 100 MiB.
    fn entry() -> Entry {
        let processes = open_processes(&Root::system()).unwrap();
        let scale = Scale { tick: Nanos(1), page: 4096, has_swap: false };
        let look = Look { rules: &[], now: Nanos(0), scale };
        let mut entry = Entry::open(&processes, std::process::id(), 0, look).ok().unwrap();
        entry.seen = Seen { resident: 120 * MIB, anonymous: 100 * MIB, swapped: 10 * MIB };
        entry
    }

    #[test]
    fn what_grows_after_it_was_weighed_is_own() {
        let mut server = entry();
        assert_eq!(server.own(), Bytes(100 * MIB), "unknown: the most");
        let weight = Weight {
            own: 5 * MIB,
            proportional: 20 * MIB,
            shared_swapped: 4 * MIB,
            ..Weight::default()
        };
        server.weigh(Nanos(0), Some(weight), (100 * MIB, 100 * MIB), false);
        assert_eq!((server.own(), server.share()), (Bytes(5 * MIB), Some(20 * MIB)));
        assert_eq!(server.own_swapped(), Bytes(6 * MIB));
        server.seen.anonymous += 7 * MIB;
        assert_eq!((server.own(), server.share()), (Bytes(12 * MIB), Some(27 * MIB)));
        server.seen.anonymous = MIB;
        assert_eq!(server.own(), Bytes(0));
        let second = |count: i64| Nanos(count * 1_000_000_000);
        assert!(server.is_weighed(Nanos(999_999_999), Nanos(0)));
        assert!(!server.is_weighed(second(1), second(10)), "it gave memory back");
        server.seen.anonymous = 101 * MIB;
        assert!(server.is_weighed(second(9), second(10)));
        assert!(!server.is_weighed(second(10), second(10)));

        // A hog that grows while it is weighed.
        let mut hog = entry();
        let weight = Weight { own: 130 * MIB, proportional: 130 * MIB, ..Weight::default() };
        hog.weigh(Nanos(0), Some(weight), (100 * MIB, 140 * MIB), false);
        hog.seen.anonymous = 150 * MIB;
        assert_eq!((hog.own(), hog.share()), (Bytes(150 * MIB), None));
    }

    #[test]
    fn a_child_without_a_map_of_its_own_gives_nothing_back() {
        let mut child = entry();
        let weight = Weight { own: 100 * MIB, proportional: 100 * MIB, ..Weight::default() };
        child.weigh(Nanos(0), Some(weight), (100 * MIB, 100 * MIB), true);
        assert_eq!((child.own(), child.own_swapped(), child.share()), (Bytes(0), Bytes(0), None));
        child.forget_weight();
        assert_eq!(child.own(), Bytes(100 * MIB));
    }
}
