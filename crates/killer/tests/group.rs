//! A killer on its own memory cgroup: which processes it kills, how much memory comes back, and that it allocates
//! nothing. Needs root and memory cgroups; a skipped test says what is missing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use killer::{Config, Killer, Output, Scope};
use linux::cgroup::{Hierarchy, MemoryGroup};
use linux::stat::Stat;
use linux::{Root, groups};
use testkit::counting;
use types::PAGE_BYTES;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

const MIB: u64 = 1 << 20;
/// Fields of `/proc/PID/stat` (proc_pid_stat(5)).
const PARENT: usize = 4;
const RESIDENT_PAGES: usize = 24;
/// A step that takes longer hangs.
const HANGS_AFTER: Duration = Duration::from_secs(120);

/// A memory cgroup; when dropped, it is removed with all its processes.
struct Group {
    folder: PathBuf,
    children: Vec<Child>,
}

impl Group {
    /// Creates a group with this limit, or returns the reason why it cannot.
    fn new(bytes: u64) -> Result<Group, String> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let root = Root::system();
        if !linux::process::is_root() {
            return Err("needs root".to_owned());
        }
        let hierarchy = Hierarchy::required(&root, "memory").map_err(|error| error.to_string())?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("pagewise-killer-test-{}-{number}", std::process::id());
        let folder = hierarchy.mount.join(name);
        fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let group = Group { folder, children: Vec::new() };
        let made = MemoryGroup::at(&root, &group.folder);
        made.and_then(|made| made.limit(bytes).apply(&root)).map_err(|error| error.to_string())?;
        Ok(group)
    }

    /// Starts a process in the group that holds this number of MiB until it is killed: `tail`, because the next
    /// command of its pipeline reads nothing. All three commands get `adj`.
    fn hold(&mut self, mebibytes: u64, adj: i16) -> u32 {
        let script = format!(
            "echo $$ > {}/cgroup.procs; echo {adj} > /proc/self/oom_score_adj; \
             head -c {bytes} /dev/zero | tail -c {bytes} | sleep 1000",
            self.folder.display(),
            bytes = mebibytes * MIB
        );
        let child = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::null())
            .spawn()
            .expect("there is a shell");
        let shell = child.id();
        self.children.push(child);
        self.wait_for_holder(shell, mebibytes * MIB * 9 / 10)
    }

    /// Waits until a child of `shell` holds `bytes`, and returns its PID.
    fn wait_for_holder(&self, shell: u32, bytes: u64) -> u32 {
        let late = Instant::now() + HANGS_AFTER;
        loop {
            let members = groups::processes(&Root::system(), &self.folder).unwrap_or_default();
            let is_holder = |process: &u32| {
                let text = fs::read(format!("/proc/{process}/stat")).unwrap_or_default();
                Stat::parse(&text).is_some_and(|stat| {
                    let pages: u64 = stat.number(RESIDENT_PAGES).unwrap_or(0);
                    stat.number(PARENT) == Some(shell) && pages * PAGE_BYTES >= bytes
                })
            };
            if let Some(holder) = members.into_iter().find(is_holder) {
                return holder;
            }
            assert!(Instant::now() < late, "no process holds {bytes} bytes");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn has(&self, process: u32) -> bool {
        groups::processes(&Root::system(), &self.folder).is_ok_and(|all| all.contains(&process))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Kill the shells first: one may not have joined the group yet.
        self.children.iter_mut().for_each(|child| drop(child.kill()));
        let _ = groups::remove_group(&Root::system(), &self.folder);
        self.children.iter_mut().for_each(|child| drop(child.wait()));
    }
}

/// A group, or None if the test is skipped.
fn group(bytes: u64) -> Option<Group> {
    Group::new(bytes).map_err(|why| testkit::skipped(&why)).ok()
}

/// A killer of `group`, and the file of its log.
fn killer(group: &Group, settings: &str) -> (Killer, tempfile::NamedTempFile) {
    let file = tempfile::NamedTempFile::new().unwrap();
    let config = tempfile::NamedTempFile::with_suffix(".toml").unwrap();
    fs::write(config.path(), settings).unwrap();
    let root = Root::system();
    let config = Config::load(&root, &[config.path().to_owned()]).unwrap();
    let output = Output::to(file.reopen().unwrap());
    let scope = Scope::Group(group.folder.clone());
    (Killer::start(&root, &scope, config, output).unwrap(), file)
}

/// Runs the killer's steps until `is_done`.
fn run_until(killer: &mut Killer, mut is_done: impl FnMut() -> bool) {
    let late = Instant::now() + HANGS_AFTER;
    let mut wait = Duration::ZERO;
    while !is_done() {
        assert!(Instant::now() < late, "the killer hangs");
        wait = killer.step(wait).expect("the group exists");
    }
}

fn lines(path: &Path, event: &str) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    let start = format!("event={event} ");
    text.lines().filter(|line| line.starts_with(&start)).map(str::to_owned).collect()
}

const SETTINGS: &str =
    "policy = \"restart-cost\"\n[options]\nlow_percent = 25\nhigh_percent = 40\n";

