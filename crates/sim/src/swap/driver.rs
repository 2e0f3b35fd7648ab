//! Replays events against two tiers, and counts the moves that they cause.
//!
//! A page of zeros is never written, and the driver does not report it to the tiers. Costs follow from the
//! counts; the placement never sees them.

use super::owners::Owners;
use super::queue::{Operation, Queue};
use super::tally::Tally;
use crate::error::Error;
use policy::placement::Placement;
use policy::tiers::{MoveSink, PageState, Request, Rules, Step, TwoTiers};
use types::{Event, EventFlags, EventKind, Events, PageId, ProcessId, Progress};

/// One run in progress: receives the trace batch by batch, and then returns its counts.
pub trait Cell: Send {
    /// Makes room for pages numbered below `pages` at once, which takes less memory than to grow with the trace.
    fn expect(&mut self, _pages: usize) {}
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

/// What a replay makes of events that a recording may have or lack.
#[derive(Clone, Copy, Debug)]
pub struct ReplayRules {
    /// Whether pages that the trace shows as read ahead count: a swap-in without `MAJOR` found its page in memory.
    pub counts_readahead: bool,
    /// Whether a swap-in that follows a swap-in implies a clean page-out between them.
    pub infers_clean: bool,
}

/// Whether the event's page ends with its process and has no copy until it is written.
/// Any other page has a copy on the slow tier from the start and outlives every process.
#[inline(always)]
fn is_anonymous(kind: EventKind) -> bool {
    matches!(kind, EventKind::SwapOut | EventKind::SwapIn | EventKind::Void)
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
pub struct Driver<P> {
    tiers: TwoTiers<P>,
    owners: Owners,
    rules: ReplayRules,
    tally: Tally,
    /// Pages that were read ahead and not used since; empty unless readahead counts.
    ahead: Vec<bool>,
    queue: Option<Queue>,
}

/// Counts the moves of a page-out or page-in. `PLAIN` as in [`Driver::is_plain`].
struct Counter<'a, const PLAIN: bool> {
    owners: &'a Owners,
    tally: &'a mut Tally,
    queue: Option<&'a mut Queue>,
    process: ProcessId,
    /// Whether a page fault waits for the moves, as in a page-in.
    stalls: bool,
    /// Whether the page was known before and had no frame.
    enters: bool,
    /// Whether the page was read ahead, so that its read is counted already.
    is_read: bool,
    has_demoted: bool,
}

impl<const PLAIN: bool> Counter<'_, PLAIN> {
    /// Passes an operation of the request to the queue, if there is one.
    #[inline(always)]
    fn queue(&mut self, operation: Operation) {
        if !PLAIN && let Some(queue) = &mut self.queue {
            queue.submit(self.process, operation, self.stalls);
        }
    }
}

impl<const PLAIN: bool> MoveSink for Counter<'_, PLAIN> {
    #[inline(always)]
    fn push(&mut self, step: Step, page: PageId) {
        let account = self.tally.of(self.process);
        match step {
            Step::ReadFast | Step::ReadSlow if !PLAIN && self.is_read => {}
            Step::ReadFast => {
                account.fast_reads += 1;
                self.queue(Operation::FastRead);
            }
            Step::ReadSlow => {
                account.slow_reads += 1;
                self.queue(Operation::SlowRead);
            }
            Step::WriteFast => {
                account.fast_writes += 1;
                account.promotions += u64::from(self.enters);
            }
            Step::WriteSlow => {
                account.slow_writes += 1;
                self.queue(Operation::SlowWrite);
            }
            Step::Promote => {
                account.fast_writes += 1;
                account.promotions += 1;
                self.tally.fast_writes_stalling += 1;
                self.queue(Operation::FastWrite);
            }
            Step::Demote { writes } => {
                let account = self.tally.of(self.owners.of(page));
                account.demotions += 1;
                account.slow_writes += u64::from(writes);
                self.tally.slow_writes_stalling += u64::from(writes && self.stalls);
                self.has_demoted = true;
                if writes {
                    self.queue(Operation::SlowWrite);
                }
            }
            Step::Free => account.demotions += u64::from(!self.stalls),
        }
    }
}

/// Ignores the moves of a request whose moves cost nothing.
struct Uncounted;

impl MoveSink for Uncounted {
    fn push(&mut self, _step: Step, _page: PageId) {}
}

impl<P: Placement> Driver<P> {
    /// A run that starts with both tiers empty.
    pub fn new(
        placement: P,
        tier_rules: Rules,
        rules: ReplayRules,
        queue: Option<Queue>,
    ) -> Driver<P> {
        let tiers = TwoTiers::new(placement, tier_rules);
        let (owners, tally, ahead) = (Owners::default(), Tally::default(), Vec::new());
        Driver { tiers, owners, rules, tally, ahead, queue }
    }

