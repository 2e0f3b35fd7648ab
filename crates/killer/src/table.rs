//! The table of all processes that could be killed, each with an open descriptor and its last measurements.
//!
//! `entries` and `candidates` have the same order: the candidate with an index is a policy's view of the entry with
//! that index. Policies read the candidates as one slice. Both are allocated at the start. If there are more processes than room, the table keeps the
//! largest and counts the others.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use linux::cgroup::MemoryGroup;
use linux::held_process::{HeldProcess, each_process, open_processes, read_unheld};
use linux::kernel_file::bytes;
use linux::stat::Stat;
use linux::{Root, cgroup};
use policy::kill::search::Sharer;
use policy::kill::{Candidate, CandidateIndex, Standing};
use types::Nanos;

use crate::Error;
use crate::rules::Rule;

mod entry;
mod groups;
mod name;
mod others;
mod sharing;

use entry::{Context, OpenError, Scale};
pub(crate) use entry::{Entry, Seen};
pub(crate) use name::Name;
use others::Others;

/// Kernel threads that are remembered; others are opened again at each refresh.
const IGNORED_MAX: usize = 4096;
/// A process without room replaces one in the table that is smaller by this much and an eighth, so that two
/// of nearly equal size do not change places at each refresh.
const LARGER_BY: u64 = 64 << 10;

/// The processes that the table covers.
#[derive(Debug)]
enum Members {
    /// All processes of the machine.
    Machine,
    /// Processes of a group and of the groups below it.
    Group(OwnedFd),
}

/// The table of processes that could be killed.
#[derive(Debug)]
pub(crate) struct Table {
    processes: OwnedFd,
    members: Members,
    rules: Arc<[Rule]>,
    entries: Vec<Entry>,
    candidates: Vec<Candidate>,
    /// Kernel threads, sorted, so that they are not opened again.
    ignored: Vec<u32>,
    others: Others,
    /// How each candidate shares memory, in their order.
    sharers: Vec<Sharer>,
    /// Indexes of entries, sorted by size to find the largest.
    order: Vec<(u64, CandidateIndex)>,
    room: usize,
    scale: Scale,
    serial: u64,
    /// Processes of the last refresh without room, and the bytes of the largest of them.
    pub overlooked: (usize, u64),
}

