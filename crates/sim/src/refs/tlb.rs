//! TLBs of a given geometry, which are counted beside the stack distances.
//!
//! A set of a first TLB holds the pages that were used last among those of the set: the pages in
//! the filter, whose order is unknown, and below them the pages that left it, in the order of their
//! last use. So whether a page misses when it enters the filter is known exactly. While the filter
//! holds more pages of a set than the set has ways, references to them may miss as well, and the
//! trace does not have these: the count is then a lower bound.

use super::ByKind;
use crate::Error;
use types::ReferenceKind;

/// Number of entries of a TLB, and entries per set. A page belongs to the set of its number modulo the number
/// of sets; within a set the least recently used page makes room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlbGeometry {
    entries: u32,
    ways: u32,
}

impl TlbGeometry {
    /// A TLB of `entries` in sets of `ways`.
    ///
    /// # Errors
    /// Zero entries, or a number that is not a multiple of the set size.
    pub fn new(entries: u32, ways: u32) -> Result<TlbGeometry, Error> {
        if entries == 0 || !entries.is_multiple_of(ways) {
            let why = format!("a TLB of {entries} entries has no sets of {ways}");
            return Err(Error::usage(why));
        }
        Ok(TlbGeometry { entries, ways })
    }

    /// A TLB of one set.
    ///
    /// # Errors
    /// Zero entries.
    pub fn fully_associative(entries: u32) -> Result<TlbGeometry, Error> {
        TlbGeometry::new(entries, entries)
    }

    fn sets(self) -> u32 {
        self.entries / self.ways
    }

    fn set_of(self, page: u64) -> usize {
        (page % u64::from(self.sets())) as usize
    }
}

/// Misses of a TLB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlbMisses {
    /// Misses by kind of reference.
    pub misses: ByKind,
    /// Whether every miss was counted; otherwise the count is a lower bound.
    pub is_exact: bool,
}

/// No page has this number: blocks are bytes divided by 512.
const NONE: u64 = u64::MAX;

/// A first TLB for pages of one size. A TLB of several sets keeps for each the number of its pages in the
/// filter, and `ways` pages below the filter, the last used in front.
#[derive(Clone)]
pub struct FirstTlb {
    geometry: TlbGeometry,
    held: Vec<u32>,
    below: Vec<u64>,
    /// The set of the page that entered last.
    entered: usize,
    counted: TlbMisses,
}

impl FirstTlb {
    pub fn new(geometry: TlbGeometry) -> FirstTlb {
        let is_divided = geometry.sets() > 1;
        FirstTlb {
            geometry,
            held: if is_divided { vec![0; geometry.sets() as usize] } else { Vec::new() },
            below: if is_divided { vec![NONE; geometry.entries as usize] } else { Vec::new() },
            entered: 0,
            counted: TlbMisses { misses: ByKind::default(), is_exact: true },
        }
    }

    /// Looks up `page`, which enters the filter, at its distance in the stack (`u32::MAX` for a new page).
    /// Returns whether the page misses.
    #[inline(always)]
    pub fn enter(&mut self, page: u64, kind: ReferenceKind, distance: u32) -> bool {
        let is_miss = if self.held.is_empty() {
            distance >= self.geometry.entries
        } else {
            self.enter_set(page)
        };
        self.counted.misses[kind as usize] += u64::from(is_miss);
        is_miss
    }

    /// Whether the page misses in its set.
    fn enter_set(&mut self, page: u64) -> bool {
        let (set, ways) = (self.geometry.set_of(page), self.geometry.ways as usize);
        let held = &mut self.held[set];
        let below = &mut self.below[set * ways..][..ways];
        let place = below.iter().position(|&other| other == page);
        let is_miss = place.is_none_or(|place| *held as usize + place >= ways);
        if let Some(place) = place {
            below[place..].rotate_left(1);
            below[ways - 1] = NONE;
        }
        *held += 1;
        self.entered = set;
        is_miss
    }

    /// Ends a step in which a page entered: from now on references to pages in the filter are hidden. `held` is
    /// the number of these pages.
    pub fn settle(&mut self, held: u32) {
        let held = self.held.get(self.entered).map_or(held, |&held| held);
        self.counted.is_exact &= held <= self.geometry.ways;
    }

    /// Handles `page`, which leaves the filter.
    #[inline(always)]
    pub fn leave(&mut self, page: u64) {
        if self.held.is_empty() {
            return;
        }
        let (set, ways) = (self.geometry.set_of(page), self.geometry.ways as usize);
        self.held[set] -= 1;
        let below = &mut self.below[set * ways..][..ways];
        below.rotate_right(1);
        below[0] = page;
    }

    /// Misses so far.
    pub fn misses(&self) -> TlbMisses {
        self.counted
    }
}

/// A TLB behind the first one, for pages of one size: it sees the misses of the first.
#[derive(Clone)]
pub struct SecondTlb {
    geometry: TlbGeometry,
    /// The sets in order, each with its last used page in front.
    pages: Vec<u64>,
    misses: ByKind,
}

impl SecondTlb {
    pub fn new(geometry: TlbGeometry) -> SecondTlb {
        let pages = vec![NONE; geometry.entries as usize];
        SecondTlb { geometry, pages, misses: ByKind::default() }
    }

    /// Looks up `page`, which misses the first level; both levels hold it from now on.
    pub fn look_up(&mut self, page: u64, kind: ReferenceKind) {
        let (set, ways) = (self.geometry.set_of(page), self.geometry.ways as usize);
        let set = &mut self.pages[set * ways..][..ways];
        let place = set.iter().position(|&other| other == page).unwrap_or_else(|| {
            self.misses[kind as usize] += 1;
            ways - 1
        });
        set[..=place].rotate_right(1);
        set[0] = page;
    }

    /// Misses of both levels, by kind of reference.
    pub fn misses(&self) -> ByKind {
        self.misses
    }
}
