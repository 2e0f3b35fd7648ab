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
/// The most pieces of shared memory of a process that are compared with those of its relatives. Further pieces are its
/// own if all of these are, because a fork maps all of them.
const SHARED_MAPPINGS_MAX: usize = 16;
/// The most children whose `maps` are read, the newest first: older ones may run another program by now.
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
            mappings.count_allocated(process);
            mappings.look_in_relatives(process, parent)?;
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
    /// All bytes in memory at that instant.
    pub resident: u64,
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
            resident_and_anonymous(statm, page).unwrap_or_default()
        };
        let before = counted();
        // A read would hold the memory of a dying process.
        let weight = match process.has_ended(Duration::ZERO) {
            true => None,
            false => Weight::of(process, parent).ok(),
        };
        let is_borrowed = process.shares_map_with(parent) == Some(true);
        Weighed::new(weight, [before, counted()], is_borrowed)
    }

    /// A result of a read; `counted` are its resident and its anonymous memory by `statm` before and after the read.
    pub fn new(weight: Option<Weight>, counted: [(u64, u64); 2], is_borrowed: bool) -> Weighed {
        // Growth during the read is the process's own memory.
        let own = weight.map_or(0, |weight| weight.own - weight.own_shared);
        let [(resident, first), (_, second)] = counted;
        let anonymous = own.clamp(first.min(second), first.max(second));
        Weighed { weight, anonymous, resident, is_borrowed }
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

    /// Whether a process that has this size now has changed little since it was weighed. If it had shared memory without
    /// a name, resident memory counts too, because it shows whether shared memory grew.
    pub fn has_similar_size(&self, resident: u64, anonymous: u64) -> bool {
        let is_similar = |now: u64, then: u64| now.abs_diff(then) <= then / CHANGED_PART;
        let has_shared = self.weight.is_some_and(|weight| weight.shared > 0);
        is_similar(anonymous, self.anonymous)
            && (!has_shared || is_similar(resident, self.resident))
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
    /// Addresses of one of its mappings, by which the kernel names its file.
    addresses: (u64, u64),
    bytes: u64,
    is_elsewhere: bool,
}

/// The mappings of shared memory without a name of one process.
#[derive(Debug, Default)]
struct SharedMappings {
    rows: [SharedMapping; SHARED_MAPPINGS_MAX],
    length: usize,
    /// Bytes of address space of memory that has no row.
    others: u64,
}

impl SharedMappings {
    fn of(process: &HeldProcess) -> Result<SharedMappings, Errno> {
        let mut found = SharedMappings::default();
        each_nameless(&process.open_file(c"maps")?, |mapping| found.add(mapping))?;
        Ok(found)
    }

    fn add(&mut self, mapping: SharedMapping) {
        let rows = &mut self.rows[..self.length];
        if let Some(row) = rows.iter_mut().find(|row| row.memory == mapping.memory) {
            row.bytes += mapping.bytes;
        } else if let Some(row) = self.rows.get_mut(self.length) {
            *row = mapping;
            self.length += 1;
        } else {
            self.others += mapping.bytes;
        }
    }

    fn nameless(&self) -> Nameless {
        let rows = &self.rows[..self.length];
        let is_elsewhere = rows.iter().any(|row| row.is_elsewhere);
        let own = rows.iter().filter(|row| !row.is_elsewhere).map(|row| row.bytes).sum::<u64>();
        let all = rows.iter().map(|row| row.bytes).sum::<u64>() + self.others;
        Nameless { all, own: own + if is_elsewhere { 0 } else { self.others } }
    }

    /// Limits each row to the memory that the kernel has allocated for it: pages of its address space that no process has
    /// touched do not count.
    fn count_allocated(&mut self, process: &HeldProcess) {
        for row in &mut self.rows[..self.length] {
            // Without the privilege to ask, address space is the bound.
            if let Some(allocated) = process.allocated_bytes(row.addresses) {
                row.bytes = row.bytes.min(allocated);
            }
        }
    }

    /// Looks for the mappings in the parent and in children, which have them from a fork. A process that uses the
    /// same address space does not count.
    ///
    /// # Errors
    /// Descriptors or memory ran out.
    fn look_in_relatives(&mut self, process: &HeldProcess, parent: u32) -> Result<(), Errno> {
        let children = process.newest_children::<CHILDREN_MAX>();
        for relative in std::iter::once(parent).chain(children) {
            if relative == 0 || process.shares_map_with(relative) == Some(true) {
                continue;
            }
            let rows = &mut self.rows[..self.length];
            let seen = process.open_map_of(relative).and_then(|maps| {
                each_nameless(&maps, |mapping| {
                    let same = rows.iter_mut().filter(|row| row.memory == mapping.memory);
                    same.for_each(|row| row.is_elsewhere = true);
                })
            });
            // A relative that has ended or may not be read shows nothing.
            if let Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM)) = seen {
                return Err(error);
            }
            if self.rows[..self.length].iter().all(|row| row.is_elsewhere) {
                break;
            }
        }
        Ok(())
    }
}

