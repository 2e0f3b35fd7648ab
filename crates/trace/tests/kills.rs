//! Recordings of real kills on three kernels, and their expected analysis. They were made by
//! tests/vm/test_killtrace_kernels.py (6.1 and 6.12, emulated) and on this project's machine (6.18): a
//! shell kills a victim with 13 threads and 20 MiB, and a victim with 41 threads and 30 MiB.

use std::path::PathBuf;

use trace::kills::{Kill, KillTrigger, KillsOutcome, read};

const KERNELS: [&str; 3] = ["6.1", "6.12", "6.18"];
const MIB: u64 = 1 << 20;

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name)
}

fn outcome(kernel: &str) -> KillsOutcome {
    read(&golden(&format!("kills-{kernel}.pgk"))).expect("the recording is whole")
}

fn victims(outcome: &KillsOutcome) -> Vec<&Kill> {
    outcome.kills.iter().filter(|kill| kill.comm.ends_with("victim")).collect()
}

#[test]
fn kills_equal_the_golden_rows() {
    for kernel in KERNELS {
        let outcome = outcome(kernel);
        assert!(outcome.about.kernel.starts_with(kernel), "{}", outcome.about.kernel);
        assert_eq!((outcome.lost, outcome.is_cut), (0, false));
        let text = std::fs::read_to_string(golden(&format!("kills-{kernel}.json"))).unwrap();
        let expected: serde_json::Value = serde_json::from_str(&text).unwrap();
        let mut rows = serde_json::to_value(&outcome.kills).unwrap();
        for row in rows.as_array_mut().unwrap() {
            let row = row.as_object_mut().unwrap();
            row.remove("steps");
            row.remove("rss_curve");
        }
        assert_eq!(rows, expected["kills"], "Linux {kernel}");
    }
}

#[test]
fn every_phase_is_known_on_every_kernel() {
    for kernel in KERNELS {
        let outcome = outcome(kernel);
        let victims = victims(&outcome);
        let asked: Vec<(Option<u32>, u64)> =
            victims.iter().map(|kill| (kill.threads, kill.rss_bytes.unwrap() / MIB)).collect();
        let [(Some(13), few), (Some(41), many)] = asked[..] else { panic!("{kernel}: {asked:?}") };
        assert!((19..24).contains(&few) && (29..34).contains(&many), "{kernel}: {asked:?}");
        for kill in victims {
            assert_eq!(kill.trigger, KillTrigger::User);
            let sum = kill.signal_us.unwrap() + kill.threads_us.unwrap() + kill.reclaim_us.unwrap();
            assert!((sum - kill.total_us.unwrap()).abs() < 0.01 * sum);
            let inside = kill.unmap_us.unwrap() + kill.pagetables_us.unwrap();
            assert!((inside - kill.reclaim_us.unwrap()).abs() < 0.01 * inside);
            assert_eq!(kill.rss_curve.last().unwrap().1, 0);
            let woken = kill.steps.iter().filter(|step| step.name.starts_with("wakes ")).count();
            assert!(woken as u32 >= kill.threads.unwrap() - 1, "{kernel}: {woken} woken");
        }
    }
}

#[test]
fn only_later_kernels_mark_the_last_thread() {
    // Linux 6.15 added the field to the format and moved the event before the end of the memory.
    let marks = |kernel| {
        let formats = outcome(kernel).about.formats;
        let format = formats.iter().find(|text| text.contains("name: sched_process_exit\n"));
        format.unwrap().contains("group_dead")
    };
    assert_eq!(KERNELS.map(marks), [false, false, true]);
}

#[test]
fn a_truncated_recording_is_read_up_to_its_end() {
    let bytes = std::fs::read(golden("kills-6.18.pgk")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.pgk");
    let mut counts = Vec::new();
    for end in (600..bytes.len()).step_by(bytes.len() / 60) {
        std::fs::write(&path, &bytes[..end]).unwrap();
        counts.push(read(&path).map_or(0, |outcome| {
            assert!(outcome.is_cut, "{end} of {} bytes", bytes.len());
            victims(&outcome).len()
        }));
    }
    assert_eq!((counts.first(), counts.iter().max()), (Some(&0), Some(&2)));
    assert!(counts.is_sorted());
}
