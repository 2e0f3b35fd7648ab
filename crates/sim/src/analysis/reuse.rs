//! Miss ratio at every memory size, and the distance between accesses to the same page.

use super::histogram::Histogram;
use super::skew::share;
use crate::stack::Stack;
use types::PageId;

/// The curve has a point at each power of two, and wherever the ratio has fallen by this much.
const CURVE_STEP: f64 = 1.0 / 400.0;

/// (frames, misses per access) of LRU, exact at every point given: no frames, each power of two,
/// the number of pages, and wherever the curve has fallen by 1/400.
pub(super) fn miss_ratio_curve(stack: &Stack) -> Vec<(u64, f64)> {
    miss_ratio_curve_of(stack, stack.accesses() as f64)
}

/// The points of [`miss_ratio_curve`] with misses as shares of `accesses`, which must be above 0 if there are any.
pub(super) fn miss_ratio_curve_of(stack: &Stack, accesses: f64) -> Vec<(u64, f64)> {
    if stack.accesses() == 0 {
        return Vec::new();
    }
    let pages = stack.pages();
    let mut points = vec![(0, 1.0)];
    let mut misses = stack.accesses();
    let mut last = 1.0;
    for (frames, hits) in (1..=pages).zip(stack.by_distance()) {
        misses -= hits;
        let ratio = (misses as f64 / accesses).min(1.0);
        if frames.is_power_of_two() || frames == pages || last - ratio >= CURVE_STEP {
            points.push((frames, ratio));
            last = ratio;
        }
    }
    points
}

/// Share of accesses to pages that were accessed before; 0 without accesses.
pub(super) fn reaccess_share(stack: &Stack) -> f64 {
    share(stack.accesses() - stack.pages(), stack.accesses())
}

/// Distinct other pages accessed between two accesses to the same page.
pub(super) fn reuse_distance(stack: &Stack) -> Histogram {
    let mut histogram = Histogram::default();
    for (distance, &count) in (0..).zip(stack.by_distance()) {
        if count > 0 {
            histogram.add(distance, count);
        }
    }
    histogram
}

/// Time between two accesses to the same page.
#[derive(Default)]
pub(super) struct Intervals {
    /// Time of each page's last access, in nanoseconds.
    last_ns: Vec<i64>,
    pub(super) histogram: Histogram,
}

const NEVER: i64 = i64::MIN;
/// Accesses whose scattered reads are done together, so that the waits for memory overlap.
const CHUNK: usize = 64;

impl Intervals {
    /// Adds accesses to `pages`, all numbered below `bound`, with the time of each.
    pub(super) fn add(&mut self, pages: &[PageId], times_ns: &[i64], bound: usize) {
        if self.last_ns.len() < bound {
            self.last_ns.resize(bound, NEVER);
        }
        for (pages, times_ns) in pages.chunks(CHUNK).zip(times_ns.chunks(CHUNK)) {
            let read = pages.iter().fold(0, |all, page| all | self.last_ns[page.index()]);
            std::hint::black_box(read);
            for (page, &time_ns) in pages.iter().zip(times_ns) {
                let last = std::mem::replace(&mut self.last_ns[page.index()], time_ns);
                if last != NEVER {
                    // Clocks of merged recordings may step back a little; such an interval counts as 0.
                    self.histogram.add(time_ns.saturating_sub(last).max(0) as u64, 1);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(pages: &[u32]) -> Stack {
        let pages: Vec<PageId> = pages.iter().map(|&page| PageId(page)).collect();
        let mut stack = Stack::default();
        stack.push(&pages, 100);
        stack
    }

    #[test]
    fn the_curve_ends_at_the_cold_misses() {
        let curve = miss_ratio_curve(&stack(&[0, 1, 2, 0, 1, 2, 2, 5]));
        assert_eq!(curve, [(0, 1.0), (1, 0.875), (2, 0.875), (3, 0.5), (4, 0.5)]);
        assert!(miss_ratio_curve(&stack(&[])).is_empty());
    }

    #[test]
    fn the_reaccess_share_is_what_the_curve_can_avoid() {
        let stack = stack(&[0, 1, 2, 0, 1, 2, 2, 5]);
        let floor = miss_ratio_curve(&stack).last().map(|&(_, ratio)| ratio);
        assert_eq!(Some(1.0 - reaccess_share(&stack)), floor);
        assert!(reaccess_share(&Stack::default()).abs() < f64::EPSILON);
    }

    #[test]
    fn distances_omit_first_accesses() {
        let buckets: Vec<_> = reuse_distance(&stack(&[0, 1, 2, 0, 1, 2, 2])).buckets().collect();
        assert_eq!(buckets, [(0, 1), (1, 0), (3, 3)]);
    }

    #[test]
    fn intervals_run_between_accesses_to_a_page() {
        let mut intervals = Intervals::default();
        intervals.add(&[0, 1, 0].map(PageId), &[5, 6, 13], 2);
        intervals.add(&[3, 1, 0].map(PageId), &[7, 7, 12], 4);
        let buckets: Vec<_> = intervals.histogram.buckets().collect();
        assert_eq!(buckets, [(0, 1), (1, 1), (3, 0), (7, 0), (15, 1)]);
    }
}
