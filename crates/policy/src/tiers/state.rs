//! Which tiers hold a valid copy of a page.

/// State of one page, as a set of bits.
///
/// Invariant: `FAST` exactly if the page has a frame in the fast tier; such a frame always holds a
/// valid copy. A page with neither `FAST` nor `SLOW` exists only in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct PageState(u8);

impl PageState {
    /// A request named the page since it came into being.
    pub const KNOWN: PageState = PageState(1);
    /// The fast tier holds a valid copy.
    pub const FAST: PageState = PageState(2);
    /// The slow tier holds a valid copy.
    pub const SLOW: PageState = PageState(4);
    /// The page was read into memory and has not left it since, as far as the requests show.
    pub const IN_MEMORY: PageState = PageState(8);

    /// Whether every bit of `other` is set.
    #[inline(always)]
    pub fn has(self, other: PageState) -> bool {
        self.0 & other.0 == other.0
    }

    /// With the bits of `other` set.
    #[inline(always)]
    #[must_use]
    pub fn with(self, other: PageState) -> PageState {
        PageState(self.0 | other.0)
    }

    /// With the bits of `other` clear.
    #[inline(always)]
    #[must_use]
    pub fn without(self, other: PageState) -> PageState {
        PageState(self.0 & !other.0)
    }

    /// Whether any tier holds a valid copy.
    #[inline(always)]
    pub fn has_copy(self) -> bool {
        self.0 & (Self::FAST.0 | Self::SLOW.0) != 0
    }
}
