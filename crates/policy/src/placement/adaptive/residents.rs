//! The pages of the fast tier by what giving them up would lose, and the cheapest of them.
//!
//! What a page is worth depends on its class, its age bin and whether its copy is clean, so pages that
//! agree in those are worth the same, and the cheapest is found among some thousand cells rather than
//! among all pages. Worths and ages change between epochs only; within one pages leave and join.

use super::age_log::AgeLog;
use super::ages::BINS;
use super::class::{CLASSES, Class};
use super::page::{Copy, Page};
use types::PageId;

/// Logs of residents: dirty and clean ones of each class.
const LOGS: usize = 2 * CLASSES;
/// So many logs are compared at once.
const LANES: usize = 8;
const _: () = assert!(LOGS.is_multiple_of(LANES));
/// Entries per live one at which stale ones are dropped: each is then looked at once or twice.
const ENTRIES_PER_LIVE: usize = 3;
/// Entries that are not worth looking at.
const ENTRIES_MIN: usize = 4096;

/// A page and what giving it up would lose, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    pub page: PageId,
    pub worth: f64,
}

/// The residents.
///
/// Invariant: `cheapest_bins[log]` is the cheapest of the bins that the log calls occupied, and
/// `cheapest_worths[log]` what its pages are worth, infinite if there is none; `least` is the first log
/// whose cheapest is the cheapest of all. The logs together have `entries`, at most `entries_max`.
#[derive(Clone, Debug)]
pub(super) struct Residents {
    logs: Vec<AgeLog>,
    entries: usize,
    entries_max: usize,
    worths: Vec<[f64; BINS]>,
    cheapest_bins: [usize; LOGS],
    cheapest_worths: [f64; LOGS],
    least: usize,
}

impl Default for Residents {
    fn default() -> Residents {
        Residents {
            logs: (0..LOGS).map(|log| AgeLog::of(class_of_log(log), copy_of_log(log))).collect(),
            entries: 0,
            entries_max: ENTRIES_MIN,
            worths: vec![[0.0; BINS]; LOGS],
            cheapest_bins: [0; LOGS],
            cheapest_worths: [f64::INFINITY; LOGS],
            least: 0,
        }
    }
}

impl Residents {
    /// `page`, whose class was just decided, becomes a resident, or changes as one.
    #[inline]
    pub fn put(&mut self, id: PageId, copy: Copy, pages: &mut [Page]) {
        if self.entries == self.entries_max {
            self.drop_stale(pages);
        }
        self.entries += 1;
        let page = &mut pages[id.index()];
        page.copy = Some(copy);
        let log = log_of(page.class, copy);
        self.logs[log].push(id, pages);
        let worth = self.worths[log][0];
        if worth <= self.cheapest_worths[log] {
            (self.cheapest_bins[log], self.cheapest_worths[log]) = (0, worth);
            let least = self.cheapest_worths[self.least];
            if worth < least || worth == least && log < self.least {
                self.least = log;
            }
        }
    }

    /// Bounds the entries of all logs by the pages that are live: those of one class become pages of
    /// others, and a bound on each log alone would let the logs of all classes fill up in turn.
    #[cold]
    #[inline(never)]
    fn drop_stale(&mut self, pages: &[Page]) {
        self.entries = self.logs.iter_mut().map(|log| log.drop_stale(pages)).sum();
        self.entries_max = ENTRIES_PER_LIVE * self.entries + ENTRIES_MIN;
    }

    /// Sets what residents are worth by class, copy and age bin. `begin_epoch` must follow.
    pub fn set_worths(&mut self, worth: impl Fn(Class, Copy, usize) -> f64) {
        for (log, worths) in self.worths.iter_mut().enumerate() {
            let (class, copy) = (class_of_log(log), copy_of_log(log));
            *worths = std::array::from_fn(|bin| worth(class, copy, bin));
        }
    }

    /// An epoch begins: all residents are an epoch older.
    pub fn begin_epoch(&mut self) {
        for log in 0..LOGS {
            self.logs[log].begin_epoch();
            self.find_cheapest(log);
        }
        self.find_least();
    }

