//! Weights of processes: the memory that the end of a process frees, because no other process uses it, from
//! `smaps_rollup` (proc_pid_smaps(5)) and, for shared memory, `maps`. Nothing here allocates.
//!
//! Contract: both files take the process's mmap lock, so a read may wait as long as the process
//! holds it, and its time grows with the number of pages. The memory of a process that dies meanwhile
//! stays until the read ends. A caller that must not wait reads in another thread.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::{Errno, read};

use crate::held_process::HeldProcess;
use crate::kernel_file::bytes;

/// Shared memory below this is not worth reading `maps`.
const SHARED_MIN: u64 = 1 << 20;
/// The most bytes of `maps` that are read.
const MAPS_MAX: usize = 1 << 20;
/// The most shared mappings of a process that are looked for in its relatives; memory in others does not count as
/// its own.
const SHARED_MAPPINGS_MAX: usize = 16;
/// The most children whose `maps` are read. A server and its forks map the same memory, so the first child
/// shows it.
const CHILDREN_MAX: usize = 8;

/// Memory of a process in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    /// Memory that comes back if this process ends and all others live on: private anonymous memory, and
    /// shared memory without a name that only this process maps.
    pub own: u64,
    /// The part of `own` that is shared memory.
    pub own_shared: u64,
    /// The process's proportional share of anonymous memory and of shared memory without a name. The
    /// sum over all processes that share memory comes back when all of them end.
    pub proportional: u64,
    /// The part of `proportional` that is shared memory.
    pub shared: u64,
    /// Swapped memory that the process shares with others.
    pub shared_swapped: u64,
}

/// A process that shares less than this with others does not count as a sharer.
const SHARES_MIN: u64 = 256 << 10;

impl Weight {
    /// Whether the process shares memory that comes back with the last process that uses it.
    pub fn is_shared(&self) -> bool {
        self.proportional >= self.own + SHARES_MIN
    }

    /// The weight of `process`; `parent` is the PID of its parent.
    ///
    /// # Errors
    /// The process has ended, or its map may not be read.
    pub fn of(process: &HeldProcess, parent: u32) -> Result<Weight, Errno> {
        let mut buffer = [0; 2048];
        let rollup = Rollup::parse(process.read(c"smaps_rollup", &mut buffer)?);
        let rollup = rollup.ok_or(Errno::SRCH)?;
        if rollup.pss_shared < SHARED_MIN {
            return Ok(rollup.weight(Nameless::default()));
        }
        let mut mappings = SharedMappings::of(process)?;
        // A page that only this process has touched may be mapped by others, who keep it.
        if rollup.weight(mappings.nameless()).own_shared >= SHARED_MIN {
            mappings.look_in_relatives(process, parent);
        }
        Ok(rollup.weight(mappings.nameless()))
    }
}

/// The weight and the size of a process at one instant. Until the process is weighed again, its growth counts as
/// its own memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weighed {
    /// None if its memory map could not be read.
    pub weight: Option<Weight>,
    /// Bytes of anonymous memory at that instant.
    pub anonymous: u64,
    /// Whether the process uses the address space of its parent: it is between vfork and exec.
    pub is_borrowed: bool,
}

/// A size is similar if it differs by at most one part in this many.
const CHANGED_PART: u64 = 8;

impl Weighed {
    /// Weighs `process`; `parent` is the PID of its parent.
    pub fn now(process: &HeldProcess, parent: u32) -> Weighed {
        let page = rustix::param::page_size() as u64;
        let counted = || {
            let mut buffer = [0; 128];
            let statm = process.read(c"statm", &mut buffer).unwrap_or_default();
            resident_and_anonymous(statm, page).map_or(0, |(_, anonymous)| anonymous)
        };
        let before = counted();
        // A read would hold the memory of a dying process.
        let weight = match process.has_ended(Duration::ZERO) {
            true => None,
            false => Weight::of(process, parent).ok(),
        };
        let is_borrowed = process.shares_map_with(parent) == Some(true);
        Weighed::new(weight, (before, counted()), is_borrowed)
    }

    /// A result of a read; `counted` is its anonymous memory by `statm` before and after the read.
    pub fn new(weight: Option<Weight>, counted: (u64, u64), is_borrowed: bool) -> Weighed {
        // Growth during the read is the process's own memory.
        let own = weight.map_or(0, |weight| weight.own - weight.own_shared);
        let (before, after) = (counted.0.min(counted.1), counted.0.max(counted.1));
        Weighed { weight, anonymous: own.clamp(before, after), is_borrowed }
    }

