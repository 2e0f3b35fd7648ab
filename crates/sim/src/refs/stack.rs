//! The LRU stack of the pages of one size: the pages in the filter on top, in no known order, and
//! below them the others in the order in which they left it.

use super::tlb::{FirstTlb, SecondTlb, TlbMisses};
use super::{ByKind, Curve, Tlbs};
use crate::marks::Marks;
use types::ReferenceKind;

/// Positions per page below the filter: packing costs some accesses per page, so a large number makes it rare.
const POSITIONS_PER_PAGE: usize = 4;

/// Upper bound of positions.
const POSITIONS_END: u32 = 1 << 31;

/// Where a page is: never used, below the filter at a position of [`Marks`], or in the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place(u32);

impl Place {
    const NEVER: Place = Place(u32::MAX);
    /// In the filter with one half, or as a block; the bits below add to it.
    const HELD: Place = Place(POSITIONS_END);
    /// In the filter with both halves.
    const WHOLE: u32 = 1;
    /// One of its blocks was written in the filter, and left.
    const WRITTEN: u32 = 2;

    fn position(self) -> Option<u32> {
        (self.0 < POSITIONS_END).then_some(self.0)
    }

    fn is_held(self) -> bool {
        self.0 >= POSITIONS_END && self != Place::NEVER
    }
}

/// State of one page.
#[derive(Clone, Copy)]
pub struct Page {
    place: Place,
    /// Memories of at least this many frames hold it dirty, if they hold it: those that have held it
    /// since it was last written (Thompson and Smith, ACM TOCS 1989, call this its dirty level).
    dirty_from: u32,
}

impl Page {
    /// A page that was never used.
    pub const NEVER: Page = Page { place: Place::NEVER, dirty_from: u32::MAX };
}

/// Distinct pages of one size used between two references to the same page, as a histogram.
///
/// Invariant: `pages` = `held` + `below`, and `below` is the number of marks.
pub struct PageStack {
    marks: Marks,
    /// Number of pages that left the filter.
    below: u32,
    /// Number of pages in the filter.
    held: u32,
    cold: ByKind,
    /// References by distance, for those that find their page below the filter.
    by_distance: Vec<ByKind>,
    /// For each number of frames, evictions of dirty pages in addition to those with one frame less.
    write_backs: Vec<i64>,
    first_tlbs: Vec<FirstTlb>,
    /// TLBs behind the first of `first_tlbs`.
    second_tlbs: Vec<SecondTlb>,
}

impl PageStack {
    /// No pages yet, and empty TLBs.
    pub fn new(tlbs: &Tlbs) -> PageStack {
        PageStack {
            marks: Marks::new(0),
            below: 0,
            held: 0,
            cold: ByKind::default(),
            by_distance: Vec::new(),
            write_backs: vec![0],
            first_tlbs: tlbs.first.iter().copied().map(FirstTlb::new).collect(),
            second_tlbs: tlbs.second.iter().copied().map(SecondTlb::new).collect(),
        }
    }

    /// Handles a block of the numbered page that enters the filter; returns whether the page was outside.
    #[inline(always)]
    pub fn enter(&mut self, page: &mut Page, number: u64, kind: ReferenceKind) -> bool {
        let distance = if let Some(position) = page.place.position() {
            let distance = self.held + self.below - self.marks.take(position);
            self.by_distance[distance as usize][kind as usize] += 1;
            self.below -= 1;
            if page.dirty_from <= distance {
                self.write_backs[page.dirty_from as usize] += 1;
                self.write_backs[distance as usize + 1] -= 1;
                page.dirty_from = distance + 1;
            }
            distance
        } else if page.place == Place::NEVER {
            self.cold[kind as usize] += 1;
            self.by_distance.push(ByKind::default());
            self.write_backs.push(0);
            u32::MAX
        } else {
            page.place.0 |= Place::WHOLE;
            return false;
        };
        page.place = Place::HELD;
        self.held += 1;
        self.look_up(number, kind, distance);
        true
    }

    /// Handles a block of the numbered page that leaves the filter, or the half of it that is in. Returns whether the
    /// page left with it. `is_written` says whether the part that leaves was written, and is set to whether
    /// the page was. There must be room.
    #[inline(always)]
    pub fn leave(&mut self, page: &mut Page, number: u64, is_written: &mut bool) -> bool {
        if !page.place.is_held() {
            return false;
        }
        page.place.0 |= if *is_written { Place::WRITTEN } else { 0 };
        if page.place.0 & Place::WHOLE != 0 {
            page.place.0 &= !Place::WHOLE;
            return false;
        }
        *is_written = page.place.0 & Place::WRITTEN != 0;
        if *is_written {
            page.dirty_from = 0;
        }
        page.place = Place(self.marks.next());
        self.marks.append();
        self.below += 1;
        self.held -= 1;
        self.first_tlbs.iter_mut().for_each(|tlb| tlb.leave(number));
        true
    }

    #[inline(always)]
    fn look_up(&mut self, page: u64, kind: ReferenceKind, distance: u32) {
        for (rank, tlb) in self.first_tlbs.iter_mut().enumerate() {
            if tlb.enter(page, kind, distance) && rank == 0 {
                self.second_tlbs.iter_mut().for_each(|tlb| tlb.look_up(page, kind));
            }
        }
    }

    /// Ends a step in which a page entered.
    #[inline(always)]
    pub fn settle(&mut self) {
        self.first_tlbs.iter_mut().for_each(|tlb| tlb.settle(self.held));
    }

    /// Number of pages that may leave the filter before `pack` is due.
    pub fn room(&self) -> usize {
        self.marks.free()
    }

    /// Gives the pages below the filter the positions 0, 1, ... in the same order.
    #[cold]
    pub fn pack<'a>(&mut self, pages: impl Iterator<Item = &'a mut Page>) {
        for page in pages {
            if let Some(position) = page.place.position() {
                page.place = Place(self.marks.count_through(position) - 1);
            }
        }
        self.marks = Marks::new(self.by_distance.len().max(1) * POSITIONS_PER_PAGE);
        for _ in 0..self.below {
            self.marks.append();
        }
    }

    /// Misses of each first TLB.
    pub fn first_tlb_misses(&self) -> impl Iterator<Item = TlbMisses> {
        self.first_tlbs.iter().map(FirstTlb::misses)
    }

    /// Misses of the first of the first TLBs and of each second one.
    pub fn second_tlb_misses(&self) -> impl Iterator<Item = ByKind> {
        self.second_tlbs.iter().map(SecondTlb::misses)
    }

    /// The counts so far; `pages` are those of this size.
    pub fn curve<'a>(&self, pages: impl Iterator<Item = &'a Page>) -> Curve {
        let mut write_backs = self.write_backs.clone();
        for page in pages {
            let Some(position) = page.place.position() else { continue };
            let distance = self.held + self.below - self.marks.count_through(position);
            // Memories that have evicted the page since its last use.
            if page.dirty_from <= distance {
                write_backs[page.dirty_from as usize] += 1;
                write_backs[distance as usize + 1] -= 1;
            }
        }
        Curve::new(self.cold, &self.by_distance, &write_backs)
    }
}
