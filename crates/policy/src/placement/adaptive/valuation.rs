//! What holding a page's copy in the fast tier is worth, by class and age.

use super::ages::{BINS, bin_width};
use super::class::{CLASSES, Class};
use super::history::{Frequencies, History};
use super::page::Copy;

/// Weight of the prior, in sampled pages per age bin.
const PRIOR_WEIGHT: f64 = 4.0;
/// Prior chance per age bin that a page ceases to exist.
const PRIOR_DROPPED: f64 = 1.0 / 32.0;
/// Factor on the prior chance of a read for pages that came back before.
const RETURNED_FACTOR: f64 = 2.0;
/// How fast the prior of never-written pages follows what was seen at younger ages.
const EXTRAPOLATION: f64 = 0.125;
/// Classes follow each other at most three reads far and then repeat, and values start from the last
/// ones, so they settle in few rounds.
const ROUNDS: usize = 2;

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
    /// A page in memory gives up its frame unwritten, and is written late unless a page-out overwrites
    /// its copy first.
    pub drops_in_memory: bool,
    /// Nanoseconds per frame and epoch.
    pub price: f64,
    /// Chance of a read per age bin where nothing was seen yet.
    pub prior_read: f64,
}

/// Chances of what matters to a page within one age bin; the rest of the pages end there.
#[derive(Clone, Copy)]
struct Chances {
    read: f64,
    dropped: f64,
    stays: f64,
}

impl Chances {
    /// A page written again is worth the same in both tiers, so that chance only ends the wait.
    fn new(seen: &Frequencies, prior_read: f64) -> Chances {
        let pages = seen.entered + PRIOR_WEIGHT;
        let read = chance_of_read(seen, prior_read);
        let written = (seen.written / pages).min(1.0 - read);
        let dropped =
            ((seen.dropped + PRIOR_WEIGHT * PRIOR_DROPPED) / pages).min(1.0 - read - written);
        Chances { read, dropped, stays: 1.0 - read - written - dropped }
    }
}

/// Values of one class and age bin, in nanoseconds, relative to the page being on the slow tier only.
#[derive(Clone, Copy, Debug, Default)]
struct Value {
    /// Of a copy that the slow tier does not have; at least `given_up`.
    dirty: f64,
    /// Of a copy that the slow tier has too; at least 0, because it may be dropped.
    clean: f64,
    /// Of the page when its only copy, in the fast tier, is given up: minus a slow write, or, while the
    /// page is in memory, minus the chance that the write must be made up for. Never above 0.
    given_up: f64,
}

/// Values by class and age bin.
#[derive(Clone, Debug)]
pub(super) struct Valuation {
    values: Vec<Value>,
    /// Of a clean copy at age 0 whose frame costs nothing.
    clean_in_free_frame: [f64; CLASSES],
}

impl Default for Valuation {
    fn default() -> Valuation {
        Valuation {
            values: vec![Value::default(); CLASSES * BINS],
            clean_in_free_frame: [0.0; CLASSES],
        }
    }
}

impl Valuation {
    /// What a copy is worth to a page that has just come to be of `class`.
    #[inline]
    pub fn of_young(&self, class: Class, copy: Copy) -> f64 {
        let value = &self.values[class.index() * BINS];
        match copy {
            Copy::Dirty => value.dirty,
            Copy::Clean => value.clean,
        }
    }

    /// What giving a copy up would lose, the writes that it forces included. Never below 0.
    pub fn worth(&self, class: Class, copy: Copy, bin: usize) -> f64 {
        let value = &self.values[class.index() * BINS + bin];
        match copy {
            Copy::Dirty => value.dirty - value.given_up,
            Copy::Clean => value.clean,
        }
    }

    /// Value of a clean copy whose frame nobody else wants, to a page that has just been read.
    pub fn of_young_in_free_frame(&self, class: Class) -> f64 {
        self.clean_in_free_frame[class.index()]
    }

    /// Values under these terms.
    pub fn compute(&mut self, history: &History, terms: Terms) {
        let priors = prior_reads(history, terms.prior_read);
        let chances = |class| {
            let seen = history.frequencies(Class::of(class));
            std::array::from_fn(|bin| Chances::new(&seen[bin], priors[class * BINS + bin]))
        };
        let chances: Vec<[Chances; BINS]> = (0..CLASSES).map(chances).collect();
        for _ in 0..ROUNDS {
            for class in (0..CLASSES).rev() {
                self.compute_class(Class::of(class), &chances[class], terms);
            }
        }
    }

