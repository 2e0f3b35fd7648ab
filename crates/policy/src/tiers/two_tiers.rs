//! Two tiers under one placement: which copies are valid, which frames are used, what moves next.
//!
//! A copy stays valid until the page's next page-out; a page-out after a page-out overwrites it. A page
//! without a valid copy must be written when it leaves memory, modified or not.
//!
//! Decisions follow from the order of the requests and failures only, not from when moves end: the state
//! after a request is the one that holds once its moves are done. So a simulator and a server that see the
//! same requests make the same moves. A server may have many moves in flight if it keeps two rules: the moves
//! of one page take effect in the order in which they were returned, and a move that needs a frame waits for
//! one. A frame of a demotion that writes stays in use until the write is done; spare frames beyond the
//! capacity let a newcomer go on meanwhile.

use super::moves::{Move, MoveSink, Moves, Request, Step};
use super::state::PageState;
use crate::placement::{PageIn, PageOut, Placement, SlotOnSwapIn, Tier};
use types::{HugeVec, PageId, prefetch};

/// Rules of two tiers, for any placement.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Frames of the fast tier.
    pub capacity: u64,
    /// Whether a page that enters the fast tier keeps its valid copy on the slow tier.
    pub keeps_slow_copy: bool,
    /// Whether every page that must be written goes to the slow tier, and its frame is void: no frame ever has the only
    /// valid copy. The placement then learns only that the page ceased to be as it was.
    pub writes_through: bool,
    /// Whether a victim in memory gives up its frame unwritten. A simulator charges the write later, unless
    /// a page-out overwrites the page first.
    pub drops_victims_in_memory: bool,
    /// Effect of a swap-in on the page's copies.
    pub slot_on_swapin: SlotOnSwapIn,
}

/// Two tiers, driven by requests.
///
/// Invariant: `used` pages have the state `FAST`. `used <= capacity`, except after failed moves and a lowered
/// capacity: each later admission then frees two frames until it holds again.
pub struct TwoTiers<P> {
    placement: P,
    rules: Rules,
    state: HugeVec<PageState>,
    capacity: u64,
    used: u64,
}

impl<P: Placement> TwoTiers<P> {
    /// Both tiers empty.
    pub fn new(placement: P, rules: Rules) -> TwoTiers<P> {
        let state = HugeVec::default();
        TwoTiers { placement, rules, state, capacity: rules.capacity, used: 0 }
    }

    /// Makes room for pages below `pages`; requests for them allocate nothing afterwards.
    pub fn grow(&mut self, pages: usize) {
        self.state.grow(pages, PageState::default());
        self.placement.grow(pages);
    }

    /// Prefetches what is kept about a page that is requested soon; any number is allowed.
    #[inline(always)]
    pub fn prefetch(&self, page: PageId) {
        prefetch(&self.state, page.index());
        self.placement.prefetch(page);
    }

    /// The next page that a full fast tier gives up, if the placement knows it; prefetches its state.
    #[inline(always)]
    pub fn prefetch_victim(&mut self) -> Option<PageId> {
        let victim = self.placement.next_victim()?;
        prefetch(&self.state, victim.index());
        Some(victim)
    }

    /// The state of `page`.
    #[inline(always)]
    pub fn state(&self, page: PageId) -> PageState {
        self.state[page.index()]
    }

    /// The state of every page.
    pub fn states(&self) -> &[PageState] {
        &self.state
    }

    /// Makes an unknown page known. It has a copy on the slow tier if `has_slow_copy`, else none.
    #[inline(always)]
    pub fn adopt(&mut self, page: PageId, has_slow_copy: bool) {
        let known = PageState::KNOWN;
        let state = if has_slow_copy { known.with(PageState::SLOW) } else { known };
        self.state[page.index()] = state;
    }

    /// Makes a page known with the copies that it has. More frames may be used than the capacity; later
    /// admissions free them.
    pub fn restore(&mut self, page: PageId, has_frame: bool, has_slow_copy: bool) {
        self.adopt(page, has_slow_copy);
        if has_frame {
            // To the placement, the page was written while there was room. It has its frame whatever the answer.
            let (must_write, is_resident, has_room) = (true, false, true);
            self.placement.place_out(PageOut { page, must_write, is_resident, has_room });
            self.used += 1;
            self.add(page, PageState::FAST);
            self.placement.insert(page);
        }
    }

