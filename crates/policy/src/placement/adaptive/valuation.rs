//! The value of holding a page's copy in the fast tier, by class and age.

use super::ages::{BINS, bin_width};
use super::class::{CLASSES, Class, PASTS, READS};
use super::history::{AgeHistory, ByClass, Frequencies};
use super::page::Copy;
use std::ops::Range;

/// Weight of the prior, in sampled pages per age bin.
const PRIOR_WEIGHT: f64 = 4.0;
/// Prior chance per age bin that a page ceases to exist.
const PRIOR_DROPPED: f64 = 1.0 / 32.0;
/// Factor on the prior chance of a read for pages that were read before.
const RETURNED_FACTOR: f64 = 2.0;
/// Rate at which the prior of never-written pages follows observations at younger ages.
const EXTRAPOLATION: f64 = 0.125;
/// Classes follow each other at most three reads far and then repeat, and the computation starts from
/// the last values, so they settle in few rounds.
const ROUNDS: usize = 2;
/// Parts in which the chances are computed.
const CHANCES_PARTS: usize = 4;
/// Parts in which the values are computed.
pub(super) const PARTS: usize = CHANCES_PARTS + ROUNDS * READS;

/// Cost of one operation on one page, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Latencies {
    /// Reading a page from the slow tier.
    pub slow_read: f64,
    /// Writing a page to the slow tier.
    pub slow_write: f64,
    /// Reading a page from the fast tier.
    pub fast_read: f64,
    /// Writing a page to the fast tier, including the cost assigned to its wear.
    pub fast_write: f64,
}

/// Parameters of the values beside the observed frequencies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub latencies: Latencies,
    /// Whether a page in memory gives up its frame unwritten, and is written late unless a page-out
    /// overwrites its copy first.
    pub drops_in_memory: bool,
    /// Price of a frame, in nanoseconds per epoch.
    pub price: f64,
    /// Chance of a read per age bin without observations.
    pub prior_read: f64,
}

/// A number for each class with the same number of reads, by past. They are independent, so a loop over
/// them computes several at once.
type ByPast = [f64; PASTS];

/// Chances of the events of a page within each age bin, by class; the rest of the pages end there.
#[derive(Clone, Debug)]
struct Chances {
    read: [ByClass; BINS],
    dropped: [ByClass; BINS],
    stays: [ByClass; BINS],
    /// Prior chances of a read in the next bin.
    priors: Priors,
}

impl Chances {
    const NONE: Chances = Chances {
        read: [[0.0; CLASSES]; BINS],
        dropped: [[0.0; CLASSES]; BINS],
        stays: [[0.0; CLASSES]; BINS],
        priors: Priors { own: [0.0; CLASSES] },
    };

    /// Computes the chances of some bins, which must follow those of the call before. A page written
    /// again has the same value in both tiers, so that chance only ends the wait.
    fn compute(&mut self, bins: Range<usize>, seen: &Frequencies, prior_read: f64) {
        if bins.start == 0 {
            self.priors = Priors::new(prior_read);
        }
        for bin in bins {
            let priors = self.priors.next(&seen.entered[bin], &seen.read[bin]);
            for (class, prior) in priors.into_iter().enumerate() {
                let entered = seen.entered[bin][class];
                let pages = entered + PRIOR_WEIGHT;
                let read = chance_of_read(seen.read[bin][class], entered, prior);
                let written = at_most(seen.written[bin][class] / pages, 1.0 - read);
                let dropped = (seen.dropped[bin][class] + PRIOR_WEIGHT * PRIOR_DROPPED) / pages;
                let dropped = at_most(dropped, 1.0 - read - written);
                self.read[bin][class] = read;
                self.dropped[bin][class] = dropped;
                self.stays[bin][class] = 1.0 - read - written - dropped;
            }
        }
    }
}

/// Values by age bin and class, in nanoseconds, relative to a page that is only on the slow tier.
#[derive(Clone, Debug)]
pub(super) struct Valuation {
    /// Of a copy that the slow tier lacks; at least `given_up`.
    dirty: Box<[ByClass; BINS]>,
    /// Of a copy that the slow tier has too; at least 0, because the copy may be dropped.
    clean: Box<[ByClass; BINS]>,
    /// Of the page when its only copy, in the fast tier, is given up: minus a slow write, or, while the
    /// page is in memory, minus the chance that a late write is needed. Never above 0.
    given_up: Box<[ByClass; BINS]>,
    /// Of a clean copy at age 0 whose frame costs nothing.
    clean_in_free_frame: ByClass,
    chances: Box<Chances>,
}

