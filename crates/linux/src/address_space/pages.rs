//! Pages of an address space.

/// Pages from `first` up to but without `end`, as numbers: address divided by the size of a base page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PageRange {
    /// The first page.
    pub first: u64,
    /// The page after the last.
    pub end: u64,
}

impl PageRange {
    /// Pages from `first` up to but without `end`.
    pub fn new(first: u64, end: u64) -> PageRange {
        PageRange { first, end }
    }

    /// The number of pages.
    pub fn pages(self) -> u64 {
        self.end.saturating_sub(self.first)
    }
}

/// The anonymous pages of an address space that have content, each list in order and without overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnonymousPages {
    /// Pages that are in swap as the process sees it: the next access is a fault, even if a prefetch has read the page.
    pub swapped: Vec<PageRange>,
    /// Pages that are mapped, and so in memory.
    pub resident: Vec<PageRange>,
}
