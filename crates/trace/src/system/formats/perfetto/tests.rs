//! The reader on the seed that tests/perfetto_traces.py writes with Google's bindings, and on damaged ones.

use std::path::PathBuf;

use proptest::prelude::*;

use super::*;
use crate::Operation;
use crate::system::{
    BlockRequest, BlockStage, CounterSource, Kind, MemoryPart, Name, Resource, RssMember, Sorted,
    Switch, TaskState, Wake,
};

const BOOT_NS: i64 = 1_000_000_000_000;

fn seed() -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/perfetto/small");
    std::fs::read(path).unwrap()
}

fn read(bytes: &[u8]) -> Result<(Vec<Event>, Tally, Names), Error> {
    let mut reader = Perfetto::new(Input::from_bytes("trace", bytes.to_vec())?);
    let (mut events, mut tally) = (Vec::new(), Tally::default());
    while reader.read(&mut events, &mut tally)? {}
    Ok((events, tally, reader.names))
}

#[test]
fn a_file_in_gzip_has_the_events_and_losses_of_the_plain_one() {
    let gzip = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, bytes).unwrap();
        encoder.finish().unwrap()
    };
    // Samples ahead, as commands read a file.
    let read_twice = |bytes: Vec<u8>| {
        let mut reader = open(Input::from_bytes("trace", bytes).unwrap()).unwrap();
        let (mut events, mut tally) = (Vec::new(), Tally::default());
        while reader.read(&mut events, &mut tally).unwrap() {}
        (format!("{events:?}"), losses(&tally))
    };
    let plain = seed().repeat(800);
    let packed = gzip(&plain);
    assert_eq!(read_twice(packed.clone()), read_twice(plain));
    let cut = packed[..packed.len() - 100].to_vec();
    let (_, losses) = read_twice(cut);
    assert!(losses.contains(&("the rest of the file: compressed data is cut or damaged", 1)));
}

fn losses(tally: &Tally) -> Vec<(&'static str, u64)> {
    tally.losses().collect()
}

#[test]
fn steps_lose_no_event_and_know_the_thread_before() {
    let threads: Vec<u8> = (0..600).map(|place| (place % 100) as u8).collect();
    let compact = [field(1, &[1; 600]), field(3, &threads)].concat();
    let typed = field(2, &[&[8, 1, 16, 5][..], &field(20, b"")].concat()).repeat(600);
    let bundle = [typed, field(4, &compact)].concat();
    let (events, tally, _) = read(&field(1, &field(1, &bundle))).unwrap();
    let counts = tally.events();
    assert_eq!((counts["sched_switch"], counts["sched_waking"]), (600, 600));
    let is_waking = |event: &&Event| matches!(event.kind, Kind::Wake { .. });
    assert_eq!(events.iter().filter(is_waking).count(), 600);
    let mut before = None;
    for (event, &thread) in events.iter().skip(600).zip(&threads) {
        let Kind::Switch(switch) = event.kind else { panic!("{event:?}") };
        assert_eq!((switch.prev_tid, event.tid), (before, before.unwrap_or(0)));
        assert_eq!(switch.next_tid, u32::from(thread));
        before = Some(switch.next_tid);
    }
    assert_eq!(before, Some(99));
}

