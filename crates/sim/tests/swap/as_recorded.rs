//! A recording of a swap server, decided again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use policy::placement::Latencies;
use policy::tiers::{Area, CATALOG, Live, LiveRequest, Move, Moves, Request, Step, serve};
use sim::swap::{AsRecorded, as_recorded};
use tempfile::TempDir;
use testkit::generate::SplitMix;
use trace::recording::{About, Ending, Record, ServedLatencies, ServedTiers, Writer, kind};
use trace::store::TextFile;
use types::{NoProgress, PageId};

const SLOTS: u64 = 400;
const FRAMES: u64 = 50;

fn head(policy: &str) -> About {
    let tiers = ServedTiers {
        policy: policy.to_owned(),
        size_bytes: SLOTS * 4096,
        fast_bytes: FRAMES * 4096,
        latencies: ServedLatencies {
            fast_read_ns: 4_000,
            fast_write_ns: 5_000,
            slow_read_ns: 90_000,
            slow_write_ns: 40_000,
        },
        ..ServedTiers::default()
    };
    About { tiers: Some(Box::new(tiers)), ..About::default() }
}

fn tiers(policy: &str) -> Box<dyn Live> {
    let request = LiveRequest {
        architecture: policy,
        profile: None,
        options: &BTreeMap::new(),
        capacity: FRAMES,
        latencies: Latencies { slow_read: 90e3, slow_write: 40e3, fast_read: 4e3, fast_write: 5e3 },
        area: Area::Swap,
    };
    let mut tiers = serve(&request).unwrap().tiers;
    tiers.grow(SLOTS as usize);
    tiers
}

fn capacity(event: u64, frames: u64) -> Record {
    let (kind, address, object) = (kind::CAPACITY, event, frames);
    Record { kind, address, object, pages: 1, ..Record::default() }
}

/// What a server records while its moves end in any order, one in 1,000 fails, and the capacity changes now and then;
/// and its file of moves.
fn served(policy: &str, seed: u64) -> (Vec<Record>, String) {
    let (mut tiers, mut random) = (tiers(policy), SplitMix(seed));
    let (mut records, mut open) = (Vec::new(), Vec::<(u64, Move)>::new());
    let (mut moves, mut text) = (Moves::default(), "event,slot,move\n".to_owned());
    for event in 0..20_000 {
        if random.below(500) == 0 {
            let frames = 1 + random.below(FRAMES);
            tiers.set_capacity(frames);
            records.push(capacity(event, frames));
        }
        let slot = random.below(SLOTS);
        let (request, kind) = match random.below(10) {
            0 => (Request::Void, kind::SLOT_VOID),
            1..=4 => (Request::Out { is_dirty: true }, kind::SWAP_WRITE),
            _ => (Request::In, kind::SWAP_READ),
        };
        records.push(Record { kind, object: slot, pages: 1, ..Record::default() });
        tiers.on(request, PageId(slot as u32), &mut moves);
        let mut decided_by = event;
        loop {
            for &moved in moves.iter() {
                text += &format!("{decided_by},{},{}\n", moved.page.0, moved.step.name());
                open.push((decided_by, moved));
            }
            if open.is_empty() || (open.len() < 20 && random.below(3) > 0) {
                break;
            }
            let (number, moved) = open.remove(random.below(open.len() as u64) as usize);
            let is_done = random.below(1000) > 0;
            let step = Step::ALL.iter().position(|step| *step == moved.step).unwrap();
            records.push(Record {
                kind: if is_done { kind::MOVE_DONE } else { kind::MOVE_FAILED },
                address: number,
                object: u64::from(moved.page.0),
                auxiliary: step as u32,
                pages: 1,
                ..Record::default()
            });
            moves.clear();
            if is_done {
                tiers.done(moved);
            } else {
                tiers.failed(moved, &mut moves);
                decided_by = number;
            }
        }
    }
    for (number, moved) in open {
        let step = Step::ALL.iter().position(|step| *step == moved.step).unwrap();
        let (address, object) = (number, u64::from(moved.page.0));
        let auxiliary = step as u32;
        let kind = kind::MOVE_DONE;
        records.push(Record { kind, address, object, auxiliary, pages: 1, ..Record::default() });
    }
    (records, text)
}

fn written(folder: &TempDir, about: &About, records: &[Record], has_end: bool) -> PathBuf {
    let mut writer = Writer::new(Vec::new(), about).unwrap();
    records.iter().for_each(|record| writer.push(*record).unwrap());
    let mut bytes = writer.finish(Ending::default()).unwrap();
    if !has_end {
        bytes.pop();
    }
    let path = folder.path().join("swapd.pgr");
    std::fs::write(&path, bytes).unwrap();
    path
}

fn again(path: &Path) -> AsRecorded {
    as_recorded(path, None, &NoProgress).unwrap()
}

