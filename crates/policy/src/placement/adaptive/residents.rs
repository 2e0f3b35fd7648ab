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
/// Invariant: `cheapest[log]` is the cheapest of the bins that the log calls occupied, and `least` the
/// first log whose cheapest is the cheapest of all.
#[derive(Clone, Debug)]
pub(super) struct Residents {
    logs: Vec<AgeLog>,
    worths: Vec<[f64; BINS]>,
    cheapest: [Cell; LOGS],
    least: usize,
}

impl Default for Residents {
    fn default() -> Residents {
        Residents {
            logs: (0..LOGS).map(|log| AgeLog::of(class_of_log(log), copy_of_log(log))).collect(),
            worths: vec![[0.0; BINS]; LOGS],
            cheapest: [NOWHERE; LOGS],
            least: 0,
        }
    }
}

impl Residents {
    /// `page`, whose class was just decided, becomes a resident, or changes as one.
    #[inline]
    pub fn put(&mut self, id: PageId, copy: Copy, pages: &mut [Page]) {
        let page = &mut pages[id.index()];
        page.copy = Some(copy);
        let log = log_of(page.class, copy);
        self.logs[log].push(id, pages);
        let worth = self.worths[log][0];
        if worth <= self.cheapest[log].worth {
            self.cheapest[log] = Cell { worth, bin: 0 };
            let least = self.cheapest[self.least].worth;
            if worth < least || worth == least && log < self.least {
                self.least = log;
            }
        }
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
            let Cell { worth, bin } = self.cheapest[log];
            if worth == f64::INFINITY {
                return None;
            }
            if let Some(page) = self.logs[log].oldest(bin, pages) {
                return Some(Candidate { page, worth });
            }
            self.find_cheapest(log);
            self.find_least();
        }
    }

    fn find_cheapest(&mut self, log: usize) {
        let mut bits = self.logs[log].occupied();
        let mut cheapest = NOWHERE;
        while bits != 0 {
            let bin = bits.trailing_zeros() as usize;
            let worth = self.worths[log][bin];
            if worth < cheapest.worth {
                cheapest = Cell { worth, bin };
            }
            bits &= bits - 1;
        }
        self.cheapest[log] = cheapest;
    }

    fn find_least(&mut self) {
        let mut least = 0;
        for log in 1..LOGS {
            if self.cheapest[log].worth < self.cheapest[least].worth {
                least = log;
            }
        }
        self.least = least;
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
