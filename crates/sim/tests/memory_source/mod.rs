//! A trace in memory.
#![allow(dead_code, reason = "each test file uses a part")]

use trace::{Header, Source, TraceKind};
use types::{Event, EventFlags, EventKind, Events, PageId, ProcessId};

/// Yields given events, a batch at a time.
pub struct MemorySource {
    header: Header,
    events: Vec<(i64, Event)>,
    batch: usize,
    done: usize,
}

impl MemorySource {
    /// Reads of these pages, one every microsecond.
    pub fn accesses(pages: &[PageId], batch: usize) -> MemorySource {
        let events = pages.iter().map(|page| (EventKind::Read, page.0)).collect::<Vec<_>>();
        MemorySource { batch, ..MemorySource::of_kind(TraceKind::Block, &events) }
    }

    /// Events of a swap trace by kind and page, one every microsecond.
    pub fn events(events: &[(EventKind, u32)]) -> MemorySource {
        MemorySource::of_kind(TraceKind::Swap, events)
    }

    /// Events of a trace of this kind, one every microsecond.
    pub fn of_kind(kind: TraceKind, events: &[(EventKind, u32)]) -> MemorySource {
        let header = Header {
            has_clock: true,
            has_operations: true,
            events: events.len() as u64,
            pages: None,
            ..Header::new(kind, "events")
        };
        let event = |(index, &(kind, page)): (usize, &(EventKind, u32))| {
            // Pages that leave memory are dirty here, so that they are written.
            let is_out = kind == EventKind::SwapOut;
            let flags = if is_out { EventFlags::DIRTY } else { EventFlags::default() };
            (index as i64 * 1000, Event { kind, flags, page: PageId(page), process: ProcessId(0) })
        };
        let events = events.iter().enumerate().map(event).collect();
        MemorySource { header, events, batch: 1000, done: 0 }
    }
}

impl Source for MemorySource {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_batch(&mut self, events: &mut Events) -> Result<bool, trace::Error> {
        events.clear();
        let end = (self.done + self.batch).min(self.events.len());
        for &(time, event) in &self.events[self.done..end] {
            events.time_ns.push(time);
            events.push(event);
        }
        let is_end = self.done == end;
        self.done = end;
        Ok(!is_end)
    }
}