    /// The memory that its end frees, if it has `anonymous` bytes of anonymous memory now. Without a weight, all
    /// of them, which is the maximum.
    pub fn own(&self, anonymous: u64) -> u64 {
        match self.weight {
            None => anonymous,
            Some(_) if self.is_borrowed => 0,
            Some(weight) => (anonymous + weight.own).saturating_sub(self.anonymous),
        }
    }

    /// The swap that its end frees, if it has `swapped` bytes in swap now.
    pub fn own_swapped(&self, swapped: u64) -> u64 {
        match self.is_borrowed {
            true => 0,
            false => swapped.saturating_sub(self.weight.map_or(0, |weight| weight.shared_swapped)),
        }
    }

    /// Whether `anonymous` bytes of anonymous memory are close to those that were there when the process was weighed.
    pub fn has_similar_size(&self, anonymous: u64) -> bool {
        anonymous.abs_diff(self.anonymous) <= self.anonymous / CHANGED_PART
    }
}

/// Resident and anonymous memory in bytes, from the text of `/proc/PID/statm`. Memory shared by fork counts in
/// full.
pub fn resident_and_anonymous(statm: &[u8], page: u64) -> Option<(u64, u64)> {
    let mut numbers = statm.split(|&byte| byte == b' ').skip(1);
    let mut number = || std::str::from_utf8(numbers.next()?).ok()?.parse::<u64>().ok();
    let (resident, of_files) = (number()?, number()?);
    Some((resident * page, resident.saturating_sub(of_files) * page))
}

/// The rows of `smaps_rollup` that count.
#[derive(Clone, Copy, Debug, Default)]
struct Rollup {
    anonymous: u64,
    private: u64,
    pss_anonymous: u64,
    pss_file: u64,
    pss_shared: u64,
    swap: u64,
    swap_pss: u64,
}

impl Rollup {
    /// Parses the text; None if it lacks rows that every kernel since 4.14 writes.
    fn parse(text: &[u8]) -> Option<Rollup> {
        let row = |name: &[u8]| bytes(text, name);
        let anonymous = row(b"Anonymous")?;
        let private = row(b"Private_Clean")?.saturating_add(row(b"Private_Dirty")?);
        Some(Rollup {
            anonymous,
            private,
            // Since Linux 5.3; before, private memory is the best guess.
            pss_anonymous: row(b"Pss_Anon").unwrap_or(private.min(anonymous)),
            pss_file: row(b"Pss_File").unwrap_or(0),
            pss_shared: row(b"Pss_Shmem").unwrap_or(0),
            swap: row(b"Swap").unwrap_or(0),
            swap_pss: row(b"SwapPss").unwrap_or(0),
        })
    }

    /// Estimates the weight. The kernel counts private pages of anonymous memory, files and shared memory in one row, so
    /// private anonymous memory P has only bounds. From `anonymous` = P + S and `pss_anonymous` = P + S / n with
    /// n >= 2 sharers follows P >= 2 `pss_anonymous` - `anonymous`; and P >= `private` - `pss_file` - `pss_shared`.
    /// The larger of the two lower bounds is exact if nothing is shared, or if only anonymous memory is private.
    fn weight(&self, nameless: Nameless) -> Weight {
        let by_share = (2 * self.pss_anonymous).saturating_sub(self.anonymous);
        let by_kind = self.private.saturating_sub(self.pss_file + self.pss_shared);
        let most = self.private.min(self.pss_anonymous);
        let own_anonymous = by_share.max(by_kind).min(most);
        let own_shared = (self.private - own_anonymous).min(self.pss_shared).min(nameless.own);
        Weight {
            own: own_anonymous + own_shared,
            own_shared,
            proportional: self.pss_anonymous + self.pss_shared.min(nameless.all),
            shared: self.pss_shared.min(nameless.all),
            // As for anonymous memory: the lower bound for two sharers.
            shared_swapped: 2 * self.swap.saturating_sub(self.swap_pss).min(self.swap / 2),
        }
    }
}

/// Bytes of address space in which a process maps shared memory without a name. It comes back with the last process
/// that maps it. System V memory does not count: it stays until it is removed explicitly.
#[derive(Clone, Copy, Debug, Default)]
struct Nameless {
    all: u64,
    /// The part that no relative is known to map.
    own: u64,
}

