//! The clairvoyant bound is below the optimum, the optimum below every placement, and the bound is
//! close to the optimum.

use crate::against_naive::{an_event, chosen_options};
use crate::support::{operations, request, run, script};
use proptest::prelude::*;
use sim::swap::{CATALOG, CleanEvictions, Role, SimulateRequest, simulate};
use types::{Cancelled, Event, EventFlags, EventKind, NoProgress, PageId, ProcessId, Progress};

/// Fewer pages than in the differential test: the optimum examines every
/// combination of places.
const PAGES: u32 = 6;

fn few_pages(events: &[Event]) -> Vec<Event> {
    events.iter().filter(|event| event.page.0 < PAGES).copied().collect()
}

fn exact(request: &SimulateRequest) -> SimulateRequest {
    let mut request = request.clone();
    request.options.insert("method".to_owned(), "exact".to_owned());
    request
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 150,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    #[ignore = "slow"]
    fn bound_and_optimum_are_below_every_placement(
        events in prop::collection::vec(an_event(), 20..80),
        choices in prop::collection::vec(0usize..6, 8),
        capacity in 0u64..4,
        infers_clean in any::<bool>(),
    ) {
        let events = few_pages(&events);
        let clean_evictions =
            if infers_clean { CleanEvictions::Inferred } else { CleanEvictions::None };
        let bounded =
            SimulateRequest { clean_evictions, ..request("clairvoyant", capacity, "") };
        let bound = run(&bounded, &events).io_time_s;
        let optimum = run(&exact(&bounded), &events).io_time_s;
        prop_assert!(bound <= optimum, "bound {} above optimum {}", bound, optimum);
        for (index, architecture) in CATALOG.iter().enumerate() {
            if architecture.role == Role::Bound {
                continue;
            }
            let options = chosen_options(index, &choices);
            let placement =
                SimulateRequest { clean_evictions, ..request(architecture.name, capacity, &options) };
            let time = run(&placement, &events).io_time_s;
            prop_assert!(
                optimum <= time, "{} {options}: {} below {}", architecture.name, time, optimum
            );
        }
    }
}

/// Page-outs and page-ins of pages that return at different rates.
fn returning_pages(seed: u64, events: usize) -> Vec<Event> {
    let mut is_out = [false; PAGES as usize];
    let mut state = seed;
    (0..events)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let draw = ((state >> 33) % 6, (state >> 43) % 6);
            let page = (draw.0 * draw.1 / 6) as usize;
            let kind = if is_out[page] { EventKind::SwapIn } else { EventKind::SwapOut };
            is_out[page] ^= true;
            Event {
                kind,
                flags: EventFlags::DIRTY,
                page: PageId(page as u32),
                process: ProcessId(0),
            }
        })
        .collect()
}

#[test]
#[ignore = "slow"]
fn the_bound_is_close_to_the_optimum() {
    println!("| frames | flash ms | best placement | optimum | bound |");
    let (mut optima, mut bounds) = (0.0, 0.0);
    for capacity in 1..=4 {
        let (mut flash, mut best, mut optimum, mut bound) = (0.0, 0.0, 0.0, 0.0);
        for seed in 1..=10 {
            let events = returning_pages(seed, 300);
            let time = |request: &SimulateRequest| run(request, &events).io_time_s * 1e3;
            let bounded = request("clairvoyant", capacity, "");
            flash += time(&request("flash", 0, ""));
            best += CATALOG
                .iter()
                .filter(|row| row.role != Role::Bound)
                .map(|row| time(&request(row.name, capacity, "")))
                .fold(f64::INFINITY, f64::min);
            optimum += time(&exact(&bounded));
            bound += time(&bounded);
        }
        println!("| {capacity} | {flash:.1} | {best:.1} | {optimum:.1} | {bound:.1} |");
        optima += optimum;
        bounds += bound;
    }
    assert!(bounds > 0.95 * optima, "bound {bounds} of optimum {optima}");
}

#[test]
fn reads_plus_priced_fast_writes_have_a_known_optimum() {
    // Two pages, one frame: A is read three times, B once. Holding A saves three reads for one write;
    // holding B besides would take the frame from A.
    let events = script("outA D, outB D, inA, outA c, inA, inB, outA c, inA");
    for (price_us, reads, writes) in [(0.5, 1, 1), (2.5, 1, 1), (3.5, 4, 0)] {
        let mut request = exact(&request("clairvoyant", 1, ""));
        request.slow = sim::devices::Device::exact("reads", 1_000, 0);
        request.fast = sim::devices::Device::exact("writes", 0, (price_us * 1e3) as u64);
        let [slow_reads, _, _, fast_writes] = operations(&run(&request, &events));
        assert_eq!((slow_reads, fast_writes), (reads, writes), "price {price_us}");
    }
}

#[test]
fn the_exact_method_refuses_large_traces() {
    let events = returning_pages(1, 3_000);
    let mut source = crate::support::Recorded::swap(events);
    let request = exact(&request("clairvoyant", 1, ""));
    let error = simulate(&mut source, &request, &NoProgress).unwrap_err();
    assert!(error.to_string().contains("2000 events"), "{error}");
}

/// Stops a run at the first check after the one that reports that every event was replayed.
struct StopAtEnd(std::sync::atomic::AtomicU64);

impl Progress for StopAtEnd {
    fn advance(&self, _done: u64, _total: u64) -> Result<(), Cancelled> {
        let questions = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if questions == 0 { Ok(()) } else { Err(Cancelled) }
    }
}

#[test]
fn the_search_for_the_bound_can_be_stopped() {
    let mut source = crate::support::Recorded::swap(returning_pages(1, 3_000));
    let stop = StopAtEnd(Default::default());
    let error = simulate(&mut source, &request("clairvoyant", 2, ""), &stop).unwrap_err();
    assert_eq!(error.kind(), sim::ErrorKind::Cancelled);
    assert_eq!(stop.0.into_inner(), 2);
}
