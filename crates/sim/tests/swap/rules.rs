//! Rules that hold for every architecture of the catalog.

use crate::support::{Recorded, operations, request, run, script};
use sim::ErrorKind;
use sim::devices::Device;
use sim::swap::{CATALOG, Counts, Marks, Readahead, Role, find, simulate_many};
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

#[test]
fn recorded_readahead_adds_slow_reads_and_changes_nothing_else() {
    let quiet = alternating();
    let noisy: Vec<Event> = quiet
        .iter()
        .flat_map(|event| [*event, Event { kind: EventKind::DeviceRead, ..*event }])
        .collect();
    for architecture in CATALOG {
        let mut request = request(architecture.name, 10, "");
        let [slow_reads, others @ ..] = operations(&run(&request, &quiet));
        assert_eq!(operations(&run(&request, &noisy))[0], slow_reads, "{}", architecture.name);
        request.readahead = Readahead::Recorded;
        let [with_readahead, unchanged @ ..] = operations(&run(&request, &noisy));
        assert_eq!(with_readahead, slow_reads + quiet.len() as u64, "{}", architecture.name);
        assert_eq!(unchanged, others, "{}", architecture.name);
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