    /// The rules.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Decides what a request moves; `moves` is replaced.
    #[inline(always)]
    pub fn on(&mut self, request: Request, page: PageId, moves: &mut Moves) {
        moves.clear();
        self.decide(request, page, moves);
    }

    /// Like [`TwoTiers::on`], for a driver that needs no list of the moves, such as a simulator: to make
    /// the list takes time.
    #[inline(always)]
    pub fn decide(&mut self, request: Request, page: PageId, moves: &mut impl MoveSink) {
        match request {
            Request::Out { is_dirty } => self.page_out(page, is_dirty, moves),
            Request::In => self.page_in(page, moves),
            Request::Void => self.void(page, moves),
        }
    }

    #[inline(always)]
    fn page_out(&mut self, page: PageId, is_dirty: bool, moves: &mut impl MoveSink) {
        let mut state = self.state[page.index()];
        let is_resident = state.has(PageState::FAST);
        let must_write = is_dirty || !state.has_copy();
        if must_write && self.rules.writes_through {
            return self.write_through(page, moves);
        }
        let has_room = self.used < self.capacity;
        let tier = self.placement.place_out(PageOut { page, must_write, is_resident, has_room });
        state = state.with(PageState::KNOWN).without(PageState::IN_MEMORY);
        match tier {
            Tier::Fast if is_resident => {
                if must_write {
                    moves.push(Step::WriteFast, page);
                    state = state.without(PageState::SLOW);
                }
            }
            Tier::Fast if self.capacity > 0 => {
                self.make_room(moves);
                moves.push(Step::WriteFast, page);
                state = state.with(PageState::FAST);
                if must_write || !self.rules.keeps_slow_copy {
                    state = state.without(PageState::SLOW);
                }
                self.placement.insert(page);
            }
            Tier::Fast | Tier::Slow => {
                if is_resident {
                    self.used -= 1;
                    moves.push(Step::Free, page);
                    state = state.without(PageState::FAST);
                }
                if must_write || !state.has(PageState::SLOW) {
                    moves.push(Step::WriteSlow, page);
                    state = state.with(PageState::SLOW);
                }
            }
        }
        self.state[page.index()] = state;
    }

    #[cold]
    #[inline(never)]
    fn write_through(&mut self, page: PageId, moves: &mut impl MoveSink) {
        let state = self.forget(page);
        if state.has(PageState::FAST) {
            moves.push(Step::Free, page);
        }
        moves.push(Step::WriteSlow, page);
        self.state[page.index()] = PageState::KNOWN.with(PageState::SLOW);
    }

    /// A page without a copy is read from the slow tier: it was written there unseen, or never.
    #[inline(always)]
    fn page_in(&mut self, page: PageId, moves: &mut impl MoveSink) {
        let mut state = self.state[page.index()].with(PageState::KNOWN);
        let from = if state.has(PageState::FAST) { Tier::Fast } else { Tier::Slow };
        match from {
            Tier::Fast => moves.push(Step::ReadFast, page),
            Tier::Slow => {
                moves.push(Step::ReadSlow, page);
                state = state.with(PageState::SLOW);
            }
        }
        let has_room = self.used < self.capacity;
        let tier = self.placement.place_in(PageIn { page, from, has_room });
        match (from, tier) {
            (Tier::Slow, Tier::Fast) if self.capacity > 0 => {
                self.make_room(moves);
                moves.push(Step::Promote, page);
                self.placement.insert(page);
                state = state.with(PageState::FAST);
                if !self.rules.keeps_slow_copy {
                    state = state.without(PageState::SLOW);
                }
            }
            (Tier::Fast, Tier::Slow) => {
                self.used -= 1;
                moves.push(Step::Free, page);
                state = state.without(PageState::FAST);
            }
            _ => {}
        }
        if self.rules.slot_on_swapin == SlotOnSwapIn::Free {
            state = state.without(PageState::SLOW);
        }
        self.state[page.index()] = state.with(PageState::IN_MEMORY);
    }

