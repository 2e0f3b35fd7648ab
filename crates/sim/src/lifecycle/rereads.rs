//! The order in which a launch touches the files it uses: each run of pages once, and some of them again at
//! given reuse distances. This is the LRU stack model (Mattson et al., IBM Systems Journal 9, 1970): a
//! touch at distance `d` takes the run that `d` other runs were touched after.

use super::phone::Again;
use crate::regions::{MIB_PAGES, RUN_PAGES};

/// Repeated touches at one distance.
#[derive(Clone, Copy, Debug)]
struct Repeats {
    /// Other runs touched in between.
    distance: u32,
    /// Number of touches.
    count: u64,
}

/// Touches of `runs` runs, numbered in the order of their first touch, which `again` repeats.
///
/// The repeats at a distance are spread evenly over the first touches after which that many other
/// runs have been touched. A launch that touches fewer runs has no repeats at that distance.
pub(super) fn touch_order(runs: u32, again: &[Again]) -> Vec<u32> {
    let repeats: Vec<Repeats> = again
        .iter()
        .map(|again| Repeats {
            distance: again.mib.saturating_mul(MIB_PAGES / RUN_PAGES),
            count: u64::from(runs) * u64::from(again.percent) / 100,
        })
        .filter(|repeats| repeats.distance < runs)
        .collect();
    let repeated: u64 = repeats.iter().map(|repeats| repeats.count).sum();
    let mut touched = Touched::with_room(runs as usize + repeated as usize);
    for run in 0..runs {
        touched.touch(run);
        for repeats in &repeats {
            for _ in repeats.due(run, runs)..repeats.due(run + 1, runs) {
                touched.touch_again(repeats.distance);
            }
        }
    }
    touched.order
}

impl Repeats {
    /// How many of the touches are due after the first touches of `done` of `runs` runs.
    fn due(&self, done: u32, runs: u32) -> u64 {
        let (done, all) = (done.saturating_sub(self.distance), runs - self.distance);
        self.count * u64::from(done) / u64::from(all)
    }
}

/// The touches so far, with the runs ordered by their last touch.
///
/// Invariant: `latest` is a Fenwick tree over `order`, whose sums count the touches that are the
/// last ones of their run; there are `runs` of these.
struct Touched {
    order: Vec<u32>,
    latest: Vec<u32>,
    runs: usize,
}

impl Touched {
    /// No touches yet, and at most `room` in the end.
    fn with_room(room: usize) -> Touched {
        Touched { order: Vec::with_capacity(room), latest: vec![0; room + 1], runs: 0 }
    }

    /// Touches a run for the first time.
    fn touch(&mut self, run: u32) {
        self.runs += 1;
        self.push(run);
    }

    /// Touches the run that `distance` other runs were touched after; there must be one.
    fn touch_again(&mut self, distance: u32) {
        let place = self.place_of(self.runs - distance as usize);
        self.add(place, u32::MAX);
        self.push(self.order[place]);
    }

    fn push(&mut self, run: u32) {
        self.order.push(run);
        self.add(self.order.len() - 1, 1);
    }

    /// Adds `change`, modulo 2^32, at a place of `order`.
    fn add(&mut self, place: usize, change: u32) {
        let mut node = place + 1;
        while node < self.latest.len() {
            self.latest[node] = self.latest[node].wrapping_add(change);
            node += node & node.wrapping_neg();
        }
    }

    /// The place in `order` of the last touch of the `rank`th run, counted from 1 from the one touched
    /// longest ago.
    fn place_of(&self, rank: usize) -> usize {
        let mut left = rank;
        let mut node = 0;
        let mut step = self.latest.len().next_power_of_two();
        while step > 0 {
            let next = node + step;
            if next < self.latest.len() && (self.latest[next] as usize) < left {
                node = next;
                left -= self.latest[next] as usize;
            }
            step /= 2;
        }
        node
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};
    use testkit::lifecycle::naive_touch_order;

    const RUNS_PER_MIB: u32 = MIB_PAGES / RUN_PAGES;

    fn again() -> impl Strategy<Value = Vec<Again>> {
        let repeat = (1..12_u32, 0..400_u32).prop_map(|(mib, percent)| Again { mib, percent });
        prop::collection::vec(repeat, 0..4)
    }

    proptest! {
        #[test]
        fn the_order_is_that_of_the_naive_model(runs in 0..400_u32, again in again()) {
            let naive: Vec<(u32, u64)> = again
                .iter()
                .map(|again| (again.mib * RUNS_PER_MIB, u64::from(runs * again.percent / 100)))
                .collect();
            prop_assert_eq!(touch_order(runs, &again), naive_touch_order(runs, &naive));
        }

        #[test]
        fn distances_between_touches_are_those_asked_for(runs in 0..300_u32, again in again()) {
            let order = touch_order(runs, &again);
            let mut found: BTreeMap<u32, u32> = BTreeMap::new();
            for (place, run) in order.iter().enumerate() {
                if let Some(last) = order[..place].iter().rposition(|other| other == run) {
                    let between: BTreeSet<u32> = order[last + 1..place].iter().copied().collect();
                    *found.entry(between.len() as u32).or_default() += 1;
                }
            }
            let mut asked: BTreeMap<u32, u32> = BTreeMap::new();
            for again in &again {
                if again.mib * RUNS_PER_MIB < runs {
                    *asked.entry(again.mib * RUNS_PER_MIB).or_default() += runs * again.percent / 100;
                }
            }
            asked.retain(|_, count| *count > 0);
            prop_assert_eq!(found, asked);
        }
    }

    #[test]
    fn without_repeats_each_run_is_touched_once_in_order() {
        assert_eq!(touch_order(5, &[]), [0, 1, 2, 3, 4]);
    }
}
