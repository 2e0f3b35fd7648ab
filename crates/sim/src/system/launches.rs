//! Launches of apps: from the markers of system_server, with what the app's process did meanwhile.
//!
//! What is written: from Android 13 an asynchronous slice `launchingActivity#ID`, and at its end an instant
//! `launchingActivity#ID:completed-CLASS:PACKAGE`; before that `launching: PACKAGE` (ActivityMetricsLogger in
//! frameworks/base; Perfetto's android.startup queries read the same).

use std::collections::VecDeque;

use trace::system::android::{self, LaunchClass};
use trace::system::{Event, Kind, Name, Names};

use super::schedule::{Schedule, Segment};
use super::split::{Part, Split};
use super::tasks::{ProcessIndex, Tasks};

/// Launches that may last at a time; Android has one for each display.
const ACTIVE_MAX: usize = 16;

/// Launches that ended and wait for their class, or to be fully drawn.
const ENDED_MAX: usize = 32;

/// Launches that are kept.
const LAUNCHES_MAX: usize = 4096;

/// How long after its end a launch waits for its class, and for the app to be fully drawn.
const SETTLE_NS: i64 = 10_000_000_000;

/// Two forms of the marker within this time are one launch.
const SAME_LAUNCH_NS: i64 = 1_000_000_000;

/// Bytes of a command name (TASK_COMM_LEN - 1); Android keeps the end of a longer package name.
const COMM_BYTES: usize = 15;

/// A launch that is not yet known in full.
#[derive(Debug)]
struct Launching {
    /// Process, cookie and name of the slice.
    key: (u32, i64, Name),
    id: Option<u64>,
    package: Option<Vec<u8>>,
    class: Option<LaunchClass>,
    end_ns: i64,
    split: Split,
}

/// A launch with the process that it is of.
#[derive(Clone, Debug)]
pub struct Launched {
    /// The package of the app.
    pub package: Vec<u8>,
    /// The app's process; `None` if no process of that name was seen.
    pub process: Option<ProcessIndex>,
    /// The class as Android states it.
    pub class: Option<LaunchClass>,
    /// Start, in nanoseconds.
    pub start_ns: i64,
    /// End, in nanoseconds.
    pub end_ns: i64,
    /// What the process did.
    pub part: Part,
    /// Device, inode, bytes read, bytes read again; most bytes first.
    pub files: Vec<(u32, u64, u64, u64)>,
    /// Processor time of kswapd.
    pub kswapd_ns: i64,
}

/// Files of a launch that are kept.
const FILES_KEPT: usize = 20;

/// Finds the launches of a trace.
#[derive(Debug, Default)]
pub struct LaunchFinder {
    active: Vec<Launching>,
    ended: VecDeque<Launching>,
    launched: Vec<Launched>,
    cancelled: u64,
    left_out: u64,
}

impl LaunchFinder {
    /// Whether a launch lasts.
    pub fn is_any(&self) -> bool {
        !self.active.is_empty()
    }

    /// The splits of the launches that last.
    pub fn splits(&mut self) -> impl Iterator<Item = &mut Split> {
        self.active.iter_mut().map(|launch| &mut launch.split)
    }

    /// Takes what a thread did, which may be why it waited at the end of a launch.
    pub fn explain(&mut self, segment: &Segment) {
        for launch in &mut self.ended {
            launch.split.explain(segment);
        }
    }

    /// Launches that did not end, that were cancelled, and that were not kept.
    pub fn counts(&self) -> (u64, u64, u64) {
        (self.active.len() as u64, self.cancelled, self.left_out)
    }

    /// The launches so far, in the order of their ends.
    pub fn launched(&self) -> &[Launched] {
        &self.launched
    }

