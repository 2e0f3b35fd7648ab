//! Places a page where its expected future costs least, learning that future from the trace itself.
//!
//! Ours; no paper describes it. Every page with a copy has a class (what happened to it since it was
//! last written, and before) and an age (events since). A sample of the pages tells how often a page
//! of a class, at an age, is read, overwritten or dropped next (`History`). From that and the
//! latencies of both tiers follows what holding a copy in the fast tier is worth when a frame costs
//! `price` per event (`Valuation`); the price rises while admissions push out pages of worth and falls
//! otherwise. A page enters if it is worth more than the cheapest resident by all the writes its
//! entry causes, and by a return on them while the placement is behind the simplest one (`Regret`).
//! Nothing here is tuned to a trace: with a large fast tier the price falls and everything enters;
//! with a small one only pages with evidence of a return do.

mod ages;
mod history;
mod regret;
mod residents;
mod valuation;

use super::{PageIn, PageOut, Placement, Tier};
use history::{Class, History};
use regret::Regret;
use residents::{Copy, Residents};
use types::PageId;
use valuation::{Latencies, Terms, Valuation};

pub use valuation::Latencies as AdaptiveLatencies;

/// Chance of a read per age bin that a page without evidence is credited with while it stays.
const PRIOR_READ_KEEP: f64 = 1.0 / 32.0;
/// The same for a page that wants to enter: entering needs more evidence than staying.
const PRIOR_READ_ENTER: f64 = 0.022;
/// Factor on the price of a frame at each revaluation.
const PRICE_STEP: f64 = 1.25;
/// The price of a frame stays within this factor of a slow read per fast tier of events.
const PRICE_RANGE: f64 = 1e3;
/// Values are computed anew once per this share of a fast tier of events ...
const REVALUATIONS_PER_TIER: u64 = 16;
/// ... but not more often than this many events.
const EVENTS_BETWEEN_REVALUATIONS_MIN: u64 = 1024;
/// Residents are aged this often from one revaluation to the next.
const AGEINGS_PER_REVALUATION: u64 = 4;

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
    /// The driver takes a frame from a page that is in memory without writing its data; unless a
    /// page-out overwrites it, such a page is written late.
    pub drops_in_memory: bool,
}

