//! The lists of pages in memory that Linux's multi-generational LRU keeps for one memory group.
//!
//! Source: mm/vmscan.c, include/linux/mm_inline.h of Linux 6.12. It departs from the kernel in two ways: a walk of
//! page tables visits all of them (the kernel leaves out tables without recent uses), and refaults
//! count only in the first tier (pages used through file descriptors have others).

use std::collections::VecDeque;

/// Most generations of a kind of page.
const GENERATIONS_MAX: u64 = 4;
/// Generations that reclaim never takes from.
const GENERATIONS_MIN: u64 = 2;
/// Pages that reclaim isolates at once, and refaults below which file pages go first.
pub const BATCH_PAGES: u64 = 64;
/// The default of `vm.swappiness`.
const SWAPPINESS: u64 = 60;
const SWAPPINESS_MAX: u64 = 200;

/// Kinds of pages, each with lists of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Private memory without a file.
    Anonymous = 0,
    /// The page cache.
    File = 1,
}

impl Kind {
    /// The kind that is tried if this one has nothing to take.
    pub fn other(self) -> Kind {
        match self {
            Kind::Anonymous => Kind::File,
            Kind::File => Kind::Anonymous,
        }
    }
}

/// Whether the page tables must be walked before more pages can be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Take pages until about this many were scanned.
    Scan(u64),
    /// First find out which pages were used.
    Walk,
}

/// Folios by generation. `sizes` has the pages of folios of the generation that they belong to; the list that
/// holds a folio may be that of an older generation, until a scan meets it.
#[derive(Debug)]
pub struct Generations {
    newest: u64,
    oldest: [u64; 2],
    lists: [[VecDeque<u32>; GENERATIONS_MAX as usize]; 2],
    sizes: [[u64; GENERATIONS_MAX as usize]; 2],
    /// Since the oldest generation became the oldest, and a moving average.
    refaulted: [[u64; 2]; 2],
    evicted: [[u64; 2]; 2],
}

impl Default for Generations {
    fn default() -> Generations {
        Generations {
            newest: GENERATIONS_MIN + 1,
            oldest: [0; 2],
            lists: Default::default(),
            sizes: Default::default(),
            refaulted: Default::default(),
            evicted: Default::default(),
        }
    }
}

fn slot(generation: u64) -> usize {
    (generation % GENERATIONS_MAX) as usize
}

impl Generations {
    /// Pages by kind and generation.
    #[cfg(test)]
    pub fn sizes(&self) -> &[[u64; GENERATIONS_MAX as usize]; 2] {
        &self.sizes
    }

    /// The youngest generation.
    pub fn newest(&self) -> u64 {
        self.newest
    }

    /// The generation that reclaim takes from.
    pub fn oldest(&self, kind: Kind) -> u64 {
        self.oldest[kind as usize]
    }

    /// Adds a folio to the end of a generation that is taken last.
    pub fn add(&mut self, kind: Kind, generation: u64, folio: u32, pages: u64) {
        self.lists[kind as usize][slot(generation)].push_back(folio);
        self.sizes[kind as usize][slot(generation)] += pages;
    }

    /// Removes a folio of this generation from its list, wherever it is.
    pub fn unlist(&mut self, kind: Kind, generation: u64, folio: u32) {
        let lists = &mut self.lists[kind as usize];
        for from in 0..GENERATIONS_MAX {
            let list = &mut lists[slot(generation + from)];
            if let Some(place) = list.iter().position(|&other| other == folio) {
                list.remove(place);
                return;
            }
        }
    }

    /// Pages of a generation left memory.
    pub fn shrink(&mut self, kind: Kind, generation: u64, pages: u64) {
        self.sizes[kind as usize][slot(generation)] -= pages;
    }

    /// Moves the pages of a folio, which stays in its list until a scan meets it.
    pub fn promote(&mut self, kind: Kind, from: u64, to: u64, pages: u64) {
        self.sizes[kind as usize][slot(from)] -= pages;
        self.sizes[kind as usize][slot(to)] += pages;
    }

    /// The next folio of the oldest generation, which leaves its list.
    pub fn take(&mut self, kind: Kind) -> Option<u32> {
        self.lists[kind as usize][slot(self.oldest(kind))].pop_front()
    }

    /// Puts a folio without a list into that of its generation, to be taken last.
    pub fn sort(&mut self, kind: Kind, generation: u64, folio: u32) {
        self.lists[kind as usize][slot(generation)].push_back(folio);
    }

    /// Puts a folio without a list into that of its generation, to be taken next.
    pub fn sort_first(&mut self, kind: Kind, generation: u64, folio: u32) {
        self.lists[kind as usize][slot(generation)].push_front(folio);
    }

    /// Whether reclaim may take pages of a kind.
    pub fn is_open(&self, kind: Kind) -> bool {
        self.newest - self.oldest(kind) + 1 > GENERATIONS_MIN
    }

    /// How many pages to scan at a priority: 12 at first, 0 in need.
    pub fn next(&self, priority: u32, priority_max: u32) -> Next {
        let oldest = self.oldest(Kind::Anonymous);
        let is_default = priority == priority_max;
        let walk_or = |scanned| if is_default { Next::Scan(scanned) } else { Next::Walk };
        if oldest + GENERATIONS_MIN > self.newest {
            return walk_or(0);
        }
        let (mut total, mut young, mut old) = (0, 0, 0);
        for kind in [Kind::Anonymous, Kind::File] {
            for generation in self.oldest(kind)..=self.newest {
                let pages = self.sizes[kind as usize][slot(generation)];
                total += pages;
                if generation == self.newest {
                    young += pages;
                } else if generation + GENERATIONS_MIN == self.newest {
                    old += pages;
                }
            }
        }
        let scanned = total >> priority;
        let is_uneven = young * GENERATIONS_MIN > total || old * (GENERATIONS_MIN + 2) < total;
        if oldest + GENERATIONS_MIN < self.newest || !is_uneven {
            return Next::Scan(scanned);
        }
        walk_or(scanned)
    }

