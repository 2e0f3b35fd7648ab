//! Compares traces with larger pages with the naive grouping.

use std::path::Path;

use proptest::prelude::*;
use testkit::grouping::{PagedEvent, grouped};
use trace::grouped::with_pages_of;
use trace::{Header, Rows, Source, TraceKind};
use types::{EventFlags, EventKind, PageId, ProcessId};

/// A source of given events in batches, with pages numbered in order of first appearance.
struct Given {
    header: Header,
    events: Vec<(PagedEvent, u32)>,
    batch: usize,
    done: usize,
}

impl Given {
    fn new(events: &[PagedEvent], batch: usize) -> Given {
        let header = Header {
            has_clock: true,
            has_durations: true,
            events: events.len() as u64,
            ..Header::new(TraceKind::Swap, "events")
        };
        Given { header, events: numbered(events), batch, done: 0 }
    }
}

/// The events with dense page numbers; 0 for an exit.
fn numbered(events: &[PagedEvent]) -> Vec<(PagedEvent, u32)> {
    let mut places: Vec<(u32, u64)> = Vec::new();
    let number = |event: &PagedEvent| {
        if event.kind == EventKind::Exit {
            return (*event, 0);
        }
        let place = (event.space, event.address);
        let known = places.iter().position(|&known| known == place);
        let index = known.unwrap_or_else(|| {
            places.push(place);
            places.len() - 1
        });
        (*event, index as u32)
    };
    events.iter().map(number).collect()
}

impl Source for Given {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_batch(&mut self, events: &mut types::Events) -> Result<bool, trace::Error> {
        let mut rows = Rows::default();
        let is_more = self.next_rows(&mut rows)?;
        *events = rows.events;
        Ok(is_more)
    }

    fn next_rows(&mut self, rows: &mut Rows) -> Result<bool, trace::Error> {
        rows.clear();
        let end = (self.done + self.batch).min(self.events.len());
        for &(event, page) in &self.events[self.done..end] {
            rows.events.time_ns.push(event.time_ns);
            rows.events.push(types::Event {
                kind: event.kind,
                flags: event.flags,
                page: PageId(page),
                process: ProcessId(event.process),
            });
            rows.space.push(event.space);
            rows.address.push(event.address);
            rows.duration_ns.push(event.time_ns as u64 + 1);
        }
        let is_end = self.done == end;
        self.done = end;
        Ok(!is_end)
    }
}

/// All events of a source with their page numbers, and its header at the end.
fn drained(mut source: Box<dyn Source>) -> (Vec<(PagedEvent, u32)>, Header) {
    let (mut rows, mut found) = (Rows::default(), Vec::new());
    while source.next_rows(&mut rows).expect("in memory") {
        for index in 0..rows.len() {
            let event = rows.events.get(index);
            let time_ns = rows.events.time_ns[index];
            assert_eq!(rows.duration_ns[index], time_ns as u64 + 1, "columns belong together");
            let paged = PagedEvent {
                time_ns,
                kind: event.kind,
                flags: event.flags,
                process: event.process.0,
                space: rows.space[index],
                address: rows.address[index],
            };
            found.push((paged, event.page.0));
        }
    }
    (found, source.header().clone())
}

fn larger(events: &[PagedEvent], batch: usize, page_bytes: u64) -> Box<dyn Source> {
    with_pages_of(Box::new(Given::new(events, batch)), page_bytes, Path::new("given"))
        .expect("can be grouped")
}

/// An event of few processes with few pages, so that several pages share a larger page.
fn event(kinds: &'static [EventKind]) -> impl Strategy<Value = PagedEvent> {
    let facts = (prop::sample::select(kinds), 0..3_i64, 0..3_u32, any::<[bool; 3]>(), 0..20_u64);
    facts.prop_map(|(kind, time_ns, process, [is_dirty, is_of_device, is_zero], address)| {
        let set = |is_set, flag| if is_set { flag } else { EventFlags::default() };
        let is_anonymous = match kind {
            EventKind::SwapOut | EventKind::SwapIn | EventKind::Void => true,
            EventKind::DeviceRead | EventKind::DeviceWrite => is_of_device,
            _ => false,
        };
        PagedEvent {
            time_ns,
            kind,
            flags: set(is_dirty, EventFlags::DIRTY).with(set(is_zero, EventFlags::ZERO)),
            process,
            space: if is_anonymous { process + 1 } else { 0 },
            address: if kind == EventKind::Exit { 0 } else { address },
        }
    })
}

const OF_SWAP: &[EventKind] = &[
    EventKind::SwapOut,
    EventKind::SwapOut,
    EventKind::SwapIn,
    EventKind::SwapIn,
    EventKind::Evict,
    EventKind::Request,
    EventKind::DeviceRead,
    EventKind::DeviceWrite,
    EventKind::Void,
    EventKind::Exit,
];
const OF_STORAGE: &[EventKind] = &[EventKind::Read, EventKind::Write];