/// Value-driven admission and replacement.
#[derive(Clone, Debug)]
pub struct Adaptive {
    capacity: u64,
    latencies: Latencies,
    drops_in_memory: bool,
    history: History,
    residents: Residents,
    /// Values of pages that are in the fast tier.
    keep: Valuation,
    /// Values of pages that want to enter it.
    enter: Valuation,
    price: f64,
    demand: Demand,
    regret: Regret,
    /// Events until the next ageing.
    events_left: u64,
    /// Ageings until the next revaluation.
    ageings_left: u64,
    /// The page whose frame the last admission took, until the driver asks for it.
    chosen: Option<PageId>,
    /// What the page being admitted is.
    admitted: (Class, Copy),
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
            residents: Residents::default(),
            keep: Valuation::default(),
            enter: Valuation::default(),
            price: 0.5 * latencies.slow_read / capacity.max(1) as f64,
            demand: Demand::default(),
            regret: Regret::new(capacity, latencies),
            events_left: 0,
            ageings_left: 0,
            chosen: None,
            admitted: (Class::of(0), Copy::Clean),
        };
        adaptive.age(true);
        adaptive
    }

    /// Time passes by one event, before which a frame was free or not.
    #[inline(always)]
    fn tick(&mut self, has_room: bool) {
        self.history.tick();
        self.events_left -= 1;
        if self.events_left == 0 {
            self.age(has_room);
        }
    }

    /// Brings the residents' ages up to date, and now and then their values.
    #[cold]
    #[inline(never)]
    fn age(&mut self, has_room: bool) {
        let between_revaluations =
            (self.capacity / REVALUATIONS_PER_TIER).max(EVENTS_BETWEEN_REVALUATIONS_MIN);
        self.events_left = between_revaluations / AGEINGS_PER_REVALUATION;
        if self.ageings_left == 0 {
            self.ageings_left = AGEINGS_PER_REVALUATION;
            self.revalue(has_room);
        }
        self.ageings_left -= 1;
        self.regret.settle();
        self.residents.age(self.history.now());
    }

    /// Sets the price of a frame by the demand since the last time, and all values by the price.
    fn revalue(&mut self, has_room: bool) {
        self.history.settle();
        if self.demand.contested > self.demand.idle {
            self.price *= PRICE_STEP;
        } else if self.demand.idle > 0 || has_room {
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
        let keep = &self.keep;
        self.residents.set_worths(|class, copy, bin| keep.worth(class, copy, bin));
        self.history.fade();
    }

    /// Whether a page whose entry is worth `gain` nanoseconds and takes `spending` now gets a frame
    /// although none is free: that of a resident worth less, which becomes the chosen victim. What the
    /// regret forbids is still demand.
    fn takes_frame(&mut self, gain: f64, spending: f64) -> bool {
        if gain <= 0.0 {
            self.demand.idle += 1;
            return false;
        }
        let Some(cheapest) = self.residents.cheapest() else { return false };
        if cheapest.worth <= 0.0 {
            self.demand.idle += 1;
        } else if gain > cheapest.worth {
            self.demand.contested += 1;
        }
        let is_only_copy = self.residents.copy(cheapest.page) == Copy::Dirty;
        let spending = spending + if is_only_copy { self.latencies.slow_write } else { 0.0 };
        let profit = gain - cheapest.worth;
        if profit <= 0.0 || profit < self.regret.asked_return() * spending {
            return false;
        }
        self.chosen = Some(cheapest.page);
        true
    }

    /// The tier that a page which must be written goes to.
    fn place_written(&mut self, out: PageOut) -> Tier {
        let class = self.history.written(out.page);
        // What writing to the fast tier saves against writing to the slow one.
        let saved = self.latencies.slow_write - self.latencies.fast_write;
        if out.is_resident {
            if out.has_room || self.keep.of_young(class, Copy::Dirty) + saved >= 0.0 {
                self.residents.put(out.page, class, Copy::Dirty, self.history.now());
                return Tier::Fast;
            }
            self.residents.remove(out.page);
            return Tier::Slow;
        }
        self.admitted = (class, Copy::Dirty);
        let gain = self.enter.of_young(class, Copy::Dirty) + saved;
        if out.has_room || self.takes_frame(gain, -saved) { Tier::Fast } else { Tier::Slow }
    }

    /// Whether a page that was read from the slow tier is filled into the fast one.
    fn fills(&mut self, class: Class, has_room: bool) -> bool {
        let spending = self.latencies.fast_write;
        if has_room {
            let gain = self.keep.of_young_in_free_frame(class) - spending;
            return gain > 0.0 && gain >= self.regret.asked_return() * spending;
        }
        let gain = self.enter.of_young(class, Copy::Clean) - spending;
        // Without gain a page is not filled in, which says nothing about the demand for frames.
        gain > 0.0 && self.takes_frame(gain, spending)
    }
}

impl Placement for Adaptive {
    fn grow(&mut self, pages: usize) {
        self.history.grow(pages);
        self.residents.grow(pages);
        self.regret.grow(pages);
    }

    #[inline(always)]
    fn read_ahead(&self, pages: &[PageId]) {
        self.history.read_ahead(pages);
        self.residents.read_ahead(pages);
    }

    /// A clean page-out moves nothing and says nothing about the page's return, so it passes unseen.
    /// Until its next event such a page is taken for being in memory.
    fn place_out(&mut self, out: PageOut) -> Tier {
        if !out.must_write {
            return if out.is_resident { Tier::Fast } else { Tier::Slow };
        }
        self.tick(out.has_room);
        let tier = self.place_written(out);
        self.regret.written(out.page, tier);
        tier
    }

    fn place_in(&mut self, read: PageIn) -> Tier {
        self.tick(read.has_room);
        self.regret.read(read.page, read.from);
        let class = self.history.read(read.page);
        if read.from == Tier::Fast {
            let copy = self.residents.copy(read.page);
            self.residents.put(read.page, class, copy, self.history.now());
            return Tier::Fast;
        }
        self.admitted = (class, Copy::Clean);
        if !self.fills(class, read.has_room) {
            return Tier::Slow;
        }
        self.regret.filled();
        Tier::Fast
    }

    fn victim(&mut self) -> PageId {
        let victim = self.chosen.take().expect("an admission into a full tier chose a victim");
        if self.residents.copy(victim) == Copy::Dirty {
            let is_in_memory = self.residents.class(victim).is_in_memory();
            self.regret.given_up(victim, self.drops_in_memory && is_in_memory);
        }
        self.residents.remove(victim);
        victim
    }

    fn insert(&mut self, page: PageId) {
        let (class, copy) = self.admitted;
        self.residents.put(page, class, copy, self.history.now());
    }

    fn forget(&mut self, page: PageId) {
        self.history.dropped(page);
        self.regret.dropped(page);
        self.residents.remove(page);
    }
}
