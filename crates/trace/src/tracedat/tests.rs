use std::path::Path;

use super::*;
use crate::ErrorKind;
use crate::input::Input;

fn open(bytes: &[u8]) -> Result<TraceDat, Error> {
    TraceDat::open(&mut Input::from_bytes("sample", bytes.to_vec())?)
}

/// Time, CPU, thread, name and a number of an event.
type Brief = (i64, u32, i32, String, u64);

/// Every event, in short, and the file at its end.
fn read(bytes: &[u8]) -> Result<(Vec<Brief>, TraceDat), Error> {
    let mut file = open(bytes)?;
    let mut events = Vec::new();
    while let Some(event) = file.next_event()? {
        let number = ["sector", "i_ino", "pid"].iter().find_map(|name| event.number(name));
        let name = event.format.name.to_string();
        events.push((event.time_ns, event.cpu, event.pid, name, number.unwrap_or(u64::MAX)));
    }
    Ok((events, file))
}

#[test]
fn every_version_and_byte_order_gives_the_same_events() {
    let first = 1000 + 1 + (1 << 27) + 5;
    let expected = [
        (1 << 27, 1, -1, "mark_victim", 40),
        (first, 0, 40, "block_rq_issue", 80),
        (first + 3, 0, 41, "mm_filemap_add_to_page_cache", 99),
        ((1 << 28) + 7, 0, 40, "block_rq_issue", 88),
    ];
    for (name, bytes) in sample::all() {
        let (events, mut file) = read(&bytes).unwrap();
        let events: Vec<_> = events
            .iter()
            .map(|(time, cpu, pid, event, number)| (*time, *cpu, *pid, event.as_str(), *number))
            .collect();
        assert_eq!(events, expected, "{name}");
        assert_eq!(file.lost(), Lost { events: 3, uncounted: 1 }, "{name}");
        assert_eq!((file.take_unknown(), file.take_unknown()), (1, 0));
        assert_eq!((file.comm(41), file.comm(42)), (Some(&b"a b"[..]), None));
        assert_eq!((file.clock(), file.has_nanoseconds(), file.is_guest()), ("local", true, false));
        let version = if name.contains('7') { 7 } else { 6 };
        assert_eq!((file.version(), file.formats().len(), file.parts_skipped()), (version, 3, 0));
    }
}

#[test]
fn text_of_a_dynamic_field_is_read() {
    for (name, bytes) in sample::all() {
        let mut file = open(&bytes).unwrap();
        let event = file.next_event().unwrap().unwrap();
        assert_eq!(event.text("comm"), Some(&b"me"[..]), "{name}");
        assert_eq!((event.number("comm"), event.text("pid"), event.text("x")), (None, None, None));
    }
}

#[test]
fn the_seeds_are_these_files() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/tracedat");
    for (name, bytes) in sample::all() {
        let path = folder.join(name);
        if std::env::var_os("PAGEWISE_WRITE_SEEDS").is_some() {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&path, &bytes).unwrap();
        }
        // Another version of zstd may pack in other bytes.
        let held = std::fs::read(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(read(&held).unwrap().0, read(&bytes).unwrap().0, "{name}");
    }
}

#[test]
fn damage_anywhere_is_an_error_or_harmless() {
    for (_, bytes) in sample::all() {
        for place in 0..bytes.len() {
            let _ = read(&bytes[..place.max(1)]);
            let mut spoilt = bytes.clone();
            for value in [0, 0x7f, 0xff] {
                spoilt[place] = value;
                let _ = read(&spoilt);
            }
        }
    }
}

#[test]
fn errors_say_what_was_wrong_and_where() {
    let message = |bytes: &[u8]| {
        let error = read(bytes).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        error.to_string()
    };
    let small = sample::v6(false);
    let mut other = small.clone();
    other[10] = b'5';
    assert_eq!(message(&other), "sample at byte 10: expected version 6 or 7, found `5`");
    assert_eq!(message(&small[..10]), "sample at byte 10: the file ends within a string");
    let cut = &small[..small.len() - 1];
    let text = message(cut);
    assert!(text.contains("the events of CPU 1 reach to byte"), "{text}");
    // The length of the first page.
    let page = small.len() - 3 * sample::PAGE;
    let mut long = small.clone();
    long[page + 9] = 0xff;
    let text = message(&long);
    assert!(text.contains("a page with more bytes than it holds"), "{text}");
    let mut unpackable = sample::v7(false, true);
    unpackable[18] = b'x';
    assert!(message(&unpackable).contains("compressed by `x"), "{}", message(&unpackable));
    let place = memchr::memmem::find(&small, b"flyrecord").unwrap();
    let mut latency = small;
    latency[place..place + 10].copy_from_slice(b"latency  \0");
    assert!(message(&latency).contains("trace-cmd report"));
}
