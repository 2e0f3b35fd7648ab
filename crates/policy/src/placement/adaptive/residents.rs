//! The pages of the fast tier by what giving them up would lose, and the cheapest of them.
//!
//! What a page is worth depends on its class, its age bin and whether its copy is clean, so pages that
//! agree in those are worth the same, and the cheapest is found among some thousand cells rather than
//! among all pages. Worths and ages change at revaluations only; in between pages leave and join.

use super::ages::{AgeLog, BINS, Entry, EventNumber};
use super::history::{CLASSES, Class};
use types::PageId;

/// Logs of residents: dirty and clean ones of each class.
const LOGS: usize = 2 * CLASSES;
/// Birth of pages that are not resident.
const OUTSIDE: EventNumber = 0;

/// What the copy in the fast tier is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Copy {
    /// The fast tier holds the only copy.
    Dirty,
    /// Both tiers hold one.
    Clean,
}

/// A page and what giving it up would lose, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    pub page: PageId,
    pub worth: f64,
}

/// A cell that may hold the cheapest page of a log.
#[derive(Clone, Copy, Debug)]
struct Cell {
    worth: f64,
    bin: usize,
}

const NOWHERE: Cell = Cell { worth: f64::INFINITY, bin: 0 };

/// The residents.
///
/// Invariant: `cheapest[log]` is the cheapest of the bins that the log calls occupied.
#[derive(Clone, Debug)]
pub(super) struct Residents {
    births: Vec<EventNumber>,
    /// Log of each resident.
    log_of: Vec<u8>,
    logs: Vec<AgeLog>,
    worths: Vec<f64>,
    cheapest: [Cell; LOGS],
}

impl Default for Residents {
    fn default() -> Residents {
        Residents {
            births: Vec::new(),
            log_of: Vec::new(),
            logs: vec![AgeLog::default(); LOGS],
            worths: vec![0.0; LOGS * BINS],
            cheapest: [NOWHERE; LOGS],
        }
    }
}

impl Residents {
    pub fn grow(&mut self, pages: usize) {
        if self.births.len() < pages {
            self.births.resize(pages, OUTSIDE);
            self.log_of.resize(pages, 0);
        }
    }

    /// Reads what is kept about pages that are about to be named.
    #[inline(always)]
    pub fn read_ahead(&self, pages: &[PageId]) {
        let read = pages.iter().fold(0, |read, page| {
            read | self.births[page.index()] | u32::from(self.log_of[page.index()])
        });
        std::hint::black_box(read);
    }

    /// How valid the copies of `page`, a resident, are.
    #[inline(always)]
    pub fn copy(&self, page: PageId) -> Copy {
        copy_of_log(usize::from(self.log_of[page.index()]))
    }

    /// The class of `page`, a resident.
    pub fn class(&self, page: PageId) -> Class {
        Class::of(usize::from(self.log_of[page.index()]) / 2)
    }

    /// `page` becomes a resident, or changes as one: its age starts again.
    #[inline]
    pub fn put(&mut self, page: PageId, class: Class, copy: Copy, now: EventNumber) {
        let log = 2 * class.index() + usize::from(copy == Copy::Clean);
        self.births[page.index()] = now;
        self.log_of[page.index()] = log as u8;
        let births = &self.births;
        self.logs[log].push(Entry { page, born: now }, |entry| is_live(births, entry));
        let worth = self.worths[log * BINS];
        if worth <= self.cheapest[log].worth {
            self.cheapest[log] = Cell { worth, bin: 0 };
        }
    }

    /// `page` is no resident any more, if it was one.
    #[inline]
    pub fn remove(&mut self, page: PageId) {
        self.births[page.index()] = OUTSIDE;
    }

    /// Sets what residents are worth by class, copy and age bin. `age` must follow.
    pub fn set_worths(&mut self, worth: impl Fn(Class, Copy, usize) -> f64) {
        for log in 0..LOGS {
            let copy = copy_of_log(log);
            for bin in 0..BINS {
                self.worths[log * BINS + bin] = worth(Class::of(log / 2), copy, bin);
            }
        }
    }

    /// All residents are as old as they are `now`.
    pub fn age(&mut self, now: EventNumber) {
        for log in 0..LOGS {
            self.logs[log].age(now, |_, _| ());
            self.find_cheapest(log);
        }
    }

    /// The resident that is worth least; of several the one of the lowest class, the dirty one, the one
    /// of the youngest bin, and the oldest in that.
    pub fn cheapest(&mut self) -> Option<Candidate> {
        loop {
            let first = (0, self.cheapest[0]);
            let (log, Cell { worth, bin }) =
                (1..LOGS).map(|log| (log, self.cheapest[log])).fold(first, |least, other| {
                    if other.1.worth < least.1.worth { other } else { least }
                });
            if worth == f64::INFINITY {
                return None;
            }
            let births = &self.births;
            if let Some(page) = self.logs[log].oldest(bin, |entry| is_live(births, entry)) {
                return Some(Candidate { page, worth });
            }
            self.find_cheapest(log);
        }
    }

    fn find_cheapest(&mut self, log: usize) {
        let mut bits = self.logs[log].occupied();
        let mut cheapest = NOWHERE;
        while bits != 0 {
            let bin = bits.trailing_zeros() as usize;
            let worth = self.worths[log * BINS + bin];
            if worth < cheapest.worth {
                cheapest = Cell { worth, bin };
            }
            bits &= bits - 1;
        }
        self.cheapest[log] = cheapest;
    }
}

fn copy_of_log(log: usize) -> Copy {
    if log.is_multiple_of(2) { Copy::Dirty } else { Copy::Clean }
}

#[inline(always)]
fn is_live(births: &[EventNumber], entry: Entry) -> bool {
    births[entry.page.index()] == entry.born
}

#[cfg(test)]
mod tests {
    use super::super::ages::bin;
    use super::*;

    #[test]
    fn the_cheapest_is_what_a_search_through_all_finds() {
        const PAGES: usize = 200;
        let mut residents = Residents::default();
        residents.grow(PAGES);
        let mut expected: Vec<Option<(usize, EventNumber)>> = vec![None; PAGES];
        let mut factor = 1;
        let mut aged = 0;
        let worth = |factor: usize, log: usize, bin: usize| ((log * 7 + bin) * factor % 31) as f64;
        let mut state = 3u64;
        for now in 1..40_000u32 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let page = (state >> 33) as usize % PAGES;
            if state >> 61 == 0 {
                residents.remove(PageId(page as u32));
                expected[page] = None;
            } else {
                let log = (state >> 20) as usize % LOGS;
                let copy = copy_of_log(log);
                residents.put(PageId(page as u32), Class::of(log / 2), copy, now);
                assert_eq!(residents.copy(PageId(page as u32)), copy);
                expected[page] = Some((log, now));
            }
            if state.is_multiple_of(50) {
                (factor, aged) = (1 + (state >> 40) as usize % 30, now);
                residents.set_worths(|class, copy, bin| {
                    worth(factor, 2 * class.index() + usize::from(copy == Copy::Clean), bin)
                });
                residents.age(now);
            }
            if aged > 0 {
                let search = (0..PAGES).filter_map(|page| {
                    let (log, born) = expected[page]?;
                    let bin = bin(aged.saturating_sub(born));
                    Some((worth(factor, log, bin) as usize, log, bin, born, page))
                });
                let least = search.min().map(|(worth, _, _, _, page)| Candidate {
                    page: PageId(page as u32),
                    worth: worth as f64,
                });
                assert_eq!(residents.cheapest(), least, "event {now}");
            }
        }
    }
}
