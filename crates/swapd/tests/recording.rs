//! A recorded run can be decided again: the same events and failures in the same order give the same moves.

mod support;

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use policy::placement::Latencies;
use policy::tiers::{CATALOG, Move, Moves, Request, Step};
use support::disk::TestDisk;
use support::kernel::Load;
use support::{parts, parts_compressed, run, tiers};
use swapd::record::{MovesFile, RecordingFile, about, begin};
use swapd::statistics::Serving;
use swapd::store::Algorithm;
use trace::recording::{Reader, Record, RecordingBlock, kind};
use types::PageId;

/// A file in memory that two owners share.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Shared {
    fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}

/// The records of a recording, and the policy in its head.
fn records(bytes: &[u8]) -> (String, Vec<Record>) {
    let input = trace::input::Input::from_bytes("recording", bytes).unwrap();
    let (mut policy, mut records) = (String::new(), Vec::new());
    let mut reader = Reader::new(input).unwrap().unwrap();
    while let Some(block) = reader.read_block().unwrap() {
        match block {
            RecordingBlock::About(about) => policy = about.tiers.unwrap().policy,
            RecordingBlock::Records(more) => records.extend(more),
            _ => {}
        }
    }
    (policy, records)
}

/// The moves that fresh tiers decide, as the file of moves has them.
fn decided_again(policy: &str, frames: u64, slots: u32, records: &[Record]) -> String {
    let mut tiers = tiers(policy, frames, slots as usize);
    let (mut moves, mut number) = (Moves::default(), 0_u64);
    let mut text = "event,slot,move\n".to_owned();
    for record in records {
        if record.kind == kind::CAPACITY {
            assert_eq!(record.address, number, "a capacity before another event");
            tiers.set_capacity(record.object);
            continue;
        }
        let page = PageId(record.object as u32);
        let event = match record.kind {
            kind::SWAP_WRITE => Some(Request::Out { is_dirty: true }),
            kind::SWAP_READ => Some(Request::In),
            kind::SLOT_VOID => Some(Request::Void),
            _ => None,
        };
        let moved = Move { step: Step::ALL[record.auxiliary as usize], page };
        let of_event = match (event, record.kind) {
            (Some(event), _) => {
                tiers.on(event, page, &mut moves);
                number += 1;
                number - 1
            }
            (None, kind::MOVE_FAILED) => {
                tiers.failed(moved, &mut moves);
                record.address
            }
            _ => {
                tiers.done(moved);
                continue;
            }
        };
        for Move { step, page } in moves.iter() {
            text += &format!("{of_event},{},{}\n", page.0, step.name());
        }
    }
    text
}

#[test]
#[ignore = "slow"]
fn the_moves_of_every_placement_follow_from_its_recording() {
    for (seed, row) in (50..).zip(CATALOG) {
        for (bad, compress) in
            [(0, None), (2, None), (0, Some(Algorithm::Lz4)), (2, Some(Algorithm::Zstd))]
        {
            let load = Load { expects_errors: true, ..Load::new(seed, 800, 4000) };
            let disk = TestDisk::new(seed, load.slots, 6).failing(bad, bad);
            let (mut parts, control) = match compress {
                None => parts(row.name, load, 90, disk, false),
                Some(algorithm) => parts_compressed(row.name, load, (30, algorithm), disk, false),
            };
            let (moves, recording) = (Shared::default(), Shared::default());
            let serving = Serving { policy: row.name.to_owned(), ..Serving::default() };
            let latencies =
                Latencies { slow_read: 1.0, slow_write: 1.0, fast_read: 1.0, fast_write: 1.0 };
            let about = about(&linux::Root::system(), &serving, latencies).unwrap();
            let (recorder, thread) = begin(vec![
                Box::new(MovesFile::new(moves.clone()).unwrap()),
                Box::new(RecordingFile::new(recording.clone(), &about).unwrap()),
            ])
            .unwrap();
            parts.recorder = Some(recorder);
            run(parts, &control);
            thread.finish().unwrap();
            let (policy, records) = records(&recording.bytes());
            let moves = String::from_utf8(moves.bytes()).unwrap();
            assert!(moves.lines().count() > 10_000, "{policy}");
            let has = |kind| records.iter().any(|record| record.kind == kind);
            // Pages that find no room in the pool are moves that fail, too.
            assert!(bad == 0 || has(kind::MOVE_FAILED));
            assert!(bad > 0 || compress.is_some() || !has(kind::MOVE_FAILED));
            assert_eq!(has(kind::CAPACITY), compress.is_some());
            let frames = if compress.is_some() { 120 } else { 90 };
            let again = decided_again(&policy, frames, load.slots, &records);
            assert!(again == moves, "{policy}: other moves than recorded");
        }
    }
}
