//! A set-associative TLB behind the first one, which is fully associative and holds
//! `FILTER_BLOCKS` entries: it is asked exactly for what misses there.

use super::ByKind;
use crate::Error;
use types::ReferenceKind;

/// How many entries a TLB has, and how many share a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlbShape {
    entries: u32,
    ways: u32,
}

impl TlbShape {
    /// A TLB of `entries` in sets of `ways`.
    ///
    /// # Errors
    /// Entries that sets of so many do not come out at, or none.
    pub fn new(entries: u32, ways: u32) -> Result<TlbShape, Error> {
        if entries == 0 || !entries.is_multiple_of(ways) {
            let why = format!("a TLB of {entries} entries has no sets of {ways}");
            return Err(Error::usage(why));
        }
        Ok(TlbShape { entries, ways })
    }
}

/// The second level for pages of one size. A page belongs to the set of its number modulo the
/// number of sets; of a set, the page asked for longest ago makes room.
#[derive(Clone)]
pub struct SecondTlb {
    ways: usize,
    /// Set after set, the page asked for last in front.
    pages: Vec<u64>,
    misses: ByKind,
}

/// No page has this number: blocks are bytes divided by 512.
const NONE: u64 = u64::MAX;

impl SecondTlb {
    pub fn new(shape: TlbShape) -> SecondTlb {
        let pages = vec![NONE; shape.entries as usize];
        SecondTlb { ways: shape.ways as usize, pages, misses: ByKind::default() }
    }

    /// The first level misses `page`, which is in both from now on.
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

    /// What missed in both, by what the reference did.
    pub fn misses(&self) -> ByKind {
        self.misses
    }
}
