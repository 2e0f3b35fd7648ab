//! Every process that could be killed, held before it is needed, with what was last seen of it.
//!
//! entries and candidates go together: the candidate at a place is what a policy sees of the entry
//! there. Both have room from the start; what comes beyond it is counted and overlooked.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use linux::cgroup::MemoryGroup;
use linux::held_process::{HeldProcess, each_process, open_processes};
use linux::kernel_file::bytes;
use linux::stat::Stat;
use linux::{Root, cgroup};
use policy::kill::{Candidate, Standing};
use rustix::io::Errno;
use types::{Bytes, Nanos};

use crate::Error;
use crate::rules::{self, Rule, Traits};

/// For how long one that may not be killed is not asked for again.
const REFUSED_FOR: Nanos = Nanos(60_000_000_000);
/// For how long one that was killed counts as dying, should it never go.
const DYING_FOR: Nanos = Nanos(30_000_000_000);
/// Longest CPU time that counts as that of a start.
const START_MAX: Nanos = Nanos(10_000_000_000);
/// What reading a page from storage is taken to cost.
const MAJOR_FAULT: Nanos = Nanos(1_000_000);
/// Processes that are listed at most; those beyond are not seen.
const LISTED_MAX: usize = 32_768;
/// Threads of the kernel that are remembered; others are looked at again each time.
const IGNORED_MAX: usize = 4096;
/// Fields of `/proc/PID/stat` (proc_pid_stat(5)).
const FLAGS: usize = 9;
const MAJOR_FAULTS: usize = 12;
const NICE: usize = 19;
/// Flag of the kernel's own threads (PF_KTHREAD).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Which processes are held.
#[derive(Debug)]
pub(crate) enum Members {
    /// All.
    Machine,
    /// Those of a group and of the groups below it.
    Group(OwnedFd),
}

