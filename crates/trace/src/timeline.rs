//! The time that a recording covers: duration, idle gaps, active time, and the time that holds most of its events.

use std::cmp::Reverse;

use schemars::JsonSchema;
use serde::Serialize;

/// Shortest idle gap. Linux writes modified data back within 35 s (`dirty_expire_centisecs` and
/// `dirty_writeback_centisecs`, 30 s and 5 s by default), so a disk in use has events more often.
const GAP_NS: i64 = 60_000_000_000;
/// Shortest gap between two recordings in the same file.
const JOINT_GAP_NS: i64 = 1_800_000_000_000;
/// Smallest step back in time that means another clock, and so another recording.
const STEP_BACK_NS: i64 = 60_000_000_000;
/// Largest number of gaps in the list; further gaps are only summed.
const GAPS_MAX: usize = 1000;
/// Shortest stretch of active time whose events are counted together.
const BIN_NS: i64 = 1_000_000_000;
/// Times that are added at once if no gap, step back or border of a stretch lies among them.
const CHUNK: usize = 64;
/// Most stretches; if there were more, two would become one.
const BINS_MAX: usize = 1 << 16;

/// A stretch of time without events, in seconds since the first event. Where the clock stepped back by a minute or
/// more, `from_s` and `to_s` count on, and the recorded times do not.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Gap {
    /// Time of the event before the gap.
    #[schemars(range(min = 0))]
    pub from_s: f64,
    /// Time of the event after the gap.
    #[schemars(range(min = 0))]
    pub to_s: f64,
    /// Recorded time of the event before the gap, by which `slice` cuts.
    pub recorded_from_s: f64,
    /// Recorded time of the event after the gap, by which `slice` cuts.
    pub recorded_to_s: f64,
}

/// The time since the first event. A step back of the clock by a minute or more starts another recording,
/// which is placed right after the last event.
#[derive(Clone, Debug, Default)]
pub struct Elapsed {
    first_ns: Option<i64>,
    last_ns: i64,
    stepped_back_ns: i64,
}

impl Elapsed {
    /// Nanoseconds from the first event to the next one, whose time is given; at least 0.
    pub fn at(&mut self, time_ns: i64) -> i64 {
        let first_ns = *self.first_ns.get_or_insert_with(|| {
            self.last_ns = time_ns;
            time_ns
        });
        let step = time_ns.saturating_sub(self.last_ns);
        if step <= -STEP_BACK_NS {
            self.stepped_back_ns = self.stepped_back_ns.saturating_sub(step);
        }
        self.last_ns = time_ns;
        self.since(first_ns, time_ns)
    }

    fn since(&self, first_ns: i64, time_ns: i64) -> i64 {
        time_ns.saturating_sub(first_ns).saturating_add(self.stepped_back_ns).max(0)
    }
}

/// Computes durations and gaps from the times of events, in order.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    elapsed: Elapsed,
    last_ns: i64,
    idle_ns: i64,
    gaps: Vec<Gap>,
    recordings: u64,
    bins: Bins,
}

impl Timeline {
    /// Adds the times of the next events, in nanoseconds.
    pub fn add(&mut self, times_ns: &[i64]) {
        for chunk in times_ns.chunks(CHUNK) {
            if !self.add_at_once(chunk) {
                chunk.iter().for_each(|&time_ns| self.add_time(time_ns));
            }
        }
    }

    /// Adds times unless a gap, a step back or the border of a stretch may lie among them or before them;
    /// returns whether it did.
    fn add_at_once(&mut self, times_ns: &[i64]) -> bool {
        let (Some(first_ns), Some(&last_ns)) = (self.elapsed.first_ns, times_ns.last()) else {
            return false;
        };
        let (mut least, mut largest) = (last_ns, last_ns);
        for &time_ns in times_ns {
            least = least.min(time_ns);
            largest = largest.max(time_ns);
        }
        let before_ns = self.elapsed.last_ns;
        let step = largest.max(before_ns).saturating_sub(least.min(before_ns));
        let active =
            |time_ns| self.elapsed.since(first_ns, time_ns).saturating_sub(self.idle_ns).max(0);
        let (from_ns, to_ns) = (active(least), active(largest));
        if step >= GAP_NS.min(STEP_BACK_NS)
            || !self.bins.add_at_once(from_ns, to_ns, times_ns.len())
        {
            return false;
        }
        self.elapsed.last_ns = last_ns;
        self.last_ns = self.elapsed.since(first_ns, last_ns);
        true
    }