    /// Backward over the ages: a page is read, or ends, or lives on to the next bin, where its copy
    /// is kept if that is worth more than giving it up.
    fn compute_class(&mut self, class: Class, chances: &[Chances; BINS], terms: Terms) {
        let Latencies { slow_read, slow_write, fast_read, fast_write } = terms.latencies;
        let next = self.values[class.after_read().index() * BINS];
        let next_free = self.clean_in_free_frame[class.after_read().index()];
        // After the read a page on the slow tier could be filled in; that much is not lost.
        let refill = (next.clean - fast_write).max(0.0);
        let saved = slow_read - fast_read;
        let after_read_dirty = saved + next.dirty - refill;
        let after_read_clean = saved + next.clean - refill;
        let after_read_free = saved + next_free - (next_free - fast_write).max(0.0);

        let drops = terms.drops_in_memory && class.is_in_memory();
        let mut value = Value { dirty: -slow_write, clean: 0.0, given_up: -slow_write };
        let mut free = 0.0;
        let values = &mut self.values[class.index() * BINS..(class.index() + 1) * BINS];
        for bin in (0..BINS).rev() {
            let Chances { read, dropped, stays } = chances[bin];
            // A page that leaves the bin does so half-way through on average.
            let rent = terms.price * f64::from(bin_width(bin)) * (0.5 + 0.5 * stays);
            if drops {
                value.given_up = stays * value.given_up - (read + dropped) * slow_write;
            }
            let dirty = read * after_read_dirty + stays * value.dirty - rent;
            value.dirty = dirty.max(value.given_up);
            value.clean = (read * after_read_clean + stays * value.clean - rent).max(0.0);
            free = read * after_read_free + stays * free;
            values[bin] = value;
        }
        self.clean_in_free_frame[class.index()] = free;
    }
}

/// Prior chance of a read for every class and age bin. Bins widen with age, so a constant chance per
/// bin is one that falls with age, as reuse does. Pages that were never written are blocks and files
/// rather than heaps: theirs follows what the younger bins showed. A page that came back once more than
/// others is at least as likely to come again, so what those did counts where nothing was seen of its
/// own class: in a rotation that takes as long as the next return.
fn prior_reads(history: &History, prior_read: f64) -> Vec<f64> {
    let mut priors = Vec::with_capacity(CLASSES * BINS);
    for class in (0..CLASSES).map(Class::of) {
        let before = class.before_read();
        let mut prior = prior_read * if class.has_returned() { RETURNED_FACTOR } else { 1.0 };
        for (bin, seen) in history.frequencies(class).iter().enumerate() {
            let seen_before = before.map_or(0.0, |before| {
                let prior = priors[before.index() * BINS + bin];
                chance_of_read(&history.frequencies(before)[bin], prior)
            });
            priors.push(seen_before.max(prior));
            if class.is_never_written() {
                let pages = seen.entered + PRIOR_WEIGHT;
                let gap = chance_of_read(seen, prior) - prior;
                prior += gap * EXTRAPOLATION * seen.entered / pages;
            }
        }
    }
    priors
}

fn chance_of_read(seen: &Frequencies, prior: f64) -> f64 {
    ((seen.read + PRIOR_WEIGHT * prior) / (seen.entered + PRIOR_WEIGHT)).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::super::ages::{Clock, bin};
    use super::super::page::Page;
    use super::*;
    use types::PageId;

    #[test]
    fn what_pages_read_once_did_is_expected_of_those_read_twice() {
        const PAGES: usize = 40;
        const ROUND: u32 = 20;
        let (mut clock, mut history) = (Clock::new(0), History::new(1.0));
        let mut pages = [Page::UNKNOWN; PAGES];
        let mut round = |event: fn(&mut History, PageId, &mut Page, &Clock)| {
            for (id, page) in pages.iter_mut().enumerate() {
                event(&mut history, PageId(id as u32), page, &clock);
            }
            for _ in 0..ROUND * clock.epoch_events() {
                if clock.tick() {
                    history.begin_epoch(&clock);
                }
            }
            pages[0].class
        };
        round(History::written);
        let once = round(History::read);
        let twice = round(History::read);
        let priors = prior_reads(&history, 0.02);
        let prior = |class: Class, age| priors[class.index() * BINS + bin(age)];
        let sampled = PAGES as f64 / 4.0;
        assert_eq!(prior(once, ROUND), 0.02);
        assert_eq!(prior(twice, ROUND), (sampled + 4.0 * 0.02) / (sampled + 4.0));
        assert_eq!(prior(twice, 4 * ROUND), 0.02, "nobody was seen to wait as long");
    }
}
