//! Tests of the table: processes appear, have a standing and end; with too little room it keeps the largest.

use super::*;
use testkit::Sleeper;

fn candidate(table: &Table, number: u32) -> Option<(CandidateIndex, Candidate)> {
    let (index, entry, candidate) = table.rows().find(|(.., seen)| seen.process == number)?;
    assert_eq!(entry.process.number(), number);
    Some((index, *candidate))
}

fn second(count: i64) -> Nanos {
    Nanos(count * 1_000_000_000)
}

fn look(table: &mut Table, at: i64) {
    table.refresh(second(at), false, true);
    table.measure(second(at));
}

#[test]
fn processes_appear_have_a_standing_and_end() {
    let protects = Rule {
        name: Some("slee*".to_owned()),
        user: None,
        cgroup: None,
        adj: Some((500, 1000)),
        standing: Standing::Protected,
        restart: Some(Nanos(7)),
    };
    let mut table = Table::new(&Root::system(), None, Arc::new([protects]), 4096).unwrap();
    let mut sleeper = Sleeper::start();
    let number = sleeper.0.id();
    look(&mut table, 1);
    assert!(candidate(&table, std::process::id()).is_none(), "the killer is no candidate");
    let (index, seen) = candidate(&table, number).unwrap();
    assert!(seen.resident.0 > 0 && seen.standing == Standing::Neutral);
    assert_eq!(table.entry(index).name.text(), "sleep");

    table.mark_refused(index, second(1));
    look(&mut table, 2);
    assert_eq!(candidate(&table, number).unwrap().1.standing, Standing::Refused);
    assert!(!candidate(&table, number).unwrap().1.is_eligible());
    look(&mut table, 62);
    let (index, seen) = candidate(&table, number).unwrap();
    assert_eq!(seen.standing, Standing::Neutral, "tried again after a minute");
    table.mark_dying(index, second(62));
    look(&mut table, 63);
    assert_eq!(candidate(&table, number).unwrap().1.standing, Standing::Dying);

    std::fs::write(format!("/proc/{number}/oom_score_adj"), "600").unwrap();
    look(&mut table, 100);
    let (_, seen) = candidate(&table, number).unwrap();
    assert_eq!((seen.adj, seen.standing), (600, Standing::Protected));
    assert_eq!(seen.restart_cost, Nanos(7));
    assert!(seen.idle.0 >= 30_000_000_000, "it sleeps");
    table.set_rules(Arc::new([]));
    look(&mut table, 101);
    assert_eq!(candidate(&table, number).unwrap().1.standing, Standing::Neutral);

    sleeper.0.kill().unwrap();
    sleeper.0.wait().unwrap();
    table.measure(second(102));
    assert!(candidate(&table, number).is_none(), "ended between two lists");
}

/// A shell that holds some MiB: more than a process that sleeps.
fn holder() -> Sleeper {
    let script = "x=$(head -c 20000000 /dev/zero | tr '\\0' x); echo; read y";
    let mut command = std::process::Command::new("sh");
    command.args(["-c", script]).stdin(std::process::Stdio::piped());
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut byte = [0; 1];
    let output = child.stdout.as_mut().unwrap();
    std::io::Read::read_exact(output, &mut byte).unwrap();
    Sleeper(child)
}

#[test]
fn the_largest_are_kept_whenever_they_appear() {
    // One before and one after the smaller processes in the list.
    let first = holder();
    let sleepers: Vec<Sleeper> = (0..40).map(|_| Sleeper::start()).collect();
    let last = holder();
    let numbers = || (sleepers.iter().chain([&first, &last])).map(|held| held.0.id());
    let mut table = Table::new(&Root::system(), None, Arc::new([]), 4096).unwrap();
    // Counts the other processes that are larger than the sleepers.
    look(&mut table, 0);
    let least = candidate(&table, first.0.id()).unwrap().0;
    let least = table.entry(least).seen.all() / 2;
    let room = table.rows().filter(|(_, held, _)| held.seen.all() > least).count() + 4;
    drop(table);

    let mut table = Table::new(&Root::system(), None, Arc::new([]), room).unwrap();
    for at in 1..3 {
        look(&mut table, at);
        assert!(table.len() <= room);
        let held: Vec<u32> =
            numbers().filter(|&number| candidate(&table, number).is_some()).collect();
        assert!(held.contains(&first.0.id()) && held.contains(&last.0.id()), "{held:?}");
        let (count, largest) = table.overlooked;
        assert!(count >= 30 && (1..least).contains(&largest), "{count} up to {largest}");
    }
}

