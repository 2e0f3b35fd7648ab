//! The pages of the fast tier, and a cheap one among them without looking at all.
//!
//! Values change with every event, so no order of the residents stays right. A pool remembers the
//! cheapest pages seen; each search values the pool anew and looks at a few residents at random. Over
//! a thousand searches that sees eight thousand pages, which finds pages about as cheap as the best.

use types::PageId;

/// Pages remembered as cheap.
const POOL: usize = 24;
/// Residents looked at per search beside the pool.
const DRAWS: usize = 8;
/// Seed of the draws; any odd number does.
const SEED: u64 = 0x9E37_79B9_7F4A_7C15;

const OUTSIDE: u32 = u32::MAX;

/// A page and what giving it up would lose, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub page: PageId,
    pub worth: f64,
}

/// Where a page is in the list of residents.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// `OUTSIDE` for pages that are not resident.
    index: u32,
    /// The slow tier has a valid copy too.
    is_clean: bool,
}

/// The residents in no particular order.
#[derive(Clone, Debug)]
pub(super) struct Candidates {
    residents: Vec<PageId>,
    places: Vec<Place>,
    pool: Vec<Candidate>,
    random: u64,
}

impl Default for Candidates {
    fn default() -> Candidates {
        Candidates { residents: Vec::new(), places: Vec::new(), pool: Vec::new(), random: SEED }
    }
}

impl Candidates {
    pub fn grow(&mut self, pages: usize) {
        if self.places.len() < pages {
            self.places.resize(pages, Place { index: OUTSIDE, is_clean: false });
        }
    }

    pub fn len(&self) -> u64 {
        self.residents.len() as u64
    }

    pub fn contains(&self, page: PageId) -> bool {
        self.places.get(page.index()).is_some_and(|place| place.index != OUTSIDE)
    }

    pub fn insert(&mut self, page: PageId, is_clean: bool) {
        self.places[page.index()] = Place { index: self.residents.len() as u32, is_clean };
        self.residents.push(page);
    }

    pub fn set_clean(&mut self, page: PageId, is_clean: bool) {
        self.places[page.index()].is_clean = is_clean;
    }

    pub fn remove(&mut self, page: PageId) {
        let index = std::mem::replace(&mut self.places[page.index()].index, OUTSIDE) as usize;
        self.residents.swap_remove(index);
        if let Some(moved) = self.residents.get(index) {
            self.places[moved.index()].index = index as u32;
        }
    }

    /// A resident worth little by `worth(page, is_clean)`; none if there is no resident.
    pub fn cheapest(&mut self, worth: impl Fn(PageId, bool) -> f64) -> Option<Candidate> {
        let places = &self.places;
        let worth = |page: PageId| worth(page, places[page.index()].is_clean);
        self.pool.retain(|candidate| places[candidate.page.index()].index != OUTSIDE);
        for candidate in &mut self.pool {
            candidate.worth = worth(candidate.page);
        }
        for _ in 0..DRAWS.min(self.residents.len()) {
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            let page = self.residents[(self.random >> 33) as usize % self.residents.len()];
            if self.pool.iter().all(|candidate| candidate.page != page) {
                keep_cheap(&mut self.pool, Candidate { page, worth: worth(page) });
            }
        }
        self.pool
            .iter()
            .copied()
            .reduce(|best, other| if other.worth < best.worth { other } else { best })
    }
}

/// Puts `candidate` into the pool, in place of the dearest if the pool is full and it is cheaper.
fn keep_cheap(pool: &mut Vec<Candidate>, candidate: Candidate) {
    if pool.len() < POOL {
        pool.push(candidate);
        return;
    }
    let dearest = (1..pool.len()).fold(0, |dearest, index| {
        if pool[index].worth > pool[dearest].worth { index } else { dearest }
    });
    if candidate.worth < pool[dearest].worth {
        pool[dearest] = candidate;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_searches_find_nearly_the_cheapest_of_many() {
        let mut candidates = Candidates::default();
        candidates.grow(10_000);
        for page in 0..10_000 {
            candidates.insert(PageId(page), page % 2 == 0);
        }
        let worth = |page: PageId, _is_clean: bool| f64::from(page.0);
        for _ in 0..2_000 {
            candidates.cheapest(worth);
        }
        let found = candidates.cheapest(worth).expect("there are residents");
        assert!(found.worth < 20.0, "{found:?}");
    }

    #[test]
    fn a_page_that_left_is_found_no_more() {
        let mut candidates = Candidates::default();
        candidates.grow(3);
        let worth =
            |page: PageId, is_clean: bool| f64::from(page.0) + if is_clean { 0.0 } else { 10.0 };
        assert!(candidates.cheapest(worth).is_none());
        for page in 0..3 {
            candidates.insert(PageId(page), true);
        }
        for _ in 0..20 {
            candidates.cheapest(worth);
        }
        candidates.set_clean(PageId(0), false);
        candidates.remove(PageId(1));
        assert_eq!(candidates.cheapest(worth).map(|found| found.page), Some(PageId(2)));
        assert!(!candidates.contains(PageId(1)) && candidates.contains(PageId(0)));
        assert_eq!(candidates.len(), 2);
    }
}