/// Identifies shared memory: its device and its inode.
type MemoryId = (u64, u64);

#[derive(Clone, Copy, Debug, Default)]
struct SharedMapping {
    memory: MemoryId,
    bytes: u64,
    is_elsewhere: bool,
}

/// The mappings of shared memory without a name of one process.
#[derive(Debug, Default)]
struct SharedMappings {
    rows: [SharedMapping; SHARED_MAPPINGS_MAX],
    length: usize,
    all: u64,
}

impl SharedMappings {
    fn of(process: &HeldProcess) -> Result<SharedMappings, Errno> {
        let mut found = SharedMappings::default();
        each_nameless(&process.open_file(c"maps")?, |memory, bytes| found.add(memory, bytes))?;
        Ok(found)
    }

    fn add(&mut self, memory: MemoryId, bytes: u64) {
        self.all += bytes;
        if let Some(row) = self.rows[..self.length].iter_mut().find(|row| row.memory == memory) {
            row.bytes += bytes;
        } else if let Some(row) = self.rows.get_mut(self.length) {
            *row = SharedMapping { memory, bytes, is_elsewhere: false };
            self.length += 1;
        }
    }

    fn nameless(&self) -> Nameless {
        let own = self.rows.iter().filter(|row| !row.is_elsewhere).map(|row| row.bytes).sum();
        Nameless { all: self.all, own }
    }

    /// Looks for the mappings in the parent and in children, which have them from a fork. A process that uses the
    /// same address space does not count.
    fn look_in_relatives(&mut self, process: &HeldProcess, parent: u32) {
        let mut buffer = [0; 128];
        let children = process.first_children(&mut buffer).take(CHILDREN_MAX);
        for relative in std::iter::once(parent).chain(children) {
            if process.shares_map_with(relative) == Some(true) {
                continue;
            }
            let maps = process.open_map_of(relative);
            let rows = &mut self.rows[..self.length];
            // A relative that has ended or may not be read shows nothing.
            let _ = maps.and_then(|maps| {
                each_nameless(&maps, |memory, _| {
                    let same = rows.iter_mut().filter(|row| row.memory == memory);
                    same.for_each(|row| row.is_elsewhere = true);
                })
            });
            if self.rows[..self.length].iter().all(|row| row.is_elsewhere) {
                return;
            }
        }
    }
}

/// Calls `found` with each mapping of shared memory without a name, and its size in bytes.
fn each_nameless(maps: &OwnedFd, mut found: impl FnMut(MemoryId, u64)) -> Result<(), Errno> {
    let mut buffer = [0; 4096];
    let (mut kept, mut seen) = (0, 0);
    loop {
        let length = read(maps, &mut buffer[kept..])?;
        seen += length;
        let filled = kept + length;
        let text = &buffer[..filled];
        let end = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        let lines = text[..end].split(|&byte| byte == b'\n');
        lines.filter_map(nameless_mapping).for_each(|(memory, bytes)| found(memory, bytes));
        if length == 0 || seen >= MAPS_MAX {
            return Ok(());
        }
        // A line longer than the buffer has a path with a name; the rest of such a line is skipped.
        kept = if end == 0 && filled == buffer.len() { 0 } else { filled - end };
        buffer.copy_within(filled - kept..filled, 0);
    }
}

