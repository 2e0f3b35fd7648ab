//! Every architecture of the catalog against the naive model, on generated events with exits, file
//! pages, block operations and readahead, under every option.

use crate::support::{request, run};
use proptest::prelude::*;
use sim::swap::{CATALOG, CleanEvictions, Outcome, Readahead, Values};
use std::collections::BTreeMap;
use testkit::swap::{Counts, Replay, replay};
use types::{Event, EventFlags, EventKind, PageId, ProcessId};

/// Held to the contract of placements and to bounds instead: their decisions are a computation, and a
/// second writing of it would not be simpler than the first.
const WITHOUT_NAIVE_MODEL: [&str; 2] = ["adaptive", "clairvoyant"];

const ANONYMOUS_PAGES: u32 = 10;
const FILE_PAGES: u32 = 4;
const BLOCK_PAGES: u32 = 2;
const PROCESSES: u32 = 3;

pub fn an_event() -> impl Strategy<Value = Event> {
    let pages = ANONYMOUS_PAGES + FILE_PAGES + BLOCK_PAGES;
    (0..pages, 0..40u32, any::<bool>(), 0..PROCESSES).prop_map(|(page, choice, flag, process)| {
        let (kind, process) = if choice == 0 {
            (EventKind::Exit, process)
        } else if choice == 1 {
            (EventKind::DeviceRead, process)
        } else if page < ANONYMOUS_PAGES {
            let kind = if choice % 2 == 0 { EventKind::SwapOut } else { EventKind::SwapIn };
            (kind, page % PROCESSES)
        } else if page < ANONYMOUS_PAGES + FILE_PAGES {
            (if choice % 2 == 0 { EventKind::Evict } else { EventKind::Request }, process)
        } else {
            (if choice % 2 == 0 { EventKind::Write } else { EventKind::Read }, process)
        };
        let flags = if flag { EventFlags::DIRTY } else { EventFlags::default() };
        Event { kind, flags, page: PageId(page), process: ProcessId(process) }
    })
}

/// A value for every option of every architecture, chosen by a number each.
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
    fn counts_are_those_of_the_naive_model(
        events in prop::collection::vec(an_event(), 1..120),
        architecture in prop::sample::select(with_naive_model()),
        choices in prop::collection::vec(0usize..6, 8),
        capacity in 0u64..8,
        counts_readahead in any::<bool>(),
        infers_clean in any::<bool>(),
    ) {
        let name = CATALOG[architecture].name;
        let mut request = request(name, capacity, &chosen_options(architecture, &choices));
        request.readahead = if counts_readahead { Readahead::Recorded } else { Readahead::Off };
        request.clean_evictions =
            if infers_clean { CleanEvictions::Inferred } else { CleanEvictions::None };
        let outcome = run(&request, &events);

        let options: BTreeMap<String, String> =
            outcome.options.iter().map(|(name, value)| ((*name).into(), value.clone())).collect();
        let capacity = capacity as usize;
        let expected = replay(
            &Replay { architecture: name.into(), options, capacity, counts_readahead, infers_clean },
            &events,
        );
        let quiet = Counts::default();
        let expected_counts: Vec<Counts> =
            expected.processes.values().filter(|counts| **counts != quiet).copied().collect();
        prop_assert_eq!(by_process(&outcome), expected_counts, "{}", name);

        let demand = outcome.slow.reads - if counts_readahead {
            events.iter().filter(|event| event.kind == EventKind::DeviceRead).count() as u64
        } else { 0 };
        let stall_us = 90 * demand + 40 * expected.slow_writes_stalling
            + 4 * outcome.fast.reads + 5 * expected.fast_writes_stalling;
        prop_assert_eq!(outcome.stall_time_s, stall_us as f64 * 1e3 / 1e9);
    }
}
