//! Replays events against a placement: records the place of every page, moves pages, counts.
//!
//! A copy stays valid until the page's next page-out; a page-out after a page-out overwrites it. A page
//! without a valid copy must be written when it leaves memory, modified or not; but a page of zeros
//! never is, and the driver does not report it to the placement. Costs follow from the counts; the
//! placement never sees them.

use super::residency::{PageState, Residency};
use super::tally::Tally;
use crate::error::Error;
use policy::placement::{PageIn, PageOut, Placement, SlotOnSwapIn, Tier};
use types::{Event, EventFlags, EventKind, Events, PageId, ProcessId, Progress};

/// One run in progress: receives the trace batch by batch, and then returns its counts.
pub trait Cell: Send {
    /// Replays the next events of the trace.
    fn replay(&mut self, events: &Events);
    /// The counts so far; none if all decisions come at the end.
    fn tally(&self) -> Option<&Tally> {
        None
    }
    /// Ends the run. If that takes long, it calls `progress` now and then to check for cancellation, without
    /// figures.
    ///
    /// # Errors
    /// `Usage` if the architecture cannot handle such a trace; `Cancelled`.
    fn finish(self: Box<Self>, progress: &dyn Progress) -> Result<Tally, Error>;
}

/// Rules of a run, for any placement.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Frames of the fast tier.
    pub capacity: u64,
    /// Whether recorded reads of pages other than the faulting one count.
    pub counts_readahead: bool,
    /// Whether a swap-in that follows a swap-in implies a clean page-out between them.
    pub infers_clean: bool,
    /// Whether a page that enters the fast tier keeps its valid copy on the slow tier.
    pub keeps_slow_copy: bool,
    /// Whether a victim in memory gives up its frame unwritten. Unless a page-out overwrites the page
    /// first, the write is charged later: when the page is read again, or ends, or the trace does.
    pub drops_victims_in_memory: bool,
    /// Effect of a swap-in on the page's copies.
    pub slot_on_swapin: SlotOnSwapIn,
}

/// Whether the event's page ends with its process and has no copy until it is written.
/// Any other page has a copy on the slow tier from the start and outlives every process.
#[inline(always)]
fn is_anonymous(kind: EventKind) -> bool {
    matches!(kind, EventKind::SwapOut | EventKind::SwapIn)
}

/// Whether the event is a swap-in, possibly by the mapping of block traces. A request for a file page
/// is not: the page cache drops file pages, and recordings show that by an eviction.
#[inline(always)]
pub(super) fn is_swap_in(kind: EventKind) -> bool {
    matches!(kind, EventKind::SwapIn | EventKind::Read)
}

/// Events by which the state of a page is prefetched ahead of its use.
const AHEAD: usize = 16;

/// A run with a placement.
///
/// Invariant: `used` pages have the state `FAST`, and `used <= rules.capacity`.
pub struct Driver<P> {
    placement: P,
    rules: Rules,
    residency: Residency,
    used: u64,
    tally: Tally,
}

impl<P: Placement> Driver<P> {
    /// A run that starts with both tiers empty.
    pub fn new(placement: P, rules: Rules) -> Driver<P> {
        let (residency, tally) = (Residency::default(), Tally::default());
        Driver { placement, rules, residency, used: 0, tally }
    }

    fn grow(&mut self, events: &Events) {
        // An exit names no page.
        let page_past = |event: Event| match event.kind {
            EventKind::Exit => 0,
            _ => event.page.index() + 1,
        };
        let pages = events.iter().map(page_past).max().unwrap_or(0);
        let processes = events.process.iter().max().map_or(0, |process| process.index() + 1);
        self.residency.grow(pages, processes);
        self.tally.grow(processes);
        self.placement.grow(pages);
    }

