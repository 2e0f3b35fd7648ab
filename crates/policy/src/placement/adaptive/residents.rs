//! The pages of the fast tier by the loss of giving them up, and the cheapest of them.
//!
//! The worth of a page depends on its class, its age bin and whether its copy is clean. Pages that
//! agree in those are worth the same, so the cheapest is found among some thousand cells instead of
//! all pages. Worths and ages change only between epochs; within an epoch pages leave and join.

use super::ages::BINS;
use super::class::{CLASSES, Class};
use super::groups::{GROUPS, Groups, Merge};
use super::page::{Copy, Page};
use crate::lists::Lists;
use types::PageId;

/// Kinds of residents: dirty and clean ones of each class.
const KINDS: usize = 2 * CLASSES;
/// Kinds compared at once.
const LANES: usize = 8;
const _: () = assert!(KINDS.is_multiple_of(LANES));
/// Kinds that one step of the beginning of an epoch treats.
const KINDS_AT_ONCE: usize = 8;
const _: () = assert!(KINDS.is_multiple_of(KINDS_AT_ONCE));

/// How far the merges at the beginning of an epoch are: the next groups by rank, and their next kind.
#[derive(Clone, Copy, Debug, Default)]
struct Merging {
    rank: usize,
    kind: usize,
}

/// A page and the loss of giving it up, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Evictable {
    pub page: PageId,
    pub worth: f64,
}

/// The residents, one list per kind and group of ages, each in the order in which its pages reached
/// that kind.
///
/// Invariant: a list that is not empty has its bit in `occupied[kind]`, by the rank of its group.
/// `cheapest_ranks[kind]` is the cheapest of the bits, and `cheapest_worths[kind]` the worth of its
/// pages, infinite if there is none; `least` is the first kind whose cheapest is the cheapest of all.
#[derive(Clone, Debug)]
pub(super) struct Residents {
    groups: Groups,
    lists: Lists,
    occupied: [u64; KINDS],
    worths: Box<[[f64; BINS]; KINDS]>,
    cheapest_ranks: [usize; KINDS],
    cheapest_worths: [f64; KINDS],
    least: usize,
    merging: Merging,
}

impl Default for Residents {
    fn default() -> Residents {
        Residents {
            groups: Groups::new(),
            lists: Lists::new(KINDS * GROUPS),
            occupied: [0; KINDS],
            worths: Box::new([[0.0; BINS]; KINDS]),
            cheapest_ranks: [0; KINDS],
            cheapest_worths: [f64::INFINITY; KINDS],
            least: 0,
            merging: Merging::default(),
        }
    }
}

impl Residents {
    /// Makes room for pages below `pages`.
    pub fn grow(&mut self, pages: usize) {
        self.lists.grow(pages);
    }

    /// Prefetches what is kept about a page that is used soon.
    #[inline(always)]
    pub fn prefetch(&self, page: PageId) {
        self.lists.prefetch(page);
    }

    /// Adds `page`, whose class was just decided and which must not be a resident.
    #[inline]
    pub fn insert(&mut self, id: PageId, copy: Copy, page: &mut Page) {
        page.copy = Some(copy);
        let kind = kind_of(page.class, copy);
        self.lists.push(list_of(kind, self.groups.slot(0)), id);
        self.occupied[kind] |= 1;
        let worth = self.worths[kind][0];
        if worth <= self.cheapest_worths[kind] {
            (self.cheapest_ranks[kind], self.cheapest_worths[kind]) = (0, worth);
            let least = self.cheapest_worths[self.least];
            if worth < least || worth == least && kind < self.least {
                self.least = kind;
            }
        }
    }

    /// Removes `page` from the residents. Returns its kind of copy if it was one.
    #[inline]
    pub fn remove(&mut self, id: PageId, page: &mut Page) -> Option<Copy> {
        let copy = page.copy.take();
        if copy.is_some() {
            self.lists.remove(id);
        }
        copy
    }

    /// Begins an epoch: all residents are an epoch older. Then the steps of `merge_step` and
    /// `set_worths` must follow, each a bounded piece of work; residents may come and go between them.
    pub fn begin_epoch(&mut self) {
        self.groups.begin_epoch();
        self.occupied.iter_mut().for_each(|ranks| *ranks <<= 1);
        self.cheapest_ranks.iter_mut().for_each(|rank| *rank += 1);
        self.merging = Merging::default();
    }

