//! The blocks that a process holds, by their address in the recording.

use std::collections::BTreeMap;

use super::history::PageExtent;

/// A block that the program holds.
#[derive(Clone, Debug)]
pub(super) struct Live {
    pub block: u32,
    pub is_mapped: bool,
    /// Address of the block divided by the page size.
    pub first_page: u64,
    pub pages: u32,
    /// Steps after which pages were untouched, and those pages. Later entries override earlier entries.
    openers: Vec<(u32, PageExtent)>,
    /// The parts of the block that are still mapped.
    rest: Vec<PageExtent>,
}

/// The parts of `extent` outside `common`, which lies within `extent`.
fn outside(extent: PageExtent, common: PageExtent) -> impl Iterator<Item = PageExtent> {
    let before = PageExtent { first: extent.first, pages: common.first - extent.first };
    let behind = PageExtent { first: common.end(), pages: extent.end() - common.end() };
    [before, behind].into_iter().filter(|part| part.pages > 0)
}

impl Live {
    /// A block that was given at `step`.
    pub fn new(block: u32, is_mapped: bool, first_page: u64, pages: u32, step: u32) -> Live {
        let whole = PageExtent { first: 0, pages };
        let (openers, rest) = (vec![(step, whole)], vec![whole]);
        Live { block, is_mapped, first_page, pages, openers, rest }
    }

    /// The part of the block in a range of pages of the address space.
    pub fn part(&self, first_page: u64, pages: u64) -> Option<PageExtent> {
        let first = first_page.max(self.first_page);
        let end = first_page.saturating_add(pages).min(self.first_page + u64::from(self.pages));
        (first < end).then(|| PageExtent {
            first: (first - self.first_page) as u32,
            pages: (end - first) as u32,
        })
    }

    /// Calls `add` for the touched pages of `extent`, with the step after which each part was touched.
    pub fn report(&self, extent: PageExtent, add: &mut impl FnMut(u32, PageExtent)) {
        let mut open = vec![extent];
        for &(step, opened) in self.openers.iter().rev() {
            let mut rest = Vec::new();
            for extent in open {
                let Some(common) = extent.common(opened) else {
                    rest.push(extent);
                    continue;
                };
                add(step, common);
                rest.extend(outside(extent, common));
            }
            open = rest;
            if open.is_empty() {
                return;
            }
        }
    }

    /// Marks the pages of `extent` as untouched from `step` on. Report the pages touched before first.
    pub fn reopen(&mut self, step: u32, extent: PageExtent) {
        self.openers.retain(|(_, opened)| opened.common(extent) != Some(*opened));
        self.openers.push((step, extent));
    }

    /// Removes an unmapped part; returns whether nothing is left.
    pub fn cut(&mut self, part: PageExtent) -> bool {
        let left = |extent: PageExtent| match extent.common(part) {
            None => vec![extent],
            Some(common) => outside(extent, common).collect(),
        };
        self.rest = self.rest.iter().flat_map(|&extent| left(extent)).collect();
        let openers = self.openers.iter();
        self.openers = openers
            .flat_map(|&(step, extent)| left(extent).into_iter().map(move |extent| (step, extent)))
            .collect();
        self.rest.is_empty()
    }

    /// Pages that a report may still name.
    pub fn whole(&self) -> PageExtent {
        PageExtent { first: 0, pages: self.pages }
    }
}

/// The blocks of a process. They do not overlap, except that two neighbors may share a page.
#[derive(Clone, Debug, Default)]
pub(super) struct Lives(BTreeMap<u64, Live>);

impl Lives {
    /// Adds a block; returns the block that began in the same page.
    pub fn insert(&mut self, live: Live) -> Option<Live> {
        self.0.insert(live.first_page, live)
    }

    /// Removes and returns the block that begins in this page.
    pub fn remove(&mut self, first_page: u64) -> Option<Live> {
        self.0.remove(&first_page)
    }

    /// The block that begins in this page.
    pub fn get(&self, first_page: u64) -> Option<&Live> {
        self.0.get(&first_page)
    }

    /// The block that begins in this page, mutable.
    pub fn get_mut(&mut self, first_page: u64) -> Option<&mut Live> {
        self.0.get_mut(&first_page)
    }

    /// First pages of the blocks that have pages in a range.
    pub fn overlapping(&self, first_page: u64, pages: u64) -> Vec<u64> {
        let before = self.0.range(..first_page).next_back();
        let within = self.0.range(first_page..first_page.saturating_add(pages));
        let found = before.into_iter().chain(within);
        found
            .filter(|(_, live)| live.part(first_page, pages).is_some())
            .map(|(&start, _)| start)
            .collect()
    }

    /// Removes all blocks and returns them ordered by address.
    pub fn take(&mut self) -> impl Iterator<Item = Live> + use<> {
        std::mem::take(&mut self.0).into_values()
    }
}