/// Calls `found` with each mapping of shared memory without a name.
fn each_nameless(maps: &OwnedFd, found: impl FnMut(SharedMapping)) -> Result<(), Errno> {
    let mut found = found;
    let mut buffer = [0; 4096];
    let (mut kept, mut seen) = (0, 0);
    loop {
        let length = read(maps, &mut buffer[kept..])?;
        seen += length;
        let filled = kept + length;
        let text = &buffer[..filled];
        let end = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        let lines = text[..end].split(|&byte| byte == b'\n');
        lines.filter_map(nameless_mapping).for_each(&mut found);
        if length == 0 || seen >= MAPS_MAX {
            return Ok(());
        }
        // A line longer than the buffer has a path with a name; the rest of such a line is skipped.
        kept = if end == 0 && filled == buffer.len() { 0 } else { filled - end };
        buffer.copy_within(filled - kept..filled, 0);
    }
}

/// The mapping in a line of `maps`, if it is shared memory without a name. The line may have a path that is not UTF-8.
fn nameless_mapping(line: &[u8]) -> Option<SharedMapping> {
    let mut fields = line.splitn(6, |&byte| byte == b' ');
    let mut field = || std::str::from_utf8(fields.next()?).ok();
    let (begin, end) = field()?.split_once('-')?;
    let is_shared = field()?.ends_with('s');
    field()?;
    let (major, minor) = field()?.split_once(':')?;
    let inode = field()?.parse().ok()?;
    let path = fields.next()?.trim_ascii_start();
    let is_nameless = path.ends_with(b" (deleted)") && !path.starts_with(b"/SYSV");
    let number = |hexadecimal| u64::from_str_radix(hexadecimal, 16).ok();
    let addresses = (number(begin)?, number(end)?);
    let bytes = addresses.1.checked_sub(addresses.0)?;
    let memory = (number(major)? << 32 | number(minor)?, inode);
    let mapping = SharedMapping { memory, addresses, bytes, is_elsewhere: false };
    (is_shared && is_nameless).then_some(mapping)
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
            ("1000-3000 rw-s 00000000 00:01 9 /dev/zero (deleted)", Some(0x2000)),
            ("1000-3000 rw-s 00000000 00:01 9 /memfd:a b (deleted)", Some(0x2000)),
            ("1000-3000 rw-s 00000000 00:1a 9 /dev/shm/x", None),
            ("1000-3000 rw-s 00000000 00:01 9 /SYSV00000000 (deleted)", None),
            ("1000-3000 rw-p 00000000 00:01 9 /dev/zero (deleted)", None),
            ("1000-3000 rw-p 00000000 00:00 0", None),
            ("", None),
        ] {
            let found = nameless_mapping(line.as_bytes());
            assert_eq!(found.map(|mapping| mapping.bytes), expected, "{line}");
            assert!(found.is_none_or(|mapping| mapping.memory == (1, 9)), "{line}");
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
