//! Memory of miss counts and simulations for each page, which `--memory-limit` bounds and docs/analyses.md promises.

use policy::eviction::{self, Build, Choice};
use sim::devices::Device;
use sim::misses::{self, MissCounts};
use sim::swap::{self, Architecture, Outcome, Role, SimulateRequest, Values};
use testkit::counting::{Counting, bytes_held_most};
use testkit::generate::SplitMix;
use trace::{Header, Source, TraceKind};
use types::{Event, EventFlags, EventKind, Events, NoProgress, PAGE_BYTES, PageId, ProcessId};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A number at which what grows by doubling has just doubled.
const PAGES: u64 = (1 << 21) + 1;
const EVENTS: u64 = 3 * PAGES;
const PROCESSES: u64 = 24;
const BATCH: u64 = 1 << 12;
/// A batch, rounding to whole huge pages, and tables of three replays whose size does not depend on the pages.
const BYTES_BESIDE: u64 = 12 << 20;
/// All pages, half of them just doubled, a third, and few.
const FRAMES: [u64; 4] = [PAGES, (1 << 20) + 1, PAGES / 3, PAGES / 100];

/// Every page once, then pages at random: of a swap trace they leave and come back in turn.
struct Made {
    header: Header,
    done: u64,
    random: SplitMix,
    is_out: Vec<bool>,
}

impl Made {
    fn new(kind: TraceKind) -> Made {
        let header =
            Header { pages: Some(PAGES as u32), events: EVENTS, ..Header::new(kind, "made") };
        Made { header, done: 0, random: SplitMix(9), is_out: vec![false; PAGES as usize] }
    }
}

impl Source for Made {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_batch(&mut self, events: &mut Events) -> Result<bool, trace::Error> {
        events.clear();
        let end = (self.done + BATCH).min(EVENTS);
        for number in self.done..end {
            let page = if number < PAGES { number } else { self.random.below(PAGES) };
            let is_out = &mut self.is_out[page as usize];
            *is_out = !*is_out;
            let (kind, flags) = match (self.header.kind, *is_out) {
                (TraceKind::Swap, true) => (EventKind::SwapOut, EventFlags::DIRTY),
                (TraceKind::Swap, false) => (EventKind::SwapIn, EventFlags::MAJOR),
                _ => (EventKind::Read, EventFlags::default()),
            };
            let process = ProcessId((page % PROCESSES) as u32);
            events.push(Event { kind, flags, page: PageId(page as u32), process });
        }
        self.done = end;
        Ok(!events.is_empty())
    }
}

fn device(text: &str) -> Device {
    Device::resolve(text).expect("a device")
}

fn request(architecture: &str, option: Option<(&str, &str)>, frames: u64) -> SimulateRequest {
    let (fast, slow) = (device("4/5us"), device("90/40us"));
    let mut request = SimulateRequest::new(architecture, frames * PAGE_BYTES, fast, slow);
    request.options.extend(option.map(|(name, value)| (name.to_owned(), value.to_owned())));
    request
}

fn simulated(request: &SimulateRequest, room: u64) -> Outcome {
    let mut open = || Ok(Box::new(Made::new(TraceKind::Swap)) as Box<dyn Source>);
    let found = swap::simulate_within(&mut open, request, room, &NoProgress);
    found.expect("the replay succeeds").0
}

fn counted(policies: &[&str], frames: &[u32], room: u64) -> MissCounts {
    let mut open = || Ok(Box::new(Made::new(TraceKind::Block)) as Box<dyn Source>);
    let found = misses::run_within(&mut open, policies, frames, room, &NoProgress);
    found.expect("the trace is sound").0
}

/// What the trace itself holds.
const BYTES_OF_THE_TRACE: u64 = PAGES;

fn check(what: &str, bytes_per_page: u64, call: impl FnOnce()) {
    let held = bytes_held_most(call) as u64;
    let bound = bytes_per_page * PAGES + BYTES_OF_THE_TRACE + BYTES_BESIDE;
    let per_page = held.saturating_sub(BYTES_OF_THE_TRACE) as f64 / PAGES as f64;
    println!("{what}: {per_page:.1} of {bytes_per_page} bytes a page");
    assert!(held <= bound, "{what}: {held} bytes of {bound}");
}

fn check_replays(architecture: &Architecture) {
    let check_one = |option: Option<(&str, &str)>, frames: u64| {
        let request = request(architecture.name, option, frames);
        let bytes = swap::bytes_per_page(&request).expect("it has a bound");
        let what = format!("{} {option:?}, {frames} frames", architecture.name);
        check(&what, bytes, || drop(simulated(&request, bytes)));
    };
    for frames in FRAMES {
        check_one(None, frames);
    }
    for option in architecture.options {
        let words = option.values.words().into_iter().filter(|word| *word != option.default);
        let number = matches!(option.values, Values::WordOrNumber(..)).then_some("1");
        for value in words.chain(number) {
            check_one(Some((option.name, value)), PAGES);
        }
    }
}

// One test, because allocations of tests that run meanwhile would count.
#[test]
#[ignore = "slow"]
fn a_page_takes_at_most_the_memory_that_a_limit_counts() {
    for architecture in swap::CATALOG.iter().filter(|row| row.role != Role::Bound) {
        check_replays(architecture);
    }
    // Three replays beside each other, and one after the other.
    let ranged = SimulateRequest {
        slow: device("ufs-3.1"),
        replays_range: true,
        ..request("adaptive", None, PAGES / 3)
    };
    let bytes = swap::bytes_per_page(&ranged).unwrap();
    check("adaptive, replay by replay", bytes, || drop(simulated(&ranged, bytes)));
    let text = |room| format!("{:?}", simulated(&ranged, room));
    assert_eq!(text(bytes), text(3 * bytes));

    let online = eviction::CATALOG.iter().filter(|row| {
        Choice::parse(row.name).is_ok_and(|choice| matches!(choice.build, Build::Online(_)))
    });
    for policy in online.map(|row| row.name).chain(["lru-k:k=4"]) {
        let bytes = misses::bytes_per_page(&[policy]).unwrap();
        for frames in FRAMES {
            let what = format!("{policy}, {frames} frames");
            check(&what, bytes, || drop(counted(&[policy], &[frames as u32], bytes)));
        }
    }
    let sizes = &FRAMES.map(|frames| frames as u32);
    let policies = ["lru", "arc"];
    let bytes = misses::bytes_per_page(&policies).unwrap();
    check("lru and arc, size by size", bytes, || drop(counted(&policies, sizes, bytes)));
    let ample = misses::run(&mut Made::new(TraceKind::Block), &policies, sizes, &NoProgress);
    assert_eq!(counted(&policies, sizes, bytes), ample.unwrap());
}
