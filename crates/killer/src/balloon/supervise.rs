//! The process that the user started: creates the cgroup, starts the process that holds memory in it, and
//! ends it if the machine has too little available memory. Also the guard, which outlives both.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use linux::cgroup::{MemoryGroup, Version};
use linux::guard::{self, Guard};
use linux::{Root, groups, process};

use super::{BalloonTarget, Options};
use crate::{Error, Gauge};

const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The default floor is one part in this many of all memory.
const FLOOR_SHARE: u64 = 16;
/// Room in its cgroup beside the memory that it holds: its program, page tables and buffers.
const ROOM_BYTES: u64 = 32 << 20;

/// Why a balloon ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The caller ended it, or its time was over.
    Asked,
    /// The machine had less available memory than the floor.
    Floor,
    /// The kernel's OOM killer killed it: its cgroup or a parent was at its limit.
    Limit,
    /// This signal killed it.
    Killed(i32),
    /// The balloon failed, and printed the reason itself.
    Failed,
}

/// Runs `command`, which holds the memory, in a new cgroup until `is_over`. `guard` is the command that
/// removes the cgroup. Both get the path of the cgroup as their last argument.
///
/// # Errors
/// The operating system refuses.
pub fn supervise(
    root: &Root,
    options: &Options,
    mut command: Command,
    mut guard: Command,
    is_over: impl Fn() -> bool,
) -> Result<Ending, Error> {
    let group = make_group(root, options)?;
    // From here on the guard removes the group, however this process ends.
    let guard = Guard::start(guard.arg(&group.folder).stdout(Stdio::null()))
        .inspect_err(|_| drop(std::fs::remove_dir(&group.folder)))?;
    limit(root, options, &group)?;
    let entrance = group.folder.join("cgroup.procs");
    command.arg(&group.folder).stdin(Stdio::null());
    let mut child = process::start(root, &mut command, &[entrance])?;
    let outcome = watch(root, options, &mut child, is_over);
    // Read before the guard removes the group's files.
    let is_at_limit = oom_kills(root, &group) > 0;
    process::kill(child.id());
    let ended = child.wait();
    let cleared = guard.finish().map_err(|error| Error::refused("wait for the guard", error))?;
    ended.map_err(|error| Error::refused("wait for the balloon", error))?;
    if !cleared.success() {
        let folder = group.folder.display();
        return Err(Error::Refused(format!("{folder}: cannot be removed")));
    }
    outcome.map(|ending| match ending {
        Ending::Killed(_) if is_at_limit => Ending::Limit,
        other => other,
    })
}

/// How many processes of `group` the kernel's OOM killer has killed.
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
        // If memory cannot be read, end the balloon: the floor cannot be checked.
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
        BalloonTarget::Bytes(bytes) => bytes,
        BalloonTarget::Percent(percent) => total / 100 * percent,
        // At most all memory but the default floor.
        BalloonTarget::Available(_) | BalloonTarget::Pressure(_) => total - total / FLOOR_SHARE,
    };
    let bytes = options.limit.map_or(most + most / 16 + ROOM_BYTES, |limit| limit.0);
    Ok(group.limit(bytes).apply(root)?)
}

/// Waits for the end of standard input, then ends every process in the cgroup `folder` and removes it.
///
/// # Errors
/// A process does not end, or the cgroup cannot be removed.
pub fn stand_guard(root: &Root, folder: &Path) -> Result<(), Error> {
    guard::wait();
    let is_ours = folder
        .file_name()
        .and_then(|name| name.to_str())
        .is_some_and(|name| name.starts_with("pagewise-balloon-"));
    if !is_ours {
        return Err(Error::Refused(format!("{} is not a balloon's cgroup", folder.display())));
    }
    Ok(groups::remove_group(root, folder)?)
}
