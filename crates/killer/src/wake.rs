//! Wakes the killer before its next look is due: by the kernel's pressure triggers, and for groups of version 1
//! by thresholds of their usage and levels of their pressure.

use std::path::Path;
use std::time::Duration;

use linux::Root;
use linux::cgroup::{MemoryGroup, Version};
use linux::wakeups::{Event, Events};
use policy::kill::{COMPLETE_STALL, PARTIAL_STALL, Stall};
use types::Nanos;

use crate::Error;

/// The events that wake the killer.
#[derive(Debug)]
pub(crate) struct Wake(Events<Stall>);

/// The reason why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// The time was over.
    Time,
    /// The kernel reported this stall; `Stall::None` for a threshold or level of usage.
    Kernel(Stall),
}

/// The stall times after which the kernel wakes the killer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stalls {
    /// Stall of some task, per second.
    pub partial: Duration,
    /// Stall of all tasks, per second.
    pub complete: Duration,
}

impl Default for Stalls {
    /// The stall times of Android's lmkd.
    fn default() -> Stalls {
        let time = |time: Nanos| Duration::from_nanos(time.0 as u64);
        Stalls { partial: time(PARTIAL_STALL), complete: time(COMPLETE_STALL) }
    }
}

/// Logged for groups of version 1 on a kernel without vendor patches.
const WITHOUT_STALLS: &str = "stalls of this cgroup: cgroups of version 1 have no memory.pressure; \
                              thresholds of the usage wake killd instead";

impl Wake {
    /// Listens to all events that this kernel offers for `group`, or for the machine. Calls `absent` with each
    /// event that it does not offer.
    ///
    /// # Errors
    /// The operating system refuses an epoll.
    pub(crate) fn new(
        root: &Root,
        group: Option<&MemoryGroup>,
        stalls: Stalls,
        mut absent: impl FnMut(String),
    ) -> Result<Wake, Error> {
        let mut events = Events::new().map_err(|error| Error::refused("create an epoll", error))?;
        let mut add = |event, stall| {
            events.add(event, stall).map_err(|error| Error::refused("listen for pressure", error))
        };
        let path = match group {
            None => Path::new("/proc/pressure/memory").to_owned(),
            Some(group) => group.folder.join("memory.pressure"),
        };
        let wanted =
            [("some", stalls.partial, Stall::Partial), ("full", stalls.complete, Stall::Complete)];
        let is_v1 = group.is_some_and(|group| group.version == Version::V1);
        let has_stalls = !is_v1 || root.exists(&path);
        if !has_stalls {
            absent(WITHOUT_STALLS.to_owned());
        }
        for (kind, time, stall) in wanted.into_iter().filter(|_| has_stalls) {
            match Event::of_pressure(root, &path, kind, time) {
                Ok(event) => add(event, stall)?,
                Err(error) => absent(format!("{kind} pressure of {}: {error}", path.display())),
            }
        }
        if let Some(group) = group.filter(|_| is_v1) {
            match Event::of_usage(root, group) {
                Ok(event) => add(event, Stall::None)?,
                Err(error) => absent(format!("thresholds of {}: {error}", group.folder.display())),
            }
        }
        Ok(Wake(events))
    }

    /// Waits for up to `time`.
    pub(crate) fn wait(&mut self, time: Duration) -> Woken {
        // A signal ends the wait as if the time were over; the caller checks for it.
        let mut woken = Woken::Time;
        self.0.wait(time, |stall| {
            woken = match woken {
                Woken::Kernel(before) => Woken::Kernel(before.max(stall)),
                Woken::Time => Woken::Kernel(stall),
            };
        });
        woken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_triggers_only_the_time_ends_a_wait() {
        let folder = tempfile::tempdir().unwrap();
        let mut absent = Vec::new();
        let root = Root::at(folder.path());
        let mut wake = Wake::new(&root, None, Stalls::default(), |what| absent.push(what)).unwrap();
        assert_eq!(absent.len(), 2);
        assert!(absent[0].starts_with("some pressure of /proc/pressure/memory"), "{absent:?}");
        assert_eq!(wake.wait(Duration::from_millis(1)), Woken::Time);
    }

    #[test]
    fn stalls_of_a_group_of_version_1_are_absent_unless_the_kernel_offers_them() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let group = MemoryGroup { folder: "/group".into(), version: Version::V1, id: 1, level: 1 };
        let absent = || {
            let mut absent = Vec::new();
            Wake::new(&root, Some(&group), Stalls::default(), |what| absent.push(what)).unwrap();
            absent.retain(|what| !what.starts_with("thresholds of /group"));
            absent
        };
        assert_eq!(absent(), [WITHOUT_STALLS]);
        // Some vendors' kernels have memory.pressure; here the file cannot be opened.
        std::fs::create_dir_all(root.path("/group/memory.pressure")).unwrap();
        let kinds: Vec<String> = absent().iter().map(|what| what[..13].to_owned()).collect();
        assert_eq!(kinds, ["some pressure", "full pressure"]);
    }
}