    /// The kind to take from: the one with the older generation or, if they are equal, files unless they come back
    /// more often than swappiness permits.
    pub fn kind_to_take(&self) -> Kind {
        if self.oldest(Kind::Anonymous) < self.oldest(Kind::File) {
            return Kind::Anonymous;
        }
        let of = |counts: &[[u64; 2]; 2], kind: Kind| counts[kind as usize].iter().sum::<u64>();
        let refaulted = of(&self.refaulted, Kind::File);
        let of_file = u128::from(refaulted)
            * u128::from(of(&self.evicted, Kind::Anonymous) + BATCH_PAGES)
            * u128::from(SWAPPINESS);
        let of_anonymous = u128::from(of(&self.refaulted, Kind::Anonymous) + 1)
            * u128::from(of(&self.evicted, Kind::File))
            * u128::from(SWAPPINESS_MAX - SWAPPINESS);
        if refaulted < BATCH_PAGES || of_file <= of_anonymous {
            Kind::File
        } else {
            Kind::Anonymous
        }
    }

    /// Pages left memory; returns a token for [`Generations::refault`].
    pub fn evict(&mut self, kind: Kind, pages: u64) -> u64 {
        self.evicted[kind as usize][0] += pages;
        self.oldest(kind)
    }

    /// A page came back. Returns whether that was while its generation was the oldest.
    pub fn refault(&mut self, kind: Kind, token: u64) -> bool {
        let is_recent = self.oldest(kind) == token;
        self.refaulted[kind as usize][0] += u64::from(is_recent);
        is_recent
    }

    /// Leaves out oldest generations that are empty; returns whether there were any.
    pub fn skip_empty(&mut self) -> bool {
        let before = self.oldest;
        let mut oldest = before;
        for kind in [Kind::Anonymous, Kind::File] {
            let oldest = &mut oldest[kind as usize];
            while *oldest + GENERATIONS_MIN <= self.newest
                && self.lists[kind as usize][slot(*oldest)].is_empty()
            {
                *oldest += 1;
            }
        }
        // Generations of files do not run ahead of those of anonymous pages.
        oldest[0] = oldest[0].min(oldest[1]);
        oldest[1] = before[1].max(oldest[0]);
        for kind in [Kind::Anonymous, Kind::File] {
            if oldest[kind as usize] > before[kind as usize] {
                self.carry_over(kind);
                self.oldest[kind as usize] = oldest[kind as usize];
            }
        }
        self.oldest != before
    }

    /// Starts a generation. Returns the folios for whose list there is no place any more, the oldest first.
    /// The caller puts them back with [`Generations::promote`] and [`Generations::sort_first`].
    pub fn start(&mut self) -> Vec<(Kind, u32)> {
        let mut moved = Vec::new();
        for kind in [Kind::Anonymous, Kind::File] {
            let oldest = self.oldest(kind);
            if self.newest - oldest + 1 == GENERATIONS_MAX {
                let folios = std::mem::take(&mut self.lists[kind as usize][slot(oldest)]);
                moved.extend(folios.into_iter().map(|folio| (kind, folio)));
                self.carry_over(kind);
                self.oldest[kind as usize] = oldest + 1;
            }
        }
        self.newest += 1;
        moved
    }

    fn carry_over(&mut self, kind: Kind) {
        for counts in [&mut self.refaulted[kind as usize], &mut self.evicted[kind as usize]] {
            *counts = [0, (counts[0] + counts[1]) / 2];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_used_again_leaves_first_and_files_before_private_memory() {
        let mut generations = Generations::default();
        generations.add(Kind::Anonymous, 3, 0, 10);
        generations.add(Kind::File, 3, 1, 10);
        assert_eq!(generations.take(Kind::File), None);
        assert!(generations.skip_empty());
        assert!(!generations.is_open(Kind::File));
        assert_eq!(generations.next(9, 12), Next::Walk);
        // Two walks later the third generation is old enough.
        for _ in 0..2 {
            assert_eq!(generations.start(), []);
        }
        generations.skip_empty();
        assert!(generations.is_open(Kind::File));
        assert_eq!(generations.next(0, 12), Next::Scan(20));
        assert_eq!(generations.kind_to_take(), Kind::File);
        assert_eq!(generations.take(Kind::File), Some(1));
        assert_eq!(generations.take(Kind::Anonymous), Some(0));
    }

    #[test]
    fn private_memory_leaves_first_if_files_come_back() {
        let mut generations = Generations::default();
        let token = generations.evict(Kind::File, 70);
        for _ in 0..BATCH_PAGES - 1 {
            generations.refault(Kind::File, token);
        }
        assert_eq!(generations.kind_to_take(), Kind::File);
        generations.evict(Kind::Anonymous, 200);
        generations.refault(Kind::File, token);
        assert_eq!(generations.kind_to_take(), Kind::Anonymous);
    }

    #[test]
    fn the_folios_of_a_fifth_generation_get_a_place_in_the_next() {
        let mut generations = Generations::default();
        for folio in 0..2 {
            generations.add(Kind::Anonymous, 3, folio, 1);
        }
        generations.skip_empty();
        for _ in 0..3 {
            assert_eq!(generations.start(), []);
        }
        assert_eq!(generations.start(), [(Kind::Anonymous, 0), (Kind::Anonymous, 1)]);
    }
}
