//! Launches of apps: from the markers of system_server, with what the app's process did meanwhile.
//!
//! What is written: from Android 13 an asynchronous slice `launchingActivity#ID`, and at its end an instant
//! `launchingActivity#ID:completed-CLASS:PACKAGE`; before that `launching: PACKAGE` (ActivityMetricsLogger in
//! frameworks/base; Perfetto's android.startup queries read the same).

use std::collections::{BTreeSet, VecDeque};

use trace::system::android::{self, LaunchClass};
use trace::system::{Event, Kind, Name, Names};

use super::schedule::{Schedule, Segment};
use super::split::{Part, Split, Steps};
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
    /// The package that Android's log says is started. It names a launch that never ends.
    logged: Option<Vec<u8>>,
    /// Whether another launch lasted at the same time, so that a step of an app may be of either.
    has_other: bool,
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

/// A launch that did not end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// The package of the app; `None` if neither a marker nor the log has it.
    pub package: Option<Vec<u8>>,
    /// The app's process: by the package, or the only one that reached a step of a launch while no other lasted.
    pub process: Option<ProcessIndex>,
    /// Start, in nanoseconds.
    pub start_ns: i64,
}

/// Files of a launch that are kept.
const FILES_KEPT: usize = 20;

/// Finds the launches of a trace.
#[derive(Debug, Default)]
pub struct LaunchFinder {
    active: Vec<Launching>,
    ended: VecDeque<Launching>,
    launched: Vec<Launched>,
    unfinished: Vec<Unfinished>,
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

    /// Launches that were cancelled, and that were not kept.
    pub fn counts(&self) -> (u64, u64) {
        (self.cancelled, self.left_out)
    }

