//! Which freed ranges are worth keeping: those that the program touched at least half of. A program that
//! touches little of its blocks would pay for keeping, and for clearing at the next use, more than it
//! saves. The kernel's pool follows these rules (`kernel/patches`); the preload library clears only
//! pages that were touched, so it needs no such rule.

/// Freed ranges of a size that pass without a look, after a sparse one. A look is a walk of page tables.
const PASSES: u8 = 7;
/// A range is sparse if more than one part in this many of its pages was not touched.
const UNTOUCHED_ONE_IN: u32 = 2;
/// Sizes differ by powers of two.
const SIZES: usize = u32::BITS as usize;

/// For each size, the number of freed ranges that still pass without a look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Admission {
    passes: [u8; SIZES],
}

impl Admission {
    /// Starts by looking at ranges of every size.
    pub const fn new() -> Admission {
        Admission { passes: [0; SIZES] }
    }

    /// Whether to examine how much of a freed range of `pages` pages was touched. If not, the range is
    /// not kept.
    pub fn looks(&mut self, pages: u32) -> bool {
        let Some(passes) = self.passes_of(pages) else { return false };
        let is_passed = *passes > 0;
        *passes = passes.saturating_sub(1);
        !is_passed
    }

    /// Whether to keep an examined range, of which the program touched `touched` pages since it got it.
    pub fn keeps(&mut self, pages: u32, touched: u32) -> bool {
        let is_sparse = pages.saturating_sub(touched) > pages / UNTOUCHED_ONE_IN;
        if let Some(passes) = self.passes_of(pages).filter(|_| is_sparse) {
            *passes = PASSES;
        }
        !is_sparse
    }

    /// None for a range without pages.
    fn passes_of(&mut self, pages: u32) -> Option<&mut u8> {
        self.passes.get_mut(pages.checked_ilog2()? as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_a_range_is_enough() {
        let mut admission = Admission::new();
        assert!(admission.keeps(16, 8) && admission.keeps(17, 9) && admission.keeps(1, 1));
        assert!(!admission.keeps(16, 7) && !admission.keeps(17, 8) && !admission.keeps(1, 0));
    }

    #[test]
    fn one_range_in_eight_of_a_size_is_examined_after_a_sparse_one() {
        let mut admission = Admission::new();
        assert!((0..20).all(|_| admission.looks(40) && admission.keeps(40, 20)));
        let looks = |admission: &mut Admission, pages| {
            (0..24).filter(|_| admission.looks(pages) && !admission.keeps(pages, 1)).count()
        };
        assert_eq!(looks(&mut admission, 40), 3);
        assert_eq!(looks(&mut admission, 63), 3, "the same size");
        assert!(admission.looks(64) && admission.looks(31), "other sizes");
    }

    #[test]
    fn a_range_without_pages_is_never_kept() {
        let mut admission = Admission::new();
        assert!(!admission.looks(0));
    }
}
