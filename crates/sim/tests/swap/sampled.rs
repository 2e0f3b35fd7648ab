//! Replays of a sample of the pages, against replays of all pages and of a naive sample.

use super::support::{Recorded, operations, request};
use sim::devices::Device;
use sim::swap::{
    Architecture, CATALOG, Outcome, Readahead, Role, SimulateRequest, simulate, simulate_sampled,
};
use std::collections::{BTreeSet, HashMap};
use trace::sampled::{SampleThreshold, Sampled};
use types::random::{Stream, mixed};
use types::{Event, EventFlags, EventKind, NoProgress, PageId, ProcessId};

/// Pages that leave memory and come back; a quarter of the pages is in four of five events. Some processes end.
fn traffic(seed: u64, pages: u32, processes: u32, count: usize) -> Vec<Event> {
    let mut random = Stream::named(seed, "traffic");
    let mut is_out = vec![false; pages as usize];
    let mut events = Vec::with_capacity(count);
    while events.len() < count {
        let bound = if random.chance(80) { pages / 4 } else { pages };
        let page = random.below(bound);
        let process = ProcessId(page % processes);
        let event = |kind, flags| Event { kind, flags, page: PageId(page), process };
        if processes > 1 && random.below(10_000) == 0 {
            is_out.iter_mut().skip(process.index()).step_by(processes as usize).for_each(
                |is_out| {
                    *is_out = false;
                },
            );
            events.push(Event { page: PageId(0), ..event(EventKind::Exit, EventFlags::default()) });
            continue;
        }
        let was_out = std::mem::replace(&mut is_out[page as usize], true);
        events.push(if was_out {
            is_out[page as usize] = false;
            event(EventKind::SwapIn, EventFlags::MAJOR)
        } else {
            let is_dirty = random.chance(75);
            event(
                EventKind::SwapOut,
                if is_dirty { EventFlags::DIRTY } else { EventFlags::default() },
            )
        });
    }
    events
}

fn exact(request: &SimulateRequest, events: &[Event]) -> Outcome {
    simulate(&mut source(events), request, &NoProgress).expect("the replay succeeds")
}

/// The trace with an event each 20 s: the events of a sample are so far apart that they seem to have idle gaps.
fn source(events: &[Event]) -> Recorded {
    let times_ns = (0..events.len() as i64).map(|number| number * 20_000_000_000).collect();
    Recorded::swap(events.to_vec()).at(times_ns)
}

fn sampled(request: &SimulateRequest, events: &[Event], rate: f64) -> Result<Outcome, sim::Error> {
    let mut sampled = Sampled::new(Box::new(source(events)), SampleThreshold::of_rate(rate));
    simulate_sampled(&mut sampled, request, &NoProgress)
}

#[test]
fn a_sample_of_all_pages_is_exact() {
    let events = traffic(1, 3000, 5, 20_000);
    let pages: BTreeSet<u32> = events
        .iter()
        .filter(|event| event.kind != EventKind::Exit)
        .map(|event| event.page.0)
        .collect();
    let is_sampled = |row: &&Architecture| row.role == Role::System && row.name != "adaptive";
    for architecture in CATALOG.iter().filter(is_sampled) {
        let request = request(architecture.name, 700, "");
        let mut found = serde_json::to_value(sampled(&request, &events, 1.0).unwrap()).unwrap();
        let sample = found.as_object_mut().unwrap().remove("sample").unwrap();
        assert_eq!(found, serde_json::to_value(exact(&request, &events)).unwrap());
        assert_eq!((&sample["rate"], &sample["pages"]), (&1.0.into(), &pages.len().into()));
        let error = &sample["error"];
        for figure in [&error["io_time_s"], &error["slow"]["reads"], &error["fast"]["writes"]] {
            assert_eq!(figure, &serde_json::Value::from(0.0), "{error}");
        }
    }
}

#[test]
fn a_sample_is_the_replay_of_its_pages_in_a_smaller_tier() {
    let events = traffic(2, 12_000, 1, 60_000);
    let is_kept = |event: &Event| mixed(event.page.0.into()) >> 3 < 1 << 59;
    let kept: Vec<Event> = events.iter().copied().filter(is_kept).collect();
    let factor = events.len() as f64 / kept.len() as f64;
    for architecture in ["flash", "priority", "hierarchical", "hybrid"] {
        // Numbers of the pages in order of appearance, as in a sample.
        let mut numbers = HashMap::new();
        let numbered = kept.iter().map(|&event| {
            let next = numbers.len() as u32;
            Event { page: PageId(*numbers.entry(event.page).or_insert(next)), ..event }
        });
        let small = exact(&request(architecture, 500, ""), &numbered.collect::<Vec<_>>());
        let found = sampled(&request(architecture, 2000, ""), &events, 0.25).unwrap();
        let expected = operations(&small).map(|count| (count as f64 * factor).round() as u64);
        assert_eq!(operations(&found), expected, "{architecture}");
        let sample = found.sample.as_ref().unwrap().sample;
        assert_eq!(sample.accesses, kept.len() as u64);
    }
}