    /// Launches that did not end, in the order of their start, once the trace ended.
    pub fn unfinished(&self) -> &[Unfinished] {
        &self.unfinished
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
            Kind::Log { tag, message, .. } if self.is_any() => {
                let (tag, message) = (names.bytes_of(tag), names.bytes_of(message));
                if let Some(package) = started_package(tag, message) {
                    self.log(event.time_ns, package);
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

    /// Settles the launches that ended, and names those that did not.
    pub fn end(&mut self, tasks: &Tasks, names: &Names) {
        while !self.ended.is_empty() {
            self.settle_first(tasks, names);
        }
        self.launched.sort_by_key(|launch| (launch.start_ns, launch.end_ns));
        for launch in std::mem::take(&mut self.active) {
            let package = launch.package.or(launch.logged);
            let process = match &package {
                Some(package) => found(&launch.split, package, tasks, names),
                None if launch.has_other => None,
                None => only_app(&launch.split, tasks),
            };
            let start_ns = launch.split.from_ns;
            self.unfinished.push(Unfinished { package, process, start_ns });
        }
        self.unfinished.sort_by_key(|launch| launch.start_ns);
    }

    /// Takes a line of the log that starts an activity: of the last launch, if that has just begun.
    fn log(&mut self, time_ns: i64, package: &[u8]) {
        if let Some(launch) = self.active.last_mut()
            && launch.logged.is_none()
            && time_ns.saturating_sub(launch.split.from_ns) <= SAME_LAUNCH_NS
        {
            launch.logged = Some(package.to_vec());
        }
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
        self.active.iter_mut().for_each(|launch| launch.has_other = true);
        self.active.push(Launching {
            key,
            id,
            package,
            logged: None,
            has_other: !self.active.is_empty(),
            class: None,
            end_ns: time_ns,
            split,
        });
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
        let is_shown =
            is_made || text.starts_with(b"activityResume") || text.starts_with(b"performResume:");
        let is_of_app = is_shown || text == b"bindApplication";
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
                part.steps.is_activity_shown |= is_shown;
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
    part.steps.is_activity_shown |= other.steps.is_activity_shown;
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

/// The only process that started or resumed an activity; if none did, the only one that was bound to an app. `None` if
/// there are several, since another app may have been shown, or bound for a service, meanwhile.
fn only_app(split: &Split, tasks: &Tasks) -> Option<ProcessIndex> {
    let reached = |is_reached: fn(&Steps) -> bool| {
        let parts = split.parts.iter().filter(|(_, part)| is_reached(&part.steps));
        parts.map(|(&index, _)| tasks.joined(index)).collect::<BTreeSet<ProcessIndex>>()
    };
    let mut apps = reached(|steps| steps.is_activity_shown);
    if apps.is_empty() {
        apps = reached(|steps| steps.is_of_app);
    }
    if apps.len() == 1 { apps.pop_first() } else { None }
}

/// The package of the activity that a line of the log starts: `START u0 {... cmp=PACKAGE/ACTIVITY ...} from uid UID`.
/// `cmp=` comes first if the intent has neither an action nor flags.
fn started_package<'line>(tag: &[u8], message: &'line [u8]) -> Option<&'line [u8]> {
    if !matches!(tag, b"ActivityTaskManager" | b"ActivityManager") {
        return None;
    }
    let rest = message.strip_prefix(b"START ")?;
    const COMPONENT: &[u8] = b"cmp=";
    let is_field = |&at: &usize| at > 0 && matches!(rest[at - 1], b' ' | b'{');
    let at = memchr::memmem::find_iter(rest, COMPONENT).find(is_field)?;
    let component = &rest[at + COMPONENT.len()..];
    let package = &component[..memchr::memchr(b'/', component)?];
    Some(package).filter(|package| !package.is_empty())
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

    #[test]
    fn lines_of_the_log_that_start_an_activity_name_its_package() {
        let start =
            b"START u0 {act=android.intent.action.MAIN flg=0x10000000 cmp=com.a/.Main} from uid 1";
        for tag in [&b"ActivityTaskManager"[..], b"ActivityManager"] {
            assert_eq!(started_package(tag, start), Some(&b"com.a"[..]));
        }
        assert_eq!(started_package(b"am_kill", start), None);
        let explicit = b"START u0 {cmp=com.a/.Main} from uid 1";
        assert_eq!(started_package(b"ActivityTaskManager", explicit), Some(&b"com.a"[..]));
        for other in [&b"START u0 {xcmp=a/.Main}"[..], b"START u0 { cmp=/x}", b"START cmp=x", b""] {
            assert_eq!(started_package(b"ActivityTaskManager", other), None);
        }
    }

    /// Launches that never end, by what markers of system_server (pid 9), apps and the log say.
    fn unfinished(marks: &[(i64, u32, &[u8])]) -> Vec<(Option<Vec<u8>>, Option<u32>)> {
        let (mut names, mut tasks) = (Names::default(), Tasks::default());
        let (mut launches, schedule) = (LaunchFinder::default(), Schedule::default());
        let events: Vec<_> = marks
            .iter()
            .map(|&(time_ns, pid, text)| {
                let name = names.intern_needed(text);
                let kind = match (pid, text) {
                    (9, [b'S', b'T', ..]) => Kind::Log {
                        pid,
                        priority: 4,
                        tag: names.intern_needed(b"ActivityTaskManager"),
                        message: name,
                    },
                    (9, _) => Kind::AsyncBegin { pid, name, cookie: time_ns, track: Name::NONE },
                    _ => Kind::SliceBegin { pid, name },
                };
                Event { time_ns, cpu: Some(0), tid: pid, kind }
            })
            .collect();
        for pid in [50, 60] {
            let name = names.intern_needed(format!("com.p{pid}").as_bytes());
            let kind = Kind::Process { pid, parent: 1, name, uid: None };
            tasks.take(&Event { time_ns: 0, cpu: None, tid: 0, kind });
        }
        for event in &events {
            tasks.take(event);
            launches.take(event, &names, (&tasks, &schedule), &|_, _, _, _| {});
        }
        launches.end(&tasks, &names);
        let pid = |launch: &Unfinished| launch.process.map(|index| tasks.process(index).pid);
        launches.unfinished().iter().map(|each| (each.package.clone(), pid(each))).collect()
    }

    #[test]
    fn a_launch_that_never_ends_has_the_name_that_the_trace_has() {
        let (start, bind): (_, &[u8]) = ((1, 9, &b"launchingActivity#1"[..]), b"bindApplication");
        let (made, resumed): (&[u8], &[u8]) = (b"activityStart", b"activityResume");
        let named = |name: &[u8]| Some(name.to_vec());
        let both_forms = [start, (2, 9, b"launching: com.p50"), (3, 50, bind)];
        assert_eq!(unfinished(&both_forms), [(named(b"com.p50"), Some(50))]);
        let line = (2, 9, &b"START u0 {act=x cmp=com.p60/.Main}"[..]);
        assert_eq!(unfinished(&[start, line, (3, 50, made)]), [(named(b"com.p60"), None)]);
        let late = (1 + 2 * SAME_LAUNCH_NS, line.1, line.2);
        assert_eq!(unfinished(&[start, late]), [(None, None)]);
        // By the process: what shows an activity counts before what is only bound, as for a service.
        assert_eq!(unfinished(&[start, (3, 50, bind)]), [(None, Some(50))]);
        assert_eq!(unfinished(&[start, (3, 50, bind), (4, 60, resumed)]), [(None, Some(60))]);
        assert_eq!(unfinished(&[start, (3, 50, bind), (4, 60, bind)]), [(None, None)]);
        assert_eq!(unfinished(&[start, (3, 50, made), (4, 60, made)]), [(None, None)]);
        assert_eq!(unfinished(&[start]), [(None, None)]);
        // A step of an app may be of either of two launches.
        let other = (2, 9, &b"launchingActivity#2"[..]);
        assert_eq!(unfinished(&[start, other, (3, 50, made)]), [(None, None), (None, None)]);
    }
}
