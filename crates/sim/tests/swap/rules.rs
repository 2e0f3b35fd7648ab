//! Rules that hold for every architecture of the catalog.

use crate::support::{Recorded, operations, request, run, script};
use sim::ErrorKind;
use sim::devices::Device;
use sim::swap::{
    CATALOG, Counts, Marks, Outcome, Readahead, Role, SimulateRequest, find, simulate,
    simulate_many,
};
use trace::recording::About;
use trace::{Header, TraceKind};
use types::{Event, EventFlags, EventKind, NoProgress, PageId, ProcessId};

fn event(kind: EventKind, page: u32, process: u32) -> Event {
    Event { kind, flags: EventFlags::DIRTY, page: PageId(page), process: ProcessId(process) }
}

/// Dirty page-outs and swap-ins of 40 pages in turn, some pages more often than others.
fn alternating() -> Vec<Event> {
    let mut is_out = [false; 40];
    let mut state = 11u64;
    let mut events = Vec::new();
    for _ in 0..4_000 {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let page = (((state >> 33) % 40) * ((state >> 43) % 40) / 40) as u32;
        let kind = if is_out[page as usize] { EventKind::SwapIn } else { EventKind::SwapOut };
        is_out[page as usize] ^= true;
        events.push(event(kind, page, page % 4));
    }
    events
}

#[test]
fn every_placement_has_an_architecture_of_its_name() {
    let placements: Vec<&str> = policy::placement::CATALOG.iter().map(|row| row.name).collect();
    let driven = CATALOG.iter().filter(|row| row.role != Role::Bound);
    assert_eq!(placements, driven.map(|row| row.name).collect::<Vec<_>>());
}

#[test]
fn without_a_fast_tier_every_architecture_is_flash() {
    let events = alternating();
    let flash = operations(&run(&request("flash", 0, ""), &events));
    for architecture in CATALOG {
        let outcome = run(&request(architecture.name, 0, ""), &events);
        assert_eq!(operations(&outcome), flash, "{}", architecture.name);
        assert_eq!((outcome.promotions, outcome.demotions), (0, 0), "{}", architecture.name);
    }
}

#[test]
fn a_fast_tier_for_everything_reads_each_page_from_the_slow_one_as_often_as_the_rule_allows() {
    let events = alternating();
    let pages = 40;
    for (architecture, options, reads_per_page) in [
        ("priority", "", 0),
        ("hierarchical", "", 0),
        ("hierarchical", "eviction=clock", 0),
        ("hybrid-clock", "", 0),
        ("hybrid", "entry_bit=1", 1),
        ("hybrid", "entry_bit=0", 2),
        ("hybrid", "entry_bit=0 promote_at=swapout", 2),
        ("nvm-cache", "", 1),
    ] {
        let outcome = run(&request(architecture, 1_000, options), &events);
        let most = reads_per_page * pages;
        assert!(outcome.slow.reads <= most, "{architecture} {options}: {}", outcome.slow.reads);
        assert_eq!(outcome.slow.reads > 0, reads_per_page > 0, "{architecture} {options}");
        assert_eq!(outcome.demotions, 0, "{architecture} {options}");
    }
}

#[test]
fn a_trace_without_events_costs_nothing() {
    for architecture in CATALOG {
        let methods =
            if architecture.role == Role::Bound { &["", "method=exact"][..] } else { &[""] };
        for options in methods {
            let outcome = run(&request(architecture.name, 2, options), &[]);
            assert_eq!(operations(&outcome), [0; 4], "{} {options}", architecture.name);
            assert_eq!(outcome.io_time_s, 0.0, "{} {options}", architecture.name);
        }
    }
}

#[test]
fn the_end_of_a_process_costs_nothing_and_frees_all_its_pages() {
    for architecture in CATALOG {
        let mut request = request(architecture.name, 2, "");
        request.clean_evictions = sim::swap::CleanEvictions::Inferred;
        let once = script("outA D, inA, outA D, outB D, inB, outB D");
        let exit = [event(EventKind::Exit, 0, 0)];
        let twice = [once.clone(), exit.to_vec(), once.clone()].concat();
        let (single, double) = (run(&request, &once), run(&request, &twice));
        let doubled = operations(&single).map(|count| 2 * count);
        assert_eq!(operations(&double), doubled, "{}", architecture.name);
    }
}

#[test]
fn the_first_read_of_a_page_never_written_is_a_slow_one() {
    for architecture in CATALOG {
        let outcome = run(&request(architecture.name, 2, ""), &script("inA"));
        assert_eq!((outcome.slow.reads, outcome.slow.writes), (1, 0), "{}", architecture.name);
        assert_eq!(outcome.fast.reads, 0, "{}", architecture.name);
    }
}

