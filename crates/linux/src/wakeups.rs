//! Events of the kernel that wake a daemon before its next look is due: pressure triggers, and for groups of version
//! 1 thresholds of their usage and levels of their pressure. Waiting allocates nothing.
//!
//! Contract: opening an event takes the text that the kernel requires, and is an error of the operating system if it
//! does not offer the event. An event of a removed group is dropped at its first wait.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};

use crate::Root;
use crate::cgroup::MemoryGroup;

/// Shares of a group's limit in percent, at which its usage wakes.
const THRESHOLDS: [u64; 4] = [70, 80, 90, 95];

/// An event of the kernel.
#[derive(Debug)]
pub struct Event {
    file: OwnedFd,
    /// Whether the file is an eventfd, which stays ready until its counter is read.
    is_counter: bool,
    /// Files for which the eventfd is registered; they must stay open.
    _watched: Vec<File>,
}

/// Events to wait for, each with a tag.
#[derive(Debug)]
pub struct Events<Tag> {
    epoll: OwnedFd,
    events: Vec<(Event, Tag)>,
}

impl Event {
    /// A pressure trigger in the file at `path`: `kind` is `some` or `full`, for a stall of `time` per second. If the
    /// kernel refuses, as it does without CAP_SYS_RESOURCE, the trigger is for twice the time in two seconds
    /// (psi_trigger_create in kernel/sched/psi.c).
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn of_pressure(root: &Root, path: &Path, kind: &str, time: Duration) -> io::Result<Event> {
        let mut last = None;
        for factor in [1, 2] {
            let mut file = OpenOptions::new().read(true).write(true).open(root.path(path))?;
            let microseconds = (time.as_micros() as u64 * factor).clamp(1, 1_000_000 * factor);
            // The kernel requires the final zero.
            let text = format!("{kind} {microseconds} {}\0", 1_000_000 * factor);
            match file.write_all(text.as_bytes()) {
                Ok(()) => {
                    return Ok(Event {
                        file: file.into(),
                        is_counter: false,
                        _watched: Vec::new(),
                    });
                }
                Err(error) => last = Some(error),
            }
        }
        Err(last.expect("two windows were tried"))
    }

    /// The usage of a group of version 1 at some shares of its limit, and its levels of pressure
    /// (Documentation/admin-guide/cgroup-v1/memory.rst, 9 and 11).
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn of_usage(root: &Root, group: &MemoryGroup) -> io::Result<Event> {
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
        for percent in THRESHOLDS {
            register(&usage, (limit / 100 * percent).to_string())?;
        }
        let mut watched = vec![usage];
        if let Ok(pressure) = open("memory.pressure_level") {
            register(&pressure, "low".to_owned())?;
            watched.push(pressure);
        }
        Ok(Event { file: counter, is_counter: true, _watched: watched })
    }
}

impl<Tag: Copy> Events<Tag> {
    /// No events yet.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn new() -> io::Result<Events<Tag>> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Events { epoll, events: Vec::new() })
    }

    /// Adds an event.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn add(&mut self, event: Event, tag: Tag) -> io::Result<()> {
        let flags = if event.is_counter { epoll::EventFlags::IN } else { epoll::EventFlags::PRI };
        let data = epoll::EventData::new_u64(self.events.len() as u64);
        epoll::add(&self.epoll, &event.file, data, flags)?;
        self.events.push((event, tag));
        Ok(())
    }

    /// Waits up to `time`; calls `each` with the tag of every event that occurred. A signal ends the wait as if the
    /// time were over.
    pub fn wait(&mut self, time: Duration, mut each: impl FnMut(Tag)) {
        let time = Timespec::try_from(time).ok();
        let none =
            epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) };
        let mut ready = [none; 4];
        let count = epoll::wait(&self.epoll, &mut ready, time.as_ref()).unwrap_or(0);
        for occurred in &ready[..count] {
            // The struct is packed, so copy its fields.
            let (data, flags) = (occurred.data, occurred.flags);
            let (event, tag) = &self.events[data.u64() as usize];
            if flags.contains(epoll::EventFlags::ERR) {
                // Its group is removed, so it would stay ready forever.
                let _ = epoll::delete(&self.epoll, &event.file);
                continue;
            }
            if event.is_counter {
                let mut count = [0; 8];
                let _ = rustix::io::read(&event.file, &mut count);
            }
            each(*tag);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::Version;

    #[test]
    fn a_trigger_is_written_in_the_form_that_the_kernel_parses() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        std::fs::write(root.path("/pressure"), "").unwrap();
        let time = Duration::from_millis(70);
        Event::of_pressure(&root, Path::new("/pressure"), "some", time).unwrap();
        assert_eq!(root.read("/pressure").unwrap().unwrap(), "some 70000 1000000\0");
    }

    #[test]
    fn a_counter_wakes_once_and_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        std::fs::create_dir(root.path("/group")).unwrap();
        let files = [("usage_in_bytes", "0"), ("limit_in_bytes", "1000\n")];
        for (name, text) in files {
            std::fs::write(root.path(format!("/group/memory.{name}")), text).unwrap();
        }
        let group = MemoryGroup { folder: "/group".into(), version: Version::V1, id: 1, level: 1 };
        assert!(Event::of_usage(&root, &group).is_err(), "there is no cgroup.event_control");
        std::fs::write(root.path("/group/cgroup.event_control"), "").unwrap();
        let event = Event::of_usage(&root, &group).unwrap();
        let control = root.read("/group/cgroup.event_control").unwrap().unwrap();
        assert!(control.ends_with(" 950"), "{control}");
        let counter = event.file.try_clone().unwrap();
        let mut events = Events::new().unwrap();
        events.add(event, 'u').unwrap();
        let wait = |events: &mut Events<char>| {
            let mut tags = Vec::new();
            events.wait(Duration::from_millis(1), |tag| tags.push(tag));
            tags
        };
        assert!(wait(&mut events).is_empty());
        rustix::io::write(&counter, &1_u64.to_ne_bytes()).unwrap();
        assert_eq!(wait(&mut events), ['u']);
        assert!(wait(&mut events).is_empty());
    }
}