    fn add_time(&mut self, time_ns: i64) {
        if self.recordings == 0 {
            self.recordings = 1;
        }
        let before_ns = self.elapsed.stepped_back_ns;
        let recorded_ns = self.elapsed.last_ns;
        let at_ns = self.elapsed.at(time_ns);
        if self.elapsed.stepped_back_ns != before_ns {
            self.recordings += 1;
        } else if at_ns.saturating_sub(self.last_ns) >= GAP_NS {
            self.pass_gap(at_ns, [recorded_ns, time_ns]);
        }
        self.last_ns = at_ns;
        self.bins.add(self.active_ns().unwrap_or(0));
    }

    #[cold]
    fn pass_gap(&mut self, at_ns: i64, recorded_ns: [i64; 2]) {
        let step = at_ns.saturating_sub(self.last_ns);
        self.idle_ns = self.idle_ns.saturating_add(step);
        self.recordings += u64::from(step >= JOINT_GAP_NS);
        if self.gaps.len() < GAPS_MAX {
            let first_ns = self.elapsed.first_ns.unwrap_or(0);
            let [recorded_from_s, recorded_to_s] =
                recorded_ns.map(|time_ns| time_ns.saturating_sub(first_ns) as f64 / 1e9);
            self.gaps.push(Gap {
                from_s: self.last_ns as f64 / 1e9,
                to_s: at_ns as f64 / 1e9,
                recorded_from_s,
                recorded_to_s,
            });
        }
    }

    /// Nanoseconds from the first event to the last; `None` without a clock.
    pub fn duration_ns(&self) -> Option<i64> {
        (self.recordings > 0).then_some(self.last_ns)
    }

    /// The duration without idle gaps.
    pub fn active_ns(&self) -> Option<i64> {
        Some(self.duration_ns()?.saturating_sub(self.idle_ns).max(0))
    }

    /// The least active time that holds nine tenths of the events, in whole seconds at most as long as the active
    /// time; for recordings beyond 18 hours, in multiples of two seconds, and so on. `None` without a clock.
    pub fn traffic_ns(&self) -> Option<i64> {
        Some(self.bins.traffic_ns().min(self.active_ns()?))
    }

    /// The first thousand idle gaps.
    pub fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    /// Number of recordings that the file seems to join: one more than its gaps of half an hour and its
    /// steps back of a minute. 0 without a clock.
    pub fn recordings(&self) -> u64 {
        self.recordings
    }
}

/// Numbers of events in stretches of active time of equal length.
#[derive(Clone, Debug)]
struct Bins {
    width_ns: i64,
    counts: Vec<u64>,
    /// The stretch of the last event.
    last: usize,
    last_begin_ns: i64,
}

impl Default for Bins {
    fn default() -> Bins {
        Bins { width_ns: BIN_NS, counts: vec![0], last: 0, last_begin_ns: 0 }
    }
}

impl Bins {
    fn add(&mut self, at_ns: i64) {
        if !self.add_at_once(at_ns, at_ns, 1) {
            self.find(at_ns);
            self.counts[self.last] += 1;
        }
    }

    /// Adds events from `from_ns` to `to_ns` if all lie in the stretch of the last event; returns whether they do.
    fn add_at_once(&mut self, from_ns: i64, to_ns: i64, events: usize) -> bool {
        let is_within = from_ns >= self.last_begin_ns && to_ns - self.last_begin_ns < self.width_ns;
        if is_within {
            self.counts[self.last] += events as u64;
        }
        is_within
    }

    #[cold]
    fn find(&mut self, at_ns: i64) {
        while at_ns / self.width_ns >= BINS_MAX as i64 {
            self.width_ns = self.width_ns.saturating_mul(2);
            self.counts = self.counts.chunks(2).map(|pair| pair.iter().sum()).collect();
        }
        self.last = (at_ns / self.width_ns) as usize;
        self.last_begin_ns = self.last as i64 * self.width_ns;
        if self.counts.len() <= self.last {
            self.counts.resize(self.last + 1, 0);
        }
    }