    #[inline(always)]
    fn page_out(&mut self, page: PageId, process: ProcessId, is_dirty: bool, kind: EventKind) {
        let before = self.residency.state(page);
        let is_known = before.has(PageState::KNOWN);
        let mut state = if is_known { before } else { self.adopt(page, process, kind) };
        self.tally.clean_page_outs += u64::from(!is_dirty);

        let is_resident = state.has(PageState::FAST);
        let must_write = is_dirty || !state.has_copy();
        let has_room = self.used < self.rules.capacity;
        let tier = self.placement.place_out(PageOut { page, must_write, is_resident, has_room });
        state = state.without(PageState::IN_MEMORY);
        match tier {
            Tier::Fast if is_resident => {
                if must_write {
                    self.tally.of(process).fast_writes += 1;
                    state = state.without(PageState::SLOW);
                }
            }
            Tier::Fast if self.rules.capacity > 0 => {
                self.make_room();
                self.tally.of(process).fast_writes += 1;
                self.tally.of(process).promotions += u64::from(is_known);
                state = state.with(PageState::FAST);
                if must_write || !self.rules.keeps_slow_copy {
                    state = state.without(PageState::SLOW);
                }
                self.placement.insert(page);
            }
            Tier::Fast | Tier::Slow => {
                if is_resident {
                    self.used -= 1;
                    self.tally.of(process).demotions += 1;
                    state = state.without(PageState::FAST);
                }
                if must_write || !state.has(PageState::SLOW) {
                    self.tally.of(process).slow_writes += 1;
                    state = state.with(PageState::SLOW);
                }
            }
        }
        self.residency.set_state(page, state);
    }

    #[inline(always)]
    fn page_in(&mut self, page: PageId, process: ProcessId, kind: EventKind) {
        let mut state = self.residency.state(page);
        if !state.has(PageState::KNOWN) {
            // It was written before the recording began.
            state = self.adopt(page, process, kind).with(PageState::SLOW);
            self.residency.set_state(page, state);
        } else if self.rules.infers_clean && is_swap_in(kind) && state.has(PageState::IN_MEMORY) {
            self.infer_page_out(page, process, kind);
            state = self.residency.state(page);
        } else if !state.has_copy() {
            // It left memory unrecorded, some time ago, and without a copy it was written then.
            // To the slow tier: the replay cannot know whether a frame was free at that time.
            self.tally.of(process).slow_writes += 1;
            state = state.with(PageState::SLOW);
        }
        let from = if state.has(PageState::FAST) { Tier::Fast } else { Tier::Slow };
        let has_room = self.used < self.rules.capacity;
        match from {
            Tier::Fast => self.tally.of(process).fast_reads += 1,
            Tier::Slow => self.tally.of(process).slow_reads += 1,
        }
        let tier = self.placement.place_in(PageIn { page, from, has_room });
        state = match (from, tier) {
            (Tier::Slow, Tier::Fast) if self.rules.capacity > 0 => {
                self.promote(page, process, state)
            }
            (Tier::Fast, Tier::Slow) => {
                self.used -= 1;
                state.without(PageState::FAST)
            }
            _ => state,
        };
        if self.rules.slot_on_swapin == SlotOnSwapIn::Free {
            state = state.without(PageState::SLOW);
        }
        self.residency.set_state(page, state.with(PageState::IN_MEMORY));
    }

    /// Replays a page-out that was not recorded: the page left memory unmodified before this event.
    #[cold]
    #[inline(never)]
    fn infer_page_out(&mut self, page: PageId, process: ProcessId, kind: EventKind) {
        self.page_out(page, process, false, kind);
    }

    /// Copies a page that was just read from the slow tier to the fast one, while its fault waits.
    fn promote(&mut self, page: PageId, process: ProcessId, state: PageState) -> PageState {
        self.tally.slow_writes_stalling += self.make_room();
        self.tally.fast_writes_stalling += 1;
        let account = self.tally.of(process);
        account.fast_writes += 1;
        account.promotions += 1;
        self.placement.insert(page);
        let state = state.with(PageState::FAST);
        if self.rules.keeps_slow_copy { state } else { state.without(PageState::SLOW) }
    }

