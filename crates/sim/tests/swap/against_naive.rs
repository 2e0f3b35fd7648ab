//! Every architecture of the catalog against the naive model, on generated events with exits, file
//! pages, block operations and readahead, under every option.

use crate::support::{request, run};
use proptest::prelude::*;
use sim::swap::{CATALOG, CleanEvictions, Outcome, Readahead, SimulateRequest, Values};
use testkit::generate::SplitMix;
use testkit::swap::{Counts, Latencies, Replay, replay, with_kernel_readahead};
use types::{Event, EventFlags, EventKind, PAGE_BYTES, PageId, ProcessId};

/// A bound: tested against placements and the exact optimum instead.
const WITHOUT_NAIVE_MODEL: [&str; 1] = ["clairvoyant"];

const ANONYMOUS_PAGES: u32 = 10;
const FILE_PAGES: u32 = 4;
const BLOCK_PAGES: u32 = 2;
const PROCESSES: u32 = 3;

pub fn an_event() -> impl Strategy<Value = Event> {
    let pages = ANONYMOUS_PAGES + FILE_PAGES + BLOCK_PAGES;
    let facts = (0..pages, 0..40u32, any::<bool>(), 0..5u32, 0..PROCESSES);
    facts.prop_map(|(page, choice, flag, zero, process)| {
        let (kind, process) = if choice == 0 {
            (EventKind::Exit, process)
        } else if choice == 1 {
            (EventKind::DeviceRead, process)
        } else if choice == 2 {
            (EventKind::Void, process)
        } else if page < ANONYMOUS_PAGES {
            let kind = if choice % 2 == 0 { EventKind::SwapOut } else { EventKind::SwapIn };
            (kind, page % PROCESSES)
        } else if page < ANONYMOUS_PAGES + FILE_PAGES {
            (if choice % 2 == 0 { EventKind::Evict } else { EventKind::Request }, process)
        } else {
            (if choice % 2 == 0 { EventKind::Write } else { EventKind::Read }, process)
        };
        let flags = if flag { EventFlags::DIRTY } else { EventFlags::default() };
        let flags = if choice % 3 == 0 { flags.with(EventFlags::MAJOR) } else { flags };
        // The flag also occurs where it has no meaning, as on an exit or a page of a file.
        let flags = if zero == 0 { flags.with(EventFlags::ZERO) } else { flags };
        Event { kind, flags, page: PageId(page), process: ProcessId(process) }
    })
}

/// A value for every option of every architecture, each chosen by a number.
pub fn chosen_options(architecture: usize, choices: &[usize]) -> String {
    let options = CATALOG[architecture].options.iter().zip(choices.iter().cycle());
    let words = options.map(|(spec, choice)| {
        let value = match spec.values {
            Values::Words(words) => words[choice % words.len()].0.to_owned(),
            Values::WordOrNumber((word, _), _) => {
                [word.to_owned(), "1".to_owned(), "3".to_owned()][choice % 3].clone()
            }
        };
        format!("{}={value}", spec.name)
    });
    words.collect::<Vec<_>>().join(" ")
}

fn by_process(outcome: &Outcome) -> Vec<Counts> {
    let counts = outcome.processes.iter().map(|process| Counts {
        fast_reads: process.counts.fast_reads,
        fast_writes: process.counts.fast_writes,
        slow_reads: process.counts.slow_reads,
        slow_writes: process.counts.slow_writes,
        promotions: process.counts.promotions,
        demotions: process.counts.demotions,
    });
    counts.collect()
}

/// Latencies of the devices in `support::request`.
const LATENCIES: Latencies =
    Latencies { slow_read: 90e3, slow_write: 40e3, fast_read: 4e3, fast_write: 5e3 };

/// The naive model's replay of `request`, with the options in effect.
fn naive(request: &SimulateRequest, outcome: &Outcome, events: &[Event]) -> testkit::swap::Outcome {
    let options = outcome.options.iter().map(|(name, value)| ((*name).into(), value.clone()));
    let as_asked = Replay {
        architecture: request.architecture.clone(),
        options: options.collect(),
        capacity: (request.fast_bytes / PAGE_BYTES) as usize,
        counts_readahead: request.readahead != Readahead::Off,
        infers_clean: request.clean_evictions == CleanEvictions::Inferred,
        latencies: LATENCIES,
    };
    match request.readahead {
        Readahead::Kernel => replay(&as_asked, &with_kernel_readahead(events)),
        Readahead::Off | Readahead::Recorded => replay(&as_asked, events),
    }
}

