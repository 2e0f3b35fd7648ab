//! Places a page where its expected future costs least, learning that future from the trace itself.
//!
//! Ours; no paper describes it. Every page with a copy has a class (its events since it was
//! last written, and before) and an age (events since). A sample of the pages shows how often a page
//! of a class, at an age, is read, overwritten or dropped next (`AgeHistory`). From that and the
//! latencies of both tiers follows the value of a copy in the fast tier when a frame costs
//! `price` per event (`Valuation`); the price rises while admissions push out pages of value and falls
//! otherwise. A page enters if its value exceeds that of the cheapest resident by all the writes its
//! entry causes, and by a return on them while the placement is behind the simplest one (`RegretMeter`).
//! Nothing here is tuned to a trace: with a large fast tier the price falls and everything enters;
//! with a small tier only pages with evidence of a return do.

mod ages;
mod class;
mod groups;
mod history;
mod page;
mod regret;
mod residents;
mod valuation;

use super::{PageIn, PageOut, Placement, Tier};
use ages::Clock;
use class::Class;
use history::AgeHistory;
use page::{Copy, Page};
use regret::RegretMeter;
use residents::Residents;
use types::{HugeVec, PageId, prefetch};
use valuation::{PARTS, Terms, Valuation};

pub use valuation::Latencies;

/// Assumed chance of a read per age bin for a page in the fast tier without evidence.
const PRIOR_READ_KEEP: f64 = 1.0 / 32.0;
/// Assumed chance for a page that wants to enter: entering needs more evidence than staying.
const PRIOR_READ_ENTER: f64 = 0.022;
/// Step by which the price of a frame rises or falls in an epoch, at full pace.
const PRICE_STEP: f64 = 0.25;
/// Share of the frequencies that fades in an epoch, at full pace.
const FADING: f64 = 0.02;
/// The price of a frame stays within this factor of a slow read per fast tier of events.
const PRICE_RANGE: f64 = 1e3;

/// Results of the admissions since the price was last set.
#[derive(Clone, Copy, Debug, Default)]
struct Demand {
    /// Admissions that pushed out a page of value.
    contested: u64,
    /// Admissions that cost nothing, and refusals of pages without value.
    idle: u64,
}

/// The next step of the beginning of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beginning {
    /// A part of the values of pages that want to enter.
    Entering(usize),
    /// A part of the values of residents.
    Keeping(usize),
    /// Groups of ages that merge.
    Merging,
    /// The worths of residents, from this kind on.
    Rating(usize),
    /// Old observations lose weight.
    Fading,
    /// No step is left.
    Done,
}

/// Parameters of the placement.
#[derive(Clone, Copy, Debug)]
pub struct AdaptiveOptions {
    /// Frames of the fast tier.
    pub capacity: u64,
    /// Cost of each operation.
    pub latencies: Latencies,
    /// Whether the driver takes a frame from a page that is in memory without writing its data; such a
    /// page is written late unless a page-out overwrites it first.
    pub drops_in_memory: bool,
    /// Whether the work at the beginning of an epoch is spread over its first events, so that one event
    /// never takes long. Values then take effect some events later.
    pub is_live: bool,
}

/// Value-driven admission and replacement.
#[derive(Clone, Debug)]
pub struct Adaptive {
    capacity: u64,
    latencies: Latencies,
    drops_in_memory: bool,
    is_live: bool,
    beginning: Beginning,
    clock: Clock,
    pages: HugeVec<Page>,
    history: AgeHistory,
    residents: Residents,
    /// Values of pages in the fast tier.
    keep: Valuation,
    /// Values of pages that want to enter the fast tier.
    enter: Valuation,
    price: f64,
    demand: Demand,
    regret: RegretMeter,
    /// The page whose frame the last admission took, until the driver calls `victim`.
    chosen: Option<PageId>,
    /// Kind of copy of the page being admitted.
    admitted: Copy,
}

