//! The process that the user started: makes the cgroup, starts the one that holds memory in it, ends
//! it when the machine has too little left. And the guard, which outlives both.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use linux::cgroup::{MemoryGroup, Version};
use linux::guard::{self, Guard};
use linux::{Root, groups, process};

use super::{Options, Target};
use crate::{Error, Gauge};

const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The floor where none is given: a sixteenth of all memory.
const FLOOR_SHARE: u64 = 16;
/// Room of its cgroup beside what it holds: its program, tables and pages that it works on.
const ROOM_BYTES: u64 = 32 << 20;

/// Why it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It was told to, or its time was over.
    Asked,
    /// The machine had too little available memory left.
    Floor,
    /// The kernel killed it for want of memory: its cgroup or one above was at its limit.
    Limit,
    /// Somebody killed it, by this signal.
    Killed(i32),
    /// It failed, and said why itself.
    Failed,
}

/// Holds memory by `command`, which gets the path of the cgroup as its last argument, until `is_over`.
/// `guard` is the command that removes the cgroup whose path it gets.
///
/// # Errors
/// What the operating system refuses.
pub fn supervise(
    root: &Root,
    options: &Options,
    mut command: Command,
    mut guard: Command,
    is_over: impl Fn() -> bool,
) -> Result<Ending, Error> {
    let group = make_group(root, options)?;
    // From here on the guard removes it, however this ends.
    let guard = Guard::start(guard.arg(&group.folder).stdout(Stdio::null()))
        .inspect_err(|_| drop(std::fs::remove_dir(&group.folder)))?;
    limit(root, options, &group)?;
    let entrance = group.folder.join("cgroup.procs");
    command.arg(&group.folder).stdin(Stdio::null());
    let mut child = process::start(root, &mut command, &[entrance])?;
    let outcome = watch(root, options, &mut child, is_over);
    // Before the guard removes what tells.
    let is_at_limit = oom_kills(root, &group) > 0;
    process::kill(child.id());
    let ended = child.wait();
    let cleared = guard.finish().map_err(|error| Error::refused("wait for the guard", error))?;
    ended.map_err(|error| Error::refused("wait for the balloon", error))?;
    if !cleared.success() {
        let folder = group.folder.display();
        return Err(Error::Refused(format!("{folder}: could not be removed")));
    }
    outcome.map(|ending| match ending {
        Ending::Killed(_) if is_at_limit => Ending::Limit,
        other => other,
    })
}

/// How often the kernel killed somebody in `group` for want of memory.
fn oom_kills(root: &Root, group: &MemoryGroup) -> u64 {
    let name = match group.version {
        Version::V1 => "memory.oom_control",
        Version::V2 => "memory.events",
    };
    let text = root.read(group.folder.join(name)).ok().flatten().unwrap_or_default();
    let count = text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.parse().ok());
    count.unwrap_or(0)
}

fn watch(
    root: &Root,
    options: &Options,
    child: &mut Child,
    is_over: impl Fn() -> bool,
) -> Result<Ending, Error> {
    let mut gauge = Gauge::open(root, None)?;
    let late = options.time.and_then(|time| Instant::now().checked_add(time));
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Ok(ended(status));
        }
        if is_over() || late.is_some_and(|late| Instant::now() >= late) {
            return Ok(Ending::Asked);
        }
        // Without a reading it is not known whether there is enough: it ends.
        let Some(memory) = gauge.read(false) else { return Ok(Ending::Floor) };
        let floor = options.floor.map_or(memory.total.0 / FLOOR_SHARE, |floor| floor.0);
        if memory.available.0 < floor {
            return Ok(Ending::Floor);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn ended(status: ExitStatus) -> Ending {
    match (status.signal(), status.code()) {
        (Some(signal), _) => Ending::Killed(signal),
        (None, Some(0)) => Ending::Asked,
        _ => Ending::Failed,
    }
}

fn make_group(root: &Root, options: &Options) -> Result<MemoryGroup, Error> {
    let above = MemoryGroup::at(root, options.within.as_deref().unwrap_or(Path::new("/")))?;
    let name = format!("pagewise-balloon-{}", std::process::id());
    let folder = above.folder.join(name);
    groups::create(root, &folder)?;
    Ok(MemoryGroup::at(root, &folder)?)
}

fn limit(root: &Root, options: &Options, group: &MemoryGroup) -> Result<(), Error> {
    let memory = Gauge::open(root, None)?.read(false);
    let total = memory.map_or(0, |memory| memory.total.0);
    let most = match options.target {
        Target::Bytes(bytes) => bytes,
        Target::Percent(percent) => total / 100 * percent,
        // Never more than leaves the machine its floor.
        Target::Available(_) | Target::Pressure(_) => total - total / FLOOR_SHARE,
    };
    let bytes = options.limit.map_or(most + most / 16 + ROOM_BYTES, |limit| limit.0);
    Ok(group.limit(bytes).apply(root)?)
}

/// What the guard does: waits for the end of standard input, then ends every process in the cgroup
/// `folder` and removes it.
///
/// # Errors
/// What does not end, or cannot be removed.
pub fn stand_guard(root: &Root, folder: &Path) -> Result<(), Error> {
    guard::wait();
    let is_ours = folder
        .file_name()
        .and_then(|name| name.to_str())
        .is_some_and(|name| name.starts_with("pagewise-balloon-"));
    if !is_ours {
        return Err(Error::Refused(format!("{}: is no balloon's cgroup", folder.display())));
    }
    Ok(groups::remove_group(root, folder)?)
}