/// The events with the page of each swap-in read ahead just before it, so that the fault reads no device.
fn all_ahead(events: &[Event]) -> Vec<Event> {
    let read = |event: &Event| Event { kind: EventKind::DeviceRead, ..*event };
    let is_read = |event: &Event| event.kind == EventKind::SwapIn;
    events
        .iter()
        .flat_map(|event| is_read(event).then(|| read(event)).into_iter().chain([*event]))
        .collect()
}

#[test]
fn recorded_readahead_moves_reads_from_the_faults_and_changes_no_other_count() {
    let events = alternating();
    let faults = events.iter().filter(|event| event.kind == EventKind::SwapIn).count() as u64;
    for architecture in CATALOG.iter().filter(|row| row.role != Role::Bound) {
        let mut request = request(architecture.name, 10, "");
        let quiet = run(&request, &events);
        request.readahead = Readahead::Recorded;
        // Without recorded device reads, faults without MAJOR show the same.
        for ahead in [all_ahead(&events), events.clone()] {
            let outcome = run(&request, &ahead);
            assert_eq!(operations(&outcome), operations(&quiet), "{}", architecture.name);
            let pages = outcome.readahead_pages.unwrap();
            assert_eq!((pages.read, pages.used), (faults, faults), "{}", architecture.name);
            assert!(outcome.stall_time_s < quiet.stall_time_s, "{}", architecture.name);
        }
    }
}

#[test]
fn pages_read_ahead_for_nothing_are_reads_of_the_tier_that_has_them() {
    let read = |page| Event { kind: EventKind::DeviceRead, ..event(EventKind::SwapIn, page, 0) };
    let major = Event { flags: EventFlags::MAJOR, ..event(EventKind::SwapIn, 1, 0) };
    // B is read ahead in vain twice: the kernel dropped it, and then the program wrote it again.
    let events =
        [script("outA D, outB D"), vec![read(1), read(0), major], script("outB D")].concat();
    for (pages, expected) in [(0, [3, 3, 0, 0]), (2, [0, 0, 3, 3])] {
        let mut request = request("priority", pages, "");
        request.readahead = Readahead::Recorded;
        let outcome = run(&request, &events);
        assert_eq!(operations(&outcome), expected);
        let pages = outcome.readahead_pages.unwrap();
        assert_eq!((pages.read, pages.used), (2, 0));
    }
}

#[test]
fn readahead_after_an_inferred_page_out_reads_from_the_tier_that_has_the_page_then() {
    // Without MAJOR, so read ahead. The page-out before the last one admits the page.
    let events = vec![event(EventKind::SwapIn, 0, 0); 3];
    let mut request = request("nvm-cache", 1, "");
    request.clean_evictions = sim::swap::CleanEvictions::Inferred;
    assert_eq!(operations(&run(&request, &events)), [2, 0, 1, 1]);
    request.readahead = Readahead::Recorded;
    let outcome = run(&request, &events);
    assert_eq!(operations(&outcome), [2, 0, 1, 1]);
    let pages = outcome.readahead_pages.unwrap();
    assert_eq!((pages.read, pages.used), (3, 3));
}

fn queued(request: &SimulateRequest, events: &[Event], times_ns: Vec<i64>) -> Outcome {
    let request = SimulateRequest { queueing: true, ..request.clone() };
    let mut trace = Recorded::swap(events.to_vec()).at(times_ns);
    simulate(&mut trace, &request, &NoProgress).expect("the replay succeeds")
}

#[test]
fn a_fault_waits_for_the_write_back_before_it_beside_its_own_read() {
    let out = |page| event(EventKind::SwapOut, page, 1);
    let events = [out(0), out(1), event(EventKind::SwapIn, 2, 2)];
    let outcome = queued(&request("flash", 0, ""), &events, vec![0, 0, 10_000]);
    // Two writes of 40 us begin at 0, and the fault comes 10 us later.
    assert_eq!(outcome.queue_time_s, Some(70e-6));
    assert_eq!((outcome.stall_time_s, outcome.io_time_s), (90e-6, 170e-6));
    let mut emmc = SimulateRequest { replays_range: true, ..request("flash", 0, "") };
    emmc.slow = Device::resolve("emmc-5.1").unwrap();
    let events = [&[out(3), out(4)], &events[..]].concat();
    let outcome = queued(&emmc, &events, vec![0; 5]);
    // Four writes on two units, of 80 to 300 us.
    let range = outcome.ranges.unwrap().queue_time_s.unwrap();
    assert_eq!((range.low, range.high), (160e-6, 600e-6));
}

