//! Whether fresh memory is worth mapping before its first touch. S3 maps all that a miss asks for,
//! which fills memory that is not used. Here a program that touched what it was given lately is taken
//! to touch what it is given next.

/// Fresh pages given lately, and how many of them the program touched.
///
/// touched <= given; both are halved once given reaches `REMEMBERED_PAGES`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Foresight {
    given: u64,
    touched: u64,
    awaited: Option<Stretch>,
    /// Freed stretches that were not looked at since the last that was.
    passed_over: u32,
}

/// Pages beside each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The driver's number of the first page.
    pub first: u32,
    /// How many.
    pub pages: u32,
}

/// Pages seen before anything is foreseen: 1 MiB.
const SEEN_PAGES_MIN: u64 = 256;
/// Pages seen before larger pieces are taken for worth it: 256 KiB.
const SEEN_BEFORE_PIECES: u64 = 64;
/// One page in this many of them may be left untouched.
const UNTOUCHED_ONE_IN: u64 = 4;
/// What was seen before this many pages hardly counts: 16 MiB.
const REMEMBERED_PAGES: u64 = 4096;
/// Of a program that leaves much untouched, one freed stretch in this many is looked at: it shows when that changes,
/// and a look is a system call.
const LOOKED_AT_ONE_IN: u32 = 8;
/// One page in this many may be left untouched, and as many are left to the program: they say whether
/// it still comes that far.
const LEFT_ONE_IN: u32 = 16;

impl Foresight {
    /// Has seen nothing yet.
    pub const fn new() -> Foresight {
        Foresight { given: 0, touched: 0, awaited: None, passed_over: 0 }
    }

    /// Of `left`, which was left to the program, it touched `touched` pages: it is freed now, or has
    /// been touched as foreseen.
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

    /// What was left of the pages mapped ahead last, unless it was observed since. Nothing more is
    /// mapped before: what is foreseen wrongly is the pages of one request.
    pub fn awaited(&self) -> Option<Stretch> {
        self.awaited
    }

    /// Pages are free: what was left among them can no longer be touched as foreseen.
    pub fn freed(&mut self, first: u32, pages: u32) {
        let end = first.saturating_add(pages);
        let is_among = |left: &Stretch| left.first < end && first < left.first + left.pages;
        self.awaited = self.awaited.filter(|left| !is_among(left));
    }

    /// Whether to look how much of a stretch that is freed now was touched.
    pub fn looks_back(&mut self) -> bool {
        let is_passed_over = self.leaves_much() && self.passed_over + 1 < LOOKED_AT_ONE_IN;
        self.passed_over = if is_passed_over { self.passed_over + 1 } else { 0 };
        !is_passed_over
    }

    /// Whether `touched` pages of a stretch are as good as all.
    pub fn is_touched(left: Stretch, touched: u32) -> bool {
        (left.pages - touched.min(left.pages)) * LEFT_ONE_IN <= left.pages
    }

    /// Whether the program is known to touch most of what it is given: where that is mapped in larger pieces
    /// than it asks for, hardly more is there than it touches.
    pub fn touches_most(&self) -> bool {
        self.given >= SEEN_BEFORE_PIECES && !self.leaves_much()
    }

    /// Whether the program is known to leave much of what it is given untouched.
    pub fn leaves_much(&self) -> bool {
        let untouched = self.given - self.touched;
        self.given >= SEEN_BEFORE_PIECES && untouched * UNTOUCHED_ONE_IN > self.given
    }

    /// How many of the pages of `fresh` to map now, from its first on.
    pub fn mapped_ahead(&self, fresh: Stretch) -> u32 {
        let untouched = self.given - self.touched;
        let is_rare = untouched * u64::from(LEFT_ONE_IN) > self.given;
        if self.given < SEEN_PAGES_MIN || is_rare || self.awaited.is_some() {
            return 0;
        }
        fresh.pages - fresh.pages.div_ceil(LEFT_ONE_IN)
    }

    /// The first `pages` pages of `fresh` were mapped; the rest is awaited.
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
    fn what_was_touched_whole_is_mapped_but_for_its_end() {
        let mut foresight = Foresight::new();
        foresight.observe(pages(255), 255);
        assert_eq!(foresight.mapped_ahead(pages(160)), 0, "too little was seen");
        foresight.observe(pages(1), 1);
        let ahead = |fresh| foresight.mapped_ahead(pages(fresh));
        assert_eq!([160, 161, 16, 1, 0].map(ahead), [150, 150, 15, 0, 0]);
    }

    #[test]
    fn pieces_are_worth_it_where_a_quarter_is_untouched_at_most() {
        let mut foresight = Foresight::new();
        assert!(!foresight.touches_most() && !foresight.leaves_much(), "nothing was seen");
        foresight.observe(pages(64), 48);
        assert!(foresight.touches_most());
        foresight.observe(pages(16), 0);
        assert!(!foresight.touches_most());
        foresight.observe(pages(64), 64);
        assert!(foresight.touches_most());
    }

    #[test]
    fn one_freed_stretch_in_eight_is_looked_at_where_much_is_untouched() {
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
        assert_eq!(foresight.awaited(), Some(left), "that was another");
        assert!(Foresight::is_touched(left, 10) && !Foresight::is_touched(left, 9));
        foresight.observe(left, 10);
        assert_eq!((foresight.awaited(), foresight.mapped_ahead(pages(160))), (None, 150));
        foresight.mapped(pages(160), 150);
        foresight.freed(1000, 150);
        foresight.freed(1160, 5);
        assert_eq!(foresight.awaited(), Some(left), "what is free lies around it");
        foresight.freed(900, 251);
        assert_eq!(foresight.awaited(), None);
    }

    #[test]
    fn a_program_that_changes_its_ways_is_believed() {
        let mut foresight = Foresight::new();
        (0..20).for_each(|_| foresight.observe(pages(4000), 4000));
        // The ends alone are seen now: a sixteenth of blocks of 4 MiB.
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
        fn what_is_rarely_touched_is_never_mapped(
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
