//! How far the placement is behind the simplest one, and what return it therefore asks of spending.
//!
//! `priority`, which fills the tier once and moves nothing, runs beside as a shadow: a bit per page,
//! no data. Moving a page spends time now for reads saved later, and where the forecast is wrong that is
//! regret. The nearer the regret comes to a credit, the more must be expected per nanosecond spent; there
//! is a limit to that, because only spending can win back what was lost. The idea is that of combining a
//! forecast with a rule that needs none: Antoniadis et al., "Online metric algorithms with untrusted
//! predictions", ICML 2020; the credit and the return are ours.

use super::valuation::Latencies;
use crate::page_set::PageSet;
use crate::placement::Tier;
use types::PageId;

/// Regret is counted from this share below the shadow's cost, and may reach the same share above it, as
/// far as it has to do with that cost; the rest of the credit is what filling the tier once takes.
const MARGIN: f64 = 0.03;
/// The most that must be expected per nanosecond spent.
const RETURN_MAX: f64 = 3.0;

/// Page operations of both tiers.
#[derive(Clone, Copy, Debug, Default)]
struct Operations {
    slow_reads: u64,
    slow_writes: u64,
    fast_reads: u64,
    fast_writes: u64,
}

impl Operations {
    fn cost(&self, latencies: &Latencies) -> f64 {
        self.slow_reads as f64 * latencies.slow_read
            + self.slow_writes as f64 * latencies.slow_write
            + self.fast_reads as f64 * latencies.fast_read
            + self.fast_writes as f64 * latencies.fast_write
    }

    fn read(&mut self, from: Tier) {
        match from {
            Tier::Fast => self.fast_reads += 1,
            Tier::Slow => self.slow_reads += 1,
        }
    }

    fn written(&mut self, to: Tier) {
        match to {
            Tier::Fast => self.fast_writes += 1,
            Tier::Slow => self.slow_writes += 1,
        }
    }
}

/// What the placement did so far, and what the shadow would have done.
///
/// Invariant: the shadow's tier holds `capacity - shadow_free` pages, those of `shadow_fast`.
#[derive(Clone, Debug)]
pub(super) struct Regret {
    capacity: u64,
    latencies: Latencies,
    own: Operations,
    /// Pages whose only copy was dropped while they were in memory. Each counts as written to the slow
    /// tier until a page-out takes that back.
    owed: PageSet,
    shadow: Operations,
    shadow_fast: PageSet,
    shadow_free: u64,
    asked_return: f64,
}

impl Regret {
    pub fn new(capacity: u64, latencies: Latencies) -> Regret {
        Regret {
            capacity,
            latencies,
            own: Operations::default(),
            owed: PageSet::default(),
            shadow: Operations::default(),
            shadow_fast: PageSet::default(),
            shadow_free: capacity,
            asked_return: 0.0,
        }
    }

    pub fn grow(&mut self, pages: usize) {
        self.owed.grow(pages);
        self.shadow_fast.grow(pages);
    }

    /// What must be expected, beyond the spending itself, per nanosecond spent.
    #[inline(always)]
    pub fn asked_return(&self) -> f64 {
        self.asked_return
    }

    /// Sets the return to ask by what both did so far.
    pub fn settle(&mut self) {
        let simplest = self.shadow.cost(&self.latencies);
        let regret = self.own.cost(&self.latencies) - (1.0 - MARGIN) * simplest;
        let credit = self.capacity as f64 * self.latencies.fast_write + MARGIN * simplest;
        let left = credit - regret;
        self.asked_return = if regret <= 0.0 {
            0.0
        } else if regret < RETURN_MAX * left {
            regret / left
        } else {
            RETURN_MAX
        };
    }

    /// A modified page leaves memory and is written to `tier`.
    #[inline]
    pub fn written(&mut self, page: PageId, tier: Tier) {
        self.own.written(tier);
        self.own.slow_writes -= u64::from(self.owed.remove(page));
        let mut shadow_tier = Tier::Fast;
        if !self.shadow_fast.contains(page) {
            if self.shadow_free > 0 {
                self.shadow_free -= 1;
                self.shadow_fast.insert(page);
            } else {
                shadow_tier = Tier::Slow;
            }
        }
        self.shadow.written(shadow_tier);
    }

    /// A page is read from `tier`.
    #[inline]
    pub fn read(&mut self, page: PageId, tier: Tier) {
        self.own.read(tier);
        self.owed.remove(page);
        let is_fast = self.shadow_fast.contains(page);
        self.shadow.read(if is_fast { Tier::Fast } else { Tier::Slow });
    }

    /// A page that was just read from the slow tier is copied to the fast one.
    pub fn filled(&mut self) {
        self.own.fast_writes += 1;
    }

    /// A page's only copy leaves the fast tier: for the slow one, or for nowhere.
    pub fn given_up(&mut self, page: PageId, is_dropped: bool) {
        self.own.slow_writes += 1;
        if is_dropped {
            self.owed.insert(page);
        }
    }

    /// A page ceases to exist.
    pub fn dropped(&mut self, page: PageId) {
        self.owed.remove(page);
        self.shadow_free += u64::from(self.shadow_fast.remove(page));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATENCIES: Latencies =
        Latencies { slow_read: 90.0, slow_write: 40.0, fast_read: 4.0, fast_write: 5.0 };
    const FRAMES: u64 = 10;

    fn after_page_outs(count: u32, tier: Tier) -> Regret {
        let mut regret = Regret::new(FRAMES, LATENCIES);
        regret.grow(count as usize);
        (0..count).for_each(|page| regret.written(PageId(page), tier));
        regret.settle();
        regret
    }

    #[test]
    fn who_does_what_the_shadow_does_is_asked_for_little() {
        // Neither is ahead: the regret is the margin, of a credit of a tier's filling more.
        let regret = after_page_outs(FRAMES as u32, Tier::Fast);
        assert_eq!(regret.shadow.fast_writes, FRAMES);
        let (margin, filling) = (0.03 * 50.0, 50.0);
        assert!((regret.asked_return() - margin / filling).abs() < 1e-9);
    }

    #[test]
    fn who_is_ahead_may_spend_and_who_is_behind_is_asked_for_the_most() {
        let mut ahead = after_page_outs(FRAMES as u32 + 10, Tier::Fast);
        ahead.settle();
        assert_eq!(ahead.shadow.slow_writes, 10);
        assert_eq!(ahead.asked_return(), 0.0);
        let behind = after_page_outs(FRAMES as u32, Tier::Slow);
        assert_eq!(behind.asked_return(), RETURN_MAX);
    }

    #[test]
    fn a_late_write_is_owed_until_a_page_out() {
        let mut regret = after_page_outs(2, Tier::Fast);
        regret.given_up(PageId(0), true);
        regret.given_up(PageId(1), true);
        assert_eq!(regret.own.slow_writes, 2);
        regret.written(PageId(0), Tier::Fast);
        regret.read(PageId(1), Tier::Slow);
        regret.written(PageId(1), Tier::Fast);
        assert_eq!(regret.own.slow_writes, 1);
    }

    #[test]
    fn pages_that_end_leave_their_frames_to_others() {
        let mut regret = after_page_outs(FRAMES as u32, Tier::Fast);
        regret.grow(FRAMES as usize + 2);
        regret.dropped(PageId(3));
        regret.written(PageId(FRAMES as u32), Tier::Fast);
        regret.written(PageId(FRAMES as u32 + 1), Tier::Fast);
        assert_eq!((regret.shadow.fast_writes, regret.shadow.slow_writes), (FRAMES + 1, 1));
    }
}