#[test]
fn every_kind_of_the_seed_is_decoded() {
    let input = Input::from_bytes("trace", seed()).unwrap();
    let mut reader = Sorted::new(Perfetto::new(input));
    let (mut events, mut tally) = (Vec::new(), Tally::default());
    while reader.read(&mut events, &mut tally).unwrap() {}
    let text = |name: Name| reader.names().text(name).into_owned();
    let find = |wanted: i64| {
        let found: Vec<&Event> =
            events.iter().filter(|event| event.time_ns == BOOT_NS + wanted).collect();
        assert_eq!(found.len(), 1, "at {wanted}: {found:?}");
        *found[0]
    };
    assert!(events.is_sorted_by_key(|event| event.time_ns));
    // The compact form: the thread before is that of the CPU's switch before.
    let switches: Vec<Switch> = events
        .iter()
        .filter_map(|event| if let Kind::Switch(switch) = event.kind { Some(switch) } else { None })
        .collect();
    let brief: Vec<_> = switches
        .iter()
        .map(|switch| (switch.prev_tid, switch.prev_state, switch.next_tid, switch.next_priority))
        .collect();
    assert_eq!(
        brief,
        [
            (None, TaskState::Runnable, 50, 120),
            (Some(50), TaskState::Uninterruptible, 0, 120),
            (Some(0), TaskState::Preempted, 51, 99),
        ]
    );
    assert_eq!(text(switches[1].next_comm), "swapper/0");
    let waking = find(1_200_000);
    assert_eq!((waking.tid, waking.cpu), (50, Some(0)));
    let Kind::Wake { wake: Wake::Waking, tid: 51, comm, priority: 99, target_cpu: Some(0) } =
        waking.kind
    else {
        panic!("{waking:?}");
    };
    assert_eq!(text(comm), "app");
    let Kind::Block(block) = find(2_010_000).kind else { panic!() };
    assert_eq!(
        BlockRequest { comm: Name::NONE, ..block },
        BlockRequest {
            stage: BlockStage::Issue,
            operation: Operation::Read,
            device: 254 << 20 | 5,
            sector: 80,
            sectors: 8,
            comm: Name::NONE,
        }
    );
    let (member, is_current) = (RssMember::Anonymous, Some(true));
    assert_eq!(find(3_000_000).kind, Kind::Rss { mm_id: 7, is_current, member, bytes: 40960 });
    assert_eq!(find(3_200_000).kind, Kind::DirectReclaimEnd { pages: 32 });
    assert_eq!(find(3_800_000).tid, 4242);
    let Kind::OomScoreAdj { pid: 50, adj: -900, .. } = find(3_900_000).kind else { panic!() };
    let is_file = Some(true);
    assert_eq!(
        find(3_960_000).kind,
        Kind::LruShrink { node: 0, scanned: 32, reclaimed: 30, is_file }
    );
    let Kind::AsyncBegin { pid: 42, name, cookie: 0, .. } = find(6_000_000).kind else { panic!() };
    assert_eq!(text(name), "launchingActivity#3");
    let device = 254 << 20 | 5;
    assert_eq!(find(7_000_000).kind, Kind::PageAdded { device, inode: 99, page: 5, order: 0 });
    let kinds_at = |wanted: i64| {
        let at = events.iter().filter(|event| event.time_ns == BOOT_NS + wanted);
        at.map(|event| event.kind).collect::<Vec<_>>()
    };
    let Kind::Process { pid: 50, parent: 1, name, uid: Some(10123) } = kinds_at(10)[0] else {
        panic!()
    };
    assert_eq!(text(name), "com.example.app");
    let memory = kinds_at(20);
    let swap = Kind::ProcessMemory { pid: 50, part: MemoryPart::Swap, bytes: 7 * 1024 };
    assert!(memory.contains(&swap) && memory.len() == 5, "{memory:?}");
    let [Kind::SystemCounter { source: CounterSource::Meminfo, name, value }, _, pressure] =
        kinds_at(30)[..]
    else {
        panic!()
    };
    assert_eq!((text(name).as_str(), value), ("MemFree", 2048 * 1024));
    let (resource, total_us) = (Resource::Memory, Some(123));
    let expected = Kind::Pressure { resource, is_full: false, total_us, average10: None };
    assert_eq!(pressure, expected);
    // The line has a time on the wall clock.
    let Kind::Log { pid: 42, priority: 4, message, .. } = kinds_at(50)[0] else { panic!() };
    assert!(text(message).starts_with("Kill 'victim' (4242)"));
    assert_eq!(losses(&tally), []);
    assert_eq!(tally.events()["cpu_idle"], 1);
}

/// A field with bytes.
fn field(number: u32, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    crate::varint::put_varint(u64::from(number) << 3 | 2, &mut out);
    crate::varint::put_varint(bytes.len() as u64, &mut out);
    out.extend_from_slice(bytes);
    out
}

/// A field with a number.
fn number(field: u32, value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    crate::varint::put_varint(u64::from(field) << 3, &mut out);
    crate::varint::put_varint(value, &mut out);
    out
}

#[test]
fn the_clock_of_a_bundle_becomes_boot_time() {
    let event = [number(1, 100), number(2, 7), field(49, &number(1, 0))].concat();
    let kswapd = field(2, &event);
    let global = [number(5, 2), number(6, 40), number(7, 1040), kswapd.clone()].concat();
    let unknown = [number(5, 3), kswapd].concat();
    let bytes = [global, unknown].map(|bundle| field(1, &field(1, &bundle))).concat();
    let (events, tally, _) = read(&bytes).unwrap();
    assert_eq!(events.iter().map(|event| event.time_ns).collect::<Vec<_>>(), [1100, 100]);
    assert_eq!(tally.clock_problems().map(|(_, count)| count).sum::<u64>(), 1);
}