#[test]
fn the_least_important_process_dies_and_the_killer_allocates_nothing() {
    let Some(mut group) = group(200 * MIB) else { return };
    let (mut killer, file) = killer(&group, SETTINGS);
    let important = group.hold(60, 0);
    let least = group.hold(50, 900);
    // Warm up: run every path but the kill, while memory is not short.
    for _ in 0..20 {
        killer.step(Duration::from_millis(1)).unwrap();
    }
    let late = group.hold(50, 0);
    let before = counting::allocations();
    let end = Instant::now() + HANGS_AFTER;
    let kills = killer.statistics().clone();
    let mut wait = Duration::ZERO;
    while kills.memory_back() == 0 && Instant::now() < end {
        wait = killer.step(wait).unwrap();
    }
    assert_eq!(counting::allocations() - before, 0, "the killer allocated");
    run_until(&mut killer, || !group.has(least));
    assert!(group.has(important) && group.has(late));
    let kill = lines(file.path(), "kill");
    assert_eq!(kill.len(), 1, "{kill:?}");
    for part in [
        format!(" process={least} "),
        " name=tail why=\"little memory is available".to_owned(),
        " adj=900 ".to_owned(),
        format!(" first=\"{least}:tail:"),
    ] {
        assert!(kill[0].contains(&part), "{part} is missing: {kill:?}");
    }
    let back = lines(file.path(), "back");
    let freed = back[0].split("freed_bytes=").nth(1).unwrap().split(' ').next().unwrap();
    assert!(freed.parse::<u64>().unwrap() > 40 * MIB, "{back:?}");
}

#[test]
fn a_dry_run_logs_the_victim_but_does_not_kill_it() {
    let Some(mut group) = group(200 * MIB) else { return };
    let (mut killer, file) = killer(&group, &format!("dry_run = true\n{SETTINGS}"));
    let holder = group.hold(160, 0);
    run_until(&mut killer, || !lines(file.path(), "would-kill").is_empty());
    assert!(lines(file.path(), "would-kill")[0].contains(&format!("process={holder} ")));
    assert!(group.has(holder) && lines(file.path(), "kill").is_empty());
    // The next process is not named: the first one's memory would be enough.
    for _ in 0..100 {
        killer.step(Duration::from_millis(1)).unwrap();
    }
    assert_eq!((lines(file.path(), "would-kill").len(), lines(file.path(), "spared")), (1, vec![]));
}

#[test]
fn a_protected_process_lives_and_the_reason_is_logged() {
    let Some(mut group) = group(200 * MIB) else { return };
    let rule = "[[rule]]\nname = \"*\"\nis = \"protected\"\n";
    let (mut killer, file) = killer(&group, &format!("{SETTINGS}{rule}"));
    let holder = group.hold(160, 900);
    run_until(&mut killer, || !lines(file.path(), "spared").is_empty());
    assert!(lines(file.path(), "spared")[0].contains("no candidate may be killed"));
    assert!(group.has(holder));
}

#[test]
fn victims_group_kills_the_whole_group() {
    let Some(mut group) = group(200 * MIB) else { return };
    let (mut killer, _file) = killer(&group, &format!("victims = \"group\"\n{SETTINGS}"));
    let [first, second] = [group.hold(80, 0), group.hold(80, 0)];
    run_until(&mut killer, || !group.has(first) && !group.has(second));
}

#[test]
fn a_batch_dies_at_once_and_is_no_larger_than_needed() {
    // The policy wants 65 MiB back: two processes of 40 MiB are enough.
    const TABLE: &str = "policy = \"minfree\"\n[options]\nfile_cache_counts = false\n\
                         minfree_levels = \"25600:900\"\n";
    let Some(mut group) = group(200 * MIB) else { return };
    let holders =
        [group.hold(40, 0), group.hold(40, 900), group.hold(40, 910), group.hold(40, 920)];
    let (mut killer, file) =
        killer(&group, &format!("kills = \"batch\"\nreclaim = \"first\"\n{TABLE}"));
    run_until(&mut killer, || !group.has(holders[2]) && !group.has(holders[3]));
    let text = fs::read_to_string(file.path()).unwrap();
    let (batch, _) = text.split_once("event=back ").unwrap_or((&text, ""));
    let killed = batch.lines().filter(|line| line.starts_with("event=kill "));
    let killed: Vec<&str> = killed.filter(|line| line.contains(" name=tail ")).collect();
    assert_eq!(killed.len(), 2, "{text}");
    for (line, holder) in killed.iter().zip([holders[3], holders[2]]) {
        assert!(line.contains(&format!(" process={holder} ")), "{text}");
    }
    let text = fs::read_to_string(file.path()).unwrap();
    assert!(group.has(holders[0]) && group.has(holders[1]), "{text}");
}

#[test]
fn a_removed_group_ends_the_killer() {
    let Some(group) = group(200 * MIB) else { return };
    let (mut killer, _file) = killer(&group, SETTINGS);
    assert!(killer.step(Duration::ZERO).is_some());
    drop(group);
    let late = Instant::now() + HANGS_AFTER;
    while killer.step(Duration::from_millis(1)).is_some() {
        assert!(Instant::now() < late, "the killer still runs");
    }
}