    /// Merges a part of two groups of ages that fit into one age bin, if there are such; returns whether
    /// there were. Visits at most `3 * KINDS_AT_ONCE` pages.
    pub fn merge_step(&mut self) -> bool {
        let Some(merge) = self.groups.next_merge(self.merging.rank) else { return false };
        let first = self.merging.kind;
        for kind in first..first + KINDS_AT_ONCE {
            self.lists.prepend(list_of(kind, merge.into), list_of(kind, merge.from));
            let older = 2 << merge.rank;
            let is_occupied = self.occupied[kind] & older != 0;
            self.occupied[kind] =
                self.occupied[kind] & !older | u64::from(is_occupied) << merge.rank;
            if self.cheapest_ranks[kind] == merge.rank + 1 {
                self.cheapest_ranks[kind] = merge.rank;
            }
        }
        self.merging.kind += KINDS_AT_ONCE;
        if self.merging.kind == KINDS {
            self.close_gap(merge);
            self.merging = Merging { rank: merge.rank + 1, kind: 0 };
        }
        true
    }

    /// Removes the older of two merged groups, which is empty, from the order.
    fn close_gap(&mut self, merge: Merge) {
        self.groups.merge(merge);
        for (ranks, cheapest) in self.occupied.iter_mut().zip(&mut self.cheapest_ranks) {
            let younger = *ranks & ((2 << merge.rank) - 1);
            *ranks = younger | (*ranks & !younger) >> 1;
            *cheapest -= usize::from(*cheapest > merge.rank);
        }
    }

    /// Sets the worth of residents by class, copy and age bin, for `KINDS_AT_ONCE` kinds from `first`
    /// on, and finds the cheapest of them. Returns the next kind; none after the last.
    pub fn set_worths(
        &mut self,
        first: usize,
        worth: impl Fn(Class, Copy, usize) -> f64,
    ) -> Option<usize> {
        for kind in first..first + KINDS_AT_ONCE {
            let (class, copy) = (class_of_kind(kind), copy_of_kind(kind));
            self.worths[kind] = std::array::from_fn(|bin| worth(class, copy, bin));
            self.find_cheapest(kind);
        }
        self.find_least();
        Some(first + KINDS_AT_ONCE).filter(|next| *next < KINDS)
    }

    /// The resident of the least worth; among equals the one of the lowest class, then the dirty one,
    /// then the one of the youngest group, then the oldest in that group.
    pub fn cheapest(&mut self) -> Option<Evictable> {
        loop {
            let kind = self.least;
            let worth = self.cheapest_worths[kind];
            if worth == f64::INFINITY {
                return None;
            }
            let rank = self.cheapest_ranks[kind];
            if let Some(page) = self.lists.first(list_of(kind, self.groups.slot(rank))) {
                return Some(Evictable { page, worth });
            }
            self.occupied[kind] &= !(1 << rank);
            self.find_cheapest(kind);
            self.find_least();
        }
    }

    fn find_cheapest(&mut self, kind: usize) {
        let mut ranks = self.occupied[kind];
        let (mut cheapest_rank, mut cheapest_worth) = (0, f64::INFINITY);
        while ranks != 0 {
            let rank = ranks.trailing_zeros() as usize;
            let worth = self.worths[kind][self.groups.bin(rank)];
            if worth < cheapest_worth {
                (cheapest_rank, cheapest_worth) = (rank, worth);
            }
            ranks &= ranks - 1;
        }
        (self.cheapest_ranks[kind], self.cheapest_worths[kind]) = (cheapest_rank, cheapest_worth);
    }