impl Adaptive {
    /// An empty fast tier.
    pub fn new(options: AdaptiveOptions) -> Adaptive {
        let AdaptiveOptions { capacity, latencies, drops_in_memory, is_live } = options;
        let clock = Clock::new(capacity);
        let mut adaptive = Adaptive {
            capacity,
            latencies,
            drops_in_memory,
            is_live: false,
            beginning: Beginning::Done,
            clock,
            pages: HugeVec::default(),
            history: AgeHistory::new(1.0 - FADING * clock.pace(capacity)),
            residents: Residents::default(),
            keep: Valuation::default(),
            enter: Valuation::default(),
            price: 0.5 * latencies.slow_read * f64::from(clock.epoch_events())
                / capacity.max(1) as f64,
            demand: Demand::default(),
            regret: RegretMeter::new(capacity, latencies),
            chosen: None,
            admitted: Copy::Clean,
        };
        adaptive.begin_epoch(true);
        adaptive.is_live = is_live;
        adaptive
    }

    /// Advances time by one event; `has_room` says whether a frame was free before it.
    #[inline(always)]
    fn tick(&mut self, has_room: bool) {
        if self.clock.tick() {
            self.begin_epoch(has_room);
        } else if self.beginning != Beginning::Done {
            self.go_on();
        }
    }

    /// Begins an epoch: computes the price of a frame from the demand in the last one, and all values from the
    /// price, at once or spread over the next events.
    #[cold]
    #[inline(never)]
    fn begin_epoch(&mut self, has_room: bool) {
        // The last epoch had more events than this has steps, so that all of them are done.
        while self.beginning != Beginning::Done {
            self.go_on();
        }
        self.history.begin_epoch(&self.clock);
        self.regret.settle();
        self.set_price(has_room);
        self.beginning = Beginning::Entering(0);
        while !self.is_live && self.beginning != Beginning::Done {
            self.go_on();
        }
    }

    fn set_price(&mut self, has_room: bool) {
        let step = 1.0 + PRICE_STEP * self.clock.pace(self.capacity);
        if self.demand.contested > self.demand.idle {
            self.price *= step;
        } else if self.demand.idle > 0 || has_room {
            self.price /= step;
        }
        self.demand = Demand::default();
        let unit = self.latencies.slow_read * f64::from(self.clock.epoch_events())
            / self.capacity.max(1) as f64;
        self.price = self.price.clamp(unit / PRICE_RANGE, unit * PRICE_RANGE);
    }

    /// Does the next step of the beginning of an epoch: at most some thousand instructions, and at most
    /// 24 pages.
    #[cold]
    #[inline(never)]
    fn go_on(&mut self) {
        let terms = |prior_read| Terms {
            latencies: self.latencies,
            drops_in_memory: self.drops_in_memory,
            price: self.price,
            prior_read,
        };
        self.beginning = match self.beginning {
            Beginning::Entering(part) if part < PARTS => {
                self.enter.compute_part(part, &self.history, terms(PRIOR_READ_ENTER));
                Beginning::Entering(part + 1)
            }
            Beginning::Entering(_) => Beginning::Keeping(0),
            Beginning::Keeping(part) if part < PARTS => {
                self.keep.compute_part(part, &self.history, terms(PRIOR_READ_KEEP));
                Beginning::Keeping(part + 1)
            }
            Beginning::Keeping(_) => {
                self.residents.begin_epoch();
                Beginning::Merging
            }
            Beginning::Merging if self.residents.merge_step() => Beginning::Merging,
            Beginning::Merging => Beginning::Rating(0),
            Beginning::Rating(kind) => {
                let keep = &self.keep;
                let worth = |class, copy, bin| keep.worth(class, copy, bin);
                match self.residents.set_worths(kind, worth) {
                    Some(next) => Beginning::Rating(next),
                    None => Beginning::Fading,
                }
            }
            Beginning::Fading | Beginning::Done => {
                self.history.fade();
                Beginning::Done
            }
        };
    }