#[test]
fn a_fault_waits_longer_for_readahead_the_slower_the_device() {
    let outs = (0..40).map(|page| event(EventKind::SwapOut, page, 1));
    let faults = [0, 20].map(|page| event(EventKind::SwapIn, page, 1));
    let events: Vec<Event> = outs.chain(faults).collect();
    // The page-outs are done long before the faults. The second fault waits for what the first one reads along.
    let times_ns = [vec![0; 40], vec![1_000_000_000; 2]].concat();
    // With a bandwidth and without one.
    for name in ["emmc-5.1", "sd-a2"] {
        let mut request = SimulateRequest { replays_range: true, ..request("flash", 0, "") };
        request.slow = Device::resolve(name).unwrap();
        request.readahead = Readahead::Kernel;
        let outcome = queued(&request, &events, times_ns.clone());
        let (typical, range) =
            (outcome.queue_time_s.unwrap(), outcome.ranges.unwrap().queue_time_s.unwrap());
        assert!(range.low < typical && typical < range.high, "{name}: {typical} in {range:?}");
    }
}

#[test]
fn queueing_changes_no_count_and_an_idle_device_has_no_queue() {
    let events = alternating();
    let seconds = |gap_ns: i64| (0..events.len() as i64).map(|number| number * gap_ns).collect();
    for architecture in CATALOG.iter().filter(|row| row.role != Role::Bound) {
        let request = request(architecture.name, 10, "");
        let plain = run(&request, &events);
        let (idle, busy) = (
            queued(&request, &events, seconds(1_000_000_000)),
            queued(&request, &events, seconds(20_000)),
        );
        for outcome in [&idle, &busy] {
            assert_eq!(operations(outcome), operations(&plain), "{}", architecture.name);
            assert_eq!(outcome.stall_time_s, plain.stall_time_s, "{}", architecture.name);
        }
        assert_eq!(plain.queue_time_s, None, "{}", architecture.name);
        assert_eq!(idle.queue_time_s, Some(0.0), "{}", architecture.name);
        assert!(busy.queue_time_s.unwrap() > 0.0, "{}", architecture.name);
    }
}

#[test]
fn a_trace_that_cannot_show_readahead_or_times_is_refused_with_the_reason() {
    let refused = |trace: &mut Recorded, request: &SimulateRequest| {
        let error = simulate(trace, request, &NoProgress).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        error.to_string()
    };
    let mut recorded = request("flash", 0, "");
    recorded.readahead = Readahead::Recorded;
    let mut trace = Recorded::swap(alternating());
    trace.header.has_durations = false;
    let text = refused(&mut trace, &recorded);
    assert!(text.contains("shows which faults read the device"), "{text}");
    let by = |backend: &str| About { backend: backend.to_owned(), ..About::default() };
    for (first, others) in [("bpf", ["tracefs", "bpf"]), ("tracefs", ["bpf", "bpf"])] {
        let mut joined = Recorded::swap(alternating());
        joined.header.has_durations = true;
        joined.header.recorder = Some(by(first));
        joined.header.further_recorders = others.map(by).into();
        let text = refused(&mut joined, &recorded);
        assert!(text.contains("at least one was made without BPF"), "{text}");
    }
    let mut kernel = request("flash", 0, "");
    kernel.readahead = Readahead::Kernel;
    let text = refused(&mut Recorded::new(TraceKind::Block, alternating()), &kernel);
    assert!(text.contains("needs a recording of swap"), "{text}");
    let mut queueing = request("flash", 0, "");
    queueing.queueing = true;
    let text = refused(&mut Recorded::swap(alternating()), &queueing);
    assert!(text.contains("needs a trace with a clock"), "{text}");
    for request in [kernel, queueing] {
        let bound = SimulateRequest { architecture: "clairvoyant".to_owned(), ..request };
        let times_ns = vec![0; alternating().len()];
        let text = refused(&mut Recorded::swap(alternating()).at(times_ns), &bound);
        assert!(text.contains("neither readahead nor queueing"), "{text}");
    }
}

#[test]
fn many_cells_in_one_pass_give_the_results_of_single_runs() {
    let events = alternating();
    let requests: Vec<_> = CATALOG
        .iter()
        .flat_map(|architecture| [3, 17].map(|pages| request(architecture.name, pages, "")))
        .collect();
    let together =
        simulate_many(&mut Recorded::swap(events.clone()), &requests, &Marks::None, &NoProgress);
    for (request, outcome) in requests.iter().zip(together) {
        let single = serde_json::to_string(&run(request, &events)).unwrap();
        assert_eq!(serde_json::to_string(&outcome.unwrap()).unwrap(), single);
    }
}

