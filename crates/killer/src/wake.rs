//! Wakes the killer before its next look is due: by the kernel's pressure triggers, and for groups of version 1
//! by thresholds of their usage and levels of their pressure.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use linux::Root;
use linux::cgroup::{MemoryGroup, Version};
use policy::kill::{COMPLETE_STALL, PARTIAL_STALL, Stall};
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use types::Nanos;

use crate::Error;

/// The events that wake the killer.
#[derive(Debug)]
pub(crate) struct Wake {
    epoll: OwnedFd,
    sources: Vec<Source>,
}

#[derive(Debug)]
struct Source {
    file: OwnedFd,
    stall: Stall,
    /// Whether it is an eventfd, which stays ready until its counter is read.
    is_counter: bool,
    /// Files for which the eventfd is registered; they must stay open.
    _watched: Vec<File>,
}

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
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(|error| Error::refused("create an epoll", error))?;
        let mut sources = Vec::new();
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
            match trigger(root, &path, kind, time) {
                Ok(file) => sources.push(Source::pressure(file, stall)),
                Err(error) => absent(format!("{kind} pressure of {}: {error}", path.display())),
            }
        }
        if let Some(group) = group.filter(|_| is_v1) {
            match thresholds(root, group) {
                Ok(source) => sources.push(source),
                Err(error) => absent(format!("thresholds of {}: {error}", group.folder.display())),
            }
        }
        for (index, source) in sources.iter().enumerate() {
            let flags =
                if source.is_counter { epoll::EventFlags::IN } else { epoll::EventFlags::PRI };
            let data = epoll::EventData::new_u64(index as u64);
            epoll::add(&epoll, &source.file, data, flags)
                .map_err(|error| Error::refused("listen for pressure", error))?;
        }
        Ok(Wake { epoll, sources })
    }

    /// Waits for up to `time`.
    pub(crate) fn wait(&mut self, time: Duration) -> Woken {
        let time = Timespec::try_from(time).ok();
        let none =
            epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) };
        let mut events = [none; 4];
        // A signal ends the wait as if the time were over; the caller checks for it.
        let count = epoll::wait(&self.epoll, &mut events, time.as_ref()).unwrap_or(0);
        let mut woken = Woken::Time;
        for event in &events[..count] {
            // The struct is packed, so copy its fields.
            let (data, flags) = (event.data, event.flags);
            let index = data.u64() as usize;
            if flags.contains(epoll::EventFlags::ERR) {
                // Its group is removed, so it would stay ready forever.
                let _ = epoll::delete(&self.epoll, &self.sources[index].file);
                continue;
            }
            let source = &self.sources[index];
            if source.is_counter {
                let mut count = [0; 8];
                let _ = rustix::io::read(&source.file, &mut count);
            }
            woken = match woken {
                Woken::Kernel(stall) => Woken::Kernel(stall.max(source.stall)),
                Woken::Time => Woken::Kernel(source.stall),
            };
        }
        woken
    }
}

impl Source {
    fn pressure(file: File, stall: Stall) -> Source {
        Source { file: file.into(), stall, is_counter: false, _watched: Vec::new() }
    }
}

/// Opens a pressure trigger for `time` per second. If the kernel refuses, as it does without
/// CAP_SYS_RESOURCE, the trigger is for twice the time in two seconds (psi_trigger_create in
/// kernel/sched/psi.c).
fn trigger(root: &Root, path: &Path, kind: &str, time: Duration) -> std::io::Result<File> {
    let mut last = None;
    for factor in [1, 2] {
        let mut file = OpenOptions::new().read(true).write(true).open(root.path(path))?;
        let microseconds = (time.as_micros() as u64 * factor).clamp(1, 1_000_000 * factor);
        // The kernel requires the final zero.
        let text = format!("{kind} {microseconds} {}\0", 1_000_000 * factor);
        match file.write_all(text.as_bytes()) {
            Ok(()) => return Ok(file),
            Err(error) => last = Some(error),
        }
    }
    Err(last.expect("two windows were tried"))
}

/// An eventfd for the usage of a group of version 1 at some shares of its limit, and for its levels
/// of pressure (Documentation/admin-guide/cgroup-v1/memory.rst, 9 and 11).
fn thresholds(root: &Root, group: &MemoryGroup) -> std::io::Result<Source> {
    let counter = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let open = |name: &str| File::open(root.path(group.folder.join(name)));
    let read = |name: &str| std::fs::read_to_string(root.path(group.folder.join(name)));
    let register = |watched: &File, argument: String| {
        let control = root.path(group.folder.join("cgroup.event_control"));
        let (counter, watched) = (counter.as_fd().as_raw_fd(), watched.as_raw_fd());
        let text = format!("{counter} {watched} {argument}");
        OpenOptions::new().write(true).open(control)?.write_all(text.as_bytes())
    };
    let usage = open("memory.usage_in_bytes")?;
    let limit: u64 = read("memory.limit_in_bytes")?.trim().parse().unwrap_or(u64::MAX);
    for percent in [70, 80, 90, 95] {
        register(&usage, (limit / 100 * percent).to_string())?;
    }
    let mut watched = vec![usage];
    if let Ok(pressure) = open("memory.pressure_level") {
        register(&pressure, "low".to_owned())?;
        watched.push(pressure);
    }
    Ok(Source { file: counter, stall: Stall::None, is_counter: true, _watched: watched })
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

    #[test]
    fn a_trigger_is_written_in_the_form_that_the_kernel_parses() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        std::fs::write(root.path("/pressure"), "").unwrap();
        let time = Duration::from_millis(70);
        trigger(&root, Path::new("/pressure"), "some", time).unwrap();
        assert_eq!(root.read("/pressure").unwrap().unwrap(), "some 70000 1000000\0");
    }
}
