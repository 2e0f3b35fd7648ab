//! The state of memory over a trace: free memory, and time that tasks stalled for memory (PSI).

use trace::system::{CounterSource, Event, Kind, Names, Resource};

/// Samples of pressure that are kept; beyond it every second one is dropped.
const SAMPLES_MAX: usize = 1 << 16;

/// Counters of /proc/meminfo at their last sample, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meminfo {
    /// Total memory.
    pub total: Option<u64>,
    /// Free memory.
    pub free: Option<u64>,
    /// Memory that could be used without swapping.
    pub available: Option<u64>,
    /// Page cache.
    pub cached: Option<u64>,
    /// Size of the swap areas.
    pub swap_total: Option<u64>,
    /// Free bytes of the swap areas.
    pub swap_free: Option<u64>,
}

/// Sums of stall time at an instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StallSample {
    /// Time of the sample.
    pub time_ns: i64,
    /// Microseconds in which some task stalled for memory so far.
    pub some_us: u64,
    /// Microseconds in which every task stalled for memory so far.
    pub full_us: Option<u64>,
}

/// Free memory and pressure so far.
#[derive(Debug, Default)]
pub struct MemoryState {
    now: Meminfo,
    least_free: Option<u64>,
    least_available: Option<u64>,
    stalls: Vec<StallSample>,
    full: Option<(i64, u64)>,
}

impl MemoryState {
    /// The counters at their last sample.
    pub fn now(&self) -> Meminfo {
        self.now
    }

    /// The least free memory of all samples, in bytes.
    pub fn least_free(&self) -> Option<u64> {
        self.least_free
    }

    /// The least available memory of all samples, in bytes.
    pub fn least_available(&self) -> Option<u64> {
        self.least_available
    }

    /// Every sample of the pressure on memory, in order.
    pub fn stalls(&self) -> &[StallSample] {
        &self.stalls
    }

    /// Takes an event; returns a new sample of the pressure on memory, and the one before.
    pub fn take(
        &mut self,
        event: &Event,
        names: &Names,
    ) -> Option<(StallSample, Option<StallSample>)> {
        match event.kind {
            Kind::SystemCounter { source: CounterSource::Meminfo, name, value } => {
                let value = Some(value);
                let least = |before: Option<u64>| before.into_iter().chain(value).min();
                match names.bytes_of(name) {
                    b"MemTotal" => self.now.total = value,
                    b"MemFree" => {
                        self.now.free = value;
                        self.least_free = least(self.least_free);
                    }
                    b"MemAvailable" => {
                        self.now.available = value;
                        self.least_available = least(self.least_available);
                    }
                    b"Cached" => self.now.cached = value,
                    b"SwapTotal" => self.now.swap_total = value,
                    b"SwapFree" => self.now.swap_free = value,
                    _ => {}
                }
                None
            }
            Kind::Pressure {
                resource: Resource::Memory,
                is_full,
                total_us: Some(total_us),
                ..
            } => self.stall(event.time_ns, is_full, total_us),
            _ => None,
        }
    }

    /// Both sums of a sample come one after the other, in any order.
    fn stall(
        &mut self,
        time_ns: i64,
        is_full: bool,
        total_us: u64,
    ) -> Option<(StallSample, Option<StallSample>)> {
        if is_full {
            self.full = Some((time_ns, total_us));
            if let Some(last) = self.stalls.last_mut().filter(|last| last.time_ns == time_ns) {
                last.full_us = Some(total_us);
            }
            return None;
        }
        let before = self.stalls.last().copied();
        let full_us = self.full.filter(|&(at_ns, _)| at_ns == time_ns).map(|(_, full_us)| full_us);
        let sample = StallSample { time_ns, some_us: total_us, full_us };
        self.stalls.push(sample);
        if self.stalls.len() == SAMPLES_MAX {
            // These are sums, so a later one includes the dropped ones.
            let mut is_kept = false;
            self.stalls.retain(|_| {
                is_kept = !is_kept;
                is_kept
            });
        }
        Some((sample, before))
    }

    /// The largest share of time in which some task stalled for memory, between two samples that overlap the
    /// range. `None` if no samples surround a part of it.
    pub fn some_share(&self, from_ns: i64, to_ns: i64) -> Option<f64> {
        let of = |sample: &StallSample| Some(sample.some_us);
        self.largest_share(from_ns, to_ns, of)
    }

    /// The largest share of time in which every task stalled for memory, as [`Self::some_share`].
    pub fn full_share(&self, from_ns: i64, to_ns: i64) -> Option<f64> {
        self.largest_share(from_ns, to_ns, |sample| sample.full_us)
    }

    fn largest_share(
        &self,
        from_ns: i64,
        to_ns: i64,
        of: impl Fn(&StallSample) -> Option<u64>,
    ) -> Option<f64> {
        let first = self.stalls.partition_point(|sample| sample.time_ns <= from_ns);
        let from = first.saturating_sub(1);
        let mut largest: Option<f64> = None;
        for pair in self.stalls[from..].windows(2) {
            if pair[0].time_ns >= to_ns {
                break;
            }
            if let Some(share) = share(&pair[0], &pair[1], &of) {
                largest = Some(largest.map_or(share, |largest| largest.max(share)));
            }
        }
        largest
    }
}

/// The share of the time between two samples, from 0 to 1; `None` if a sample lacks the
/// sum, or no time lies between them.
pub fn share(
    before: &StallSample,
    after: &StallSample,
    of: impl Fn(&StallSample) -> Option<u64>,
) -> Option<f64> {
    let duration_ns = after.time_ns.checked_sub(before.time_ns).filter(|&ns| ns > 0)?;
    let stalled_us = of(after)?.checked_sub(of(before)?)?;
    Some((stalled_us as f64 * 1e3 / duration_ns as f64).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_the_samples_around_a_range() {
        let mut memory = MemoryState::default();
        for (second, some_us) in [(0, 0), (1, 500_000), (2, 500_000), (3, 600_000)] {
            let time_ns = second * 1_000_000_000;
            memory.stall(time_ns, true, some_us / 2);
            memory.stall(time_ns, false, some_us);
        }
        let second = 1_000_000_000;
        assert_eq!(memory.some_share(0, second), Some(0.5));
        assert_eq!(memory.full_share(0, 3 * second), Some(0.25));
        assert_eq!(memory.some_share(second, 2 * second), Some(0.0));
        assert_eq!(memory.some_share(second * 5 / 2, 3 * second), Some(0.1));
        assert_eq!(memory.some_share(4 * second, 5 * second), None);
        assert_eq!(MemoryState::default().some_share(0, 1), None);
    }
}
