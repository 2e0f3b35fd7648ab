use super::*;

/// Fields as pairs; a text that is a number is both.
struct Pairs(&'static [(&'static str, &'static str)]);

impl Fields for Pairs {
    fn number(&self, name: &str) -> Option<i64> {
        self.text(name).and_then(|text| std::str::from_utf8(text).ok()?.parse().ok())
    }

    fn text(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().find(|(field, _)| *field == name).map(|(_, value)| value.as_bytes())
    }
}

const CONTEXT: Context = Context { tid: 77 };

fn decode(
    event: &str,
    fields: &'static [(&'static str, &'static str)],
    names: &mut Names,
) -> Option<Kind> {
    decoder(event).unwrap_or_else(|| panic!("{event}"))(&Pairs(fields), CONTEXT, names)
}

#[test]
fn a_switch_is_the_same_by_number_and_by_letters() {
    let mut names = Names::default();
    for (text, state) in [
        ("0", TaskState::Runnable),
        ("R", TaskState::Runnable),
        ("256", TaskState::Preempted),
        ("R+", TaskState::Preempted),
        ("1", TaskState::Sleeping),
        ("S", TaskState::Sleeping),
        ("2", TaskState::Uninterruptible),
        ("D", TaskState::Uninterruptible),
        ("258", TaskState::Uninterruptible),
        ("D|K", TaskState::Uninterruptible),
        ("1026", TaskState::Idle),
        ("128", TaskState::Idle),
        ("I", TaskState::Idle),
        ("4", TaskState::Stopped),
        ("t", TaskState::Stopped),
        ("16", TaskState::Ended),
        ("Z", TaskState::Ended),
        ("64", TaskState::Other),
        ("?", TaskState::Other),
    ] {
        let found = match text.parse() {
            Ok(number) => state_of_number(number),
            Err(_) => state_of_letters(text.as_bytes()),
        };
        assert_eq!(found, state, "{text}");
    }
    let fields = &[
        ("prev_comm", "a"),
        ("prev_pid", "7"),
        ("prev_prio", "120"),
        ("prev_state", "D"),
        ("next_comm", "b"),
        ("next_pid", "8"),
        ("next_prio", "-1"),
    ];
    let kind = decode("sched_switch", fields, &mut names).unwrap();
    let expected = Switch {
        prev_tid: Some(7),
        prev_comm: names.intern(b"a"),
        prev_priority: 120,
        prev_state: TaskState::Uninterruptible,
        next_tid: 8,
        next_comm: names.intern(b"b"),
        next_priority: -1,
    };
    assert_eq!(kind, Kind::Switch(expected));
}

#[test]
fn a_missing_field_gives_no_event() {
    let mut names = Names::default();
    assert_eq!(decode("sched_switch", &[("next_pid", "7")], &mut names), None);
    assert_eq!(decode("block_rq_issue", &[("rwbs", "R"), ("dev", "1")], &mut names), None);
    assert_eq!(decode("mm_filemap_add_to_page_cache", &[], &mut names), None);
    assert!(decoder("cpu_idle").is_none());
}

#[test]
fn memory_events_are_typed() {
    let mut names = Names::default();
    let rss = |member, bytes| Some(Kind::Rss { mm_id: 9, is_current: Some(true), member, bytes });
    assert_eq!(
        decode(
            "rss_stat",
            &[("mm_id", "9"), ("curr", "1"), ("member", "1"), ("size", "-4096")],
            &mut names
        ),
        rss(RssMember::Anonymous, -4096)
    );
    assert_eq!(
        decode(
            "rss_stat",
            &[("mm_id", "9"), ("curr", "1"), ("type", "MM_SWAPENTS"), ("size", "4096")],
            &mut names
        ),
        rss(RssMember::Swap, 4096)
    );
    assert_eq!(
        decode("mm_vmscan_write_folio", &[("pfn", "5"), ("reclaim_flags", "5")], &mut names),
        Some(Kind::SwapOut { frame: 5 })
    );
    assert_eq!(
        decode("mm_vmscan_write_folio", &[("pfn", "5"), ("reclaim_flags", "6")], &mut names),
        None
    );
    let comm = names.intern(b"app");
    assert_eq!(
        decode(
            "lowmemory_kill",
            &[("pid", "5"), ("comm", "app"), ("pagecache_size", "2"), ("free", "-1")],
            &mut names
        ),
        Some(Kind::LowMemoryKill { pid: 5, comm, cache_bytes: 2048, free_bytes: -1024 })
    );
    assert_eq!(
        decode(
            "oom_score_adj_update",
            &[("pid", "5"), ("comm", "app"), ("oom_score_adj", "64536")],
            &mut names
        ),
        Some(Kind::OomScoreAdj { pid: 5, comm, adj: -1000 })
    );
}

#[test]
fn a_request_of_the_block_layer_is_typed() {
    let mut names = Names::default();
    let fields = &[
        ("dev", "8388608"),
        ("sector", "80"),
        ("nr_sector", "8"),
        ("rwbs", "FWS"),
        ("comm", "\") Z (\""),
    ];
    let kind = decode("block_rq_issue", fields, &mut names);
    let comm = names.intern(b"\") Z (\"");
    let expected = BlockRequest {
        stage: BlockStage::Issue,
        operation: Operation::Write,
        device: 8 << 20,
        sector: 80,
        sectors: 8,
        comm,
    };
    assert_eq!(kind, Some(Kind::Block(expected)));
}

#[test]
fn markers_of_userspace_are_read() {
    let mut names = Names::default();
    let mut read = |text: &str| marker(text.as_bytes(), CONTEXT, &mut names);
    let begin = read("B|5|a|b c\n");
    let [end, bare_end] = ["E|5", "E"].map(&mut read);
    let [start, finish] = ["S|5|a|b|-7", "F|5|a|b|-7"].map(&mut read);
    let [track_start, track_finish, track_end] =
        ["G|5|t|n|9", "H|5|t|n|9", "H|5|t|9"].map(&mut read);
    let [counter, kernel_counter] = ["C|5|n|18446744073709551615", "C||n|3"].map(&mut read);
    let [instant, track_instant] = ["I|5|n", "N|5|t|n"].map(&mut read);
    let [category, nothing] = ["C|5|n|4|gfx", "C|5|n"].map(&mut read);
    for text in ["", "B", "X|5|a", "trace_event_clock_sync: parent_ts=1.0", "B|x|a", "S|5|a"] {
        assert_eq!(read(text), None, "{text}");
    }
    let mut name = |text: &str| names.intern(text.as_bytes());
    let (n, t) = (name("n"), name("t"));
    assert_eq!(begin, Some(Kind::SliceBegin { pid: 5, name: name("a|b c") }));
    assert_eq!(end, Some(Kind::SliceEnd { pid: 5 }));
    assert_eq!(bare_end, Some(Kind::SliceEnd { pid: 0 }));
    let (name_ab, track) = (name("a|b"), Name::NONE);
    assert_eq!(start, Some(Kind::AsyncBegin { pid: 5, name: name_ab, cookie: -7, track }));
    assert_eq!(finish, Some(Kind::AsyncEnd { pid: 5, name: name_ab, cookie: -7, track }));
    assert_eq!(track_start, Some(Kind::AsyncBegin { pid: 5, name: n, cookie: 9, track: t }));
    assert_eq!(track_finish, Some(Kind::AsyncEnd { pid: 5, name: n, cookie: 9, track: t }));
    assert_eq!(track_end, Some(Kind::AsyncEnd { pid: 5, name: track, cookie: 9, track: t }));
    assert_eq!(counter, Some(Kind::Counter { pid: 5, name: n, value: -1 }));
    assert_eq!(kernel_counter, Some(Kind::Counter { pid: 77, name: n, value: 3 }));
    assert_eq!(category, Some(Kind::Counter { pid: 5, name: n, value: 4 }));
    assert_eq!(nothing, None);
    assert_eq!(instant, Some(Kind::Instant { pid: 5, name: n, track: Name::NONE }));
    assert_eq!(track_instant, Some(Kind::Instant { pid: 5, name: n, track: t }));
}