#[test]
fn a_bundle_may_describe_its_own_events() {
    // DescriptorProto: name, and fields with name and number.
    let descriptor = |name: &str, fields: &[(&str, u64)]| {
        let mut out = field(1, name.as_bytes());
        for &(name, place) in fields {
            out.extend(field(2, &[field(1, name.as_bytes()), number(3, place)].concat()));
        }
        out
    };
    let described = descriptor("mm_vmscan_kswapd_wake", &[("nid", 1), ("order", 2)]);
    let description = [number(1, 70_000), field(2, &described)].concat();
    let payload = [number(1, 3), number(2, 4)].concat();
    let event = [number(1, 5), number(2, 6), field(70_000, &payload)].concat();
    let bundle = [field(11, &description), field(2, &event)].concat();
    let (events, tally, _) = read(&field(1, &field(1, &bundle))).unwrap();
    assert_eq!(events[0].kind, Kind::KswapdWake { node: 3, order: 4 });
    assert_eq!(tally.events()["mm_vmscan_kswapd_wake"], 1);
    assert_eq!(tally.unknown_fields().count(), 0);
}

#[test]
fn packets_of_a_trace_that_is_joined_with_itself_are_counted() {
    let once = seed();
    let (events, tally, _) = read(&once).unwrap();
    assert_eq!(tally.repeated_packets(), 0);
    let (twice, tally, _) = read(&[once.clone(), once].concat()).unwrap();
    assert_eq!(twice.len(), 2 * events.len());
    assert!(tally.repeated_packets() > 0);
    // Two packets of a writer at one time with different contents, and two that are short and have no time.
    let tree = |pid| field(2, &field(1, &number(1, pid)));
    let timed = |pid| field(1, &[number(8, 5), number(10, 3), tree(pid)].concat());
    let empty = field(1, &field(1, &number(1, 0)));
    let (_, tally, _) = read(&[timed(1), timed(2), empty.clone(), empty].concat()).unwrap();
    assert_eq!(tally.repeated_packets(), 0);
}

#[test]
fn packets_that_need_lost_packets_are_left_out() {
    let tree = |flags: u64, is_after_loss: u64| {
        let process = field(2, &field(1, &number(1, 7)));
        field(1, &[number(10, 3), number(13, flags), number(42, is_after_loss), process].concat())
    };
    let bytes = [tree(2, 0), tree(1, 0), tree(2, 0), tree(2, 1), tree(0, 0)].concat();
    let (events, tally, _) = read(&bytes).unwrap();
    assert_eq!(events.len(), 3);
    let expected =
        [("gaps in the packets of a writer", 1), ("packets that refer to lost packets", 2)];
    assert_eq!(losses(&tally), expected);
}

#[test]
fn damage_between_packets_is_an_error_with_its_place() {
    let mut bytes = seed();
    let length = bytes.len();
    bytes.extend([7; 40]);
    let error = read(&bytes).err().unwrap().to_string();
    assert!(error.starts_with(&format!("trace at byte {length}: expected a packet")), "{error}");
    // Another field of the file is skipped.
    let (_, tally, _) = read(&[seed(), field(9, b"xyz"), number(8, 1)].concat()).unwrap();
    assert_eq!(tally.unknown_fields().collect::<Vec<_>>(), [("Trace", 8, 1), ("Trace", 9, 1)]);
}

#[test]
fn a_packet_that_unpacks_to_very_much_is_cut() {
    use std::io::Write;
    let zeros = vec![0u8; 1 << 20];
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    for _ in 0..64 {
        encoder.write_all(&zeros).unwrap();
    }
    let packed = encoder.finish().unwrap();
    let bytes = field(1, &field(50, &packed));
    let (events, tally, _) = read(&bytes).unwrap();
    assert!(events.is_empty());
    assert_eq!(losses(&tally)[0], ("compressed packets of more than 32 MiB, cut", 1));
    let zstd = zstd::encode_all(&seed()[..], 1).unwrap();
    let (events, ..) = read(&field(1, &field(133, &zstd))).unwrap();
    assert_eq!(events.len(), read(&seed()).unwrap().0.len());
}

#[test]
fn samples_come_before_the_events_of_a_ring_buffer() {
    let packet = |time: u64| {
        let process = field(2, &field(1, &number(1, time)));
        field(1, &[number(8, time), process].concat())
    };
    let compact = field(1, &vec![1; 1000]);
    let switches = field(1, &field(1, &field(4, &compact)));
    let bytes = [packet(7), switches, packet(5), packet(900)].concat();
    let input = Input::from_bytes("trace", bytes).unwrap();
    let mut reader = Sorted::with_limit(open(input).unwrap(), 100);
    let (mut events, mut tally) = (Vec::new(), Tally::default());
    while reader.read(&mut events, &mut tally).unwrap() {}
    let pids = events.iter().filter_map(|event| match event.kind {
        Kind::Process { pid, .. } => Some((pid, event.time_ns)),
        _ => None,
    });
    assert_eq!(pids.collect::<Vec<_>>(), [(5, 5), (7, 7), (900, 900)]);
    assert!(events.is_sorted_by_key(|event| event.time_ns));
    assert_eq!((events.len(), tally.packets()["process_tree"]), (1003, 3));
    assert_eq!(tally.clock_problems().count(), 0);
}