    fn find_least(&mut self) {
        // In independent lanes; a branchy search for the first minimum would be mispredicted.
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
fn kind_of(class: Class, copy: Copy) -> usize {
    2 * class.index() + usize::from(copy == Copy::Clean)
}

fn class_of_kind(kind: usize) -> Class {
    Class::of(kind / 2)
}

fn copy_of_kind(kind: usize) -> Copy {
    if kind.is_multiple_of(2) { Copy::Dirty } else { Copy::Clean }
}

#[inline(always)]
fn list_of(kind: usize, slot: usize) -> usize {
    kind * GROUPS + slot
}

#[cfg(test)]
mod tests {
    use super::super::ages::Clock;
    use super::*;

    /// Ages and widths of the groups, computed directly from the rule.
    fn age_all(groups: &mut Vec<(u32, u32)>) {
        use super::super::ages::{bin, bin_width};
        groups.iter_mut().for_each(|group| group.0 += 1);
        groups.insert(0, (0, 1));
        let mut rank = 0;
        while rank + 1 < groups.len() {
            let width = groups[rank].1 + groups[rank + 1].1;
            if width <= bin_width(bin(groups[rank].0)) {
                groups.remove(rank + 1);
                groups[rank].1 = width;
            }
            rank += 1;
        }
    }

    #[test]
    fn the_cheapest_resident_equals_that_of_a_full_search() {
        use super::super::ages::bin;
        const PAGES: usize = 200;
        let mut clock = Clock::new(0);
        let mut residents = Residents::default();
        residents.grow(PAGES);
        let mut pages = [Page::UNKNOWN; PAGES];
        let mut groups = vec![(0, 1)];
        let mut factor = 1;
        let worth =
            |factor: usize, kind: usize, bin: usize| ((kind * 7 + bin) * factor % 31) as f64;
        let mut state = 3u64;
        for _ in 0..40_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let id = (state >> 33) as usize % PAGES;
            // One event, or as many as an epoch has.
            for _ in 0..if state.is_multiple_of(50) { clock.epoch_events() } else { 1 } {
                if clock.tick() {
                    factor = 1 + (state >> 40) as usize % 30;
                    let worth = |class, copy, bin| worth(factor, kind_of(class, copy), bin);
                    residents.begin_epoch();
                    while residents.merge_step() {}
                    let mut kinds = Some(0);
                    while let Some(first) = kinds {
                        kinds = residents.set_worths(first, worth);
                    }
                    age_all(&mut groups);
                }
            }
            residents.remove(PageId(id as u32), &mut pages[id]);
            if state >> 61 != 0 {
                let kind = (state >> 20) as usize % KINDS;
                pages[id].class = class_of_kind(kind);
                pages[id].last_event = clock.now();
                residents.insert(PageId(id as u32), copy_of_kind(kind), &mut pages[id]);
            }
            if clock.epoch() > 0 {
                let search = (0..PAGES).filter_map(|id| {
                    let page = &pages[id];
                    let kind = kind_of(page.class, page.copy?);
                    let age = clock.age(page.last_event);
                    let rank = groups.iter().rposition(|group| group.0 <= age)?;
                    let bin = bin(groups[rank].0 + groups[rank].1 / 2);
                    Some((worth(factor, kind, bin) as usize, kind, rank, page.last_event, id))
                });
                let least = search.min().map(|(worth, _, _, _, id)| Evictable {
                    page: PageId(id as u32),
                    worth: worth as f64,
                });
                assert_eq!(residents.cheapest(), least, "event {}", clock.now());
            }
        }
    }

    /// Most nodes of pages that one event touches when `count` residents change class at random; each
    /// event also does a step of the beginning of an epoch, if any is left.
    fn most_touched(count: usize) -> u64 {
        let mut residents = Residents::default();
        residents.grow(count);
        let mut pages = vec![Page::UNKNOWN; count];
        let (mut most, mut state) = (0, 3u64);
        for event in 0..600_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let before = residents.lists.touched.get();
            if event % 512 == 0 {
                residents.begin_epoch();
            } else {
                residents.merge_step();
            }
            let id = (state >> 33) as usize % count;
            residents.remove(PageId(id as u32), &mut pages[id]);
            let kind = (state >> 20) as usize % KINDS;
            pages[id].class = class_of_kind(kind);
            residents.insert(PageId(id as u32), copy_of_kind(kind), &mut pages[id]);
            assert!(residents.cheapest().is_some());
            most = residents.lists.touched.get().max(before + most) - before;
        }
        most
    }

    #[test]
    fn an_event_touches_few_pages_of_any_number() {
        // A list that joins another counts its own two ends, and twice the end that it joins.
        let bound = 4 * KINDS_AT_ONCE as u64 + 8;
        for count in [1_000, 300_000] {
            let most = most_touched(count);
            assert!(most <= bound, "{count} pages: {most}");
        }
    }
}