fn check(events: &[PagedEvent], batch: usize, shift: u32) -> Result<(), TestCaseError> {
    let expected = numbered(&grouped(events, 1 << shift));
    let (found, header) = drained(larger(events, batch, 4096 << shift));
    prop_assert_eq!(&found, &expected);
    let pages = expected.iter().filter(|(event, _)| event.kind != EventKind::Exit);
    prop_assert_eq!(header.pages, Some(pages.map(|(_, page)| page + 1).max().unwrap_or(0)));
    prop_assert_eq!((header.events, header.page_bytes), (expected.len() as u64, 4096 << shift));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn swap_equals_the_naive_grouping(
        events in prop::collection::vec(event(OF_SWAP), 0..300), batch in 1..100_usize, shift in 1..4_u32,
    ) {
        check(&events, batch, shift)?;
    }

    #[test]
    fn requests_equal_the_naive_grouping(
        events in prop::collection::vec(event(OF_STORAGE), 0..300), batch in 1..100_usize, shift in 1..4_u32,
    ) {
        check(&events, batch, shift)?;
    }
}

/// A swap event of a 4 KiB page of process 0.
fn swap(kind: EventKind, address: u64, flags: EventFlags) -> PagedEvent {
    PagedEvent { time_ns: 0, kind, flags, process: 0, space: 1, address }
}

fn kinds_and_pages(events: &[PagedEvent]) -> Vec<(EventKind, u64)> {
    let (found, _) = drained(larger(events, 7, 16384));
    found.iter().map(|(event, _)| (event.kind, event.address)).collect()
}

#[test]
fn a_larger_page_moves_once_for_all_its_recorded_pages() {
    use EventKind::{DeviceRead, Exit, SwapIn, SwapOut};
    const CLEAN: EventFlags = EventFlags(0);
    const DIRTY: EventFlags = EventFlags::DIRTY;
    let given = [
        swap(SwapOut, 0, CLEAN), // begins a page-out
        swap(SwapOut, 1, DIRTY), // the whole page is written
        swap(SwapOut, 2, DIRTY), // already written
        swap(SwapOut, 4, DIRTY), // another page
        swap(SwapIn, 2, CLEAN),
        swap(DeviceRead, 3, CLEAN), // was read with the page
        swap(SwapIn, 3, CLEAN),
        swap(SwapIn, 3, CLEAN), // its page-out is not recorded
        swap(Exit, 0, CLEAN),
        swap(SwapIn, 0, CLEAN), // after the end of its process
    ];
    let expected = [
        (SwapOut, 0),
        (SwapOut, 0),
        (SwapOut, 1),
        (SwapIn, 0),
        (SwapIn, 0),
        (Exit, 0),
        (SwapIn, 0),
    ];
    assert_eq!(kinds_and_pages(&given), expected);
}

#[test]
fn traces_that_cannot_be_grouped_are_refused_with_the_reason() {
    let refused = |header: fn(&mut Header), page_bytes| {
        let mut given = Given::new(&[], 1);
        header(&mut given.header);
        let error = with_pages_of(Box::new(given), page_bytes, Path::new("given")).err().unwrap();
        error.to_string()
    };
    let nothing = |_: &mut Header| {};
    for page_bytes in [0, 2048, 12288, 1 << 31] {
        assert!(refused(nothing, page_bytes).contains("power of two from 4096"));
    }
    assert!(refused(|header| header.page_bytes = 1 << 16, 1 << 14).contains("from 65536"));
    assert!(refused(|header| header.kind = TraceKind::Objects, 1 << 14).contains("neighbours"));
    assert!(refused(|header| header.has_addresses = false, 1 << 14).contains("no addresses"));
}

#[test]
fn a_trace_with_pages_of_the_wanted_size_is_unchanged() {
    let events = [swap(EventKind::SwapOut, 0, EventFlags::DIRTY); 2];
    let (found, header) = drained(larger(&events, 1, 4096));
    assert_eq!((found.len(), header.events), (2, 2));
}

#[test]
fn a_larger_page_holds_zeros_if_all_its_recorded_pages_do() {
    use EventKind::{SwapIn, SwapOut};
    const DIRTY: EventFlags = EventFlags::DIRTY;
    let zero = DIRTY.with(EventFlags::ZERO);
    let given = [
        swap(SwapOut, 0, zero),
        swap(SwapOut, 1, zero), // still zeros
        swap(SwapIn, 0, EventFlags::ZERO),
        swap(SwapOut, 0, zero),
        swap(SwapOut, 1, DIRTY), // now it is written
        swap(SwapOut, 2, DIRTY),
        swap(SwapIn, 0, EventFlags::ZERO), // and read
        swap(SwapOut, 1, zero),            // page 2 holds something
    ];
    let (found, _) = drained(larger(&given, 3, 16384));
    let flags: Vec<_> = found.iter().map(|(event, _)| (event.kind, event.flags)).collect();
    let none = EventFlags::default();
    let expected = [
        (SwapOut, zero),
        (SwapIn, EventFlags::ZERO),
        (SwapOut, zero),
        (SwapOut, DIRTY),
        (SwapIn, none),
        (SwapOut, DIRTY),
    ];
    assert_eq!(flags, expected);
}
