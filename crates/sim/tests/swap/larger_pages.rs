//! Traces with larger pages, against the naive grouping replayed by the naive model.

use crate::support::{request, script};
use proptest::prelude::*;
use sim::swap::{Outcome, SimulateRequest, simulate};
use std::collections::BTreeMap;
use std::path::Path;
use testkit::grouping::{PagedEvent, grouped};
use testkit::swap::{Counts, Latencies, Replay, replay};
use trace::{Header, Rows, Source, TraceKind};
use types::{Event, EventFlags, EventKind, Events, NoProgress, PAGE_BYTES, PageId, ProcessId};

const FACTOR: u64 = 4;

/// A trace in memory with addresses.
struct Addressed {
    header: Header,
    events: Vec<PagedEvent>,
}

impl Source for Addressed {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_batch(&mut self, events: &mut Events) -> Result<bool, trace::Error> {
        let mut rows = Rows::default();
        let is_more = self.next_rows(&mut rows)?;
        *events = rows.events;
        Ok(is_more)
    }

    fn next_rows(&mut self, rows: &mut Rows) -> Result<bool, trace::Error> {
        rows.clear();
        for (event, paged) in numbered(&self.events).into_iter().zip(&self.events) {
            rows.events.push(event);
            rows.space.push(paged.space);
            rows.address.push(paged.address);
        }
        self.events.clear();
        Ok(!rows.is_empty())
    }
}

/// The events with their pages numbered in order of first appearance.
fn numbered(events: &[PagedEvent]) -> Vec<Event> {
    let mut numbers = BTreeMap::new();
    let number = |event: &PagedEvent| {
        let next = numbers.len() as u32;
        let page = match event.kind {
            EventKind::Exit => 0,
            _ => *numbers.entry((event.space, event.address)).or_insert(next),
        };
        let (page, process) = (PageId(page), ProcessId(event.process));
        Event { kind: event.kind, flags: event.flags, page, process }
    };
    events.iter().map(number).collect()
}

/// The simulator's result with pages `FACTOR` times as large.
fn larger(events: &[PagedEvent], request: &SimulateRequest) -> Outcome {
    let header = Header { has_operations: true, ..Header::new(TraceKind::Swap, "test") };
    let source = Addressed { header, events: events.to_vec() };
    let page_bytes = FACTOR * PAGE_BYTES;
    let mut source = trace::grouped::with_pages_of(Box::new(source), page_bytes, Path::new("test"))
        .expect("the trace has addresses");
    let request = SimulateRequest { page_bytes, ..request.clone() };
    simulate(&mut *source, &request, &NoProgress).expect("the replay succeeds")
}

fn an_event() -> impl Strategy<Value = PagedEvent> {
    let facts = (0..40_u32, 0..3_u32, any::<bool>(), 0..3_u32, 0..16_u64);
    facts.prop_map(|(choice, process, is_dirty, zero, address)| {
        let kind = match choice {
            0 => EventKind::Exit,
            1..4 => EventKind::DeviceRead,
            4..8 => EventKind::Evict,
            8..12 => EventKind::Request,
            12..26 => EventKind::SwapOut,
            _ => EventKind::SwapIn,
        };
        let is_file = matches!(kind, EventKind::Evict | EventKind::Request);
        PagedEvent {
            time_ns: 0,
            kind,
            flags: match (is_dirty, zero) {
                (_, 0) => EventFlags::DIRTY.with(EventFlags::ZERO),
                (true, _) => EventFlags::DIRTY,
                (false, _) => EventFlags::default(),
            },
            process,
            space: if is_file { 0 } else { process + 1 },
            address: if kind == EventKind::Exit { 0 } else { address },
        }
    })
}

const ARCHITECTURES: [&str; 5] = ["flash", "priority", "hierarchical", "hybrid", "nvm-cache"];

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 600,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    #[ignore = "slow"]
    fn counts_are_those_of_the_naive_models(
        events in prop::collection::vec(an_event(), 1..150),
        name in prop::sample::select(&ARCHITECTURES[..]),
        frames in 0_u64..5,
    ) {
        // The size is not a whole number of larger pages: the rest stays unused.
        let request = request(name, frames * FACTOR + 1, "");
        let outcome = larger(&events, &request);
        let as_asked = Replay {
            architecture: name.to_owned(),
            options: outcome.options.iter().map(|(name, value)| ((*name).into(), value.clone())).collect(),
            capacity: frames as usize,
            counts_readahead: false,
            infers_clean: false,
            latencies: Latencies { slow_read: 90e3, slow_write: 40e3, fast_read: 4e3, fast_write: 5e3 },
        };
        let expected = replay(&as_asked, &numbered(&grouped(&events, FACTOR)));
        let total = expected.processes.values().fold([0; 4], |sum: [u64; 4], counts: &Counts| {
            [sum[0] + counts.slow_reads, sum[1] + counts.slow_writes,
             sum[2] + counts.fast_reads, sum[3] + counts.fast_writes]
        });
        prop_assert_eq!(crate::support::operations(&outcome), total, "{}", name);
        prop_assert_eq!(outcome.slow.bytes_written, total[1] * FACTOR * PAGE_BYTES);
        prop_assert_eq!(outcome.fast.bytes_written, total[3] * FACTOR * PAGE_BYTES);
    }
}

#[test]
fn a_request_for_pages_of_another_size_than_the_trace_has_is_refused() {
    let request = SimulateRequest { page_bytes: 16384, ..request("flash", 0, "") };
    let mut source = crate::support::Recorded::swap(script("outA D"));
    let error = simulate(&mut source, &request, &NoProgress).unwrap_err();
    assert_eq!(error.kind(), sim::ErrorKind::Usage);
    assert!(error.to_string().contains("pages of 4096 bytes, the request of 16384"), "{error}");
}