    /// Whether the run counts moves only, without a queue and without pages that the trace shows as read
    /// ahead. The compiler then leaves out the steps for them, of which each event passes several.
    fn is_plain(&self) -> bool {
        self.queue.is_none() && !self.rules.counts_readahead
    }

    fn grow(&mut self, events: &Events) {
        // An exit names no page.
        let page_past = |event: Event| match event.kind {
            EventKind::Exit => 0,
            _ => event.page.index() + 1,
        };
        let pages = events.iter().map(page_past).max().unwrap_or(0);
        let processes = events.process.iter().max().map_or(0, |process| process.index() + 1);
        self.tally.grow(processes);
        self.make_room(pages, processes);
    }

    fn make_room(&mut self, pages: usize, processes: usize) {
        self.owners.grow(pages, processes);
        self.tiers.grow(pages);
        if self.rules.counts_readahead && self.ahead.len() < pages {
            self.ahead.resize(pages, false);
        }
    }

    #[inline(always)]
    fn page_out<const PLAIN: bool>(
        &mut self,
        page: PageId,
        process: ProcessId,
        is_dirty: bool,
        kind: EventKind,
    ) {
        let before = self.tiers.state(page);
        let is_known = before.has(PageState::KNOWN);
        if !is_known {
            self.adopt(page, process, kind);
        }
        self.tally.clean_page_outs += u64::from(!is_dirty);
        let enters = is_known && !before.has(PageState::FAST);
        self.move_pages::<PLAIN>(Request::Out { is_dirty }, page, process, enters, false);
    }

    /// `is_read`: the page was read ahead, so its read is counted already.
    #[inline(always)]
    fn page_in<const PLAIN: bool>(
        &mut self,
        page: PageId,
        process: ProcessId,
        kind: EventKind,
        is_read: bool,
    ) {
        let before = self.tiers.state(page);
        if !before.has(PageState::KNOWN) {
            // It was written before the recording began.
            self.adopt(page, process, kind);
        } else if !before.has_copy() {
            // It left memory unrecorded, some time ago, and without a copy it was written then.
            // To the slow tier: the replay cannot know whether a frame was free at that time.
            self.tally.of(process).slow_writes += 1;
        }
        self.move_pages::<PLAIN>(Request::In, page, process, false, is_read);
    }

    /// Moves pages for a page-out or page-in. `enters` and `is_read` as in [`Counter`].
    #[inline(always)]
    fn move_pages<const PLAIN: bool>(
        &mut self,
        request: Request,
        page: PageId,
        process: ProcessId,
        enters: bool,
        is_read: bool,
    ) {
        let Driver { tiers, owners, tally, queue, .. } = self;
        let stalls = request == Request::In;
        let (queue, has_demoted) = (queue.as_mut(), false);
        let mut counter = Counter::<PLAIN> {
            owners,
            tally,
            queue,
            process,
            stalls,
            enters,
            is_read,
            has_demoted,
        };
        tiers.decide(request, page, &mut counter);
        if counter.has_demoted
            && let Some(victim) = tiers.prefetch_victim()
        {
            owners.prefetch(victim);
        }
    }

    /// Replays a page-out that was not recorded: the page left memory unmodified before this event.
    #[cold]
    #[inline(never)]
    fn infer_page_out(&mut self, page: PageId, process: ProcessId, kind: EventKind) {
        self.page_out::<false>(page, process, false, kind);
    }

    /// Whether a page without further events is charged with the write it was spared: its frame
    /// was taken while it was in memory, and it may have left memory unmodified since.
    fn is_written_late(&self, state: PageState) -> bool {
        self.tiers.rules().drops_victims_in_memory
            && state.has(PageState::IN_MEMORY)
            && !state.has_copy()
    }

    /// Reads a page ahead from where it lies.
    #[cold]
    #[inline(never)]
    fn read_ahead(&mut self, page: PageId, process: ProcessId) {
        let is_fast = self.tiers.state(page).has(PageState::FAST);
        let account = self.tally.of(process);
        account.fast_reads += u64::from(is_fast);
        account.slow_reads += u64::from(!is_fast);
        self.tally.readahead.fast += u64::from(is_fast);
        self.tally.readahead.slow += u64::from(!is_fast);
        self.ahead[page.index()] = true;
        if let Some(queue) = &mut self.queue
            && !is_fast
        {
            queue.submit(process, Operation::Readahead, false);
        }
    }

    /// Whether a swap-in finds its page read ahead. If the trace has no device traffic, its flag shows that.
    #[inline(always)]
    fn take_ahead(&mut self, event: Event) -> bool {
        if !self.rules.counts_readahead || event.kind != EventKind::SwapIn {
            return false;
        }
        let is_used = !event.flags.contains(EventFlags::MAJOR);
        if is_used && !self.ahead[event.page.index()] {
            self.read_ahead(event.page, event.process);
        }
        self.drop_ahead(event.page);
        self.tally.readahead.used += u64::from(is_used);
        is_used
    }

