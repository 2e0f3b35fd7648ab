//! What holding a page's copy in the fast tier is worth, by class and age.

use super::history::{
    BINS, CLASSES, Frequencies, History, State, bin_width, class_after_read, has_returned,
    is_in_memory, is_never_written,
};

/// Weight of the prior, in sampled pages per age bin.
const PRIOR_WEIGHT: f64 = 4.0;
/// Prior chance per age bin that a page ceases to exist.
const PRIOR_DROPPED: f64 = 1.0 / 32.0;
/// Factor on the prior chance of a read for pages that came back before.
const RETURNED_FACTOR: f64 = 2.0;
/// How fast the prior of never-written pages follows what was seen at younger ages.
const EXTRAPOLATION: f64 = 0.125;
/// Classes follow each other at most three reads far and then repeat, so values settle in few rounds.
const ROUNDS: usize = 4;

/// What one operation on one page costs, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Latencies {
    /// Reading a page from the slow tier.
    pub slow_read: f64,
    /// Writing a page to the slow tier.
    pub slow_write: f64,
    /// Reading a page from the fast tier.
    pub fast_read: f64,
    /// Writing a page to the fast tier, with whatever its wear is deemed to cost.
    pub fast_write: f64,
}

/// What values depend on beside what pages did.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub latencies: Latencies,
    /// A page in memory gives up its frame unwritten; it is written when it leaves memory.
    pub drops_in_memory: bool,
    /// Nanoseconds per frame and event.
    pub price: f64,
    /// Chance of a read per age bin where nothing was seen yet.
    pub prior_read: f64,
}

/// Chances of what matters to a page within one age bin; the rest of the pages end there.
struct Chances {
    read: f64,
    stays: f64,
}

impl Chances {
    /// A page written again is worth the same in both tiers, so that chance only ends the wait.
    fn new(seen: &Frequencies, prior_read: f64) -> Chances {
        let pages = seen.entered + PRIOR_WEIGHT;
        let read = ((seen.read + PRIOR_WEIGHT * prior_read) / pages).min(1.0);
        let written = (seen.written / pages).min(1.0 - read);
        let dropped =
            ((seen.dropped + PRIOR_WEIGHT * PRIOR_DROPPED) / pages).min(1.0 - read - written);
        Chances { read, stays: 1.0 - read - written - dropped }
    }
}

/// Values in nanoseconds, relative to the page being on the slow tier only. A clean copy is worth at
/// least 0, because it may be dropped. A dirty one is worth at least what giving it up costs: a slow
/// write, or, while the page is in memory, the chance that it leaves memory unmodified and must then be
/// written for want of a copy.
#[derive(Clone, Debug)]
pub(super) struct Valuation {
    dirty: Vec<f64>,
    clean: Vec<f64>,
    /// Of a dirty copy that is given up, never above 0.
    given_up: Vec<f64>,
    /// Of a clean copy at age 0 whose frame costs nothing.
    clean_in_free_frame: [f64; CLASSES],
}

impl Default for Valuation {
    fn default() -> Valuation {
        Valuation {
            dirty: vec![0.0; CLASSES * BINS],
            clean: vec![0.0; CLASSES * BINS],
            given_up: vec![0.0; CLASSES * BINS],
            clean_in_free_frame: [0.0; CLASSES],
        }
    }
}

impl Valuation {
    /// Value of a copy that the slow tier does not have.
    #[inline]
    pub fn dirty(&self, state: State) -> f64 {
        self.dirty[state.class * BINS + state.bin]
    }

    /// Value of a copy that the slow tier has too.
    #[inline]
    pub fn clean(&self, state: State) -> f64 {
        self.clean[state.class * BINS + state.bin]
    }

    /// Value of a page whose only copy, a dirty one in the fast tier, is given up.
    #[inline]
    pub fn given_up(&self, state: State) -> f64 {
        self.given_up[state.class * BINS + state.bin]
    }

    /// Value of a clean copy whose frame nobody else wants.
    pub fn clean_in_free_frame(&self, state: State) -> f64 {
        self.clean_in_free_frame[state.class]
    }

    /// Values under these terms.
    pub fn compute(&mut self, history: &History, terms: Terms) {
        for _ in 0..ROUNDS {
            for class in (0..CLASSES).rev() {
                self.compute_class(class, history.frequencies(class), terms);
            }
        }
    }

    /// Backward over the ages: a page is read, or ends, or lives on to the next bin, where its copy
    /// is kept if that is worth more than giving it up.
    fn compute_class(&mut self, class: usize, seen: &[Frequencies], terms: Terms) {
        let Latencies { slow_read, slow_write, fast_read, fast_write } = terms.latencies;
        let next = class_after_read(class) * BINS;
        // After the read a page on the slow tier could be filled in; that much is not lost.
        let refill = (self.clean[next] - fast_write).max(0.0);
        let saved = slow_read - fast_read;
        let after_read_dirty = saved + self.dirty[next] - refill;
        let after_read_clean = saved + self.clean[next] - refill;
        let next_free = self.clean_in_free_frame[class_after_read(class)];
        let after_read_free = saved + next_free - (next_free - fast_write).max(0.0);

        let priors = prior_reads(class, seen, terms.prior_read);
        let drops = terms.drops_in_memory && is_in_memory(class);
        let mut given_up = if drops { 0.0 } else { -slow_write };
        let (mut dirty, mut clean, mut free) = (given_up, 0.0f64, 0.0);
        for bin in (0..BINS).rev() {
            let chances = Chances::new(&seen[bin], priors[bin]);
            // A page that leaves the bin does so half-way through on average.
            let rent = terms.price * bin_width(bin) * (0.5 + 0.5 * chances.stays);
            if drops {
                given_up = chances.stays * given_up - chances.read * slow_write;
            }
            dirty = (chances.read * after_read_dirty + chances.stays * dirty - rent).max(given_up);
            clean = (chances.read * after_read_clean + chances.stays * clean - rent).max(0.0);
            free = chances.read * after_read_free + chances.stays * free;
            self.given_up[class * BINS + bin] = given_up;
            self.dirty[class * BINS + bin] = dirty;
            self.clean[class * BINS + bin] = clean;
        }
        self.clean_in_free_frame[class] = free;
    }
}

/// Prior chance of a read for every age bin of a class. Bins widen with age, so a constant chance per
/// bin is one that falls with age, as reuse does. Pages that were never written are blocks and files
/// rather than heaps: theirs follows what the younger bins showed.
fn prior_reads(class: usize, seen: &[Frequencies], prior_read: f64) -> [f64; BINS] {
    let mut priors = [0.0; BINS];
    let mut prior = prior_read * if has_returned(class) { RETURNED_FACTOR } else { 1.0 };
    for (slot, frequencies) in priors.iter_mut().zip(seen) {
        *slot = prior;
        if is_never_written(class) {
            let pages = frequencies.entered + PRIOR_WEIGHT;
            let chance = (frequencies.read + PRIOR_WEIGHT * prior) / pages;
            prior += (chance - prior) * EXTRAPOLATION * frequencies.entered / pages;
        }
    }
    priors
}