#[test]
fn slices_add_up_to_the_whole_and_cuts_change_nothing() {
    let events = alternating();
    let requests: Vec<_> =
        CATALOG.iter().map(|architecture| request(architecture.name, 5, "")).collect();
    let sliced = |marks: Vec<u64>| {
        let mut source = Recorded::swap(events.clone());
        simulate_many(&mut source, &requests, &Marks::Events(marks), &NoProgress)
    };
    let third = events.len() as u64 / 3;
    for (request, outcome) in requests.iter().zip(sliced(vec![third, 2 * third, u64::MAX])) {
        let outcome = outcome.unwrap();
        let whole = run(request, &events);
        assert_eq!(operations(&outcome), operations(&whole), "{}", request.architecture);
        if find(&request.architecture).unwrap().role == Role::Bound {
            assert!(outcome.slices.is_empty());
            continue;
        }
        let sum = |of: fn(&Counts) -> u64| outcome.slices.iter().map(of).sum::<u64>();
        assert_eq!(outcome.slices.len(), 4);
        assert_eq!(sum(|counts| counts.slow_reads), whole.slow.reads, "{}", request.architecture);
        assert_eq!(sum(|counts| counts.fast_writes), whole.fast.writes);
        assert_eq!((outcome.slices[3].fast_reads, outcome.slices[3].slow_reads), (0, 0));
    }
    // A prefix replayed by itself has the counts of its slice.
    let first = sliced(vec![third]).swap_remove(0).unwrap().slices[0];
    let single = run(&requests[0], &events[..third as usize]);
    assert_eq!((first.slow_reads, first.slow_writes), (single.slow.reads, single.slow.writes));
}

