//! How long to wait for the next look: half the time in which memory would reach the threshold if it
//! went on as fast as of late.

use std::time::Duration;

use types::{Bytes, Nanos};

/// No machine fills its memory faster, in bytes a second: earlyoom's assumption (MEM_FILL_RATE in its
/// main.c). What takes longer than a wait even so may be looked at less often.
const FILL_MAX: f64 = 6000.0 * 1024.0 * 1024.0;
/// By how much the longest wait is exceeded at most while there is so much memory.
const AMPLE: u32 = 5;

/// The rate at which memory falls, and the bounds of a wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    shortest: Duration,
    longest: Duration,
    /// Bytes a second; negative while memory grows.
    rate: f64,
    last: Option<(Nanos, Bytes)>,
}

impl Pace {
    pub(crate) fn new(shortest: Duration, longest: Duration) -> Pace {
        Pace { shortest, longest, rate: 0.0, last: None }
    }

    /// What was seen.
    pub(crate) fn note(&mut self, time: Nanos, available: Bytes) {
        if let Some((before, then)) = self.last {
            let seconds = (time.0 - before.0).max(1) as f64 / 1e9;
            let rate = (then.0 as f64 - available.0 as f64) / seconds;
            // Up at once and down slowly: a burst pauses for breath.
            self.rate = if rate > self.rate { rate } else { self.rate * 0.8 + rate * 0.2 };
        }
        self.last = Some((time, available));
    }

    /// After a kill memory jumped, which tells nothing of its fall.
    pub(crate) fn forget(&mut self) {
        self.last = None;
        self.rate = 0.0;
    }

    /// How long to wait with `margin` left.
    pub(crate) fn wait(&self, margin: Bytes) -> Duration {
        let seconds = margin.0 as f64 / FILL_MAX / 2.0;
        if seconds > self.longest.as_secs_f64() {
            let ample = self.longest * AMPLE;
            // Bounded first: a duration cannot hold every number.
            return Duration::from_secs_f64(seconds.min(ample.as_secs_f64()));
        }
        if self.rate < 1.0 {
            return self.longest;
        }
        if margin.0 == 0 {
            // Spared for some other reason, such as swap that is left: that goes more slowly.
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
        // At 6000 MiB a second half of it is gone in 200 ms, and nothing goes faster.
        assert_eq!(pace.wait(Bytes(2400 << 20)), Duration::from_millis(200));
        assert_eq!(pace.wait(Bytes(u64::MAX)), longest * 5);
        assert_eq!(pace.wait(Bytes(0)), Duration::from_millis(10));
        // It grows: slowly forgotten.
        pace.note(Nanos(2_000_000_000), Bytes(9000));
        assert_eq!(pace.wait(Bytes(80)), Duration::from_millis(50));
        pace.forget();
        assert_eq!(pace.wait(Bytes(0)), longest);
    }
}