impl Table {
    /// An empty table for `room` processes.
    ///
    /// # Errors
    /// The operating system refuses.
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
            ignored: Vec::with_capacity(IGNORED_MAX),
            others: Others::new(),
            sharers: Vec::with_capacity(room),
            order: Vec::with_capacity(room),
            room,
            scale: Scale {
                tick: Nanos(linux::system::tick().as_nanos() as i64),
                page: rustix::param::page_size() as u64,
                has_swap: false,
            },
            serial: 0,
            overlooked: (0, 0),
        })
    }

    /// The number of processes.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The process with this index.
    pub(crate) fn entry(&self, index: CandidateIndex) -> &Entry {
        &self.entries[index.0]
    }

    /// The policies' view of the process with this index.
    pub(crate) fn candidate(&self, index: CandidateIndex) -> &Candidate {
        &self.candidates[index.0]
    }

    /// All processes with their index and the policies' view of them.
    pub(crate) fn rows(
        &self,
    ) -> impl Iterator<Item = (CandidateIndex, &Entry, &Candidate)> + Clone {
        let rows = self.entries.iter().zip(&self.candidates).enumerate();
        rows.map(|(index, (entry, candidate))| (CandidateIndex(index), entry, candidate))
    }

    /// The policies' view of all processes.
    pub(crate) fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    /// Replaces the rules.
    pub(crate) fn set_rules(&mut self, rules: Arc<[Rule]>) {
        self.rules = rules;
        let mut buffer = [0; 1024];
        for entry in &mut self.entries {
            entry.classify(&self.rules, &mut buffer);
        }
    }

    /// Adds new processes and removes those that have ended. With `is_near` it also checks the numbers of kernel
    /// threads again, which may have been reused.
    pub(crate) fn refresh(&mut self, now: Nanos, is_near: bool, has_swap: bool) {
        self.scale.has_swap = has_swap;
        if is_near {
            self.ignored.clear();
        }
        self.drop_unlisted();
        self.others.clear();
        self.hold_listed(now);
        self.overlooked = (0, 0);
        if self.others.count() > 0 {
            self.keep_largest(now);
        }
        self.entries.sort_unstable_by_key(|entry| entry.process.number());
        // A number may be listed twice while its process moves between groups.
        self.entries.dedup_by_key(|entry| entry.process.number());
        self.ignored.sort_unstable();
    }

    fn drop_unlisted(&mut self) {
        let Table { entries, members, processes, .. } = self;
        entries.iter_mut().for_each(|entry| entry.is_listed = false);
        let is_complete = members.each(processes, &mut |number| {
            if let Some(CandidateIndex(index)) = index_of(entries, number) {
                entries[index].is_listed = true;
            }
        });
        if is_complete {
            entries.retain(|entry| entry.is_listed);
        }
    }

    fn hold_listed(&mut self, now: Nanos) {
        let context = Context { rules: &self.rules, now, scale: self.scale };
        let Table { entries, members, processes, others, ignored, room, serial, .. } = self;
        let (known, ignored_known) = (entries.len(), ignored.len());
        let this = std::process::id();
        // After a failed listing the next refresh tries again.
        let _ = members.each(processes, &mut |number| {
            let held = &entries[..known];
            if number <= 1
                || number == this
                || index_of(held, number).is_some()
                || ignored[..ignored_known].binary_search(&number).is_ok()
            {
                return;
            }
            let opened = match entries.len() < *room {
                true => Entry::open(processes, number, *serial, context),
                false => Err(OpenError::NoDescriptor),
            };
            match opened {
                Ok(entry) => {
                    *serial += 1;
                    entries.push(entry);
                }
                Err(OpenError::Ended) => {}
                Err(OpenError::KernelThread) if ignored.len() < ignored.capacity() => {
                    ignored.push(number)
                }
                Err(OpenError::KernelThread) => {}
                Err(OpenError::NoDescriptor) => {
                    others.add(number, size(processes, number, context.scale));
                }
            }
        });
    }

    /// Replaces the smallest processes in the table by the largest without room.
    fn keep_largest(&mut self, now: Nanos) {
        let Table { entries, processes, others, order, serial, overlooked, .. } = self;
        let context = Context { rules: &self.rules, now, scale: self.scale };
        order.clear();
        let sizes = entries.iter().map(|held| held.seen.all());
        order.extend(sizes.zip((0..).map(CandidateIndex)));
        order.sort_unstable();
        let mut smallest = order.iter();
        let mut largest_unheld = 0;
        others.descend(|bytes, number| {
            largest_unheld = largest_unheld.max(bytes);
            let Some(&(least, CandidateIndex(index))) = smallest.next() else { return false };
            if bytes <= least + least / 8 + LARGER_BY {
                return false;
            }
            if let Ok(entry) = Entry::open(processes, number, *serial, context) {
                *serial += 1;
                entries[index] = entry;
                // The replaced process is without room now.
                largest_unheld = least;
            }
            true
        });
        *overlooked = (others.count(), largest_unheld);
    }

    /// Measures every process, and removes those that have ended.
    pub(crate) fn measure(&mut self, now: Nanos) {
        let Table { entries, candidates, .. } = self;
        let context = Context { rules: &self.rules, now, scale: self.scale };
        candidates.clear();
        entries.retain_mut(|entry| {
            entry.measure(context).is_some_and(|candidate| {
                candidates.push(candidate);
                true
            })
        });
    }

    /// Measures a process once more before the kill; returns whether it may still be killed.
    pub(crate) fn confirm(&mut self, index: CandidateIndex, now: Nanos) -> bool {
        let context = Context { rules: &self.rules, now, scale: self.scale };
        let fresh = self.entries[index.0].measure(context);
        let before = *self.candidate(index);
        let standing = fresh.map_or(Standing::Dying, |fresh| fresh.standing);
        self.candidates[index.0] = Candidate { standing, ..fresh.unwrap_or(before) };
        self.candidate(index).may_die()
    }

    /// Marks a process as refused: the kernel did not permit the kill.
    pub(crate) fn mark_refused(&mut self, index: CandidateIndex, now: Nanos) {
        self.entries[index.0].mark_refused(now);
        self.candidates[index.0].standing = Standing::Refused;
    }

    /// Marks a process as killed.
    pub(crate) fn mark_dying(&mut self, index: CandidateIndex, now: Nanos) {
        self.entries[index.0].mark_dying(now);
        self.candidates[index.0].standing = Standing::Dying;
    }
}

impl Members {
    /// Calls `each` with every number; returns whether the list is complete.
    fn each(&self, processes: &OwnedFd, each: &mut dyn FnMut(u32)) -> bool {
        match self {
            Members::Machine => each_process(processes, each).is_ok(),
            Members::Group(folder) => cgroup::each_process_below(folder, each).is_ok(),
        }
    }
}

/// The index of the process with this number among entries sorted by number.
fn index_of(entries: &[Entry], number: u32) -> Option<CandidateIndex> {
    let found = entries.binary_search_by_key(&number, |held| held.process.number());
    found.ok().map(CandidateIndex)
}

/// Bytes in memory and in swap of a process without an entry; 0 if it has ended or is a kernel thread.
fn size(processes: &OwnedFd, number: u32, scale: Scale) -> u64 {
    let mut buffer = [0; 4096];
    let statm = read_unheld(processes, number, b"/statm\0", &mut buffer).unwrap_or_default();
    let resident = Seen::of(statm, scale.page).map_or(0, |seen| seen.resident);
    if resident == 0 {
        return size_by_thread(processes, number, scale).unwrap_or(0);
    }
    let status = match scale.has_swap {
        true => read_unheld(processes, number, b"/status\0", &mut buffer).unwrap_or_default(),
        false => &[],
    };
    resident + bytes(status, b"VmSwap").unwrap_or(0)
}

/// Bytes in memory, without swap, of a process whose main thread has ended while others run. None for other
/// processes, or if no descriptor is free.
fn size_by_thread(processes: &OwnedFd, number: u32, scale: Scale) -> Option<u64> {
    let mut buffer = [0; 512];
    let stat = Stat::parse(read_unheld(processes, number, b"/stat\0", &mut buffer).ok()?)?;
    if !stat.has_main_thread_ended() || stat.has_ended() {
        return None;
    }
    let process = HeldProcess::open(processes, number).ok()?;
    Some(Seen::of(process.read(c"statm", &mut buffer).ok()?, scale.page)?.resident)
}

#[cfg(test)]
mod tests;