    /// Whether a page whose entry gains `gain` nanoseconds and spends `spending` now gets a frame
    /// although none is free: it takes that of a resident of less value, which becomes the chosen
    /// victim. A page that the regret refuses still counts as demand.
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
        let is_only_copy = self.pages[cheapest.page.index()].copy == Some(Copy::Dirty);
        let spending = spending + if is_only_copy { self.latencies.slow_write } else { 0.0 };
        let profit = gain - cheapest.worth;
        if profit <= 0.0 || profit < self.regret.asked_return() * spending {
            return false;
        }
        self.chosen = Some(cheapest.page);
        true
    }

    /// The tier for a page that must be written.
    fn place_written(&mut self, out: PageOut, class: Class) -> Tier {
        // Saving of a write to the fast tier over a write to the slow one.
        let saved = self.latencies.slow_write - self.latencies.fast_write;
        if out.is_resident {
            let page = &mut self.pages[out.page.index()];
            self.residents.remove(out.page, page);
            if out.has_room || self.keep.of_young(class, Copy::Dirty) + saved >= 0.0 {
                self.residents.insert(out.page, Copy::Dirty, page);
                return Tier::Fast;
            }
            return Tier::Slow;
        }
        self.admitted = Copy::Dirty;
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
        // A page without gain is not filled in; it does not count as demand for frames.
        gain > 0.0 && self.takes_frame(gain, spending)
    }
}

impl Placement for Adaptive {
    fn grow(&mut self, pages: usize) {
        self.pages.grow(pages, Page::UNKNOWN);
        self.residents.grow(pages);
    }

    #[inline(always)]
    fn prefetch(&self, page: PageId) {
        prefetch(&self.pages, page.index());
        self.residents.prefetch(page);
    }

    /// A clean page-out moves nothing and gives no evidence of the page's return, so it is not observed.
    /// Until its next event the placement assumes such a page to be in memory.
    #[inline(always)]
    fn place_out(&mut self, out: PageOut) -> Tier {
        if !out.must_write {
            return if out.is_resident { Tier::Fast } else { Tier::Slow };
        }
        self.tick(out.has_room);
        let page = self.history.written(out.page, self.pages[out.page.index()], &self.clock);
        self.pages[out.page.index()] = page;
        let tier = self.place_written(out, page.class);
        self.regret.written(&mut self.pages[out.page.index()].shadow, tier);
        tier
    }

    #[inline(always)]
    fn place_in(&mut self, read: PageIn) -> Tier {
        self.tick(read.has_room);
        let mut page = self.pages[read.page.index()];
        self.regret.read(&mut page.shadow, read.from);
        page = self.history.read(read.page, page, &self.clock);
        if let Some(copy) = self.residents.remove(read.page, &mut page) {
            self.residents.insert(read.page, copy, &mut page);
            self.pages[read.page.index()] = page;
            return Tier::Fast;
        }
        self.pages[read.page.index()] = page;
        self.admitted = Copy::Clean;
        if !self.fills(page.class, read.has_room) {
            return Tier::Slow;
        }
        self.regret.filled();
        Tier::Fast
    }

    fn victim(&mut self) -> PageId {
        // An admission chose its victim; after failed moves it needs a second one.
        let victim = self.chosen.take().or_else(|| self.next_victim());
        let victim = victim.expect("a full tier holds a page");
        let page = &mut self.pages[victim.index()];
        if self.residents.remove(victim, page) == Some(Copy::Dirty) {
            let is_dropped = self.drops_in_memory && page.class.is_in_memory();
            self.regret.given_up(&mut page.shadow, is_dropped);
        }
        victim
    }

    fn next_victim(&mut self) -> Option<PageId> {
        self.residents.cheapest().map(|candidate| candidate.page)
    }

    fn insert(&mut self, page: PageId) {
        self.residents.insert(page, self.admitted, &mut self.pages[page.index()]);
    }

    fn forget(&mut self, page: PageId) {
        self.residents.remove(page, &mut self.pages[page.index()]);
        let known = std::mem::replace(&mut self.pages[page.index()], Page::UNKNOWN);
        self.history.dropped(page, known, &self.clock);
        self.regret.dropped(&known.shadow);
    }

    /// Epochs keep the length that the largest capacity asked for.
    fn set_capacity(&mut self, frames: u64) {
        self.capacity = frames;
        self.regret.set_capacity(frames);
    }
}