    /// Forgets that a page was read ahead.
    #[inline(always)]
    fn drop_ahead(&mut self, page: PageId) {
        if let Some(is_ahead) = self.ahead.get_mut(page.index()) {
            *is_ahead = false;
        }
    }

    /// Makes the copies of a page of zeros void. The page does not count as in
    /// memory, since it need not be written when it leaves.
    #[cold]
    #[inline(never)]
    fn hold_zeros(&mut self, page: PageId, process: ProcessId, kind: EventKind) {
        self.drop_ahead(page);
        if !self.tiers.state(page).has(PageState::KNOWN) {
            self.adopt(page, process, kind);
        }
        self.tiers.decide(Request::Void, page, &mut Uncounted);
    }

    /// Makes the copies of a page void: its slot was discarded. The page may live on in memory, and is
    /// written when it leaves again.
    #[cold]
    #[inline(never)]
    fn void(&mut self, page: PageId) {
        self.drop_ahead(page);
        let state = self.tiers.state(page);
        if state.has(PageState::KNOWN) {
            let process = self.owners.of(page);
            self.tally.of(process).slow_writes += u64::from(self.is_written_late(state));
            self.tiers.decide(Request::Void, page, &mut Uncounted);
        }
    }

    fn adopt(&mut self, page: PageId, process: ProcessId, kind: EventKind) {
        self.owners.adopt(page, process, is_anonymous(kind));
        self.tiers.adopt(page, !is_anonymous(kind));
    }

    fn replay_batch<const PLAIN: bool>(&mut self, events: &Events) {
        for (index, event) in events.iter().enumerate() {
            if let Some(&page) = events.page.get(index + AHEAD) {
                self.tiers.prefetch(page);
            }
            if !PLAIN && let Some(queue) = &mut self.queue {
                queue.advance(events.time_ns[index]);
            }
            self.replay_event::<PLAIN>(event);
        }
    }

    #[inline(always)]
    fn replay_event<const PLAIN: bool>(&mut self, event: Event) {
        let Event { kind, flags, page, process } = event;
        match kind {
            _ if event.is_of_zeros() => {
                self.tally.zero_pages.count(kind);
                self.hold_zeros(page, process, kind);
            }
            EventKind::SwapOut | EventKind::Evict | EventKind::Write => {
                let is_dirty = flags.contains(EventFlags::DIRTY) || kind == EventKind::Write;
                if !PLAIN {
                    self.drop_ahead(page);
                }
                self.page_out::<PLAIN>(page, process, is_dirty, kind);
            }
            EventKind::SwapIn | EventKind::Request | EventKind::Read => {
                if self.rules.infers_clean
                    && is_swap_in(kind)
                    && self.tiers.state(page).has(PageState::IN_MEMORY)
                {
                    self.infer_page_out(page, process, kind);
                }
                // After the page-out, which may have moved the page to the tier that it is read from.
                let is_read = !PLAIN && self.take_ahead(event);
                self.page_in::<PLAIN>(page, process, kind, is_read);
            }
            EventKind::Exit => self.exit(process),
            EventKind::DeviceRead if self.rules.counts_readahead => self.read_ahead(page, process),
            EventKind::DeviceRead | EventKind::DeviceWrite => {}
            EventKind::Void => self.void(page),
        }
    }

    fn exit(&mut self, process: ProcessId) {
        while let Some(page) = self.owners.take_page(process) {
            self.drop_ahead(page);
            let state = self.tiers.forget(page);
            self.tally.of(process).slow_writes += u64::from(self.is_written_late(state));
        }
    }
}

impl<P: Placement + Send> Cell for Driver<P> {
    fn expect(&mut self, pages: usize) {
        self.make_room(pages, 0);
    }

    fn replay(&mut self, events: &Events) {
        self.grow(events);
        if self.is_plain() {
            self.replay_batch::<true>(events);
        } else {
            self.replay_batch::<false>(events);
        }
    }

    fn tally(&self) -> Option<&Tally> {
        Some(&self.tally)
    }

    fn finish(mut self: Box<Self>, _progress: &dyn Progress) -> Result<Tally, Error> {
        self.tally.queue_ns = self.queue.take().map(Queue::finish);
        for (&state, &owner) in self.tiers.states().iter().zip(self.owners.all()) {
            let is_fast_only = state.has(PageState::FAST) && !state.has(PageState::SLOW);
            self.tally.of(owner).slow_writes += u64::from(self.is_written_late(state));
            self.tally.fast_only_pages += u64::from(is_fast_only);
        }
        Ok(self.tally)
    }
}