#[test]
fn a_process_whose_main_thread_has_ended_is_a_candidate() {
    let late = Sleeper::without_main_thread();
    let mut table = Table::new(&Root::system(), None, Arc::new([]), 32_768).unwrap();
    for at in 1..3 {
        look(&mut table, at);
        let (_, seen) = candidate(&table, late.0.id()).unwrap();
        assert!(seen.resident.0 > 1 << 20 && seen.is_eligible(), "{seen:?}");
    }
    let bytes = size(&table.processes, late.0.id(), table.scale);
    assert!(bytes > 1 << 20, "also without room in the table: {bytes}");
}

/// `/proc` with one process: the number of `sleeper`, and memory by `statm`.
fn fake(folder: &std::path::Path, sleeper: &Sleeper, statm: &str) -> Root {
    let process = folder.join("proc").join(sleeper.0.id().to_string());
    std::fs::create_dir_all(&process).unwrap();
    let stat = "7 (x) R 1 7 7 0 -1 64 5 0 6 0 11 12 0 0 20 0 1 0 9 0";
    let files = [("stat", stat), ("statm", statm), ("oom_score_adj", "0"), ("cgroup", "0::/")];
    for (name, text) in files {
        std::fs::write(process.join(name), text).unwrap();
    }
    Root::at(folder)
}

/// Whether a process is ending by itself, or because others killed it, and `bytes` or more come back by that.
fn is_freeing(table: &mut Table, now: Nanos, bytes: u64) -> bool {
    let (_, sharers) = table.with_sharers(now);
    sharers.iter().any(|sharer| sharer.ending.0 >= bytes)
}

#[test]
fn memory_of_a_process_that_is_ending_comes_back_for_a_second() {
    let (folder, sleeper) = (tempfile::tempdir().unwrap(), Sleeper::start());
    let root = fake(folder.path(), &sleeper, "900 500 120 1 0 300 0");
    let mut table = Table::new(&root, None, Arc::new([]), 16).unwrap();
    look(&mut table, 1);
    let own = candidate(&table, sleeper.0.id()).unwrap().1.bytes().0;
    assert!(own == 380 * 4096 && !is_freeing(&mut table, second(1), 1), "it lives");
    fake(folder.path(), &sleeper, "0 0 0 0 0 0 0");
    look(&mut table, 2);
    assert!(is_freeing(&mut table, second(2), own) && !is_freeing(&mut table, second(2), own + 1));
    look(&mut table, 3);
    assert!(!is_freeing(&mut table, second(3), 1), "it takes too long");
    let mut killed = Table::new(&root, None, Arc::new([]), 16).unwrap();
    fake(folder.path(), &sleeper, "900 500 120 1 0 300 0");
    look(&mut killed, 1);
    killed.mark_dying(CandidateIndex(0), second(1));
    fake(folder.path(), &sleeper, "0 0 0 0 0 0 0");
    look(&mut killed, 1);
    assert!(!is_freeing(&mut killed, second(1), 1), "a victim of this killer is watched anyway");
}

#[test]
fn a_table_with_room_overlooks_no_process() {
    let mut table = Table::new(&Root::system(), None, Arc::new([]), 32_768).unwrap();
    let _sleepers = [Sleeper::start(), Sleeper::start()];
    look(&mut table, 1);
    assert_eq!(table.overlooked, (0, 0));
}
