//! The blocks that a process holds, by their address in the recording.

use std::collections::BTreeMap;

use super::history::PageRun;

/// A block that the program holds.
#[derive(Clone, Debug)]
pub(super) struct Live {
    pub block: u32,
    pub is_mapped: bool,
    /// Address of the block divided by the page size.
    pub first_page: u64,
    pub pages: u32,
    /// Steps after which pages were untouched, and those pages. Later entries override earlier entries.
    openers: Vec<(u32, PageRun)>,
    /// The parts of the block that are still mapped.
    rest: Vec<PageRun>,
}

/// The parts of `run` outside `common`, which lies within `run`.
fn outside(run: PageRun, common: PageRun) -> impl Iterator<Item = PageRun> {
    let before = PageRun { first: run.first, pages: common.first - run.first };
    let behind = PageRun { first: common.end(), pages: run.end() - common.end() };
    [before, behind].into_iter().filter(|part| part.pages > 0)
}

impl Live {
    /// A block that was given at `step`.
    pub fn new(block: u32, is_mapped: bool, first_page: u64, pages: u32, step: u32) -> Live {
        let whole = PageRun { first: 0, pages };
        let (openers, rest) = (vec![(step, whole)], vec![whole]);
        Live { block, is_mapped, first_page, pages, openers, rest }
    }

    /// The part of the block in a range of pages of the address space.
    pub fn part(&self, first_page: u64, pages: u64) -> Option<PageRun> {
        let first = first_page.max(self.first_page);
        let end = first_page.saturating_add(pages).min(self.first_page + u64::from(self.pages));
        (first < end).then(|| PageRun {
            first: (first - self.first_page) as u32,
            pages: (end - first) as u32,
        })
    }

    /// Calls `add` for the touched pages of `run`, with the step after which each part was touched.
    pub fn report(&self, run: PageRun, add: &mut impl FnMut(u32, PageRun)) {
        let mut open = vec![run];
        for &(step, opened) in self.openers.iter().rev() {
            let mut rest = Vec::new();
            for run in open {
                let Some(common) = run.common(opened) else {
                    rest.push(run);
                    continue;
                };
                add(step, common);
                rest.extend(outside(run, common));
            }
            open = rest;
            if open.is_empty() {
                return;
            }
        }
    }

    /// Marks the pages of `run` as untouched from `step` on. Report the pages touched before first.
    pub fn reopen(&mut self, step: u32, run: PageRun) {
        self.openers.retain(|(_, opened)| opened.common(run) != Some(*opened));
        self.openers.push((step, run));
    }

    /// Removes an unmapped part; returns whether nothing is left.
    pub fn cut(&mut self, part: PageRun) -> bool {
        let left = |run: PageRun| match run.common(part) {
            None => vec![run],
            Some(common) => outside(run, common).collect(),
        };
        self.rest = self.rest.iter().flat_map(|&run| left(run)).collect();
        let openers = self.openers.iter();
        self.openers = openers
            .flat_map(|&(step, run)| left(run).into_iter().map(move |run| (step, run)))
            .collect();
        self.rest.is_empty()
    }

    /// Pages that a report may still name.
    pub fn whole(&self) -> PageRun {
        PageRun { first: 0, pages: self.pages }
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
