//! Small recordings whose histories can be derived by hand.

use proptest::prelude::*;
use types::NoProgress;

use super::*;
use crate::input::Input;
use crate::recording::{About, Ending, Record, Writer, flag, kind};

const PID: u32 = 7;
const MIB: u64 = 1 << 20;

fn record(kind: u8, address: u64, object: u64, device: u32, flags: u8) -> Record {
    Record { kind, address, object, device, flags, process: PID, auxiliary: 1, ..Record::default() }
}

/// The history of a recording with these records, one microsecond apart.
fn history(records: &[Record]) -> History {
    let about = About { sources: vec![SOURCE.to_owned()], ..About::default() };
    let mut writer = Writer::new(Vec::new(), &about).unwrap();
    for (number, record) in records.iter().enumerate() {
        writer.push(Record { time_ns: 1000 * (number as u64 + 5), ..*record }).unwrap();
    }
    let bytes = writer.finish(Ending::default()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pgr");
    std::fs::write(&path, bytes).unwrap();
    assert!(is_allocations(&path));
    read(&path, &NoProgress).unwrap()
}

fn extent(first: u32, pages: u32) -> PageExtent {
    PageExtent { first, pages }
}

fn actions_and_touched(history: &History) -> Vec<(Action, Vec<PageExtent>)> {
    history.steps.iter().map(|step| (step.action, history.touched(step).to_vec())).collect()
}

#[test]
fn touched_pages_belong_to_the_step_that_gave_them() {
    let history = history(&[
        record(kind::ALLOCATE, 0x10010, MIB, 0, flag::ZEROED),
        // Pages 3 and 4, and the first two.
        record(kind::TOUCHED, 0x13000, 0x2000, 0, 0),
        record(kind::FREE, 0x10010, MIB + 0xff0, 4, 0),
        record(kind::USAGE, 1, 1, 5, 0),
        record(kind::EXIT, 0, 0, 0, 0),
    ]);
    assert_eq!(
        actions_and_touched(&history),
        [
            (Action::Allocate, vec![extent(0, 2), extent(3, 2)]),
            (Action::Free, vec![]),
            (Action::Exit, vec![])
        ]
    );
    let block = Block { bytes: MIB, pages: 257, is_zeroed: true, is_mapped: false };
    assert_eq!(history.blocks, [block]);
    assert_eq!(history.duration_ns(), 4000);
    assert_eq!(history.losses, []);
}

#[test]
fn pages_touched_again_after_a_discard_belong_to_the_discard() {
    let mapped = flag::MAPPED;
    let history = history(&[
        record(kind::ALLOCATE, 0x10000, 0x10000, 0, mapped | flag::ZEROED),
        record(kind::DISCARD, 0x14000, 0x4000, 4, flag::LAZY),
        // Pages 0 to 4 are touched, page 4 after the discard.
        record(kind::FREE, 0x10000, 0x10000, 5, mapped),
        record(kind::EXIT, 0, 0, 0, 0),
    ]);
    let discard = Action::Discard { extent: extent(4, 4), is_lazy: true };
    assert_eq!(
        actions_and_touched(&history)[..2],
        [(Action::Allocate, vec![extent(0, 4), extent(4, 4)]), (discard, vec![extent(4, 1)])]
    );
}

#[test]
fn an_unmap_cuts_a_part_and_a_larger_unmap_frees_the_rest() {
    let mapped = flag::MAPPED;
    let history = history(&[
        record(kind::ALLOCATE, 0x10000, 0x10000, 0, mapped | flag::ZEROED),
        record(kind::ALLOCATE, 0x30000, 0x10000, 0, 0),
        record(kind::FREE, 0x18000, 0x8000, 8, mapped),
        // These pages are unmapped already.
        record(kind::FREE, 0x1c000, 0x4000, 0, mapped),
        record(kind::FREE, 0x10000, 0x8000, 0, mapped),
        record(kind::FREE, 0, 0x80000, 0, mapped),
    ]);
    let actions: Vec<Action> = history.steps.iter().map(|step| step.action).collect();
    // An unmap by the program leaves blocks of malloc.
    assert_eq!(
        actions,
        [
            Action::Allocate,
            Action::Allocate,
            Action::Cut(extent(8, 8)),
            Action::Cut(extent(12, 4)),
            Action::Free,
            Action::Exit
        ]
    );
    assert_eq!(history.touched(&history.steps[0]), [extent(8, 8)]);
    assert_eq!(
        history.touched(&history.steps[1]),
        [extent(0, 16)],
        "unknown, so counted as touched"
    );
    let losses: Vec<u64> = history.losses.iter().map(|loss| loss.count).collect();
    assert_eq!(losses, [1, 1], "touched pages of a block, and the end of the process");
}

#[test]
fn a_resized_block_keeps_its_touched_pages() {
    let resized = flag::RESIZED;
    let history = history(&[
        record(kind::ALLOCATE, 0x10010, MIB, 0, 0),
        record(kind::FREE, 0x10010, MIB, 3, resized),
        record(kind::ALLOCATE, 0x900010, 2 * MIB, 0, resized),
        // A resize to a small size: no block follows.
        record(kind::FREE, 0x900010, 2 * MIB, 5, resized),
        // A resize of a mapping that is older than the recording.
        record(kind::FREE, 0x40000, MIB, 5, resized | flag::MAPPED),
        record(kind::ALLOCATE, 0x50000, MIB, 0, resized | flag::MAPPED),
        record(kind::EXIT, 0, 0, 0, 0),
    ]);
    assert_eq!(
        actions_and_touched(&history),
        [
            (Action::Allocate, vec![extent(0, 3)]),
            (Action::Resize { to: 1 }, vec![extent(0, 5)]),
            (Action::Free, vec![]),
            (Action::Exit, vec![])
        ]
    );
}

#[test]
fn each_program_is_a_process_and_the_blocks_it_holds_at_its_end_are_freed() {
    let name = Record { process: 9, ..Record::default() };
    let history = history(&[
        Record { process: PID, ..Record::default() }.of_program("sh"),
        record(kind::ALLOCATE, 0x10010, MIB, 0, 0),
        Record { kind: kind::FORK, auxiliary: PID, ..name },
        name.of_program("sh"),
        name.of_program("convert"),
        Record { process: 9, ..record(kind::FREE, 0x10010, MIB, 9, 0) },
        record(kind::SMALL, 0, 4000, 100, 0),
        record(kind::FREE, 0x10010, MIB, 200, flag::AT_END),
        record(kind::USAGE, 5_000_000, 1_000_000, 321, 0),
        record(kind::EXIT, 0, 0, 0, 0),
    ]);
    let names: Vec<&str> = history.processes.iter().map(|process| process.name.as_str()).collect();
    assert_eq!(names, ["sh", "sh", "convert"]);
    assert_eq!(history.touched(&history.steps[0]), [extent(0, 200)]);
    assert_eq!(history.steps.iter().filter(|step| step.action == Action::Exit).count(), 3);
    let info = info(&history);
    assert_eq!((info.allocated, info.mapped, info.pages_touched), (1, 0, Some(200)));
    assert_eq!((info.small_calls, info.small_bytes, info.minor_faults), (100, 4000, Some(321)));
    assert_eq!((info.processor_ns, info.system_ns), (Some(6_000_000), Some(1_000_000)));
    assert_eq!(info.processes, [("sh".to_owned(), 1)]);
    assert_eq!(info.live_bytes_max, 257 * 4096);
    assert_eq!(info.sizes[2].blocks, 1, "the class from 1 MiB to 4 MiB");
    assert_eq!(history.losses, []);
}

#[test]
fn invalid_records_are_counted() {
    let history = history(&[
        record(kind::ALLOCATE, u64::MAX - 10, 100, 0, 0),
        record(kind::ALLOCATE, 0, u64::MAX / 2, 0, 0),
        record(kind::TOUCHED, 0x1000, 0, 0, 0),
        record(kind::FREE, 0x5000, 4096, u32::MAX, 0),
        record(kind::ALLOCATE, 0x10000, MIB, 0, 0),
        record(kind::ALLOCATE, 0x10000, MIB, 0, 0),
        record(kind::FREE, 0x10000, MIB, u32::MAX, 0),
    ]);
    let losses: Vec<u64> = history.losses.iter().map(|loss| loss.count).collect();
    assert_eq!(losses, [1, 1, 3], "an end, a block allocated twice, three invalid records");
}

fn arbitrary() -> impl Strategy<Value = Record> {
    let kind = prop_oneof![
        8 => kind::ALLOCATE..=kind::TOUCHED,
        1 => prop::sample::select(vec![kind::FORK, kind::EXEC, kind::EXIT, kind::SMALL]),
    ];
    let address = prop_oneof![8 => 0..0x80_000u64, 1 => any::<u64>()];
    let object = prop_oneof![8 => 0..0x40_000u64, 1 => any::<u64>()];
    let ids = (0..3u32, 0..3u32);
    (kind, address, object, ids, 0..40u32, any::<u8>()).prop_map(
        |(kind, address, object, (process, auxiliary), device, flags)| Record {
            kind,
            address,
            object,
            process,
            auxiliary,
            device,
            flags,
            ..Record::default()
        },
    )
}

proptest! {
    #[test]
    fn every_sequence_of_records_has_a_history(records in prop::collection::vec(arbitrary(), 0..200)) {
        let mut builder = builder::Builder::default();
        records.iter().for_each(|record| builder.take(record));
        let history = builder.finish(Vec::new());
        for step in &history.steps {
            let block = match step.action {
                Action::Resize { to } => to,
                _ => step.block,
            };
            for extent in history.touched(step) {
                prop_assert!(extent.pages > 0 && extent.end() <= history.blocks[block as usize].pages);
            }
        }
        let _ = info(&history);
    }
}

#[test]
fn time_and_faults_are_absent_after_a_kill() {
    let ended = [record(kind::USAGE, 5, 1, 321, 0), record(kind::EXIT, 0, 0, 0, 0)];
    let killed = record(kind::ALLOCATE, 0x10000, MIB, 0, 0);
    let whole = info(&history(&ended));
    assert_eq!(
        (whole.processor_ns, whole.minor_faults, whole.pages_touched),
        (Some(6), Some(321), Some(0))
    );
    let other = Record { process: 9, ..killed };
    let info = info(&history(&[ended.as_slice(), &[other]].concat()));
    assert_eq!((info.processor_ns, info.system_ns, info.minor_faults), (None, None, None));
    assert_eq!((info.pages_touched, info.allocated, info.is_cut), (None, 1, false));
}

#[test]
fn a_truncated_recording_is_marked_as_cut() {
    let about = About { sources: vec![SOURCE.to_owned()], ..About::default() };
    let mut writer = Writer::new(Vec::new(), &about).unwrap();
    writer.push(record(kind::ALLOCATE, 0x10000, MIB, 0, 0)).unwrap();
    let bytes = writer.finish(Ending::default()).unwrap();
    let read = |bytes: &[u8]| {
        assert!(is_head(bytes));
        read_input(Input::from_bytes("a.pgr", bytes).unwrap(), &NoProgress).unwrap()
    };
    assert_eq!((read(&bytes).is_cut, read(&bytes).blocks.len()), (false, 1));
    let cut = read(&bytes[..bytes.len() - 60]);
    assert_eq!((cut.is_cut, info(&cut).is_cut), (true, true));
}

#[test]
fn other_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pgr");
    std::fs::write(&path, b"pgwrec").unwrap();
    assert!(!is_allocations(&path));
    let writer = Writer::new(Vec::new(), &About::default()).unwrap();
    std::fs::write(&path, writer.finish(Ending::default()).unwrap()).unwrap();
    assert!(!is_allocations(&path));
    let error = read(&path, &NoProgress).unwrap_err();
    assert!(error.to_string().contains("--allocations"), "{error}");
}