/// One process.
#[derive(Debug)]
pub(crate) struct Entry {
    pub process: HeldProcess,
    pub name: Name,
    user: u32,
    group: u64,
    mask: u64,
    cpu: Nanos,
    /// When it was last seen to have run.
    ran: Nanos,
    /// Whether it will not die soon by itself: it waits where no signal reaches it, or others come
    /// first on the processors.
    pub is_slow: bool,
    refused_until: Nanos,
    dying_until: Nanos,
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Table {
    processes: OwnedFd,
    members: Members,
    rules: Arc<[Rule]>,
    entries: Vec<Entry>,
    candidates: Vec<Candidate>,
    numbers: Vec<u32>,
    /// The kernel's own threads, in order: not opened again and again.
    ignored: Vec<u32>,
    room: usize,
    /// Length of one tick of CPU times.
    tick: Nanos,
    page: u64,
    /// Processes of the last refresh that found no room.
    pub overlooked: usize,
}

/// The name of a process as a line can hold it: at most 15 bytes, zeros behind, and no letters that could
/// be taken for something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name(pub [u8; 16]);

impl Name {
    fn of(name: &[u8]) -> Name {
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

impl Table {
    /// Room for as many processes.
    ///
    /// # Errors
    /// What the operating system refuses.
    pub(crate) fn new(
        root: &Root,
        group: Option<&MemoryGroup>,
        rules: Arc<[Rule]>,
        room: usize,
    ) -> Result<Table, Error> {
        let members = match group {
            Some(group) => Members::Group(root.open_folder(&group.folder)?),
            None => Members::Machine,
        };
        Ok(Table {
            processes: open_processes(root)?,
            members,
            rules,
            entries: Vec::with_capacity(room),
            candidates: Vec::with_capacity(room),
            numbers: Vec::with_capacity(LISTED_MAX),
            ignored: Vec::with_capacity(IGNORED_MAX),
            room,
            tick: Nanos(linux::system::tick().as_nanos() as i64),
            page: rustix::param::page_size() as u64,
            overlooked: 0,
        })
    }

    /// The processes, in the order of [`Table::candidates`].
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// What a policy may see.
    pub(crate) fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    /// Other rules from now on.
    pub(crate) fn set_rules(&mut self, rules: Arc<[Rule]>) {
        self.rules = rules;
        let mut buffer = [0; 1024];
        for entry in &mut self.entries {
            entry.classify(&self.rules, &mut buffer);
        }
    }

    /// Holds those that came and lets go of those that ended. With `is_near` also looks at what was
    /// taken for a thread of the kernel: its number may be another's by now.
    pub(crate) fn refresh(&mut self, now: Nanos, is_near: bool) {
        if is_near {
            self.ignored.clear();
        }
        self.list();
        let Table { entries, numbers, .. } = self;
        entries.retain(|entry| numbers.binary_search(&entry.process.number()).is_ok());
        let known = self.entries.len();
        self.overlooked = 0;
        for place in 0..self.numbers.len() {
            let number = self.numbers[place];
            let held = &self.entries[..known];
            let is_known = held.binary_search_by_key(&number, |held| held.process.number()).is_ok();
            if !is_known && self.ignored.binary_search(&number).is_err() {
                self.hold(number, now);
            }
        }
        self.entries.sort_unstable_by_key(|entry| entry.process.number());
        self.ignored.sort_unstable();
    }

    /// Numbers of all members, in order, as far as there is room.
    fn list(&mut self) {
        let Table { numbers, processes, members, .. } = self;
        numbers.clear();
        let this = std::process::id();
        let mut note = |number: u32| {
            if number > 1 && number != this && numbers.len() < numbers.capacity() {
                numbers.push(number);
            }
        };
        // What cannot be listed now is listed at the next look.
        let _ = match members {
            Members::Machine => each_process(processes, note),
            Members::Group(folder) => cgroup::each_process_below(folder, &mut note),
        };
        numbers.sort_unstable();
        numbers.dedup();
    }

    fn hold(&mut self, number: u32, now: Nanos) {
        if self.entries.len() == self.room {
            self.overlooked += 1;
            return;
        }
        let process = match HeldProcess::open(&self.processes, number) {
            Ok(process) => process,
            // No descriptor is left for it.
            Err(Errno::MFILE | Errno::NFILE) => {
                self.overlooked += 1;
                return;
            }
            // One that has ended meanwhile.
            Err(_) => return,
        };
        let mut buffer = [0; 1024];
        let Some(stat) = process.read(c"stat", &mut buffer).ok().and_then(Stat::parse) else {
            return;
        };
        if stat.number(FLAGS).is_none_or(|flags: u64| flags & KERNEL_THREAD != 0) {
            if self.ignored.len() < self.ignored.capacity() {
                self.ignored.push(number);
            }
            return;
        }
        let mut entry = Entry {
            process,
            name: Name::of(stat.name()),
            user: 0,
            group: 0,
            mask: 0,
            cpu: Nanos(0),
            ran: now,
            is_slow: is_slow(&stat),
            refused_until: Nanos(i64::MIN),
            dying_until: Nanos(i64::MIN),
        };
        entry.classify(&self.rules, &mut buffer);
        self.entries.push(entry);
    }

    /// Looks at every process anew; those that ended are let go of.
    pub(crate) fn measure(&mut self, now: Nanos, has_swap: bool) {
        let Table { entries, candidates, rules, tick, page, .. } = self;
        let mut buffer = [0; 4096];
        candidates.clear();
        entries.retain_mut(|entry| {
            let measured = entry.measure(rules, &mut buffer, now, has_swap, *tick, *page);
            measured.is_some_and(|candidate| {
                candidates.push(candidate);
                true
            })
        });
    }

    /// Looks at the one at `place` once more before it dies: whether it may still.
    pub(crate) fn confirm(&mut self, place: usize, now: Nanos) -> bool {
        let mut buffer = [0; 1024];
        let Table { entries, candidates, rules, tick, page, .. } = self;
        let fresh = entries[place].measure(rules, &mut buffer, now, false, *tick, *page);
        let standing = fresh.map_or(Standing::Dying, |fresh| fresh.standing);
        let measured = fresh.unwrap_or(candidates[place]);
        candidates[place] = Candidate { swapped: candidates[place].swapped, standing, ..measured };
        candidates[place].is_eligible()
    }

    /// The operating system did not let the one at `place` be killed.
    pub(crate) fn refuse(&mut self, place: usize, now: Nanos) {
        self.entries[place].refused_until = Nanos(now.0.saturating_add(REFUSED_FOR.0));
        self.candidates[place].standing = Standing::Refused;
    }

    /// The one at `place` was killed.
    pub(crate) fn doom(&mut self, place: usize, now: Nanos) {
        self.entries[place].dying_until = Nanos(now.0.saturating_add(DYING_FOR.0));
        self.candidates[place].standing = Standing::Dying;
    }
}

impl Entry {
    /// Which rules it matches.
    fn classify(&mut self, rules: &[Rule], buffer: &mut [u8]) {
        self.user = self.process.user().unwrap_or(u32::MAX);
        let groups = self.process.read(c"cgroup", buffer).unwrap_or_default();
        let cgroup = memory_group(groups);
        self.group = hash(cgroup);
        let name = self.name.text().as_bytes();
        self.mask = rules::mask(rules, Traits { name, user: self.user, cgroup });
    }

    fn measure(
        &mut self,
        rules: &[Rule],
        buffer: &mut [u8],
        now: Nanos,
        has_swap: bool,
        tick: Nanos,
        page: u64,
    ) -> Option<Candidate> {
        let stat = Stat::parse(self.process.read(c"stat", buffer).ok()?)?;
        if matches!(stat.state()?, b'Z' | b'X') {
            return None;
        }
        let cpu = Nanos(stat.cpu_ticks()? as i64 * tick.0);
        if cpu != self.cpu {
            (self.cpu, self.ran) = (cpu, now);
        }
        self.is_slow = is_slow(&stat);
        let major_faults: i64 = stat.number(MAJOR_FAULTS)?;
        let name = Name::of(stat.name());
        if name != self.name {
            // It runs another program now.
            self.name = name;
            self.classify(rules, buffer);
        }
        let resident = own_pages(self.process.read(c"statm", buffer).ok()?)? * page;
        let adj = signed(self.process.read(c"oom_score_adj", buffer).ok()?)?;
        let status = if has_swap { self.process.read(c"status", buffer).ok() } else { None };
        let swapped = status.and_then(|text| bytes(text, b"VmSwap"));
        let rule = rules::first(rules, self.mask, adj);
        let start = cpu.0.min(START_MAX.0) + major_faults * MAJOR_FAULT.0;
        Some(Candidate {
            process: self.process.number(),
            group: self.group,
            adj,
            resident: Bytes(resident),
            swapped: Bytes(swapped.unwrap_or(0)),
            idle: Nanos(now.0 - self.ran.0),
            restart_cost: rule.and_then(|rule| rule.restart).unwrap_or(Nanos(start)),
            standing: self.standing(rule, now),
        })
    }

    fn standing(&self, rule: Option<&Rule>, now: Nanos) -> Standing {
        match rule.map_or(Standing::Neutral, |rule| rule.standing) {
            Standing::Protected => Standing::Protected,
            _ if now < self.dying_until => Standing::Dying,
            _ if now < self.refused_until => Standing::Refused,
            standing => standing,
        }
    }
}

/// Whether a process will not die soon by itself.
fn is_slow(stat: &Stat<'_>) -> bool {
    stat.state() == Some(b'D') || stat.number(NICE).is_some_and(|nice: i64| nice > 0)
}

/// Pages in memory that are no file's and shared with nobody, from `/proc/PID/statm`: what comes back.
pub(crate) fn own_pages(statm: &[u8]) -> Option<u64> {
    let mut numbers = statm.split(|&byte| byte == b' ').skip(1);
    let mut number = || std::str::from_utf8(numbers.next()?).ok()?.parse::<u64>().ok();
    let (resident, shared) = (number()?, number()?);
    Some(resident.saturating_sub(shared))
}

fn signed(text: &[u8]) -> Option<i16> {
    std::str::from_utf8(text).ok()?.trim().parse().ok()
}

/// The path of the memory cgroup in `/proc/PID/cgroup`: of the controller's own hierarchy, else of
/// the one of version 2.
pub(crate) fn memory_group(groups: &[u8]) -> &[u8] {
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
    use testkit::Sleeper;

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
    fn own_memory_is_what_is_not_shared() {
        assert_eq!(own_pages(b"900 500 120 1 0 300 0\n"), Some(380));
        assert_eq!(own_pages(b"900"), None);
    }

    fn candidate(table: &Table, number: u32) -> Option<(usize, Candidate)> {
        let found = table.candidates().iter().position(|one| one.process == number)?;
        assert_eq!(table.entries()[found].process.number(), number);
        Some((found, table.candidates()[found]))
    }

    #[test]
    fn processes_come_stand_and_go() {
        let protects = Rule {
            name: Some("slee*".to_owned()),
            user: None,
            cgroup: None,
            adj: Some((500, 1000)),
            standing: Standing::Protected,
            restart: Some(Nanos(7)),
        };
        let mut table = Table::new(&Root::system(), None, Arc::new([protects]), 4096).unwrap();
        let second = |count: i64| Nanos(count * 1_000_000_000);
        let mut sleeper = Sleeper::start();
        let number = sleeper.0.id();
        let look = |table: &mut Table, at| {
            table.refresh(second(at), false);
            table.measure(second(at), true);
        };
        look(&mut table, 1);
        assert!(candidate(&table, std::process::id()).is_none(), "the killer is no candidate");
        let (place, seen) = candidate(&table, number).unwrap();
        assert!(seen.resident.0 > 0 && seen.standing == Standing::Neutral);
        assert_eq!(table.entries()[place].name.text(), "sleep");

        table.refuse(place, second(1));
        look(&mut table, 2);
        assert_eq!(candidate(&table, number).unwrap().1.standing, Standing::Refused);
        assert!(!candidate(&table, number).unwrap().1.is_eligible());
        look(&mut table, 62);
        let (place, seen) = candidate(&table, number).unwrap();
        assert_eq!(seen.standing, Standing::Neutral, "asked for again after a minute");
        table.doom(place, second(62));
        look(&mut table, 63);
        assert_eq!(candidate(&table, number).unwrap().1.standing, Standing::Dying);

        std::fs::write(format!("/proc/{number}/oom_score_adj"), "600").unwrap();
        look(&mut table, 100);
        let (_, seen) = candidate(&table, number).unwrap();
        assert_eq!((seen.adj, seen.standing), (600, Standing::Protected));
        assert_eq!(seen.restart_cost, Nanos(7));
        assert!(seen.idle.0 >= 30_000_000_000, "it sleeps");
        table.set_rules(Arc::new([]));
        look(&mut table, 101);
        assert_eq!(candidate(&table, number).unwrap().1.standing, Standing::Neutral);

        sleeper.0.kill().unwrap();
        sleeper.0.wait().unwrap();
        table.measure(second(102), true);
        assert!(candidate(&table, number).is_none(), "ended between two lists");
    }

    #[test]
    fn what_has_no_room_is_counted() {
        let mut table = Table::new(&Root::system(), None, Arc::new([]), 1).unwrap();
        let _sleepers = [Sleeper::start(), Sleeper::start()];
        table.refresh(Nanos(0), true);
        assert_eq!(table.entries().len(), 1);
        assert!(table.overlooked >= 1);
    }
}