impl Default for Valuation {
    fn default() -> Valuation {
        let nothing = || Box::new([[0.0; CLASSES]; BINS]);
        Valuation {
            dirty: nothing(),
            clean: nothing(),
            given_up: nothing(),
            clean_in_free_frame: [0.0; CLASSES],
            chances: Box::new(Chances::NONE),
        }
    }
}

impl Valuation {
    /// Value of a copy to a page that has just entered `class`.
    #[inline]
    pub fn of_young(&self, class: Class, copy: Copy) -> f64 {
        match copy {
            Copy::Dirty => self.dirty[0][class.index()],
            Copy::Clean => self.clean[0][class.index()],
        }
    }

    /// Loss of giving up a copy, including the writes that this forces. Never below 0.
    pub fn worth(&self, class: Class, copy: Copy, bin: usize) -> f64 {
        match copy {
            Copy::Dirty => self.dirty[bin][class.index()] - self.given_up[bin][class.index()],
            Copy::Clean => self.clean[bin][class.index()],
        }
    }

    /// Value of a clean copy in a free frame, to a page that has just been read.
    pub fn of_young_in_free_frame(&self, class: Class) -> f64 {
        self.clean_in_free_frame[class.index()]
    }

    /// Computes a part of the values for these terms: first the chances of some bins, then the values of
    /// the classes with each number of reads. All parts, in order, compute the values.
    pub fn compute_part(&mut self, part: usize, history: &AgeHistory, terms: Terms) {
        match part.checked_sub(CHANCES_PARTS) {
            None => {
                let bins = part * BINS / CHANCES_PARTS..(part + 1) * BINS / CHANCES_PARTS;
                self.chances.compute(bins, history.frequencies(), terms.prior_read);
            }
            Some(part) => self.compute_classes(READS - 1 - part % READS, terms),
        }
    }

    /// Computes the classes with this number of reads, backward over the ages: a page is read, or ends, or
    /// lives on to the next bin, where its copy is kept if its value exceeds that of giving it up.
    fn compute_classes(&mut self, reads: usize, terms: Terms) {
        let chances = &*self.chances;
        let Latencies { slow_read, slow_write, fast_read, fast_write } = terms.latencies;
        let after_read = (reads + 1).min(READS - 1);
        let next_dirty = of_reads(&self.dirty[0], after_read);
        let next_clean = of_reads(&self.clean[0], after_read);
        let next_free = of_reads(&self.clean_in_free_frame, after_read);
        // After the read a page on the slow tier could be filled in, so that gain is not lost.
        let refill = |next: f64| at_least(next - fast_write, 0.0);
        let saved = slow_read - fast_read;
        let after_read_dirty: ByPast =
            std::array::from_fn(|past| saved + next_dirty[past] - refill(next_clean[past]));
        let after_read_clean: ByPast =
            std::array::from_fn(|past| saved + next_clean[past] - refill(next_clean[past]));
        let after_read_free: ByPast =
            std::array::from_fn(|past| saved + next_free[past] - refill(next_free[past]));

        let drops = terms.drops_in_memory && reads > 0;
        let (mut dirty, mut given_up) = ([-slow_write; PASTS], [-slow_write; PASTS]);
        let (mut clean, mut free) = ([0.0; PASTS], [0.0; PASTS]);
        for bin in (0..BINS).rev() {
            let read = of_reads(&chances.read[bin], reads);
            let dropped = of_reads(&chances.dropped[bin], reads);
            let stays = of_reads(&chances.stays[bin], reads);
            for past in 0..PASTS {
                let (read, stays) = (read[past], stays[past]);
                // A page that leaves the bin does so half-way through on average.
                let rent = terms.price * f64::from(bin_width(bin)) * (0.5 + 0.5 * stays);
                if drops {
                    given_up[past] = stays * given_up[past] - (read + dropped[past]) * slow_write;
                }
                let kept = read * after_read_dirty[past] + stays * dirty[past] - rent;
                dirty[past] = at_least(kept, given_up[past]);
                let kept = read * after_read_clean[past] + stays * clean[past] - rent;
                clean[past] = at_least(kept, 0.0);
                free[past] = read * after_read_free[past] + stays * free[past];
            }
            set_of_reads(&mut self.dirty[bin], reads, dirty);
            set_of_reads(&mut self.clean[bin], reads, clean);
            set_of_reads(&mut self.given_up[bin], reads, given_up);
        }
        set_of_reads(&mut self.clean_in_free_frame, reads, free);
    }
}