#[test]
fn an_invalid_request_fails_by_itself() {
    let requests =
        [request("flash", 1, ""), request("flush", 1, ""), request("hybrid", 1, "entry=1")];
    let mut results =
        simulate_many(&mut Recorded::swap(script("outA D")), &requests, &Marks::None, &NoProgress)
            .into_iter();
    assert!(results.next().unwrap().is_ok());
    for expected in ["nvm-cache", "entry_bit"] {
        let error = results.next().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn a_block_trace_is_replayed_by_the_mapping_and_the_result_notes_it() {
    let events = vec![event(EventKind::Read, 0, 0), event(EventKind::Write, 0, 0)];
    let mut source = Recorded::new(TraceKind::Block, events);
    let outcome = sim::swap::simulate(&mut source, &request("flash", 0, ""), &NoProgress).unwrap();
    assert_eq!(operations(&outcome), [1, 1, 0, 0]);
    assert!(outcome.notes.iter().any(|note| note.contains("a read is a swap-in")));
}

#[test]
fn a_page_of_zeros_costs_nothing_in_any_architecture() {
    for architecture in CATALOG {
        let events = script("outA Z, inA Z, inA Z, outB Z, outA Z, inB Z");
        let outcome = run(&request(architecture.name, 1, ""), &events);
        assert_eq!(operations(&outcome), [0; 4], "{}", architecture.name);
        assert_eq!((outcome.io_time_s, outcome.processes.len()), (0.0, 0));
        let zeros = outcome.zero_pages.expect("the trace distinguishes zeros");
        assert_eq!((zeros.outs, zeros.ins), (3, 3));
        assert!(outcome.notes.iter().any(|note| note.starts_with("3 page-outs and 3 page-ins")));
    }
}

#[test]
fn zeros_void_older_copies_and_give_up_their_frame() {
    // Only a page that left memory unrecorded, with other contents, is read after zeros.
    let after = run(&request("flash", 0, ""), &script("outA D, inA, outA Z, inA Z, inA"));
    assert_eq!(operations(&after), [2, 2, 0, 0]);
    let freed = run(&request("priority", 1, ""), &script("outA D, outA Z, outB D, inB, inA Z"));
    assert_eq!(operations(&freed), [0, 0, 1, 2]);
    assert_eq!(freed.demotions, 0);
}

#[test]
fn a_trace_that_may_hide_zeros_is_noted_in_the_result() {
    let has_note = |header: Header| {
        let mut source = Recorded::swap(script("outA D"));
        source.header = header;
        let request = request("flash", 0, "");
        let outcome = sim::swap::simulate(&mut source, &request, &NoProgress).unwrap();
        assert!(outcome.zero_pages.is_none());
        outcome.notes.contains(&trace::ZEROS_UNMARKED.to_owned())
    };
    let unknown = Header::new(TraceKind::Swap, "test");
    let older = About { kernel: "6.1.0".to_owned(), ..About::default() };
    assert!(has_note(unknown.clone()));
    assert!(!has_note(Header { recorder: Some(older), ..unknown }));
}

#[test]
fn the_result_notes_when_admit_clean_decides_nothing() {
    let has_note = |text| {
        let outcome = run(&request("nvm-cache", 1, ""), &script(text));
        outcome.notes.iter().any(|note| note.starts_with("admit_clean has no effect"))
    };
    assert!(has_note("outA D, inA, outA D"));
    assert!(!has_note("outA D, inA, outA c"));
}

#[test]
fn every_row_of_the_catalog_is_complete() {
    for architecture in CATALOG {
        let profiles: Vec<&str> =
            architecture.profiles.iter().map(|profile| profile.name).collect();
        assert_eq!(profiles, ["faithful", "practical"], "{}", architecture.name);
        assert!(!architecture.summary.is_empty());
        for option in architecture.options {
            assert!(!option.meaning.is_empty() && !option.values.describe().is_empty());
            let set = format!("{}={}", option.name, option.default);
            run(&request(architecture.name, 1, &set), &script("outA D, inA"));
        }
        let mut practical = request(architecture.name, 1, "");
        practical.profile = Some("practical".to_owned());
        run(&practical, &script("outA D, inA"));
    }
}

#[test]
fn the_documentation_has_every_option_with_its_default_and_values() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/architectures.md");
    let page = std::fs::read_to_string(path).expect("docs/architectures.md exists");
    for architecture in CATALOG {
        let heading = format!("\n## {}\n", architecture.name);
        let section = page.split(&heading).nth(1).unwrap_or_else(|| panic!("no section{heading}"));
        let section = section.split("\n## ").next().unwrap_or(section);
        for option in architecture.options {
            let row = format!(
                "| `{}` | {} | {} | {} |",
                option.name,
                option.default,
                option.values.describe(),
                option.meaning
            );
            assert!(section.contains(&row), "docs/architectures.md lacks:\n{row}");
        }
    }
}

#[test]
fn only_a_swap_in_that_follows_a_swap_in_implies_a_clean_page_out() {
    let mut request = request("nvm-cache", 1, "");
    request.clean_evictions = sim::swap::CleanEvictions::Inferred;
    let fast_writes = |kind| {
        let events = vec![event(kind, 0, 0); 3];
        run(&request, &events).fast.writes
    };
    // Two page-outs between three swap-ins: the second page-out admits the page.
    assert_eq!(fast_writes(EventKind::SwapIn), 1);
    assert_eq!(fast_writes(EventKind::Read), 1, "a read of a block trace is a swap-in");
    assert_eq!(fast_writes(EventKind::Request), 0);
}

#[test]
#[ignore = "slow"]
fn ranges_equal_those_of_runs_with_low_and_high_latencies() {
    let events = alternating();
    for architecture in CATALOG {
        let mut typical = request(architecture.name, 12, "");
        typical.slow = Device::resolve("emmc-5.1").unwrap();
        typical.fast = Device::resolve("zram-lz4").unwrap();
        let has_ranges = run(&typical, &events).ranges.is_some();
        assert_eq!(has_ranges, !architecture.decides_by_latency, "{}", architecture.name);

        typical.replays_range = true;
        let outcome = run(&typical, &events);
        let ranges = outcome.ranges.expect("ranges were asked for");
        let mut low = typical.clone();
        low.fast = typical.fast.at(|latency| latency.low_ns);
        low.slow = typical.slow.at(|latency| latency.low_ns);
        let low = run(&low, &events);
        assert_eq!(ranges.io_time_s.low, low.io_time_s, "{}", architecture.name);
        assert_eq!(ranges.stall_time_s.low, low.stall_time_s, "{}", architecture.name);
        assert!(ranges.io_time_s.low < outcome.io_time_s);
        assert!(outcome.io_time_s < ranges.io_time_s.high);
    }
}

#[test]
fn the_catalog_has_one_baseline_and_bounds_stand_last() {
    let roles: Vec<Role> = CATALOG.iter().map(|architecture| architecture.role).collect();
    assert_eq!(roles.iter().filter(|role| **role == Role::Baseline).count(), 1);
    assert!(roles.is_sorted_by_key(|role| *role == Role::Bound));
}
