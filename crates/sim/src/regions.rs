//! A stretch of pages that one owner uses, and the part of them that one visit touches.

use types::random::Stream;

/// Pages that are used together are in runs of this many: 85 % of the pages a visit swaps in have
/// a neighbour that is swapped in too (an earlier measurement; docs/studies/predict.md has ours).
pub(crate) const RUN_PAGES: u32 = 8;
pub(crate) const MIB_PAGES: u32 = 256;

/// Part of a region that one visit uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    /// Share of the pages, in percent.
    pub(crate) used_percent: u32,
    /// Share of the used pages that every visit uses, in percent.
    pub(crate) core_percent: u32,
}

/// Adjacent pages of one kind.
#[derive(Debug)]
pub(crate) struct Region {
    pub(crate) first: u32,
    pub(crate) runs: u32,
    /// For each run, whether every visit uses it.
    is_core: Vec<bool>,
}

impl Region {
    /// The region of `pages` pages from `first` on; `layout` draws which of its runs are core.
    pub(crate) fn new(first: u32, pages: u32, usage: Usage, layout: &mut Stream) -> Region {
        let runs = pages / RUN_PAGES;
        // Of the `used_percent` of runs per visit, `core_percent` are the same every time.
        let core = usage.used_percent * usage.core_percent;
        let is_core = (0..runs).map(|_| layout.below(10_000) < core).collect();
        Region { first, runs, is_core }
    }

    /// The runs one visit uses: the core, and as many others at random as make `core_percent` of the
    /// used runs core.
    pub(crate) fn used_runs(&self, usage: Usage, stream: &mut Stream) -> Vec<u32> {
        let mut chosen: Vec<u32> =
            (0..self.runs).filter(|&run| self.is_core[run as usize]).collect();
        let others = chosen.len() as u32 * (100 - usage.core_percent) / usage.core_percent;
        chosen.extend((0..others).map(|_| stream.below(self.runs)));
        chosen.sort_unstable();
        chosen.dedup();
        chosen
    }

    /// The pages of a run.
    pub(crate) fn pages(&self, run: u32) -> std::ops::Range<u32> {
        let first = self.first + run * RUN_PAGES;
        first..first + RUN_PAGES
    }
}