#[test]
fn the_wear_of_a_sample_is_over_the_time_of_all_events() {
    let events = traffic(4, 4000, 2, 20_000);
    let slow = Device::resolve("ufs-3.1").unwrap();
    let request = SimulateRequest { slow, ..request("flash", 0, "") };
    let (exact, found) = (exact(&request, &events), sampled(&request, &events, 0.25).unwrap());
    let per_write = |outcome: &Outcome| outcome.wear.slow.unwrap() / outcome.slow.writes as f64;
    assert!((per_write(&found) / per_write(&exact) - 1.0).abs() < 1e-9);
}

#[test]
#[ignore = "slow"]
fn nine_of_ten_exact_figures_are_within_the_errors_of_a_sample() {
    // Figures of one trace are right or wrong together, so it takes many traces.
    let (some, others) = std::thread::scope(|scope| {
        let some = scope.spawn(|| figures_within_errors(0..10));
        (figures_within_errors(10..20), some.join().unwrap())
    });
    let (within, all) = (some.within + others.within, some.all + others.all);
    let mean = (some.distance + others.distance) / f64::from(all / 4);
    println!("{within} of {all} within, mean {mean}");
    assert!(within * 10 >= all * 9, "{within} of {all}");
    assert!(mean < 0.02, "mean {mean}");
}

/// How many figures of samples have exact figures within their errors, and how far the I/O times are apart.
struct Within {
    within: u32,
    all: u32,
    /// Sum of the distances of I/O times, as shares of the exact times.
    distance: f64,
}

fn figures_within_errors(seeds: std::ops::Range<u64>) -> Within {
    let (mut within, mut all, mut distance) = (0, 0, 0.0);
    for seed in seeds {
        let events = traffic(seed, 32_000, 3, 100_000);
        for architecture in ["flash", "priority", "hierarchical", "hybrid"] {
            for frames in [4000, 12_000] {
                let request = request(architecture, frames, "");
                let exact = exact(&request, &events);
                let found = sampled(&request, &events, 0.1).unwrap();
                let error = &found.sample.as_ref().unwrap().error;
                let figures = [
                    (exact.io_time_s, found.io_time_s, error.io_time_s),
                    (exact.stall_time_s, found.stall_time_s, error.stall_time_s),
                    (exact.slow.reads as f64, found.slow.reads as f64, error.slow.reads),
                    (exact.fast.writes as f64, found.fast.writes as f64, error.fast.writes),
                ];
                for (exact, found, error) in figures {
                    within += u32::from((exact - found).abs() <= error);
                    all += 1;
                }
                distance += (exact.io_time_s - found.io_time_s).abs() / exact.io_time_s;
            }
        }
    }
    Within { within, all, distance }
}

#[test]
fn what_a_sample_cannot_show_is_refused_with_the_reason() {
    let events = traffic(3, 1000, 1, 3000);
    let plain = request("priority", 500, "");
    for (request, rate, expected) in [
        (
            SimulateRequest { readahead: Readahead::Kernel, ..plain.clone() },
            0.5,
            "readahead=kernel needs the pages beside",
        ),
        (SimulateRequest { queueing: true, ..plain.clone() }, 0.5, "queueing=yes needs all"),
        (request("clairvoyant", 500, ""), 0.5, "clairvoyant bounds"),
        (request("adaptive", 500, ""), 0.5, "adaptive learns from events one by one"),
        (request("hybrid", 500, "bit_epoch=100"), 0.5, "bit_epoch is a number of swap-ins"),
        (plain.clone(), 0.1, "room for 500 pages, and in the sample for 50"),
        (request("no-such", 500, ""), 0.5, "no architecture"),
    ] {
        let message = sampled(&request, &events, rate).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    }
    // Without a fast tier there is no bound on the sample.
    assert!(sampled(&request("flash", 0, ""), &events, 0.1).is_ok());
}