    /// Takes an event. `finish` adds what lasts at the end of a launch to its split.
    pub fn take(
        &mut self,
        event: &Event,
        names: &Names,
        (tasks, schedule): (&Tasks, &Schedule),
        finish: &dyn Fn(&mut Split, i64, &Tasks, &Schedule),
    ) {
        match event.kind {
            Kind::AsyncBegin { pid, name, cookie, .. } => {
                let text = names.bytes_of(name);
                match android::launch(text) {
                    Some(android::Launch::Running { id }) => {
                        self.begin(event.time_ns, (pid, cookie, name), Some(id), None);
                    }
                    Some(android::Launch::RunningPackage { package }) => {
                        let package = Some(package.to_vec());
                        self.begin(event.time_ns, (pid, cookie, name), None, package);
                    }
                    Some(completed) => self.complete(completed),
                    None => {}
                }
            }
            Kind::AsyncEnd { pid, name, cookie, .. } if self.is_any() => {
                let is_it = |launch: &Launching| {
                    let (its_pid, its_cookie, its_name) = launch.key;
                    (its_pid, its_cookie) == (pid, cookie)
                        && (name == its_name || name == Name::NONE)
                };
                if let Some(place) = self.active.iter().position(is_it) {
                    let mut launch = self.active.remove(place);
                    launch.end_ns = event.time_ns.max(launch.split.from_ns);
                    finish(&mut launch.split, launch.end_ns, tasks, schedule);
                    self.ended.push_back(launch);
                }
            }
            _ => {
                if let Some((pid, name)) = android::mark(&event.kind) {
                    self.mark(event, pid, names.bytes_of(name), tasks);
                }
            }
        }
        while let Some(first) = self.ended.front()
            && (self.ended.len() > ENDED_MAX
                || event.time_ns.saturating_sub(first.end_ns) > SETTLE_NS)
        {
            self.settle_first(tasks, names);
        }
    }

    /// Takes the end of a launch with its class, or a step of an app.
    fn mark(&mut self, event: &Event, pid: u32, text: &[u8], tasks: &Tasks) {
        if let Some(completed @ android::Launch::Completed { .. }) = android::launch(text) {
            self.complete(completed);
        } else if self.is_any() || !self.ended.is_empty() {
            self.step(event, pid, text, tasks);
        }
    }

    /// Settles the launches that ended.
    pub fn end(&mut self, tasks: &Tasks, names: &Names) {
        while !self.ended.is_empty() {
            self.settle_first(tasks, names);
        }
        self.launched.sort_by_key(|launch| (launch.start_ns, launch.end_ns));
    }

    fn begin(
        &mut self,
        time_ns: i64,
        key: (u32, i64, Name),
        id: Option<u64>,
        package: Option<Vec<u8>>,
    ) {
        // A version that writes both forms begins both at once: the one with a class stays.
        let is_other_form = |launch: &Launching| {
            launch.id.is_some() != id.is_some()
                && time_ns.saturating_sub(launch.split.from_ns) <= SAME_LAUNCH_NS
        };
        if let Some(place) = self.active.iter().position(is_other_form) {
            let known = &mut self.active[place];
            if id.is_some() {
                (known.id, known.key) = (id, key);
            } else if known.package.is_none() {
                known.package = package;
            }
            return;
        }
        if self.active.len() == ACTIVE_MAX {
            // The oldest never ended.
            self.active.remove(0);
            self.left_out += 1;
        }
        let split = Split::from(time_ns);
        self.active.push(Launching { key, id, package, class: None, end_ns: time_ns, split });
    }

    fn complete(&mut self, completed: android::Launch<'_>) {
        let android::Launch::Completed { id, class, package } = completed else { return };
        let all = self.ended.iter_mut().rev().chain(self.active.iter_mut().rev());
        for launch in all {
            if launch.id == Some(id) && launch.class.is_none() {
                launch.class = class;
                launch.package = Some(package.to_vec());
                return;
            }
        }
    }

    /// Notes what an app's process reaches.
    fn step(&mut self, event: &Event, pid: u32, text: &[u8], tasks: &Tasks) {
        let is_drawn = text.starts_with(b"reportFullyDrawn");
        let is_made = text.starts_with(b"activityStart") || text.starts_with(b"performCreate:");
        let is_of_app = is_made
            || text == b"bindApplication"
            || text.starts_with(b"activityResume")
            || text.starts_with(b"performResume:");
        if !is_of_app && !is_drawn {
            return;
        }
        let of_thread = tasks.of_thread(event.tid);
        let process = if of_thread == 0 { tasks.of_pid(pid).unwrap_or(0) } else { of_thread };
        if process == 0 {
            return;
        }
        for launch in self.active.iter_mut().chain(&mut self.ended) {
            let is_ended =
                launch.end_ns > launch.split.from_ns && !launch.split.parts.contains_key(&process);
            if is_ended {
                continue;
            }
            if let Some(part) = launch.split.part(process) {
                part.steps.is_of_app |= is_of_app;
                part.steps.is_activity_made |= is_made;
                if is_drawn && part.steps.fully_drawn_ns.is_none() {
                    part.steps.fully_drawn_ns = Some(event.time_ns);
                }
            }
        }
    }

