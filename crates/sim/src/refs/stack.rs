//! The LRU stack of the pages of one size: those in the filter on top, in no known order, and
//! below them the others in the order in which they left it.

use super::{ByKind, Curve};
use crate::marks::Marks;
use types::ReferenceKind;

/// Positions per page below the filter: packing costs some accesses per page, so this makes it rare.
const POSITIONS_PER_PAGE: usize = 4;

/// Where a page is: never used, in the filter, or below it at a position of [`Marks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(u32);

impl Place {
    pub const NEVER: Place = Place(u32::MAX);
    /// In the filter with one half, or as a block.
    const HELD: Place = Place(POSITIONS_END);
    /// In the filter with both halves.
    const HELD_WHOLE: Place = Place(POSITIONS_END + 1);

    fn position(self) -> Option<u32> {
        (self.0 < POSITIONS_END).then_some(self.0)
    }
}

/// Positions lie below this.
const POSITIONS_END: u32 = 1 << 31;

/// Distinct pages of one size used between two references to the same page, as a histogram.
///
/// `pages` = `held` + `below`, and `below` is the number of marks.
pub struct PageStack {
    marks: Marks,
    /// Pages that left the filter.
    below: u32,
    /// Pages in the filter.
    held: u32,
    cold: ByKind,
    /// References by distance; of those that find their page below the filter.
    by_distance: Vec<ByKind>,
}

impl PageStack {
    pub fn new() -> PageStack {
        PageStack {
            marks: Marks::new(0),
            below: 0,
            held: 0,
            cold: ByKind::default(),
            by_distance: Vec::new(),
        }
    }

    /// A block of the page enters the filter; whether the page was outside.
    #[inline(always)]
    pub fn enter(&mut self, place: &mut Place, kind: ReferenceKind) -> bool {
        let before = std::mem::replace(place, Place::HELD);
        if let Some(position) = before.position() {
            let distance = self.held + self.below - self.marks.take(position);
            self.by_distance[distance as usize][kind as usize] += 1;
            self.below -= 1;
        } else if before == Place::NEVER {
            self.cold[kind as usize] += 1;
            self.by_distance.push(ByKind::default());
        } else {
            *place = Place::HELD_WHOLE;
            return false;
        }
        self.held += 1;
        true
    }

    /// A block of the page leaves the filter; whether the page is outside now, and was not before.
    /// There is room.
    #[inline(always)]
    pub fn leave(&mut self, place: &mut Place) -> bool {
        if *place == Place::HELD {
            *place = Place(self.marks.next());
            self.marks.append();
            self.below += 1;
            self.held -= 1;
            return true;
        }
        if *place == Place::HELD_WHOLE {
            *place = Place::HELD;
        }
        false
    }

    /// How many pages may leave the filter before `pack` is due.
    pub fn room(&self) -> usize {
        self.marks.free()
    }

    /// Gives the pages below the filter the positions 0, 1, ... in the same order.
    #[cold]
    pub fn pack<'a>(&mut self, places: impl Iterator<Item = &'a mut Place>) {
        for place in places {
            if let Some(position) = place.position() {
                *place = Place(self.marks.count_through(position) - 1);
            }
        }
        self.marks = Marks::new(self.by_distance.len().max(1) * POSITIONS_PER_PAGE);
        for _ in 0..self.below {
            self.marks.append();
        }
    }

    /// What was counted so far.
    pub fn curve(&self) -> Curve {
        Curve::new(self.cold, &self.by_distance)
    }
}
