use super::*;
use crate::system::{BlockStage, TaskState};

/// Every event of a text, with what was counted and the numbers of its bad lines.
fn read(text: &str) -> (Vec<Event>, Tally, Vec<u64>, Vec<String>) {
    let mut reader = open(Input::from_bytes("sample", text.as_bytes()).unwrap()).unwrap();
    let (mut events, mut tally) = (Vec::new(), Tally::default());
    while reader.read(&mut events, &mut tally).unwrap() {}
    let bad = reader.rejects().1.iter().map(|reject| reject.line).collect();
    let names = events
        .iter()
        .map(|event| match event.kind {
            Kind::Switch(switch) => reader.names().text(switch.next_comm).into_owned(),
            Kind::Thread { comm, .. } => reader.names().text(comm).into_owned(),
            Kind::Process { name, .. } => reader.names().text(name).into_owned(),
            Kind::SliceBegin { name, .. } => reader.names().text(name).into_owned(),
            Kind::LowMemoryKill { comm, .. } => reader.names().text(comm).into_owned(),
            _ => String::new(),
        })
        .collect();
    (events, tally, bad, names)
}

/// The only event of a line whose event and text are these.
fn kind(event: &str, text: &str) -> Kind {
    let line = format!("  cat-7     [001] .....  1.500000: {event}: {text}\n");
    let (events, tally, bad, _) = read(&line);
    assert!(bad.is_empty() && tally.losses().next().is_none(), "{line}");
    let [Event { time_ns: 1_500_000_000, cpu: Some(1), tid: 7, kind }] = events[..] else {
        panic!("{line}: {events:?}");
    };
    kind
}

#[test]
fn the_text_of_each_event_gives_its_fields() {
    let Kind::Block(request) = kind("block_rq_issue", "8,1 WS 4096 () 80 + 8 be,0,4 [a b]") else {
        panic!();
    };
    assert_eq!((request.stage, request.device), (BlockStage::Issue, 0x80_0001));
    assert_eq!((request.sector, request.sectors), (80, 8));
    let page = Kind::PageAdded { device: 0xfc0_0000, inode: 0xa0266, page: 40, order: 0 };
    let old = "dev 252:0 ino a0266 page=ffffffbf69b41a00 pfn=970856 ofs=163840";
    let new = "dev 252:0 ino a0266 pfn=0x970856 ofs=163840 order=0";
    assert_eq!(kind("mm_filemap_add_to_page_cache", old), page);
    assert_eq!(kind("mm_filemap_add_to_page_cache", new), page);
    assert_eq!(
        kind("mm_vmscan_write_folio", "pfn=0x5 flags=RECLAIM_WB_ANON|RECLAIM_WB_ASYNC"),
        Kind::SwapOut { frame: 5 }
    );
    assert_eq!(
        kind("sched_blocked_reason", "pid=5 iowait=1 caller=wait_on_page+0x1/0x2"),
        Kind::Blocked { tid: 5, is_io: true, caller: 0 }
    );
    let Kind::Rss { bytes: -4096, mm_id: 9, .. } =
        kind("rss_stat", "mm_id=9 curr=1 type=MM_ANONPAGES size=-4096B")
    else {
        panic!();
    };
    let Kind::NewTask { tid: 8, is_thread: true, adj: -900, .. } =
        kind("task_newtask", "pid=8 comm=x clone_flags=3d0f00 oom_score_adj=-900")
    else {
        panic!();
    };
    let Kind::Fork { parent_tid: 7, tid: 8, .. } =
        kind("sched_process_fork", "comm=a pid=7 child_comm=b child_pid=8")
    else {
        panic!();
    };
    let region = "target_id=18446623435582458880 nr_regions=8 94253027950592-94253031862272: 3";
    let expected = Kind::Region {
        target: 18_446_623_435_582_458_880,
        start: 94_253_027_950_592,
        end: 94_253_031_862_272,
        accesses: 3,
        age: None,
        regions: 8,
    };
    assert_eq!(kind("damon_aggregated", region), expected);
    let Kind::Region { age: Some(17), .. } = kind("damon_aggregated", &format!("{region} 17"))
    else {
        panic!();
    };
}

#[test]
fn a_switch_is_the_same_as_the_kernel_and_as_the_plugin_prints_it() {
    for text in [
        "prev_comm=a b prev_pid=7 prev_prio=120 prev_state=D ==> next_comm=c:1 [5] next_pid=9 next_prio=98",
        "prev_comm=a b prev_pid=7 prev_prio=120 prev_state=0x2 next_comm=c:1 [5] next_pid=9 next_prio=98",
        "a b:7 [120] D ==> c:1 [5]:9 [98]",
    ] {
        let line = format!("a b-7 [001] d..2 1.500000: sched_switch: {text}\n");
        let (events, _, _, names) = read(&line);
        let [Event { kind: Kind::Switch(switch), .. }] = events[..] else { panic!("{text}") };
        assert_eq!(switch.prev_tid, Some(7), "{text}");
        assert_eq!(switch.prev_state, TaskState::Uninterruptible, "{text}");
        assert_eq!((switch.next_tid, switch.next_priority), (9, 98), "{text}");
        assert_eq!(names, ["c:1 [5]"]);
    }
    for text in ["comm=sh pid=5 prio=120 target_cpu=002", "sh:5 [120] CPU:002"] {
        let Kind::Wake { tid: 5, priority: 120, target_cpu: Some(2), .. } =
            kind("sched_wakeup", text)
        else {
            panic!("{text}");
        };
    }
}