    /// Takes a frame, demoting the placement's victim if none is free. Returns the slow writes done.
    fn make_room(&mut self) -> u64 {
        if self.used < self.rules.capacity {
            self.used += 1;
            return 0;
        }
        let victim = self.placement.victim();
        let state = self.residency.state(victim);
        debug_assert!(state.has(PageState::FAST), "victim {} holds no frame", victim.0);
        let account = self.tally.of(self.residency.owner(victim));
        account.demotions += 1;
        let is_dropped = self.rules.drops_victims_in_memory && state.has(PageState::IN_MEMORY);
        let must_write = !state.has(PageState::SLOW) && !is_dropped;
        account.slow_writes += u64::from(must_write);
        let state = state.without(PageState::FAST);
        let state = if must_write { state.with(PageState::SLOW) } else { state };
        self.residency.set_state(victim, state);
        if let Some(page) = self.placement.next_victim() {
            self.residency.prefetch(page);
            self.residency.prefetch_owner(page);
        }
        u64::from(must_write)
    }

    /// Whether a page without further events is charged with the write it was spared: its frame
    /// was taken while it was in memory, and it may have left memory unmodified since.
    fn is_written_late(&self, state: PageState) -> bool {
        self.rules.drops_victims_in_memory && state.has(PageState::IN_MEMORY) && !state.has_copy()
    }

    /// Makes the copies of a page of zeros void. The page does not count as in
    /// memory, since it need not be written when it leaves.
    #[cold]
    #[inline(never)]
    fn void(&mut self, page: PageId, process: ProcessId, kind: EventKind) {
        let state = self.residency.state(page);
        if state.has(PageState::KNOWN) {
            self.used -= u64::from(state.has(PageState::FAST));
            self.placement.forget(page);
        } else {
            self.adopt(page, process, kind);
        }
        self.residency.set_state(page, PageState::KNOWN);
    }

    fn adopt(&mut self, page: PageId, process: ProcessId, kind: EventKind) -> PageState {
        self.residency.adopt(page, process, is_anonymous(kind));
        let known = PageState::KNOWN;
        if is_anonymous(kind) { known } else { known.with(PageState::SLOW) }
    }

    #[inline(always)]
    fn replay_one(&mut self, event: Event) {
        let Event { kind, flags, page, process } = event;
        match kind {
            _ if event.is_of_zeros() => {
                self.tally.zero_pages.count(kind);
                self.void(page, process, kind);
            }
            EventKind::SwapOut | EventKind::Evict | EventKind::Write => {
                let is_dirty = flags.contains(EventFlags::DIRTY) || kind == EventKind::Write;
                self.page_out(page, process, is_dirty, kind);
            }
            EventKind::SwapIn | EventKind::Request | EventKind::Read => {
                self.page_in(page, process, kind);
            }
            EventKind::Exit => self.exit(process),
            EventKind::DeviceRead => {
                let reads = u64::from(self.rules.counts_readahead);
                self.tally.of(process).slow_reads += reads;
                self.tally.readahead_reads += reads;
            }
            EventKind::DeviceWrite => {}
        }
    }

    fn exit(&mut self, process: ProcessId) {
        while let Some((page, state)) = self.residency.orphan_one(process) {
            self.used -= u64::from(state.has(PageState::FAST));
            self.tally.of(process).slow_writes += u64::from(self.is_written_late(state));
            self.placement.forget(page);
        }
    }
}

impl<P: Placement + Send> Cell for Driver<P> {
    fn replay(&mut self, events: &Events) {
        self.grow(events);
        for (index, event) in events.iter().enumerate() {
            if let Some(&page) = events.page.get(index + AHEAD) {
                self.residency.prefetch(page);
                self.placement.prefetch(page);
            }
            self.replay_one(event);
        }
    }

    fn tally(&self) -> Option<&Tally> {
        Some(&self.tally)
    }

    fn finish(mut self: Box<Self>, _progress: &dyn Progress) -> Result<Tally, Error> {
        for (state, owner) in self.residency.iter() {
            let (writes, is_fast) =
                (u64::from(self.is_written_late(state)), state.has(PageState::FAST));
            self.tally.of(owner).slow_writes += writes;
            self.tally.fast_only_pages += u64::from(is_fast && !state.has(PageState::SLOW));
        }
        Ok(self.tally)
    }
}
