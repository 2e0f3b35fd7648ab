//! Whether fresh memory should be mapped before its first touch. S3 maps all that a miss asks for,
//! which fills memory that stays unused. Here a program that touched what it was recently given is
//! expected to touch what it is given next.

/// Fresh pages given recently, and the number of them that the program touched.
///
/// touched <= given; both are halved once given reaches `REMEMBERED_PAGES`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Foresight {
    given: u64,
    touched: u64,
    awaited: Option<Stretch>,
    /// Freed stretches skipped since the last one examined.
    passed_over: u32,
}

/// Adjacent pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The driver's number of the first page.
    pub first: u32,
    /// Number of pages.
    pub pages: u32,
}

/// Pages observed before anything is mapped ahead: 1 MiB.
const SEEN_PAGES_MIN: u64 = 256;
/// Pages observed before larger pieces count as worthwhile: 256 KiB.
const SEEN_BEFORE_PIECES: u64 = 64;
/// One page in this many of them may be left untouched.
const UNTOUCHED_ONE_IN: u64 = 4;
/// Window of the observations, in pages: older ones hardly count. 16 MiB.
const REMEMBERED_PAGES: u64 = 4096;
/// One freed stretch in this many is examined for a program that leaves much untouched: that detects
/// a change, and an examination is a system call.
const LOOKED_AT_ONE_IN: u32 = 8;
/// One page in this many may be left untouched, and as many stay unmapped: their touch shows whether
/// the program still comes that far.
const LEFT_ONE_IN: u32 = 16;

impl Foresight {
    /// Starts without observations.
    pub const fn new() -> Foresight {
        Foresight { given: 0, touched: 0, awaited: None, passed_over: 0 }
    }

    /// Records that the program touched `touched` of the pages of `left`, which was left unmapped: it is
    /// freed now, or was touched as expected.
    pub fn observe(&mut self, left: Stretch, touched: u32) {
        self.given += u64::from(left.pages);
        self.touched += u64::from(touched.min(left.pages));
        if self.given >= REMEMBERED_PAGES {
            (self.given, self.touched) = (self.given / 2, self.touched / 2);
        }
        if self.awaited == Some(left) {
            self.awaited = None;
        }
    }

    /// The unmapped rest of the pages last mapped ahead, unless it was observed since. No more is mapped
    /// ahead before that: a wrong expectation costs the pages of one request.
    pub fn awaited(&self) -> Option<Stretch> {
        self.awaited
    }

    /// Records freed pages: a rest among them can no longer be touched as expected.
    pub fn freed(&mut self, first: u32, pages: u32) {
        let end = first.saturating_add(pages);
        let is_among = |left: &Stretch| left.first < end && first < left.first + left.pages;
        self.awaited = self.awaited.filter(|left| !is_among(left));
    }

    /// Whether to examine how much of the stretch being freed was touched.
    pub fn looks_back(&mut self) -> bool {
        let is_passed_over = self.leaves_much() && self.passed_over + 1 < LOOKED_AT_ONE_IN;
        self.passed_over = if is_passed_over { self.passed_over + 1 } else { 0 };
        !is_passed_over
    }

    /// Whether `touched` pages of a stretch count as the whole stretch.
    pub fn is_touched(left: Stretch, touched: u32) -> bool {
        (left.pages - touched.min(left.pages)) * LEFT_ONE_IN <= left.pages
    }

    /// Whether the program touches most of what it is given: mapping it in larger pieces than requested
    /// then keeps hardly more pages than the program touches.
    pub fn touches_most(&self) -> bool {
        self.given >= SEEN_BEFORE_PIECES && !self.leaves_much()
    }

    /// Whether the program leaves much of what it is given untouched.
    pub fn leaves_much(&self) -> bool {
        let untouched = self.given - self.touched;
        self.given >= SEEN_BEFORE_PIECES && untouched * UNTOUCHED_ONE_IN > self.given
    }

    /// Number of pages of `fresh` to map now, from its first on.
    pub fn mapped_ahead(&self, fresh: Stretch) -> u32 {
        let untouched = self.given - self.touched;
        let is_rare = untouched * u64::from(LEFT_ONE_IN) > self.given;
        if self.given < SEEN_PAGES_MIN || is_rare || self.awaited.is_some() {
            return 0;
        }
        fresh.pages - fresh.pages.div_ceil(LEFT_ONE_IN)
    }

