//! Freezes: times in which no task progressed for lack of memory.

use std::collections::VecDeque;

use super::{Freeze, Settings};

/// Growth of a sum of microseconds over a recent window.
#[derive(Debug, Default)]
pub(super) struct Trailing {
    /// Times, and the sum at each.
    known: VecDeque<(u64, u64)>,
}

impl Trailing {
    /// Adds the sum at a moment, and forgets those further back than `longest_ns`.
    pub(super) fn take(&mut self, time_ns: u64, sum_us: u64, longest_ns: u64) {
        self.known.push_back((time_ns, sum_us));
        // Keep one entry at or before the start of the window.
        while self.known.get(1).is_some_and(|&(time, _)| time.saturating_add(longest_ns) <= time_ns)
        {
            self.known.pop_front();
        }
    }

    /// The growth over the last `length_ns` as a share of that length. A shorter past still counts against
    /// `length_ns`, as the kernel's averages begin at 0.
    pub(super) fn share(&self, length_ns: u64) -> f64 {
        let Some(&(now, sum)) = self.known.back() else { return 0.0 };
        let from = now.saturating_sub(length_ns);
        let begin = self.known.iter().rev().find(|&&(time, _)| time <= from);
        let &(time, before) = begin.or(self.known.front()).unwrap_or(&(now, sum));
        let length_ns = now.saturating_sub(time).max(length_ns);
        sum.saturating_sub(before) as f64 * 1e3 / length_ns as f64
    }
}

/// Finds freezes among the moments of a recording.
#[derive(Debug)]
pub(super) struct Finder {
    share: f64,
    time_s: f64,
    last: Option<(f64, u64)>,
    open: Option<Freeze>,
    found: Vec<Freeze>,
}

impl Finder {
    pub(super) fn new(settings: &Settings) -> Finder {
        let time_s = settings.freeze_time.0 as f64 / 1e9;
        Finder { share: settings.freeze_share, time_s, last: None, open: None, found: Vec::new() }
    }

    /// Adds the total stall of every task at a moment.
    pub(super) fn moment(&mut self, time_s: f64, full_us: u64) {
        if let Some((before_s, before_us)) = self.last
            && time_s > before_s
        {
            let share = full_us.saturating_sub(before_us) as f64 / 1e6 / (time_s - before_s);
            if share >= self.share {
                let from_s = self.open.map_or(before_s, |freeze| freeze.from_s);
                self.open = Some(Freeze { from_s, to_s: time_s, is_kernel_kill: false });
            } else {
                self.close();
            }
        }
        self.last = Some((time_s, full_us));
    }

    /// Adds a kill by the kernel's out-of-memory killer.
    pub(super) fn kernel_kill(&mut self, time_s: f64) {
        self.found.push(Freeze { from_s: time_s, to_s: time_s, is_kernel_kill: true });
    }

    fn close(&mut self) {
        let long = |freeze: &Freeze| freeze.to_s - freeze.from_s >= self.time_s;
        self.found.extend(self.open.take().filter(long));
    }

    /// All freezes in order of their start.
    pub(super) fn finish(mut self) -> Vec<Freeze> {
        self.close();
        self.found.sort_by(|freeze, other| freeze.from_s.total_cmp(&other.from_s));
        self.found
    }
}