#[test]
fn unknown_fields_and_damage_of_samples_are_counted_once() {
    let unknown = number(500, 1);
    let argument = field(9, &[number(2, 7), unknown.clone()].concat());
    // Fields of packets and of samples in them, and the name under which the unknown field is counted.
    let samples = [
        (2, unknown.clone(), "ProcessTree"),
        (2, field(1, &unknown), "ProcessTree.Process"),
        (2, field(2, &unknown), "ProcessTree.Thread"),
        (9, unknown.clone(), "ProcessStats"),
        (9, field(1, &unknown), "ProcessStats.Process"),
        (7, unknown.clone(), "SysStats"),
        (7, field(1, &unknown), "SysStats.MeminfoValue"),
        (7, field(2, &unknown), "SysStats.VmstatValue"),
        (7, field(14, &unknown), "SysStats.PsiSample"),
        (39, unknown.clone(), "AndroidLogPacket"),
        (39, field(1, &unknown), "AndroidLogPacket.LogEvent"),
        (39, field(1, &argument), "AndroidLogPacket.LogEvent.Arg"),
    ];
    let counts = |mut reader: Box<dyn SystemReader>| {
        let (mut events, mut tally) = (Vec::new(), Tally::default());
        while reader.read(&mut events, &mut tally).unwrap() {}
        let unknown: Vec<_> = tally.unknown_fields().collect();
        let problems: Vec<_> = tally.clock_problems().collect();
        (events.len(), unknown, losses(&tally), problems)
    };
    // The first pass reads the samples, or the only one.
    let both = |bytes: &[u8]| {
        let input = || Input::from_bytes("trace", bytes.to_vec()).unwrap();
        let found = counts(open(input()).unwrap());
        assert_eq!(found, counts(open_once(input()).unwrap()));
        found
    };
    for (place, sample, name) in &samples {
        let (_, unknown, losses, _) = both(&field(1, &field(*place, sample)));
        assert_eq!((unknown, losses), (vec![(*name, 500, 1)], vec![]));
    }
    // A number of variable length that does not end, in a sample and around it.
    let damaged = [0x08, 0x80];
    for (place, inner) in [(2, 1), (2, 2), (9, 1), (7, 1), (7, 2), (7, 14), (39, 1)] {
        let (events, _, lost, _) = both(&field(1, &field(place, &field(inner, &damaged))));
        assert_eq!((events, lost), (0, vec![("samples that are damaged", 1)]), "{place} {inner}");
        let (_, _, lost, _) = both(&field(1, &field(place, &damaged)));
        assert_eq!(lost, [("packets that are damaged", 1)]);
    }
    let line = field(1, &field(39, &field(1, &number(5, 7))));
    let (events, .., problems) = both(&line);
    assert_eq!((events, problems), (1, vec![("events on a clock that no snapshot has", 1)]));
}

#[test]
fn a_call_appends_a_bounded_number_of_events() {
    // A million switches in one byte each.
    let compact = field(1, &vec![1; 1 << 20]);
    let bytes = field(1, &field(1, &field(4, &compact)));
    let mut reader = Perfetto::new(Input::from_bytes("trace", bytes).unwrap());
    let (mut events, mut tally, mut all) = (Vec::new(), Tally::default(), 0);
    loop {
        let is_more = reader.read(&mut events, &mut tally).unwrap();
        assert!(events.len() <= EVENTS_PER_READ + 16, "{}", events.len());
        all += events.len();
        events.clear();
        if !is_more {
            break;
        }
    }
    assert_eq!(all, 1 << 20);
    assert_eq!(tally.events()["sched_switch"], 1 << 20);
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 1..300)) {
        let _ = sniff(&bytes);
        let _ = read(&bytes);
        let _ = read(&field(1, &bytes));
        let _ = read(&field(1, &field(1, &bytes)));
        let _ = read(&field(1, &field(50, &bytes)));
    }

    #[test]
    fn damaged_traces_are_read_or_refused(
        places in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = seed();
        for (place, value) in places {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        let whole = read(&bytes);
        if let Ok((events, ..)) = &whole {
            // Every event takes at least two bytes of the file.
            prop_assert!(events.len() <= bytes.len());
        }
        let _ = read(&bytes[..cut.index(bytes.len()).max(1)]);
    }
}
