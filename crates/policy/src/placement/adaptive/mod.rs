//! Places a page where its expected future costs least, learning that future from the trace itself.
//!
//! Ours; no paper describes it. Every page with a copy has a class (what happened to it since it was
//! last written, and before) and an age (events since). A sample of the pages tells how often a page
//! of a class, at an age, is read, overwritten or dropped next (`History`). From that and the
//! latencies of both tiers follows what holding a copy in the fast tier is worth when a frame costs
//! `price` per event (`Valuation`); the price rises while admissions push out pages of worth and falls
//! otherwise. A page enters if it is worth more than the cheapest resident by all the writes its
//! entry causes. Nothing here is tuned to a trace: with a large fast tier the price falls and
//! everything enters; with a small one only pages with evidence of a return do.

mod candidates;
mod history;
mod valuation;

use super::{PageIn, PageOut, Placement, Tier};
use candidates::Candidates;
use history::History;
use types::PageId;
use valuation::{Latencies, Terms, Valuation};

pub use valuation::Latencies as AdaptiveLatencies;

/// Chance of a read per age bin that a page without evidence is credited with while it stays.
const PRIOR_READ_KEEP: f64 = 1.0 / 32.0;
/// The same for a page that wants to enter: entering needs more evidence than staying.
const PRIOR_READ_ENTER: f64 = 0.015;
/// Factor on the price of a frame at each revaluation.
const PRICE_STEP: f64 = 1.25;
/// The price of a frame stays within this factor of a slow read per fast tier of events.
const PRICE_RANGE: f64 = 1e3;
/// Values are computed anew once per this share of a fast tier of events ...
const REVALUATIONS_PER_TIER: u64 = 16;
/// ... but not more often than this many events.
const EVENTS_BETWEEN_REVALUATIONS_MIN: u64 = 1024;

/// How the last admissions since the price was set went.
#[derive(Clone, Copy, Debug, Default)]
struct Demand {
    /// Admissions that pushed out a page of worth.
    contested: u64,
    /// Admissions that cost nothing, and refusals of pages that were worth nothing.
    idle: u64,
}

/// What the placement knows of its surroundings.
#[derive(Clone, Copy, Debug)]
pub struct AdaptiveOptions {
    /// Frames of the fast tier.
    pub capacity: u64,
    /// What operations cost.
    pub latencies: Latencies,
    /// The driver takes a frame from a page that is in memory without writing its data; such a page is
    /// written when it leaves memory.
    pub drops_in_memory: bool,
}

/// Value-driven admission and replacement.
#[derive(Clone, Debug)]
pub struct Adaptive {
    capacity: u64,
    latencies: Latencies,
    drops_in_memory: bool,
    history: History,
    candidates: Candidates,
    /// Values of pages that are in the fast tier.
    keep: Valuation,
    /// Values of pages that want to enter it.
    enter: Valuation,
    price: f64,
    demand: Demand,
    next_revaluation: u64,
    /// The page whose frame the last admission took, until the driver asks for it.
    chosen: Option<PageId>,
    /// The page being admitted leaves a valid copy on the slow tier.
    admitted_is_clean: bool,
}

impl Adaptive {
    /// An empty fast tier.
    pub fn new(options: AdaptiveOptions) -> Adaptive {
        let AdaptiveOptions { capacity, latencies, drops_in_memory } = options;
        let mut adaptive = Adaptive {
            capacity,
            latencies,
            drops_in_memory,
            history: History::default(),
            candidates: Candidates::default(),
            keep: Valuation::default(),
            enter: Valuation::default(),
            price: 0.5 * latencies.slow_read / capacity.max(1) as f64,
            demand: Demand::default(),
            next_revaluation: 0,
            chosen: None,
            admitted_is_clean: false,
        };
        adaptive.revalue();
        adaptive
    }

    fn has_room(&self) -> bool {
        self.candidates.len() < self.capacity
    }

    /// Time passes by one event.
    fn tick(&mut self) {
        if self.history.tick() >= self.next_revaluation {
            self.revalue();
        }
    }