#[test]
fn markers_are_read_however_they_were_written() {
    for (event, text) in [
        ("tracing_mark_write", "B|5|a"),
        ("print", "tracing_mark_write: B|5|a"),
        ("print", "0xffffffff81: B|5|a"),
        ("print", "ip=0xffffffff81 buf=B|5|a"),
    ] {
        let line = format!("x-7 [001] .... 1.0: {event}: {text}\n");
        let (events, _, _, names) = read(&line);
        assert!(matches!(events[0].kind, Kind::SliceBegin { pid: 5, .. }), "{event} {text}");
        assert_eq!(names, ["a"]);
    }
    let (events, tally, bad, _) = read("x-7 [0] .... 1.0: print: hello\n");
    assert!(events.is_empty() && tally.losses().next().is_none() && bad.is_empty());
}

#[test]
fn kills_of_the_former_driver_are_read_with_hostile_names() {
    let text = ") Z ( (4242), page cache 40960kB (limit 49152kB), free -100Kb";
    let line = format!("kswapd0-7 [001] .... 1.0: lowmemory_kill: {text}\n");
    let (events, _, _, names) = read(&line);
    let Kind::LowMemoryKill { pid: 4242, cache_bytes, free_bytes, .. } = events[0].kind else {
        panic!("{events:?}");
    };
    assert_eq!((cache_bytes, free_bytes), (40960 << 10, -100 << 10));
    assert_eq!(names, [") Z ("]);
}

#[test]
fn processes_come_from_the_list_and_from_the_lines() {
    let text = "<html>
  <script class=\"trace-data\" type=\"application/text\">
PROCESS DUMP
USER           PID  PPID     VSZ    RSS WCHAN  PC S NAME                        COMM
root             1     0   32904   4528 SyS_epoll_wait 0 S init                 init
root             2     0       0      0 kthreadd 0 S [kthreadd]                 kthreadd
bad
USER           PID   TID CMD
system        7459  7591 RenderThread
  </script>
  <script class=\"trace-data\" type=\"application/text\">
# tracer: nop
 RenderThread-7591  ( 7459) [004] ...1   2.5: tracing_mark_write: E
 RenderThread-7591  ( 7459) [004] ...1   2.6: tracing_mark_write: E
nonsense
  </script>
</html>
";
    let (events, tally, bad, names) = read(text);
    assert_eq!(names, ["init", "kthreadd", "RenderThread", "RenderThread", "", ""]);
    assert!(events[..5].iter().all(|event| event.time_ns == 2_500_000_000));
    assert!(matches!(events[0].kind, Kind::Process { pid: 1, parent: 0, .. }));
    assert!(matches!(events[2].kind, Kind::Thread { tid: 7591, pid: 7459, .. }));
    assert_eq!(tally.events()["tracing_mark_write"], 2);
    assert_eq!(bad, [15]);
}

#[test]
fn an_event_without_its_fields_is_counted() {
    let (events, tally, bad, _) = read("x-7 [0] .... 1.0: sched_switch: prev_comm=a\n");
    assert!(events.is_empty() && bad.is_empty());
    assert_eq!(tally.losses().collect::<Vec<_>>(), [(INCOMPLETE, 1)]);
}

#[test]
fn times_of_the_clock_boot_are_whole_nanoseconds() {
    let line = |time: &str| {
        format!("  sh-161   [000]  {time}: sched_process_wait: comm=sh pid=3 prio=120\n")
    };
    let tail =
        "  sh-161   [000]  9988358799: sched_process_exit: comm=-1 [0] 1.1: x: pid=161 prio=120\n";
    let (events, tally, bad, _) = read(&(line("9988358793") + tail));
    assert!(bad.is_empty(), "{bad:?}");
    assert_eq!(events.last().unwrap().time_ns, 9_988_358_799);
    assert_eq!(tally.events()["sched_process_exit"], 1);
    assert_eq!(
        kind("mm_vmscan_write_folio", "pfn=0x5 flags=RECLAIM_WB_ANON"),
        Kind::SwapOut { frame: 5 }
    );
    let file = "  cat-7  [001] 1.5: mm_vmscan_write_folio: pfn=0x5 flags=RECLAIM_WB_FILE\n";
    let (events, tally, ..) = read(file);
    assert!(events.is_empty() && tally.losses().next().is_none());
}

#[test]
fn commands_that_look_like_fields_are_commands() {
    let Kind::Switch(switch) =
        kind("sched_switch", "a next_pid=5 x:133 [120] W ==> swapper/0:0 [120]")
    else {
        panic!();
    };
    assert_eq!((switch.prev_tid, switch.prev_state), (Some(133), TaskState::Idle));
    let Kind::Wake { tid: 133, .. } = kind("sched_wakeup", "a pid=5 x:133 [120] CPU:000") else {
        panic!();
    };
    let inode = "pfn=0x5 i_ino=12 index=0x0 s_dev=0x800001 order=0";
    let Kind::PageAdded { inode: 0x12, .. } = kind("mm_filemap_add_to_page_cache", inode) else {
        panic!();
    };
    let comm = |event: &str, text: &str| {
        let line = format!("  cat-7  [001] 1.5: {event}: {text}\n");
        let mut reader = open(Input::from_bytes("sample", line.as_bytes()).unwrap()).unwrap();
        let (mut events, mut tally) = (Vec::new(), Tally::default());
        while reader.read(&mut events, &mut tally).unwrap() {}
        let Kind::Block(request) = events[0].kind else { panic!("{events:?}") };
        reader.names().text(request.comm).into_owned()
    };
    assert_eq!(comm("block_rq_issue", "8,0 R 4096 () 80 + 8 [b:7 [120] D]"), "b:7 [120] D");
    assert_eq!(comm("block_rq_complete", "8,0 R () 80 + 24 [0]"), "");
    let queued = "dev=0x800000 sector=0x50 nr_sector=8 rwbs=R comm=a pid=5 x";
    assert_eq!(comm("block_bio_queue", queued), "a pid=5 x");
}
