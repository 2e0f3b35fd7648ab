//! A set-associative TLB behind the first one, which is fully associative and holds
//! `FILTER_BLOCKS` entries: it sees exactly the misses of the first.

use super::ByKind;
use crate::Error;
use types::ReferenceKind;

/// Number of entries of a TLB, and entries per set.
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
}

/// The second level for pages of one size. A page belongs to the set of its number modulo the
/// number of sets; within a set the least recently used page makes room.
#[derive(Clone)]
pub struct SecondTlb {
    ways: usize,
    /// The sets in order, each with its last used page in front.
    pages: Vec<u64>,
    misses: ByKind,
}

/// No page has this number: blocks are bytes divided by 512.
const NONE: u64 = u64::MAX;

impl SecondTlb {
    pub fn new(geometry: TlbGeometry) -> SecondTlb {
        let pages = vec![NONE; geometry.entries as usize];
        SecondTlb { ways: geometry.ways as usize, pages, misses: ByKind::default() }
    }

    /// Looks up `page`, which misses the first level; both levels hold it from now on.
    pub fn look_up(&mut self, page: u64, kind: ReferenceKind) {
        let sets = self.pages.len() / self.ways;
        let set = (page % sets as u64) as usize;
        let set = &mut self.pages[set * self.ways..][..self.ways];
        let place = set.iter().position(|&other| other == page).unwrap_or_else(|| {
            self.misses[kind as usize] += 1;
            self.ways - 1
        });
        set[..=place].rotate_right(1);
        set[0] = page;
    }

    /// Misses of both levels, by kind of reference.
    pub fn misses(&self) -> ByKind {
        self.misses
    }
}