    fn settle_first(&mut self, tasks: &Tasks, names: &Names) {
        let Some(launch) = self.ended.pop_front() else { return };
        let Some(package) = launch.package else {
            self.cancelled += 1;
            return;
        };
        if self.launched.len() == LAUNCHES_MAX {
            self.left_out += 1;
            return;
        }
        let process = found(&launch.split, &package, tasks, names);
        let mut part = Part::default();
        let mut files = std::collections::BTreeMap::<_, (u64, u64)>::new();
        if let Some(process) = process {
            for (&index, of_index) in &launch.split.parts {
                if tasks.joined(index) == process {
                    join(&mut part, of_index, index == process);
                }
            }
            for (&(index, file), &(bytes, refaults)) in &launch.split.files {
                if tasks.joined(index) == process {
                    let read = files.entry(file).or_default();
                    (read.0, read.1) =
                        (read.0.saturating_add(bytes), read.1.saturating_add(refaults));
                }
            }
        }
        let mut files: Vec<_> = files
            .into_iter()
            .map(|((device, inode), (bytes, refaults))| (device, inode, bytes, refaults))
            .collect();
        files.sort_by_key(|&(device, inode, bytes, _)| (std::cmp::Reverse(bytes), device, inode));
        files.truncate(FILES_KEPT);
        self.launched.push(Launched {
            package,
            process,
            class: launch.class,
            start_ns: launch.split.from_ns,
            end_ns: launch.end_ns,
            part,
            files,
            kswapd_ns: launch.split.kswapd_ns,
        });
    }
}

/// Adds what a process did; what was taken for another process's first thread is another thread.
fn join(part: &mut Part, other: &Part, is_process: bool) {
    if is_process {
        part.main = part.main.plus(other.main);
    } else {
        part.others = part.others.plus(other.main);
    }
    part.others = part.others.plus(other.others);
    part.swap_in_ns = part.swap_in_ns.saturating_add(other.swap_in_ns);
    part.swap_in_bytes = part.swap_in_bytes.saturating_add(other.swap_in_bytes);
    part.cache_bytes = part.cache_bytes.saturating_add(other.cache_bytes);
    part.refault_bytes = part.refault_bytes.saturating_add(other.refault_bytes);
    part.steps.is_of_app |= other.steps.is_of_app;
    part.steps.is_activity_made |= other.steps.is_activity_made;
    let drawn = [part.steps.fully_drawn_ns, other.steps.fully_drawn_ns];
    part.steps.fully_drawn_ns = drawn.into_iter().flatten().min();
}

/// The process of a package among those that did something: one that had not ended before, then by what it
/// reached, by name, and by the time that it ran.
fn found(split: &Split, package: &[u8], tasks: &Tasks, names: &Names) -> Option<ProcessIndex> {
    let rank = |(&index, part): (&ProcessIndex, &Part)| {
        let process = tasks.process(index);
        let named = if is_named(names.bytes_of(process.name), package) {
            2
        } else {
            u8::from(is_comm_of(names.bytes_of(process.comm), package))
        };
        let ran = part.main.running_ns.saturating_add(part.others.running_ns);
        let is_alive = process.end_ns.is_none_or(|end_ns| end_ns > split.from_ns);
        (named, (is_alive, part.steps.is_of_app, named, ran), tasks.joined(index))
    };
    let ranked = split.parts.iter().map(rank).filter(|&(named, ..)| named > 0);
    ranked.max_by_key(|&(_, rank, _)| rank).map(|(.., index)| index)
}

/// Whether a process has the name of a package.
pub fn is_named(name: &[u8], package: &[u8]) -> bool {
    !package.is_empty() && name == package
}

/// Whether a command name is that of a process with this name: the whole of it, its first bytes, or, as Android
/// sets it, its last bytes.
pub fn is_comm_of(comm: &[u8], name: &[u8]) -> bool {
    if name.is_empty() || comm.is_empty() {
        return false;
    }
    let first = name.get(..COMM_BYTES).unwrap_or(name);
    let last = &name[name.len().saturating_sub(COMM_BYTES)..];
    comm == first || comm == last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_names_are_the_beginning_or_the_end_of_a_package() {
        let package = b"com.example.camera.pro";
        assert!(is_comm_of(b"mple.camera.pro", package));
        assert!(is_comm_of(b"com.example.cam", package));
        assert!(!is_comm_of(b"camera.pro", package));
        assert!(!is_comm_of(b"", package));
        assert!(!is_comm_of(b"", b""));
        assert!(is_comm_of(b"app", b"app"));
    }
}
