//! The programs beside a run, and the processor time that they and kernel threads use while it goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use linux::stat::Stat;
use linux::{Root, process};

use crate::Error;

/// The ancestor of all, and of every process whose parent has ended, so it says nothing about where one belongs.
const INIT: u32 = 1;

/// A process as `/proc` shows it.
#[derive(Clone, Copy, Debug)]
struct Seen {
    parent: u32,
    start_ticks: u64,
    /// Processor time, its own and that of the children that it has waited for.
    used_ticks: u64,
}

/// The processes of the machine that are not part of a run.
#[derive(Debug)]
pub(crate) struct OtherPrograms {
    /// This process, whose descendants are the run.
    own: u32,
    before: BTreeMap<u32, Seen>,
}

impl OtherPrograms {
    /// Notes all programs but this one and its descendants.
    ///
    /// # Errors
    /// The operating system refuses.
    pub(crate) fn now(root: &Root) -> Result<OtherPrograms, Error> {
        let own = std::process::id();
        let descendants = process::descendants(root, own);
        let mut before = seen(root)?;
        before
            .retain(|number, _| *number != own && *number != INIT && !descendants.contains(number));
        Ok(OtherPrograms { own, before })
    }

    /// The numbers of the programs beside the run, with that of init, unless init is the run itself.
    pub(crate) fn numbers(&self) -> BTreeSet<u32> {
        let init = Some(INIT).filter(|&init| init != self.own);
        self.before.keys().copied().chain(init).collect()
    }

    /// The ticks that they have used since, with the children that they started. Those of a process that ended are
    /// missing if no parent waited for it that still runs. `group` is the memory cgroup of the run: a process of the
    /// run whose parent ended may have a program beside the run as its new parent.
    ///
    /// # Errors
    /// The operating system refuses.
    pub(crate) fn ticks_until_now(&self, root: &Root, group: &Path) -> Result<u64, Error> {
        let name = group.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let mut now = seen(root)?;
        now.retain(|&number, _| {
            let is_new = !self.before.contains_key(&number);
            let group = || process::memory_group(root, number).unwrap_or_default();
            !(is_new && group().split('/').any(|part| part == name))
        });
        Ok(self.ticks_in(&now))
    }

    fn ticks_in(&self, now: &BTreeMap<u32, Seen>) -> u64 {
        let known = |number: u32, process: &Seen| {
            self.before.get(&number).filter(|old| old.start_ticks == process.start_ticks)
        };
        let is_other = |number: u32, process: &Seen| {
            let ancestors = ancestors(now, number);
            let is_known = |number: &u32| {
                now.get(number).is_some_and(|process| known(*number, process).is_some())
            };
            let is_run = number == self.own || ancestors.contains(&self.own);
            known(number, process).is_some() || !is_run && ancestors.iter().any(is_known)
        };
        let others = now.iter().filter(|(number, process)| is_other(**number, process));
        let used: u64 = others.map(|(_, process)| process.used_ticks).sum();
        // What a process had used before is now in that of the parent that waited for it.
        let survives =
            |number: u32| now.get(&number).is_some_and(|process| known(number, process).is_some());
        let before = self.before.iter().filter(|(number, _)| {
            survives(**number)
                || ancestors(&self.before, **number).iter().any(|ancestor| survives(*ancestor))
        });
        used.saturating_sub(before.map(|(_, process)| process.used_ticks).sum())
    }
}

/// The ancestors of a process below init.
fn ancestors(processes: &BTreeMap<u32, Seen>, number: u32) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    let mut next = processes.get(&number).map(|process| process.parent);
    while let Some(parent) = next.filter(|&parent| parent > INIT && found.insert(parent)) {
        next = processes.get(&parent).map(|process| process.parent);
    }
    found
}

/// The kernel threads at the beginning of a run.
#[derive(Debug)]
pub(crate) struct KernelThreads {
    before: BTreeMap<u32, Seen>,
}

impl KernelThreads {
    /// The kernel threads that run now.
    ///
    /// # Errors
    /// The operating system refuses.
    pub(crate) fn now(root: &Root) -> Result<KernelThreads, Error> {
        Ok(KernelThreads { before: threads_or_programs(root, true)? })
    }

