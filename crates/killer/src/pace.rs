//! How long to wait before the next look: half the time until memory reaches the threshold at its present
//! rate of fall.

use std::time::Duration;

use types::{Bytes, Nanos};

/// The fastest that a machine fills its memory, in bytes per second: earlyoom's assumption (MEM_FILL_RATE in
/// its main.c). If memory lasts longer than the longest wait even at this rate, the wait may be longer.
const FILL_MAX: f64 = 6000.0 * 1024.0 * 1024.0;
/// With that much memory, the wait is at most this many times the longest wait.
const AMPLE: u32 = 5;

/// The rate at which memory falls, and the bounds of a wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    shortest: Duration,
    longest: Duration,
    /// Bytes per second; negative while available memory grows.
    rate: f64,
    last: Option<(Nanos, Bytes)>,
}

impl Pace {
    pub(crate) fn new(shortest: Duration, longest: Duration) -> Pace {
        Pace { shortest, longest, rate: 0.0, last: None }
    }

    /// Notes how much memory was available at a time.
    pub(crate) fn note(&mut self, time: Nanos, available: Bytes) {
        if let Some((before, then)) = self.last {
            let seconds = (time.0 - before.0).max(1) as f64 / 1e9;
            let rate = (then.0 as f64 - available.0 as f64) / seconds;
            // The rate rises at once and falls slowly, because a burst may pause.
            self.rate = if rate > self.rate { rate } else { self.rate * 0.8 + rate * 0.2 };
        }
        self.last = Some((time, available));
    }

    /// Forgets the rate after a kill: the freed memory hides how fast memory falls.
    pub(crate) fn forget(&mut self) {
        self.last = None;
        self.rate = 0.0;
    }

    /// How long to wait with `margin` left.
    pub(crate) fn wait(&self, margin: Bytes) -> Duration {
        let seconds = margin.0 as f64 / FILL_MAX / 2.0;
        if seconds > self.longest.as_secs_f64() {
            let ample = self.longest * AMPLE;
            // Bound the seconds first: a Duration cannot hold every f64.
            return Duration::from_secs_f64(seconds.min(ample.as_secs_f64()));
        }
        if self.rate < 1.0 {
            return self.longest;
        }
        if margin.0 == 0 {
            // The policy spares all for another reason, such as free swap, which runs out more slowly.
            return (self.shortest * 5).min(self.longest);
        }
        let seconds = margin.0 as f64 / self.rate / 2.0;
        let longest = self.longest.as_secs_f64();
        Duration::from_secs_f64(seconds.min(longest)).max(self.shortest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_shrink_as_the_threshold_comes_nearer() {
        let (shortest, longest) = (Duration::from_millis(2), Duration::from_millis(100));
        let mut pace = Pace::new(shortest, longest);
        assert_eq!(pace.wait(Bytes(1000)), longest, "nothing is known yet");
        pace.note(Nanos(0), Bytes(10_000));
        pace.note(Nanos(1_000_000_000), Bytes(9000));
        assert_eq!(pace.wait(Bytes(100)), Duration::from_millis(50));
        assert_eq!(pace.wait(Bytes(1)), shortest);
        assert_eq!(pace.wait(Bytes(100 << 20)), longest);
        // At 6000 MiB per second, the fastest rate, half of it is gone in 200 ms.
        assert_eq!(pace.wait(Bytes(2400 << 20)), Duration::from_millis(200));
        assert_eq!(pace.wait(Bytes(u64::MAX)), longest * 5);
        assert_eq!(pace.wait(Bytes(0)), Duration::from_millis(10));
        // Memory grows: the old rate decays slowly.
        pace.note(Nanos(2_000_000_000), Bytes(9000));
        assert_eq!(pace.wait(Bytes(80)), Duration::from_millis(50));
        pace.forget();
        assert_eq!(pace.wait(Bytes(0)), longest);
    }
}