    /// Records that the first `pages` pages of `fresh` were mapped; the rest is awaited.
    pub fn mapped(&mut self, fresh: Stretch, pages: u32) {
        self.awaited = Some(Stretch { first: fresh.first + pages, pages: fresh.pages - pages });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pages(pages: u32) -> Stretch {
        Stretch { first: 1000, pages }
    }

    #[test]
    fn all_but_the_end_is_mapped_for_a_program_that_touches_all() {
        let mut foresight = Foresight::new();
        foresight.observe(pages(255), 255);
        assert_eq!(foresight.mapped_ahead(pages(160)), 0, "too few observations");
        foresight.observe(pages(1), 1);
        let ahead = |fresh| foresight.mapped_ahead(pages(fresh));
        assert_eq!([160, 161, 16, 1, 0].map(ahead), [150, 150, 15, 0, 0]);
    }

    #[test]
    fn pieces_are_worth_it_if_at_most_a_quarter_is_untouched() {
        let mut foresight = Foresight::new();
        assert!(!foresight.touches_most() && !foresight.leaves_much(), "no observations");
        foresight.observe(pages(64), 48);
        assert!(foresight.touches_most());
        foresight.observe(pages(16), 0);
        assert!(!foresight.touches_most());
        foresight.observe(pages(64), 64);
        assert!(foresight.touches_most());
    }

    #[test]
    fn one_freed_stretch_in_eight_is_examined_if_much_is_untouched() {
        let mut foresight = Foresight::new();
        foresight.observe(pages(64), 64);
        assert!((0..20).all(|_| foresight.looks_back()));
        foresight.observe(pages(64), 0);
        assert_eq!((0..24).filter(|_| foresight.looks_back()).count(), 3);
        foresight.observe(pages(1024), 1024);
        assert!(foresight.looks_back() && foresight.looks_back());
    }

    #[test]
    fn one_request_at_a_time_is_mapped_ahead() {
        let mut foresight = Foresight::new();
        foresight.observe(pages(1024), 1024);
        foresight.mapped(pages(160), 150);
        let left = Stretch { first: 1150, pages: 10 };
        assert_eq!((foresight.awaited(), foresight.mapped_ahead(pages(160))), (Some(left), 0));
        foresight.observe(pages(9), 9);
        assert_eq!(foresight.awaited(), Some(left), "that was another stretch");
        assert!(Foresight::is_touched(left, 10) && !Foresight::is_touched(left, 9));
        foresight.observe(left, 10);
        assert_eq!((foresight.awaited(), foresight.mapped_ahead(pages(160))), (None, 150));
        foresight.mapped(pages(160), 150);
        foresight.freed(1000, 150);
        foresight.freed(1160, 5);
        assert_eq!(foresight.awaited(), Some(left), "the freed pages lie around it");
        foresight.freed(900, 251);
        assert_eq!(foresight.awaited(), None);
    }

    #[test]
    fn a_change_in_the_program_is_detected() {
        let mut foresight = Foresight::new();
        (0..20).for_each(|_| foresight.observe(pages(4000), 4000));
        // Only the ends are observed now: a sixteenth of blocks of 4 MiB.
        let after = (1..).find(|_| {
            foresight.observe(pages(64), 0);
            foresight.mapped_ahead(pages(1024)) == 0
        });
        assert!(after.is_some_and(|blocks| blocks <= 4), "{after:?}");
        (0..400).for_each(|_| foresight.observe(pages(1024), 1024));
        assert_eq!(foresight.mapped_ahead(pages(1024)), 960);
    }

    proptest! {
        #[test]
        fn rarely_touched_memory_is_never_mapped_ahead(
            seen in prop::collection::vec((1..2000_u32, 0..90_u32), 1..50),
        ) {
            let mut foresight = Foresight::new();
            for &(given, percent) in &seen {
                foresight.observe(pages(given), given * percent / 100);
                prop_assert_eq!(foresight.mapped_ahead(pages(1000)), 0);
            }
        }
    }
}
