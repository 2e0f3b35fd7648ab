//! How far the placement is behind the simplest one, and the return it therefore demands on spending.
//!
//! `priority`, which fills the tier once and moves nothing, is replayed as a shadow: a bit per page,
//! no data. Moving a page spends time now to save reads later; where the forecast is wrong that is
//! regret. The nearer the regret comes to a credit, the larger the demanded return per nanosecond spent.
//! The return is limited, because only spending can win back what was lost. The idea is that of combining a
//! forecast with a rule that needs none: Antoniadis et al., "Online metric algorithms with untrusted
//! predictions", ICML 2020; the credit and the return are ours.

use super::valuation::Latencies;
use crate::placement::Tier;

/// Regret is counted from this share below the shadow's cost, and its credit reaches the same share
/// above it; the rest of the credit is the cost of filling the tier once.
const MARGIN: f64 = 0.03;
/// Largest demanded return per nanosecond spent.
const RETURN_MAX: f64 = 3.0;

/// Counts of page operations on both tiers.
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

/// State of a page in the shadow and in the late-write count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shadow {
    /// Whether the shadow holds it in its fast tier.
    pub is_fast: bool,
    /// Whether the only copy of the page was dropped while the page was in memory: it counts as written
    /// to the slow tier until a page-out takes that back.
    pub is_owed: bool,
}

/// Operations of the placement so far, and those that the shadow would have done.
///
/// Invariant: `capacity - shadow_free` pages are in the shadow's fast tier. `shadow_free` is negative after the
/// capacity fell below them; the shadow moves nothing, so it keeps these pages.
#[derive(Clone, Debug)]
pub(super) struct RegretMeter {
    capacity: u64,
    latencies: Latencies,
    own: Operations,
    shadow: Operations,
    shadow_free: i64,
    asked_return: f64,
}

impl RegretMeter {
    pub fn new(capacity: u64, latencies: Latencies) -> RegretMeter {
        RegretMeter {
            capacity,
            latencies,
            own: Operations::default(),
            shadow: Operations::default(),
            shadow_free: capacity as i64,
            asked_return: 0.0,
        }
    }

    /// Expected gain demanded per nanosecond spent, beyond the spending itself.
    #[inline(always)]
    pub fn asked_return(&self) -> f64 {
        self.asked_return
    }

    /// Gives both this many frames.
    pub fn set_capacity(&mut self, capacity: u64) {
        self.shadow_free += capacity as i64 - self.capacity as i64;
        self.capacity = capacity;
    }

    /// Sets the demanded return from the operations of both so far.
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

    /// Records that a modified page leaves memory and is written to `tier`.
    #[inline(always)]
    pub fn written(&mut self, page: &mut Shadow, tier: Tier) {
        self.own.written(tier);
        self.own.slow_writes -= u64::from(page.is_owed);
        page.is_owed = false;
        if !page.is_fast && self.shadow_free > 0 {
            self.shadow_free -= 1;
            page.is_fast = true;
        }
        self.shadow.written(if page.is_fast { Tier::Fast } else { Tier::Slow });
    }

    /// Records a read of a page from `tier`.
    #[inline(always)]
    pub fn read(&mut self, page: &mut Shadow, tier: Tier) {
        self.own.read(tier);
        page.is_owed = false;
        self.shadow.read(if page.is_fast { Tier::Fast } else { Tier::Slow });
    }

    /// Records that a page just read from the slow tier is copied to the fast one.
    pub fn filled(&mut self) {
        self.own.fast_writes += 1;
    }

    /// Records that a page's only copy leaves the fast tier, for the slow tier or dropped.
    pub fn given_up(&mut self, page: &mut Shadow, is_dropped: bool) {
        self.own.slow_writes += 1;
        page.is_owed |= is_dropped;
    }

    /// Records that a page ceases to exist.
    pub fn dropped(&mut self, page: &Shadow) {
        self.shadow_free += i64::from(page.is_fast);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATENCIES: Latencies =
        Latencies { slow_read: 90.0, slow_write: 40.0, fast_read: 4.0, fast_write: 5.0 };
    const FRAMES: u64 = 10;

    /// The regret after `count` pages are each paged out once to `tier`, and those pages.
    fn after_page_outs(count: usize, tier: Tier) -> (RegretMeter, Vec<Shadow>) {
        let mut regret = RegretMeter::new(FRAMES, LATENCIES);
        let mut pages = vec![Shadow::default(); count];
        pages.iter_mut().for_each(|page| regret.written(page, tier));
        regret.settle();
        (regret, pages)
    }

    #[test]
    fn a_placement_that_equals_the_shadow_is_asked_for_a_small_return() {
        // Neither is ahead: the regret equals the margin, and the credit is larger by a tier's filling.
        let (regret, _) = after_page_outs(FRAMES as usize, Tier::Fast);
        assert_eq!(regret.shadow.fast_writes, FRAMES);
        let (margin, filling) = (0.03 * 50.0, 50.0);
        assert!((regret.asked_return() - margin / filling).abs() < 1e-9);
    }

    #[test]
    fn a_placement_ahead_may_spend_and_one_behind_is_asked_for_the_largest_return() {
        let (ahead, _) = after_page_outs(FRAMES as usize + 10, Tier::Fast);
        assert_eq!(ahead.shadow.slow_writes, 10);
        assert_eq!(ahead.asked_return(), 0.0);
        let (behind, _) = after_page_outs(FRAMES as usize, Tier::Slow);
        assert_eq!(behind.asked_return(), RETURN_MAX);
    }

    #[test]
    fn a_late_write_is_owed_until_a_page_out() {
        let (mut regret, mut pages) = after_page_outs(2, Tier::Fast);
        regret.given_up(&mut pages[0], true);
        regret.given_up(&mut pages[1], true);
        assert_eq!(regret.own.slow_writes, 2);
        regret.written(&mut pages[0], Tier::Fast);
        regret.read(&mut pages[1], Tier::Slow);
        regret.written(&mut pages[1], Tier::Fast);
        assert_eq!(regret.own.slow_writes, 1);
    }

    #[test]
    fn pages_that_end_leave_their_frames_to_others() {
        let (mut regret, pages) = after_page_outs(FRAMES as usize, Tier::Fast);
        regret.dropped(&pages[3]);
        regret.written(&mut Shadow::default(), Tier::Fast);
        regret.written(&mut Shadow::default(), Tier::Fast);
        assert_eq!((regret.shadow.fast_writes, regret.shadow.slow_writes), (FRAMES + 1, 1));
    }

    #[test]
    fn the_shadow_fills_the_frames_of_the_present_capacity() {
        let (mut regret, pages) = after_page_outs(FRAMES as usize, Tier::Fast);
        let written = |regret: &mut RegretMeter| {
            let before = regret.shadow.fast_writes;
            regret.written(&mut Shadow::default(), Tier::Fast);
            regret.shadow.fast_writes - before
        };
        assert_eq!(written(&mut regret), 0);
        regret.set_capacity(FRAMES - 1);
        regret.dropped(&pages[0]);
        assert_eq!(written(&mut regret), 0, "one page more than the capacity was there");
        regret.set_capacity(FRAMES);
        assert_eq!(written(&mut regret), 1);
        assert_eq!(written(&mut regret), 0);
    }
}
