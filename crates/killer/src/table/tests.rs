//! Processes appear, have a standing and end; with too little room the table keeps the largest.

use super::*;
use testkit::Sleeper;

fn candidate(table: &Table, number: u32) -> Option<(usize, Candidate)> {
    let found = table.candidates().iter().position(|seen| seen.process == number)?;
    assert_eq!(table.entries()[found].process.number(), number);
    Some((found, table.candidates()[found]))
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
    let (place, seen) = candidate(&table, number).unwrap();
    assert!(seen.resident.0 > 0 && seen.standing == Standing::Neutral);
    assert_eq!(table.entries()[place].name.text(), "sleep");

    table.mark_refused(place, second(1));
    look(&mut table, 2);
    assert_eq!(candidate(&table, number).unwrap().1.standing, Standing::Refused);
    assert!(!candidate(&table, number).unwrap().1.is_eligible());
    look(&mut table, 62);
    let (place, seen) = candidate(&table, number).unwrap();
    assert_eq!(seen.standing, Standing::Neutral, "asked for again after a minute");
    table.mark_dying(place, second(62));
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
    let least = table.entries()[least].seen.all() / 2;
    let room = table.entries().iter().filter(|held| held.seen.all() > least).count() + 4;
    drop(table);

    let mut table = Table::new(&Root::system(), None, Arc::new([]), room).unwrap();
    for at in 1..3 {
        look(&mut table, at);
        assert!(table.entries().len() <= room);
        let held: Vec<u32> =
            numbers().filter(|&number| candidate(&table, number).is_some()).collect();
        assert!(held.contains(&first.0.id()) && held.contains(&last.0.id()), "{held:?}");
        let (count, largest) = table.overlooked;
        assert!(count >= 30 && (1..least).contains(&largest), "{count} up to {largest}");
    }
}

#[test]
fn a_table_with_room_overlooks_no_process() {
    let mut table = Table::new(&Root::system(), None, Arc::new([]), 32_768).unwrap();
    let _sleepers = [Sleeper::start(), Sleeper::start()];
    look(&mut table, 1);
    assert_eq!(table.overlooked, (0, 0));
}