/// Counts by process, for processes with any operation.
fn expected_counts(expected: &testkit::swap::Outcome) -> Vec<Counts> {
    let quiet = Counts::default();
    expected.processes.values().filter(|counts| **counts != quiet).copied().collect()
}

fn with_naive_model() -> Vec<usize> {
    (0..CATALOG.len())
        .filter(|index| !WITHOUT_NAIVE_MODEL.contains(&CATALOG[*index].name))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 3_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    #[ignore = "slow"]
    fn counts_equal_those_of_the_naive_model(
        events in prop::collection::vec(an_event(), 1..120),
        architecture in prop::sample::select(with_naive_model()),
        choices in prop::collection::vec(0usize..6, 8),
        capacity in 0u64..8,
        readahead in prop::sample::select(vec![
            Readahead::Off,
            Readahead::Recorded,
            Readahead::Kernel,
        ]),
        infers_clean in any::<bool>(),
    ) {
        let name = CATALOG[architecture].name;
        let mut request = request(name, capacity, &chosen_options(architecture, &choices));
        request.readahead = readahead;
        request.clean_evictions =
            if infers_clean { CleanEvictions::Inferred } else { CleanEvictions::None };
        let outcome = run(&request, &events);

        let expected = naive(&request, &outcome, &events);
        prop_assert_eq!(by_process(&outcome), expected_counts(&expected), "{}", name);
        let zeros = outcome.zero_pages.map(|zeros| (zeros.outs, zeros.ins));
        prop_assert_eq!(zeros, Some(expected.zero_pages), "{}", name);

        let (fast, slow, used) = expected.readahead;
        let pages = outcome.readahead_pages.map(|pages| (pages.read, pages.used));
        prop_assert_eq!(pages, (readahead != Readahead::Off).then_some((fast + slow, used)));
        let stall_us = 90 * (outcome.slow.reads - slow) + 40 * expected.slow_writes_stalling
            + 4 * (outcome.fast.reads - fast) + 5 * expected.fast_writes_stalling;
        prop_assert_eq!(outcome.stall_time_s, stall_us as f64 * 1e3 / 1e9);
    }
}

/// Applications that come and go with their pages, some of which are used once, over file pages and an
/// occasional end of a process: long enough that frequencies, ages and the price all change.
fn a_phone(seed: u64, length: usize) -> Vec<Event> {
    const APPLICATIONS: u64 = 6;
    const PAGES_EACH: u64 = 60;
    let mut random = SplitMix(seed);
    let mut zeros = SplitMix(seed + 1_000);
    let mut events = Vec::new();
    let mut fresh = (APPLICATIONS * PAGES_EACH) as u32;
    while events.len() < length {
        let process = random.below(APPLICATIONS).min(random.below(APPLICATIONS));
        let owner = ProcessId(process as u32);
        let mut push = |kind, page: u32, is_dirty: bool| {
            let flags = if is_dirty { EventFlags::DIRTY } else { EventFlags::default() };
            let flags = if zeros.below(8) == 0 { flags.with(EventFlags::ZERO) } else { flags };
            events.push(Event { kind, flags, page: PageId(page), process: owner });
        };
        for number in 0..PAGES_EACH {
            let page = (process * PAGES_EACH + number) as u32;
            let is_file = number % 7 == 0;
            match random.below(10) {
                0 => {
                    push(EventKind::SwapOut, fresh, true);
                    fresh += 1;
                }
                1..6 if is_file => push(EventKind::Request, page, false),
                1..6 => push(EventKind::SwapIn, page, false),
                choice if is_file => push(EventKind::Evict, page, choice < 8),
                choice => push(EventKind::SwapOut, page, choice < 9),
            }
        }
        if random.below(40) == 0 {
            push(EventKind::Exit, 0, false);
        }
    }
    events
}

#[test]
fn adaptive_decides_as_its_naive_model_on_long_traces() {
    for seed in 0..24u64 {
        let events = a_phone(seed, 12_000);
        let drops = ["drop", "write"][seed as usize % 2];
        let wear_price = ["none", "0.1"][seed as usize / 2 % 2];
        let options = format!("victims_in_memory={drops} wear_price={wear_price}");
        let mut request = request("adaptive", [40, 90, 150, 280][seed as usize / 4 % 4], &options);
        if seed % 3 == 0 {
            request.clean_evictions = CleanEvictions::Inferred;
        }
        let outcome = run(&request, &events);
        assert!(outcome.demotions > 0 && outcome.fast.reads > 0, "seed {seed} tests nothing");
        let expected = naive(&request, &outcome, &events);
        assert_eq!(by_process(&outcome), expected_counts(&expected), "seed {seed}, {options}");
    }
}
