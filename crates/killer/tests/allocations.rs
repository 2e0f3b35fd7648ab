//! The killer's threads allocate nothing once they run, even while they measure more processes than the table
//! holds, weigh forks that share memory, choose another victim and kill. One test, so that no other test
//! allocates in this program meanwhile. Needs root and memory cgroups; a skipped test says what is missing.

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use killer::{Config, Killer, Output, Scope};
use linux::cgroup::{Hierarchy, MemoryGroup};
use linux::{Root, groups};
use testkit::counting;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

const MIB: u64 = 1 << 20;
/// A step that takes longer hangs.
const HANGS_AFTER: Duration = Duration::from_secs(120);
/// A shell that shares 12 MB with its forks, and starts a growing program once it reads a line.
const SERVER: &str = "x=$(head -c 12000000 /dev/zero | tr '\\0' x)
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do (kill -STOP $(exec sh -c 'echo $PPID')) & done
echo
read y
head -c 150000000 /dev/zero | tail -c 150000000 | sleep 1000
";

struct Group {
    folder: PathBuf,
    server: Option<Child>,
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = groups::remove_group(&Root::system(), &self.folder);
        if let Some(mut server) = self.server.take() {
            let _ = server.wait();
        }
    }
}

fn group() -> Result<Group, String> {
    let root = Root::system();
    if !linux::process::is_root() {
        return Err("needs root".to_owned());
    }
    let hierarchy = Hierarchy::required(&root, "memory").map_err(|error| error.to_string())?;
    let folder = hierarchy.mount.join(format!("pagewise-allocations-test-{}", std::process::id()));
    fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let group = Group { folder, server: None };
    let made = MemoryGroup::at(&root, &group.folder);
    made.and_then(|made| made.limit(160 * MIB).apply(&root)).map_err(|error| error.to_string())?;
    Ok(group)
}

#[test]
fn no_thread_of_the_killer_allocates() {
    let mut group = match group() {
        Ok(group) => group,
        Err(why) => return testkit::skipped(&why),
    };
    let enter = format!("echo $$ > {}/cgroup.procs; {SERVER}", group.folder.display());
    let mut server = Command::new("sh")
        .args(["-c", &enter])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut go = server.stdin.take().unwrap();
    let mut output = server.stdout.take().unwrap();
    group.server = Some(server);
    let mut byte = [0; 1];
    output.read_exact(&mut byte).unwrap();

    let root = Root::system();
    let log = tempfile::NamedTempFile::new().unwrap();
    let settings = tempfile::NamedTempFile::with_suffix(".toml").unwrap();
    // Room for fewer processes than there are.
    let text = "policy = \"largest\"\ncandidates_max = 16\n\
                [options]\nmemory_percent = 25\nswap_percent = 100\n";
    fs::write(settings.path(), text).unwrap();
    let config = Config::load(&root, &[settings.path().to_owned()]).unwrap();
    let output = Output::to(log.reopen().unwrap());
    let scope = Scope::Group(group.folder.clone());
    let mut killer = Killer::start(&root, &scope, config, output).unwrap();
    for _ in 0..20 {
        killer.step(Duration::from_millis(1)).unwrap();
    }
    let statistics = killer.statistics().clone();

    let before = counting::allocations_of_all();
    std::io::Write::write_all(&mut go, b"\n").unwrap();
    let late = Instant::now() + HANGS_AFTER;
    let mut wait = Duration::ZERO;
    while statistics.memory_back() == 0 && Instant::now() < late {
        wait = killer.step(wait).unwrap();
    }
    assert_eq!(counting::allocations_of_all() - before, 0, "a thread allocated");
    let log = fs::read_to_string(log.path()).unwrap();
    assert!(log.contains("event=overlooked ") && log.contains("event=back "), "{log}");
    assert!(log.contains(" name=tail "), "{log}");
}
