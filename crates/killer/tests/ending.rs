//! The killer kills no process while another one is ending, by itself or by another killer, and frees enough.
//! The machine is a folder of files, so that its state does not change.

use std::fs;
use std::path::Path;
use std::time::Duration;

use killer::{Config, Killer, Output, Scope};
use linux::Root;
use testkit::Sleeper;

const MEMINFO: &str = "MemTotal: 1000000 kB\nMemFree: 20000 kB\nMemAvailable: 20000 kB\nActive(file): 0 kB\n\
                       Inactive(file): 0 kB\nShmem: 0 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n";
const LARGE: &str = "90000 80000 100 1 0 300 0";
const SMALL: &str = "9000 8000 100 1 0 300 0";
const WITHOUT_MAP: &str = "0 0 0 0 0 0 0";

fn write(folder: &Path, process: &Sleeper, statm: &str) {
    let process = folder.join("proc").join(process.0.id().to_string());
    fs::create_dir_all(&process).expect("the folder is the test's");
    let stat = "7 (x) R 1 7 7 0 -1 64 5 0 6 0 11 12 0 0 20 0 1 0 9 0";
    for (name, text) in
        [("stat", stat), ("statm", statm), ("oom_score_adj", "0"), ("cgroup", "0::/")]
    {
        fs::write(process.join(name), text).expect("the folder is the test's");
    }
}

#[test]
fn no_process_dies_while_a_larger_one_is_ending() {
    let folder = tempfile::tempdir().unwrap();
    let write_memory = |available_kb: &str| {
        let text = MEMINFO.replace("MemAvailable: 20000", &format!("MemAvailable: {available_kb}"));
        fs::write(folder.path().join("proc/meminfo"), text).unwrap();
    };
    let (large, mut small) = (Sleeper::start(), Sleeper::start());
    write(folder.path(), &large, LARGE);
    write(folder.path(), &small, SMALL);
    write_memory("900000");
    let settings = folder.path().join("killd.toml");
    fs::write(&settings, "policy = \"largest\"\n").unwrap();
    let config = Config::load(&Root::system(), &[settings]).unwrap();
    let log = tempfile::NamedTempFile::new().unwrap();
    let output = Output::to(log.reopen().unwrap());
    let mut killer =
        Killer::start(&Root::at(folder.path()), &Scope::Machine, config, output).unwrap();
    killer.step(Duration::ZERO).unwrap();

    write_memory("20000");
    write(folder.path(), &large, WITHOUT_MAP);
    for _ in 0..20 {
        killer.step(Duration::ZERO).unwrap();
    }
    let text = fs::read_to_string(log.path()).unwrap();
    assert!(
        text.contains("event=spared why=\"a process that killd did not kill is ending"),
        "{text}"
    );
    assert!(!text.contains("event=kill ") && small.0.try_wait().unwrap().is_none(), "{text}");

    // Once it has ended and memory is still short, the smaller process is the victim.
    fs::remove_dir_all(folder.path().join("proc").join(large.0.id().to_string())).unwrap();
    while small.0.try_wait().unwrap().is_none() {
        killer.step(Duration::from_millis(1)).unwrap();
    }
    let text = fs::read_to_string(log.path()).unwrap();
    assert!(text.contains(&format!("event=kill process={} ", small.0.id())), "{text}");
}