    /// Sets the price of a frame by the demand since the last time, and all values by the price.
    fn revalue(&mut self) {
        let interval = (self.capacity / REVALUATIONS_PER_TIER).max(EVENTS_BETWEEN_REVALUATIONS_MIN);
        self.next_revaluation = self.history.now() + interval;
        self.history.settle();
        if self.demand.contested > self.demand.idle {
            self.price *= PRICE_STEP;
        } else if self.demand.idle > 0 || self.has_room() {
            self.price /= PRICE_STEP;
        }
        self.demand = Demand::default();
        let unit = self.latencies.slow_read / self.capacity.max(1) as f64;
        self.price = self.price.clamp(unit / PRICE_RANGE, unit * PRICE_RANGE);
        let terms = |prior_read| Terms {
            latencies: self.latencies,
            drops_in_memory: self.drops_in_memory,
            price: self.price,
            prior_read,
        };
        self.enter.compute(&self.history, terms(PRIOR_READ_ENTER));
        self.keep.compute(&self.history, terms(PRIOR_READ_KEEP));
        self.history.fade();
    }

    /// Whether there is a frame for a page whose entry is worth `gain` nanoseconds: a free one, or
    /// that of a resident worth less, which becomes the chosen victim.
    fn finds_frame(&mut self, gain: f64) -> bool {
        if self.has_room() {
            return true;
        }
        if gain <= 0.0 || self.capacity == 0 {
            self.demand.idle += 1;
            return false;
        }
        let (history, keep) = (&self.history, &self.keep);
        let worth = |page, is_clean| {
            let state = history.state(page);
            if is_clean { keep.clean(state) } else { keep.dirty(state) - keep.given_up(state) }
        };
        let Some(cheapest) = self.candidates.cheapest(worth) else { return false };
        if cheapest.worth <= 0.0 {
            self.demand.idle += 1;
        } else if gain > cheapest.worth {
            self.demand.contested += 1;
        }
        if gain <= cheapest.worth {
            return false;
        }
        self.chosen = Some(cheapest.page);
        true
    }
}

impl Placement for Adaptive {
    fn grow(&mut self, pages: usize) {
        self.history.grow(pages);
        self.candidates.grow(pages);
    }

    /// A clean page-out moves nothing and says nothing about the page's return, so it passes unseen.
    fn place_out(&mut self, out: PageOut) -> Tier {
        if !out.must_write {
            return if out.is_resident { Tier::Fast } else { Tier::Slow };
        }
        self.tick();
        self.history.written(out.page);
        let state = self.history.state(out.page);
        // What writing to the fast tier saves against writing to the slow one.
        let saved = self.latencies.slow_write - self.latencies.fast_write;
        if out.is_resident {
            if self.has_room() || self.keep.dirty(state) + saved >= 0.0 {
                self.candidates.set_clean(out.page, false);
                return Tier::Fast;
            }
            self.candidates.remove(out.page);
            return Tier::Slow;
        }
        let gain = self.enter.dirty(state) + saved;
        if self.finds_frame(gain) {
            self.admitted_is_clean = false;
            return Tier::Fast;
        }
        Tier::Slow
    }

    fn place_in(&mut self, read: PageIn) -> Tier {
        self.tick();
        self.history.read(read.page);
        if read.from == Tier::Fast {
            return Tier::Fast;
        }
        let state = self.history.state(read.page);
        let value = if self.has_room() {
            self.keep.clean_in_free_frame(state)
        } else {
            self.enter.clean(state)
        };
        let gain = value - self.latencies.fast_write;
        if gain > 0.0 && self.finds_frame(gain) {
            self.admitted_is_clean = true;
            return Tier::Fast;
        }
        Tier::Slow
    }

    fn victim(&mut self) -> PageId {
        let victim = self.chosen.take().expect("an admission into a full tier chose a victim");
        self.candidates.remove(victim);
        victim
    }

    fn insert(&mut self, page: PageId) {
        self.candidates.insert(page, self.admitted_is_clean);
    }

    fn forget(&mut self, page: PageId) {
        self.history.dropped(page);
        if self.candidates.contains(page) {
            self.candidates.remove(page);
        }
    }
}