/// The memory and the size of the mapping in a line of `maps`, if it is shared memory without a name.
fn nameless_mapping(line: &[u8]) -> Option<(MemoryId, u64)> {
    let text = std::str::from_utf8(line).ok()?;
    let mut fields = text.split_ascii_whitespace();
    let (begin, end) = fields.next()?.split_once('-')?;
    let is_shared = fields.next()?.ends_with('s');
    let (major, minor) = fields.nth(1)?.split_once(':')?;
    let inode = fields.next()?.parse().ok()?;
    let path = fields.next()?;
    let is_nameless = text.ends_with(" (deleted)") && !path.starts_with("/SYSV");
    let number = |hexadecimal| u64::from_str_radix(hexadecimal, 16).ok();
    let size = number(end)?.checked_sub(number(begin)?)?;
    let device = number(major)? << 32 | number(minor)?;
    (is_shared && is_nameless).then_some(((device, inode), size))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn rollup(rows: &[(&str, u64)]) -> Rollup {
        let all = ["Anonymous", "Private_Clean", "Private_Dirty", "Pss_Anon", "Pss_File"];
        let all = all.iter().chain(&["Pss_Shmem", "Swap", "SwapPss"]);
        let value = |name: &&str| rows.iter().find(|row| row.0 == *name).map_or(0, |row| row.1);
        let text: String = all.map(|name| format!("{name}:  {} kB\n", value(name) << 10)).collect();
        Rollup::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn private_memory_is_own_and_shared_memory_is_not() {
        let hog = rollup(&[("Anonymous", 200), ("Private_Dirty", 201), ("Pss_Anon", 200)]);
        assert_eq!(hog.weight(Nameless::default()).own, 200 * MIB);
        // A server that shares 153 of 158 MiB with eight forks.
        let server = [("Anonymous", 158), ("Private_Dirty", 5), ("Pss_Anon", 5 + 17)];
        let server = rollup(&server).weight(Nameless::default());
        assert_eq!((server.own, server.proportional), (5 * MIB, 22 * MIB));
        // A fork that shares all with its parent.
        let fork = rollup(&[("Anonymous", 158), ("Pss_Anon", 79), ("Private_Clean", 1)]);
        assert_eq!(fork.weight(Nameless::default()).own, MIB);
        // A private file mapping is not anonymous memory.
        let file =
            rollup(&[("Private_Clean", 500), ("Pss_File", 500), ("Anonymous", 3), ("Pss_Anon", 3)]);
        assert_eq!(file.weight(Nameless::default()).own, 3 * MIB);
        let swapped = rollup(&[("Swap", 100), ("SwapPss", 60)]);
        assert_eq!(swapped.weight(Nameless::default()).shared_swapped, 80 * MIB);
    }

    #[test]
    fn nameless_shared_memory_is_own_if_only_one_process_maps_it() {
        let rows = [("Private_Dirty", 302), ("Pss_Shmem", 300), ("Anonymous", 2), ("Pss_Anon", 2)];
        let shared = rollup(&rows);
        let nameless = |all, own| Nameless { all: all * MIB, own: own * MIB };
        let weight = shared.weight(nameless(400, 400));
        assert_eq!((weight.own, weight.own_shared), (302 * MIB, 300 * MIB));
        assert_eq!(shared.weight(nameless(0, 0)).own, 2 * MIB, "a file of tmpfs stays");
        let kept = shared.weight(nameless(400, 0));
        assert_eq!((kept.own, kept.proportional), (2 * MIB, 302 * MIB), "a child maps it too");
        let half = [("Pss_Shmem", 150), ("Private_Dirty", 2), ("Anonymous", 2), ("Pss_Anon", 2)];
        let half = rollup(&half).weight(nameless(400, 400));
        assert_eq!((half.own, half.proportional), (2 * MIB, 152 * MIB));
    }

    #[test]
    fn only_shared_mappings_that_vanish_are_counted() {
        for (line, expected) in [
            ("1000-3000 rw-s 00000000 00:01 9 /dev/zero (deleted)", Some(((1, 9), 0x2000))),
            ("1000-3000 rw-s 00000000 00:01 9 /memfd:a b (deleted)", Some(((1, 9), 0x2000))),
            ("1000-3000 rw-s 00000000 00:1a 9 /dev/shm/x", None),
            ("1000-3000 rw-s 00000000 00:01 9 /SYSV00000000 (deleted)", None),
            ("1000-3000 rw-p 00000000 00:01 9 /dev/zero (deleted)", None),
            ("1000-3000 rw-p 00000000 00:00 0", None),
            ("", None),
        ] {
            assert_eq!(nameless_mapping(line.as_bytes()), expected, "{line}");
        }
    }

    #[test]
    fn a_text_without_rows_has_no_weight() {
        assert!(Rollup::parse(b"").is_none());
    }

    #[test]
    fn this_process_has_a_weight() {
        let processes = crate::held_process::open_processes(&crate::Root::system()).unwrap();
        let held = HeldProcess::open(&processes, std::process::id()).unwrap();
        let block = std::hint::black_box(vec![1_u8; 32 << 20]);
        let weight = Weight::of(&held, 1).unwrap();
        assert!(weight.own >= block.len() as u64, "{weight:?}");
        assert!(weight.proportional >= weight.own - weight.own_shared, "{weight:?}");
    }
}
