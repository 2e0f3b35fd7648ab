//! A trace held in memory: the result of generators and filters.

use trace::{Header, Source};
use types::{Event, EventKind, Events, PageId};

/// Events per batch: few enough to react to a cancellation at once.
const BATCH_EVENTS: usize = 1 << 16;

/// Events without times, returned in batches (12 bytes per event).
pub struct EventList {
    header: Header,
    events: Vec<Event>,
    given: usize,
}

impl EventList {
    /// A trace of `events` whose pages are numbered densely; sets the counts in `header`.
    pub fn new(mut header: Header, events: Vec<Event>) -> EventList {
        let pages = events.iter().filter(|event| event.kind != EventKind::Exit);
        let highest = pages.map(|event| event.page.0).max();
        header.events = events.len() as u64;
        header.pages = Some(highest.map_or(0, |highest| highest + 1));
        header.has_clock = false;
        header.has_sizes = false;
        header.has_durations = false;
        header.start_ns = 0;
        EventList { header, events, given: 0 }
    }

    /// A copy of `source` without the pages that are accessed exactly once.
    ///
    /// # Errors
    /// Errors of reading `source`.
    pub fn without_single_accesses(source: &mut dyn Source) -> Result<EventList, trace::Error> {
        let mut events = Vec::new();
        let mut accesses: Vec<u8> = Vec::new();
        let mut batch = Events::default();
        while source.next_batch(&mut batch)? {
            for event in (0..batch.len()).map(|index| batch.get(index)) {
                events.push(event);
                if event.kind == EventKind::Exit {
                    continue;
                }
                let page = event.page.index();
                if page >= accesses.len() {
                    accesses.resize(page + 1, 0);
                }
                accesses[page] = accesses[page].saturating_add(u8::from(event.kind.is_access()));
            }
        }
        events.retain(|event| event.kind == EventKind::Exit || accesses[event.page.index()] != 1);
        renumber(&mut events, accesses.len());
        Ok(EventList::new(source.header().clone(), events))
    }
}

/// Renumbers pages densely in order of first appearance.
fn renumber(events: &mut [Event], pages: usize) {
    let mut numbers = vec![u32::MAX; pages];
    let mut next = 0;
    for event in events.iter_mut().filter(|event| event.kind != EventKind::Exit) {
        let number = &mut numbers[event.page.index()];
        if *number == u32::MAX {
            *number = next;
            next += 1;
        }
        event.page = PageId(*number);
    }
}

impl Source for EventList {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_batch(&mut self, events: &mut Events) -> Result<bool, trace::Error> {
        events.clear();
        let end = (self.given + BATCH_EVENTS).min(self.events.len());
        self.events[self.given..end].iter().for_each(|&event| events.push(event));
        self.given = end;
        Ok(!events.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;
    use types::{EventFlags, ProcessId};

    fn header() -> Header {
        Scenario::default().header()
    }

    fn event(kind: EventKind, page: u32) -> Event {
        Event { kind, flags: EventFlags::default(), page: PageId(page), process: ProcessId(0) }
    }

    #[test]
    fn single_pages_are_removed_and_the_rest_is_renumbered() {
        use EventKind::{DeviceRead, Exit, SwapIn, SwapOut};
        let given = vec![
            event(SwapOut, 0),
            event(DeviceRead, 0),
            event(SwapOut, 1),
            event(SwapIn, 1),
            event(Exit, 0),
            event(SwapOut, 2),
            event(SwapOut, 2),
        ];
        let mut list = EventList::new(header(), given);
        let mut kept = EventList::without_single_accesses(&mut list).expect("in memory");
        let mut events = Events::default();
        assert!(kept.next_batch(&mut events).expect("in memory"));
        assert_eq!(events.kind, [SwapOut, SwapIn, Exit, SwapOut, SwapOut]);
        assert_eq!(events.page.iter().map(|page| page.0).collect::<Vec<_>>(), [0, 0, 0, 1, 1]);
        assert_eq!(kept.header().pages, Some(2));
        assert_eq!(kept.header().events, 5);
    }

    #[test]
    fn an_empty_list_ends_at_once() {
        let mut list = EventList::new(header(), Vec::new());
        assert_eq!(list.header().pages, Some(0));
        assert!(!list.next_batch(&mut Events::default()).expect("in memory"));
    }
}