    /// The processor time in ticks that kernel threads have used since, without those that have ended.
    ///
    /// # Errors
    /// The operating system refuses.
    pub(crate) fn ticks_until_now(&self, root: &Root) -> Result<u64, Error> {
        let used = |(number, now): (&u32, &Seen)| {
            let before = self.before.get(number);
            let same = before.filter(|before| before.start_ticks == now.start_ticks);
            now.used_ticks.saturating_sub(same.map_or(0, |before| before.used_ticks))
        };
        Ok(threads_or_programs(root, true)?.iter().map(used).sum())
    }
}

/// The programs. Kernel threads are none: reclaim and I/O of the run are among their work.
fn seen(root: &Root) -> Result<BTreeMap<u32, Seen>, Error> {
    threads_or_programs(root, false)
}

fn threads_or_programs(root: &Root, is_kernel: bool) -> Result<BTreeMap<u32, Seen>, Error> {
    let read = |number: u32| {
        // A process may end after it was listed.
        let text = root.read(format!("/proc/{number}/stat")).ok()??;
        let stat = Stat::parse(text.as_bytes())?;
        (stat.is_kernel_thread()? == is_kernel).then_some(())?;
        let seen = Seen {
            parent: stat.parent()?,
            start_ticks: stat.start_ticks()?,
            used_ticks: stat.cpu_ticks()? + stat.waited_for_ticks()?,
        };
        Some((number, seen))
    };
    Ok(process::all(root)?.into_iter().filter_map(read).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn processes(rows: &[(u32, u32, u64, u64)]) -> BTreeMap<u32, Seen> {
        let seen = |&(number, parent, start_ticks, used_ticks)| {
            (number, Seen { parent, start_ticks, used_ticks })
        };
        rows.iter().map(seen).collect()
    }

    #[test]
    fn ticks_are_those_of_other_programs_and_of_their_new_children() {
        let shell = (10, 1, 5, 100);
        let orphan = (12, 1, 7, 600);
        let others = OtherPrograms { own: 30, before: processes(&[shell, (11, 10, 6, 7), orphan]) };
        let now = processes(&[
            (1, 0, 0, 9000),
            // The shell, which waited for a child after 20 ticks, and two generations that it started since.
            (10, 1, 5, 130 + 7 + 20),
            (20, 10, 50, 3),
            (21, 20, 51, 4),
            // The run, which a shell started, an application of it, and one whose parent has ended.
            (30, 10, 40, 1000),
            (31, 30, 41, 1000),
            (32, 1, 42, 1000),
            // Another process with the number of one that has ended.
            (11, 30, 60, 500),
        ]);
        assert_eq!(others.ticks_in(&now), 30 + 20 + 3 + 4);
        assert_eq!(others.ticks_in(&others.before), 0);
    }

    #[test]
    fn kernel_threads_are_no_programs() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let write = |number: u32, parent: u32, flags: u64| {
            let path = root.path(format!("/proc/{number}/stat"));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            let text =
                format!("{number} (x) S {parent} 1 1 0 -1 {flags} 0 0 0 0 1 2 3 4 20 0 1 0 77");
            std::fs::write(path, text).unwrap();
        };
        write(50, 2, 0x20_0040);
        write(51, 1, 0x40_0000);
        let threads = KernelThreads::now(&root).unwrap();
        assert_eq!(threads.ticks_until_now(&root).unwrap(), 0);
        // The number of a thread that has ended is used again.
        let other = KernelThreads {
            before: [(50, Seen { parent: 2, start_ticks: 76, used_ticks: 90 })].into(),
        };
        assert_eq!(other.ticks_until_now(&root).unwrap(), 10);
        let ended = KernelThreads {
            before: [(49, Seen { parent: 2, start_ticks: 1, used_ticks: 1000 })].into(),
        };
        assert_eq!(ended.ticks_until_now(&root).unwrap(), 10);
        let found = seen(&root).unwrap();
        assert_eq!(found.keys().collect::<Vec<_>>(), [&51]);
        assert_eq!((found[&51].used_ticks, found[&51].start_ticks), (10, 77));
    }
}