/// The figures of the classes with this number of reads.
fn of_reads(figures: &ByClass, reads: usize) -> ByPast {
    std::array::from_fn(|past| figures[reads * PASTS + past])
}

fn set_of_reads(figures: &mut ByClass, reads: usize, of_reads: ByPast) {
    figures[reads * PASTS..][..PASTS].copy_from_slice(&of_reads);
}

/// Prior chances of a read by class, from the youngest age bin to the oldest. Bins widen with age, so a
/// constant chance per bin falls with age, as reuse does. Pages that were never written are blocks and
/// files rather than heaps: their prior follows the observations of younger bins. A page that was read
/// once more than others is at least as likely to be read again, so their observations count where its
/// own class has none: in a rotation that takes as long as the next return.
#[derive(Clone, Debug)]
struct Priors {
    own: ByClass,
}

impl Priors {
    fn new(prior_read: f64) -> Priors {
        let factor = |class| if Class::of(class).has_returned() { RETURNED_FACTOR } else { 1.0 };
        Priors { own: std::array::from_fn(|class| prior_read * factor(class)) }
    }

    /// The priors of the next bin, which `entered` pages reached and in which `read` of them were read.
    fn next(&mut self, entered: &ByClass, read: &ByClass) -> ByClass {
        let own = &mut self.own;
        let mut priors = *own;
        for class in 2 * PASTS..CLASSES {
            let before = class - PASTS;
            let seen_before = chance_of_read(read[before], entered[before], priors[before]);
            priors[class] = at_least(seen_before, own[class]);
        }
        for class in (0..CLASSES).filter(|class| Class::of(*class).is_never_written()) {
            let pages = entered[class] + PRIOR_WEIGHT;
            let gap = chance_of_read(read[class], entered[class], own[class]) - own[class];
            own[class] += gap * EXTRAPOLATION * entered[class] / pages;
        }
        priors
    }
}

fn chance_of_read(read: f64, entered: f64, prior: f64) -> f64 {
    at_most((read + PRIOR_WEIGHT * prior) / (entered + PRIOR_WEIGHT), 1.0)
}

/// The smaller of two numbers, neither NaN: one instruction, unlike `f64::min`.
fn at_most(number: f64, bound: f64) -> f64 {
    if number < bound { number } else { bound }
}

/// The larger of two numbers, neither NaN: one instruction, unlike `f64::max`.
fn at_least(number: f64, bound: f64) -> f64 {
    if number > bound { number } else { bound }
}

#[cfg(test)]
mod tests {
    use super::super::ages::{Clock, bin};
    use super::super::page::Page;
    use super::*;
    use types::PageId;

    #[test]
    fn the_future_of_pages_read_once_is_expected_of_those_read_twice() {
        const PAGES: usize = 40;
        const ROUND: u32 = 20;
        let (mut clock, mut history) = (Clock::new(0), AgeHistory::new(1.0));
        let mut pages = [Page::UNKNOWN; PAGES];
        let mut round = |event: fn(&mut AgeHistory, PageId, Page, &Clock) -> Page| {
            for (id, page) in pages.iter_mut().enumerate() {
                *page = event(&mut history, PageId(id as u32), *page, &clock);
            }
            for _ in 0..ROUND * clock.epoch_events() {
                if clock.tick() {
                    history.begin_epoch(&clock);
                }
            }
            pages[0].class
        };
        round(AgeHistory::written);
        let once = round(AgeHistory::read);
        let twice = round(AgeHistory::read);
        let (mut priors, seen) = (Priors::new(0.02), history.frequencies());
        let by_bin: [ByClass; BINS] =
            std::array::from_fn(|bin| priors.next(&seen.entered[bin], &seen.read[bin]));
        let prior = |class: Class, age| by_bin[bin(age)][class.index()];
        let sampled = PAGES as f64 / 4.0;
        assert_eq!(prior(once, ROUND), 0.02);
        assert_eq!(prior(twice, ROUND), (sampled + 4.0 * 0.02) / (sampled + 4.0));
        assert_eq!(prior(twice, 4 * ROUND), 0.02, "no page waited as long");
    }
}