    /// The page stays known, so that a driver which lists known pages need not list it again.
    #[cold]
    #[inline(never)]
    fn void(&mut self, page: PageId, moves: &mut impl MoveSink) {
        let state = self.forget(page);
        if state.has(PageState::FAST) {
            moves.push(Step::Free, page);
        }
        self.state[page.index()] = PageState::KNOWN;
    }

    /// Forgets a page that ceased to exist, and frees its frame. Returns its former state.
    pub fn forget(&mut self, page: PageId) -> PageState {
        let state = std::mem::take(&mut self.state[page.index()]);
        self.used -= u64::from(state.has(PageState::FAST));
        if state.has(PageState::KNOWN) {
            self.placement.forget(page);
        }
        state
    }

    /// Takes a frame, and demotes the placement's victim if none is free.
    #[inline(always)]
    fn make_room(&mut self, moves: &mut impl MoveSink) {
        if self.used < self.capacity {
            self.used += 1;
            return;
        }
        self.demote(moves);
        if self.used > self.capacity {
            self.demote(moves);
            self.used -= 1;
        }
    }

    #[inline(always)]
    fn demote(&mut self, moves: &mut impl MoveSink) {
        let victim = self.placement.victim();
        let state = self.state[victim.index()];
        debug_assert!(state.has(PageState::FAST), "victim {} holds no frame", victim.0);
        let is_dropped = self.rules.drops_victims_in_memory && state.has(PageState::IN_MEMORY);
        let writes = !state.has(PageState::SLOW) && !is_dropped;
        moves.push(Step::Demote { writes }, victim);
        let state = state.without(PageState::FAST);
        self.state[victim.index()] = if writes { state.with(PageState::SLOW) } else { state };
    }

    /// Reports that a move failed; `moves` is replaced by what must be done instead. A request that
    /// needs a failed read or write fails unless a move replaces it.
    ///
    /// A frame that cannot be read or written is retired: the capacity shrinks by one. A page that cannot
    /// be demoted keeps its frame. A page that cannot be read is not promoted. The driver skips an earlier
    /// move that needs a frame which the page no longer has.
    pub fn failed(&mut self, failed: Move, moves: &mut Moves) {
        moves.clear();
        let Move { step, page } = failed;
        let state = self.state[page.index()];
        match step {
            Step::ReadFast => {
                self.retire_frame(page);
                if state.has(PageState::SLOW) {
                    moves.push(Step::ReadSlow, page);
                }
            }
            Step::WriteFast => {
                self.retire_frame(page);
                self.add(page, PageState::SLOW);
                moves.push(Step::WriteSlow, page);
            }
            Step::Promote => {
                self.retire_frame(page);
                self.add(page, PageState::SLOW);
            }
            Step::ReadSlow if state.has(PageState::FAST) => {
                self.give_up_frame(page);
                self.add(page, PageState::SLOW);
            }
            Step::WriteSlow => self.state[page.index()] = state.without(PageState::SLOW),
            Step::Demote { writes: true } if !state.has(PageState::FAST) => {
                self.used += 1;
                self.state[page.index()] = state.without(PageState::SLOW).with(PageState::FAST);
                self.placement.insert(page);
            }
            Step::ReadSlow | Step::Demote { .. } | Step::Free => {}
        }
    }

    fn add(&mut self, page: PageId, bits: PageState) {
        self.state[page.index()] = self.state[page.index()].with(bits);
    }

    fn retire_frame(&mut self, page: PageId) {
        self.capacity -= u64::from(self.capacity > 0);
        self.give_up_frame(page);
    }

    /// Takes the frame from `page`, if it still has one; the placement forgets the page.
    fn give_up_frame(&mut self, page: PageId) {
        let state = self.state[page.index()];
        if state.has(PageState::FAST) {
            self.used -= 1;
            self.placement.forget(page);
            self.state[page.index()] = state.without(PageState::FAST);
        }
    }

    /// Frames of the fast tier that hold a page.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Frames of the fast tier that may hold a page.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Lets this many frames hold a page from now on, at most those of the rules. No page leaves its frame before
    /// others are admitted.
    pub fn set_capacity(&mut self, frames: u64) {
        self.capacity = frames.min(self.rules.capacity);
        self.placement.set_capacity(self.capacity);
    }
}