#[test]
fn every_policy_decides_its_recorded_moves_again() {
    for (seed, row) in (0..).zip(CATALOG) {
        let folder = TempDir::new().unwrap();
        let (records, text) = served(row.name, seed);
        let path = written(&folder, &head(row.name), &records, true);
        let target = folder.path().join("moves.csv");
        let file = TextFile::create(&target, false).unwrap();
        let outcome = as_recorded(&path, Some(file), &NoProgress).unwrap();
        assert!(outcome.is_identical() && !outcome.is_cut, "{}: {outcome:?}", row.name);
        assert!(outcome.failed_moves > 10, "{}", row.name);
        assert!(std::fs::read_to_string(&target).unwrap() == text, "{}", row.name);
        let decided: u64 = outcome.moves.values().sum();
        assert_eq!(decided, text.lines().count() as u64 - 1);
        let step = |name| text.lines().filter(|line| line.ends_with(&format!(",{name}"))).count();
        assert_eq!(outcome.slow.reads, step("read_slow") as u64);
        assert_eq!(outcome.slow.writes, (step("write_slow") + step("demote_write")) as u64);
        assert_eq!(outcome.fast.writes, (step("write_fast") + step("promote")) as u64);
    }
}

#[test]
fn other_events_give_other_moves() {
    let folder = TempDir::new().unwrap();
    let (mut records, _) = served("hierarchical", 3);
    let at = records.iter().position(|record| record.kind == kind::SWAP_WRITE).unwrap();
    records[at].object = (records[at].object + 1) % SLOTS;
    let outcome = again(&written(&folder, &head("hierarchical"), &records, true));
    assert!(!outcome.is_identical());
    assert!(outcome.differing_moves > 0 && outcome.first_difference.is_some());
}

#[test]
fn a_server_with_another_policy_moves_other_pages() {
    let folder = TempDir::new().unwrap();
    let (records, _) = served("hierarchical", 3);
    assert!(!again(&written(&folder, &head("nvm-cache"), &records, true)).is_identical());
}

#[test]
fn a_capacity_that_is_left_out_gives_other_moves() {
    let folder = TempDir::new().unwrap();
    let (mut records, _) = served("hierarchical", 3);
    records.retain(|record| record.kind != kind::CAPACITY);
    let outcome = again(&written(&folder, &head("hierarchical"), &records, true));
    assert!(!outcome.is_identical());
}

#[test]
fn a_compressed_tier_has_more_frames_than_its_size() {
    let folder = TempDir::new().unwrap();
    let (records, _) = served("hierarchical", 3);
    let mut about = head("hierarchical");
    let tiers = about.tiers.as_mut().unwrap();
    (tiers.fast_bytes, tiers.frames) = (4096, Some(FRAMES));
    assert!(again(&written(&folder, &about, &records, true)).is_identical());
}

#[test]
fn moves_without_an_end_are_open_unless_the_recording_is_cut() {
    let folder = TempDir::new().unwrap();
    let (mut records, _) = served("hybrid", 4);
    while records.last().is_some_and(|record| record.kind == kind::MOVE_DONE) {
        records.pop();
    }
    let path = written(&folder, &head("hybrid"), &records, true);
    assert!(again(&path).open_moves > 0 && !again(&path).is_identical());
    let path = written(&folder, &head("hybrid"), &records, false);
    assert!(again(&path).is_cut && again(&path).is_identical());
}

#[test]
fn impossible_recordings_are_refused() {
    let folder = TempDir::new().unwrap();
    let refusal = |about: &About, records: &[Record]| {
        let path = written(&folder, about, records, true);
        as_recorded(&path, None, &NoProgress).unwrap_err().to_string()
    };
    let slot = |object| [Record { kind: kind::SWAP_WRITE, object, pages: 1, ..Record::default() }];
    assert!(refusal(&head("flash"), &slot(SLOTS)).contains("slot 400 of an area of 400 slots"));
    let step = Record { kind: kind::MOVE_DONE, auxiliary: 8, pages: 1, ..Record::default() };
    assert!(refusal(&head("flash"), &[step]).contains("no version"));
    assert!(refusal(&head("best"), &slot(0)).contains("no architecture 'best'"));
    let early = [slot(0)[0], capacity(0, 9)];
    assert!(refusal(&head("flash"), &early).contains("a capacity for event 0 before event 1"));
    let of = |size_bytes, fast_bytes| {
        let mut about = head("flash");
        let tiers = about.tiers.as_mut().unwrap();
        (tiers.size_bytes, tiers.fast_bytes) = (size_bytes, fast_bytes);
        about
    };
    assert!(refusal(&of(1 << 60, 0), &slot(0)).contains("expected at most"));
    assert!(refusal(&of(4096, 8192), &slot(0)).contains("no larger fast tier"));
    let mut about = of(8192, 4096);
    about.tiers.as_mut().unwrap().frames = Some(3);
    assert!(refusal(&about, &slot(0)).contains("no larger fast tier"));
    assert!(refusal(&About::default(), &slot(0)).contains("swapd --record"));
}
