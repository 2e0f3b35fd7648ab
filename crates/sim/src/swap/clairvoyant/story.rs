//! The trace as the lives of its pages: every future event of each page, known from the start.

use super::moves::{Move, MoveStep, Place, first_place};
use crate::swap::tally::Tally;
use types::{EventFlags, EventKind, Events, PageId, ProcessId};

const NONE: u32 = u32::MAX;

/// One event of one page; its index is the moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageEvent {
    pub page: PageId,
    pub process: ProcessId,
    pub step: MoveStep,
    /// For the first moment of a life, the place of the page before it.
    pub begins_at: Option<Place>,
}

#[derive(Clone, Copy, Debug, Default)]
struct PageNow {
    is_alive: bool,
    is_in_memory: bool,
}

/// Collects moments; decisions come after the last one.
#[derive(Default)]
pub(super) struct Story {
    pub moments: Vec<PageEvent>,
    pub tally: Tally,
    now: Vec<PageNow>,
    next_of_owner: Vec<u32>,
    first_of_owner: Vec<u32>,
}

impl Story {
    /// Appends the events of a batch, under the run's `infers_clean`.
    pub fn extend(&mut self, events: &Events, infers_clean: bool) {
        let named =
            events.page.iter().zip(&events.kind).filter(|(_, kind)| **kind != EventKind::Exit);
        let pages = named.map(|(page, _)| page.index() + 1).max().unwrap_or(0).max(self.now.len());
        self.now.resize(pages, PageNow::default());
        self.next_of_owner.resize(pages, NONE);
        let processes = events.process.iter().max().map_or(0, |process| process.index() + 1);
        self.first_of_owner.resize(processes.max(self.first_of_owner.len()), NONE);
        self.tally.grow(processes);
        for index in 0..events.len() {
            let event = events.get(index);
            let (page, process) = (event.page, event.process);
            let is_dirty = event.flags.contains(EventFlags::DIRTY);
            match event.kind {
                kind if event.is_of_zeros() => {
                    self.tally.zero_pages.count(kind);
                    self.push(page, process, MoveStep::Void, true);
                    self.now[page.index()].is_in_memory = false;
                }
                EventKind::SwapOut => self.out(page, process, is_dirty, true),
                EventKind::SwapIn => self.read(page, process, true, infers_clean),
                EventKind::Request => self.read(page, process, false, false),
                EventKind::Evict => self.out(page, process, is_dirty, false),
                EventKind::Read => self.read(page, process, false, infers_clean),
                EventKind::Write => self.out(page, process, true, false),
                EventKind::Exit => self.end(process),
                EventKind::Void if self.now[page.index()].is_alive => {
                    self.push(page, process, MoveStep::Void, true);
                    self.now[page.index()].is_in_memory = false;
                }
                EventKind::Void | EventKind::DeviceRead | EventKind::DeviceWrite => {}
            }
        }
    }

    fn out(&mut self, page: PageId, process: ProcessId, is_dirty: bool, is_anonymous: bool) {
        self.tally.clean_page_outs += u64::from(!is_dirty);
        self.push(
            page,
            process,
            if is_dirty { MoveStep::Out } else { MoveStep::CleanOut },
            is_anonymous,
        );
        self.now[page.index()].is_in_memory = false;
    }

    fn read(&mut self, page: PageId, process: ProcessId, is_anonymous: bool, infers_clean: bool) {
        if infers_clean && self.now[page.index()].is_in_memory {
            self.out(page, process, false, is_anonymous);
        }
        self.push(page, process, MoveStep::In, is_anonymous);
        self.now[page.index()].is_in_memory = true;
    }

    fn push(&mut self, page: PageId, process: ProcessId, step: MoveStep, is_anonymous: bool) {
        let is_first = !std::mem::replace(&mut self.now[page.index()].is_alive, true);
        if is_first && is_anonymous {
            self.next_of_owner[page.index()] = self.first_of_owner[process.index()];
            self.first_of_owner[process.index()] = page.0;
        }
        let begins_at = is_first.then(|| first_place(step, is_anonymous));
        self.moments.push(PageEvent { page, process, step, begins_at });
    }

    fn end(&mut self, process: ProcessId) {
        let mut next = std::mem::replace(&mut self.first_of_owner[process.index()], NONE);
        while next != NONE {
            let page = PageId(next);
            self.now[page.index()] = PageNow::default();
            self.moments.push(PageEvent { page, process, step: MoveStep::End, begins_at: None });
            next = self.next_of_owner[page.index()];
        }
    }

    /// Upper bound of the page numbers.
    pub fn pages(&self) -> usize {
        self.now.len()
    }

    /// Adds the move of a page at a moment.
    pub fn book(&mut self, moment: PageEvent, from: Place, chosen: &Move) {
        self.tally.fast_writes_stalling += u64::from(chosen.fills);
        let is_new = moment.begins_at.is_some() && moment.step != MoveStep::In;
        let account = self.tally.of(moment.process);
        account.fast_reads += u64::from(chosen.fast_reads);
        account.fast_writes += u64::from(chosen.fast_writes);
        account.slow_reads += u64::from(chosen.slow_reads);
        account.slow_writes += u64::from(chosen.slow_writes);
        let (was_fast, is_fast) = (from.is_fast(), chosen.to.is_fast());
        account.promotions += u64::from(!was_fast && is_fast && !is_new);
        account.demotions += u64::from(
            was_fast && !is_fast && !matches!(moment.step, MoveStep::Void | MoveStep::End),
        );
    }
}