    /// The resident that is worth least; of several the one of the lowest class, the dirty one, the one
    /// of the youngest bin, and the oldest in that.
    pub fn cheapest(&mut self, pages: &[Page]) -> Option<Candidate> {
        loop {
            let log = self.least;
            let worth = self.cheapest_worths[log];
            if worth == f64::INFINITY {
                return None;
            }
            if let Some(page) = self.logs[log].oldest(self.cheapest_bins[log], pages) {
                return Some(Candidate { page, worth });
            }
            self.find_cheapest(log);
            self.find_least();
        }
    }

    fn find_cheapest(&mut self, log: usize) {
        let mut bits = self.logs[log].occupied();
        let (mut cheapest_bin, mut cheapest_worth) = (0, f64::INFINITY);
        while bits != 0 {
            let bin = bits.trailing_zeros() as usize;
            let worth = self.worths[log][bin];
            if worth < cheapest_worth {
                (cheapest_bin, cheapest_worth) = (bin, worth);
            }
            bits &= bits - 1;
        }
        (self.cheapest_bins[log], self.cheapest_worths[log]) = (cheapest_bin, cheapest_worth);
    }

    fn find_least(&mut self) {
        // In lanes that do not wait for each other; a search for the first of the least would guess.
        let mut lanes = [f64::INFINITY; LANES];
        for worths in self.cheapest_worths.chunks_exact(LANES) {
            for (lane, &worth) in lanes.iter_mut().zip(worths) {
                *lane = if worth < *lane { worth } else { *lane };
            }
        }
        let least = lanes.into_iter().fold(f64::INFINITY, f64::min);
        let is_least = |worth: &f64| *worth == least;
        self.least = self.cheapest_worths.iter().position(is_least).unwrap_or(0);
    }
}

#[inline(always)]
fn log_of(class: Class, copy: Copy) -> usize {
    2 * class.index() + usize::from(copy == Copy::Clean)
}

fn class_of_log(log: usize) -> Class {
    Class::of(log / 2)
}

fn copy_of_log(log: usize) -> Copy {
    if log.is_multiple_of(2) { Copy::Dirty } else { Copy::Clean }
}

#[cfg(test)]
mod tests {
    use super::super::ages::{Clock, bin};
    use super::*;

    #[test]
    fn the_cheapest_is_what_a_search_through_all_finds() {
        const PAGES: usize = 200;
        let mut clock = Clock::new(0);
        let mut residents = Residents::default();
        let mut pages = [Page::UNKNOWN; PAGES];
        let mut factor = 1;
        let worth = |factor: usize, log: usize, bin: usize| ((log * 7 + bin) * factor % 31) as f64;
        let mut state = 3u64;
        for _ in 0..40_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let id = (state >> 33) as usize % PAGES;
            // One event, or as many as make an epoch.
            for _ in 0..if state.is_multiple_of(50) { clock.epoch_events() } else { 1 } {
                if clock.tick() {
                    factor = 1 + (state >> 40) as usize % 30;
                    residents
                        .set_worths(|class, copy, bin| worth(factor, log_of(class, copy), bin));
                    residents.begin_epoch();
                }
            }
            if state >> 61 == 0 {
                pages[id].copy = None;
            } else {
                let log = (state >> 20) as usize % LOGS;
                pages[id].class = class_of_log(log);
                pages[id].last_event = clock.now();
                residents.put(PageId(id as u32), copy_of_log(log), &mut pages);
            }
            if clock.epoch() > 0 {
                let search = (0..PAGES).filter_map(|id| {
                    let page = &pages[id];
                    let (log, bin) =
                        (log_of(page.class, page.copy?), bin(clock.age(page.last_event)));
                    Some((worth(factor, log, bin) as usize, log, bin, page.last_event, id))
                });
                let least = search.min().map(|(worth, _, _, _, id)| Candidate {
                    page: PageId(id as u32),
                    worth: worth as f64,
                });
                assert_eq!(residents.cheapest(&pages), least, "event {}", clock.now());
            }
        }
    }
}