    fn traffic_ns(&self) -> i64 {
        let mut counts = self.counts.clone();
        counts.sort_unstable_by_key(|&count| Reverse(count));
        let all: u64 = counts.iter().sum();
        let mut held = 0;
        let fullest = counts.iter().take_while(|&&count| {
            let is_wanted = held < all - all / 10;
            held += count;
            is_wanted
        });
        fullest.count() as i64 * self.width_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: i64 = 1_000_000_000;

    fn timeline(seconds: &[i64]) -> Timeline {
        let times: Vec<i64> = seconds.iter().map(|second| second * SECOND).collect();
        let mut whole = Timeline::default();
        whole.add(&times);
        let mut piecewise = Timeline::default();
        times.chunks(1).for_each(|chunk| piecewise.add(chunk));
        assert_eq!(whole.gaps(), piecewise.gaps());
        assert_eq!(whole.active_ns(), piecewise.active_ns());
        whole
    }

    fn gap((from_s, to_s): (f64, f64), (recorded_from_s, recorded_to_s): (f64, f64)) -> Gap {
        Gap { from_s, to_s, recorded_from_s, recorded_to_s }
    }

    #[test]
    fn a_gap_is_a_minute_or_more_without_events() {
        let found = timeline(&[0, 59, 118, 178, 200]);
        assert_eq!(found.gaps(), [gap((118.0, 178.0), (118.0, 178.0))]);
        assert_eq!(found.duration_ns(), Some(200 * SECOND));
        assert_eq!(found.active_ns(), Some(140 * SECOND));
        assert_eq!(found.recordings(), 1);
    }

    #[test]
    fn long_gaps_and_clock_resets_separate_recordings() {
        let found = timeline(&[0, 10, 180_000, 180_010, 5, 25]);
        assert_eq!(found.recordings(), 3);
        assert_eq!(found.active_ns(), Some(40 * SECOND));
    }

    #[test]
    fn times_go_on_after_the_clock_stepped_back() {
        let found = timeline(&[5000, 5010, 5100, 1000, 1010, 1130, 1131]);
        let gaps = [gap((10.0, 100.0), (10.0, 100.0)), gap((110.0, 230.0), (-3990.0, -3870.0))];
        assert_eq!(found.gaps(), gaps);
        assert_eq!(found.duration_ns(), Some(231 * SECOND));
        assert_eq!((found.recordings(), found.active_ns()), (2, Some(21 * SECOND)));
    }

    #[test]
    fn small_steps_back_do_not_separate_recordings() {
        let found = timeline(&[0, 30, 29, 31]);
        assert_eq!((found.recordings(), found.active_ns()), (1, Some(31 * SECOND)));
    }

    #[test]
    fn traffic_is_the_least_time_with_nine_tenths_of_the_events() {
        let even = timeline(&Vec::from_iter(0..100));
        assert_eq!(even.traffic_ns(), Some(90 * SECOND));
        let at_once = [[0; 900].as_slice(), &Vec::from_iter(1..=100)].concat();
        assert_eq!(timeline(&at_once).traffic_ns(), Some(SECOND));
        let apart = [[0; 450].as_slice(), &[50; 450], &Vec::from_iter(51..=150)].concat();
        assert_eq!(timeline(&apart).traffic_ns(), Some(2 * SECOND));
        assert_eq!(timeline(&[7, 7]).traffic_ns(), Some(0));
        assert_eq!(timeline(&[]).traffic_ns(), None);
    }

    #[test]
    fn traffic_of_long_recordings_is_counted_in_longer_stretches() {
        let seconds = 3 * BINS_MAX as i64;
        let times = Vec::from_iter((0..seconds).step_by(30));
        let found = timeline(&times);
        assert_eq!(found.bins.width_ns, 4 * SECOND);
        assert!(found.bins.counts.len() <= BINS_MAX);
        let events = times.len() as i64;
        assert_eq!(found.traffic_ns(), Some((events - events / 10) * 4 * SECOND));
    }

    #[test]
    fn without_times_there_is_no_duration() {
        assert_eq!(timeline(&[]).duration_ns(), None);
        assert_eq!(timeline(&[]).recordings(), 0);
    }

    #[test]
    fn extreme_times_do_not_overflow() {
        let mut found = Timeline::default();
        found.add(&[i64::MIN, i64::MAX, i64::MIN, i64::MAX]);
        assert!(found.active_ns().is_some() && found.traffic_ns().is_some());
    }

    #[test]
    fn gaps_are_listed_up_to_a_limit_and_all_summed() {
        let times: Vec<i64> = (0..1500).map(|index| index * 100).collect();
        let found = timeline(&times);
        assert_eq!(found.gaps().len(), GAPS_MAX);
        assert_eq!(found.active_ns(), Some(0));
    }

    proptest! {
        #[test]
        fn times_added_at_once_count_as_times_added_singly(
            start in any::<i64>(),
            steps in prop::collection::vec(
                prop_oneof![
                    // So rare are the others that most chunks have none.
                    2000 => -2_000_000..20_000_000_i64,
                    2 => -70 * SECOND..70 * SECOND,
                    1 => any::<i64>(),
                ],
                0..600,
            ),
        ) {
            let sum = |time: &mut i64, step: &i64| {
                *time = time.saturating_add(*step);
                Some(*time)
            };
            let times = Vec::from_iter(steps.iter().scan(start / 2, sum));
            let (mut at_once, mut singly) = (Timeline::default(), Timeline::default());
            at_once.add(&times);
            times.iter().for_each(|&time_ns| singly.add_time(time_ns));
            prop_assert_eq!(format!("{at_once:?}"), format!("{singly:?}"));
        }
    }
}
