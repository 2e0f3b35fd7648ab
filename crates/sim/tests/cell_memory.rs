//! Memory of a cell while it runs: docs/sweep.md promises 64 bytes per page, and little beside.

use sim::EventList;
use sim::devices::Device;
use sim::swap::{Architecture, CATALOG, Readahead, Role, SimulateRequest, Values, simulate};
use testkit::counting::{Counting, bytes_held_most};
use testkit::generate::SplitMix;
use trace::{Header, Source, TraceKind};
use types::{Event, EventFlags, EventKind, Events, NoProgress, PAGE_BYTES, PageId, ProcessId};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const PAGES: u64 = 300_000;
const EVENTS: u64 = 1_200_000;
const PROCESSES: u64 = 24;
const BYTES_PER_PAGE: usize = 64;
/// With the kernel's readahead, beside those of the cell.
const BYTES_AHEAD_PER_PAGE: usize = 64;
const BYTES_AHEAD_PER_EVENT: usize = 16;
const BYTES_QUEUED_PER_EVENT: usize = 160;
/// Rounding of four arrays to whole huge pages, and a batch of events.
const BYTES_BESIDE: usize = 9 << 20;
/// A quarter; all pages; and a size at which the rings of the ordered lists have just doubled.
const FRAMES: [u64; 3] = [PAGES / 4, PAGES, (1 << 18) + 1];

/// Pages that leave and come back, each equally often, and processes that end.
fn events() -> Vec<Event> {
    let mut random = SplitMix(9);
    let mut is_out = vec![false; PAGES as usize];
    (0..EVENTS)
        .map(|number| {
            let page = if number < PAGES { number } else { random.below(PAGES) };
            let process = page % PROCESSES;
            let event = |kind, flags| Event {
                kind,
                flags,
                page: PageId(page as u32),
                process: ProcessId(process as u32),
            };
            if random.below(EVENTS / 10) == 0 {
                let ended = is_out.iter_mut().skip(process as usize).step_by(PROCESSES as usize);
                ended.for_each(|is_out| *is_out = false);
                return event(EventKind::Exit, EventFlags::default());
            }
            let was_out = std::mem::replace(&mut is_out[page as usize], false);
            if was_out {
                return event(EventKind::SwapIn, EventFlags::MAJOR);
            }
            is_out[page as usize] = true;
            let is_dirty = random.below(4) > 0;
            let flags = if is_dirty { EventFlags::DIRTY } else { EventFlags::default() };
            event(EventKind::SwapOut, flags)
        })
        .collect()
}

/// All pages leave, then all come back, and so on: the state of every page changes in turn.
fn turns() -> Vec<Event> {
    use EventKind::{SwapIn, SwapOut};
    let kinds = [SwapOut, SwapIn, SwapIn, SwapIn, SwapOut, SwapIn, SwapIn, SwapOut, SwapOut];
    let turn = |kind| {
        let event = move |page| Event {
            kind,
            flags: if kind == SwapOut { EventFlags::DIRTY } else { EventFlags::MAJOR },
            page: PageId(page as u32),
            process: ProcessId(0),
        };
        (0..PAGES).map(event)
    };
    kinds.into_iter().flat_map(turn).collect()
}

/// The most memory that a cell of this size holds.
fn held_most(
    architecture: &Architecture,
    option: Option<(&str, &str)>,
    frames: u64,
    events: &[Event],
) -> usize {
    let device = |text| Device::resolve(text).expect("a device");
    let (fast, slow) = (device("4/5us"), device("90/40us"));
    let mut request = SimulateRequest::new(architecture.name, frames * PAGE_BYTES, fast, slow);
    request.options.extend(option.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let mut trace = EventList::new(Header::new(TraceKind::Swap, "test"), events.to_vec());
    bytes_held_most(|| {
        simulate(&mut trace, &request, &NoProgress).expect("the replay succeeds");
    })
}

fn check(architecture: &Architecture, option: Option<(&str, &str)>, frames: u64, events: &[Event]) {
    let held = held_most(architecture, option, frames, events);
    let bound = BYTES_PER_PAGE * PAGES as usize + BYTES_BESIDE;
    let name = architecture.name;
    assert!(held <= bound, "{name} {option:?}, {frames} frames: {held} bytes of {bound}");
}

// One test, because allocations of tests that run meanwhile would count.
#[test]
#[ignore = "slow"]
fn a_cell_holds_at_most_64_bytes_a_page_and_what_readahead_and_queueing_add() {
    let (events, turns) = (events(), turns());
    for architecture in CATALOG.iter().filter(|row| row.role != Role::Bound) {
        for frames in FRAMES {
            check(architecture, None, frames, &events);
            check(architecture, None, frames, &turns);
        }
        for option in architecture.options {
            let words = option.values.words().into_iter().filter(|word| *word != option.default);
            let number = matches!(option.values, Values::WordOrNumber(..)).then_some("1");
            for value in words.chain(number) {
                check(architecture, Some((option.name, value)), PAGES, &events);
            }
        }
    }
    check_replay(&events);
}

/// Events at the same time.
struct AtOnce<'a> {
    header: Header,
    batches: std::slice::Chunks<'a, Event>,
}

impl Source for AtOnce<'_> {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_batch(&mut self, events: &mut Events) -> Result<bool, trace::Error> {
        events.clear();
        let Some(batch) = self.batches.next() else { return Ok(false) };
        batch.iter().for_each(|event| events.push(*event));
        events.time_ns.resize(batch.len(), 0);
        Ok(true)
    }
}

/// What readahead and queueing hold beside a cell.
fn check_replay(events: &[Event]) {
    let device = |text| Device::resolve(text).expect("a device");
    let plain = |architecture: &str, frames: u64| {
        let (fast, slow) = (device("4/5us"), device("90/40us"));
        SimulateRequest::new(architecture, frames * PAGE_BYTES, fast, slow)
    };
    // No operation is served before the end of the trace.
    let queueing = |architecture: &str, frames: u64| SimulateRequest {
        queueing: true,
        ..plain(architecture, frames)
    };
    let cell = BYTES_PER_PAGE * PAGES as usize + BYTES_BESIDE;
    let ahead = BYTES_AHEAD_PER_PAGE * PAGES as usize + BYTES_AHEAD_PER_EVENT * EVENTS as usize;
    let queued = BYTES_QUEUED_PER_EVENT * EVENTS as usize;
    for (request, bound) in [
        (SimulateRequest { readahead: Readahead::Kernel, ..plain("flash", 0) }, cell + ahead),
        (queueing("flash", 0), cell + queued),
        (queueing("hierarchical", PAGES / 4), cell + queued),
        (queueing("hybrid", PAGES / 4), cell + queued),
    ] {
        let header = Header { has_clock: true, ..Header::new(TraceKind::Swap, "events") };
        let mut trace = AtOnce { header, batches: events.chunks(1 << 16) };
        let held = bytes_held_most(|| {
            simulate(&mut trace, &request, &NoProgress).expect("the replay succeeds");
        });
        let (name, readahead) = (&request.architecture, request.readahead);
        assert!(held <= bound, "{name}, {readahead:?}: {held} bytes of {bound}");
    }
}
