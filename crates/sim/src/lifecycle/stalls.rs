//! How long the phone stalled for memory recently, in the form of the kernel's pressure.

use policy::kill::{PressureShares, Stall};
use types::Nanos;

const SECOND_NS: u64 = 1_000_000_000;
/// Length of the pressure window in seconds (avg10 of the kernel, as a plain mean).
const WINDOW: usize = 10;

/// Stalls by second, and counts of scanned pages and file refaults.
#[derive(Debug, Default)]
pub(super) struct Stalls {
    by_second: [u64; WINDOW],
    /// Second of the newest entry.
    newest: u64,
    /// Pages judged in direct reclaim.
    pub(super) scanned_directly: u64,
    /// Pages judged by the background reclaimer.
    pub(super) scanned_in_background: u64,
    /// File pages that were read again, over all visits.
    pub(super) file_refaults: u64,
}

impl Stalls {
    /// Records a stall of the launching app for `ns` from `now_ns` on. One app runs at a time, so all stall.
    pub(super) fn add(&mut self, now_ns: u64, ns: u64) {
        self.turn_to(now_ns / SECOND_NS);
        self.by_second[self.newest as usize % WINDOW] += ns;
    }

    /// Clears the seconds that passed without a stall.
    fn turn_to(&mut self, second: u64) {
        let passed = second.saturating_sub(self.newest).min(WINDOW as u64);
        for ago in 0..passed {
            self.by_second[(second - ago) as usize % WINDOW] = 0;
        }
        self.newest = self.newest.max(second);
    }

    /// Share of the last ten seconds spent stalled.
    pub(super) fn pressure(&self, now_ns: u64) -> PressureShares {
        let gone = (now_ns / SECOND_NS).saturating_sub(self.newest);
        let left = (WINDOW as u64).saturating_sub(gone);
        let stalled: u64 = (0..left)
            .filter(|&ago| ago <= self.newest)
            .map(|ago| self.by_second[(self.newest - ago) as usize % WINDOW])
            .sum();
        let share = (stalled * 10_000 / (SECOND_NS * WINDOW as u64)).min(10_000) as u32;
        PressureShares { some_basis_points: share, full_basis_points: share }
    }

    /// The pressure event with which the kernel would have woken the killer.
    pub(super) fn recent(&self, now_ns: u64) -> Stall {
        if now_ns / SECOND_NS != self.newest {
            return Stall::None;
        }
        let stalled = Nanos(self.by_second[self.newest as usize % WINDOW] as i64);
        Stall::of(stalled, stalled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_forgets_after_ten_seconds() {
        let mut stalls = Stalls::default();
        stalls.add(500_000_000, SECOND_NS);
        assert_eq!(stalls.pressure(SECOND_NS).full_basis_points, 1000);
        assert_eq!(stalls.recent(600_000_000), Stall::Complete);
        assert_eq!(stalls.recent(SECOND_NS), Stall::None);
        stalls.add(5 * SECOND_NS, 100_000_000);
        assert_eq!(stalls.pressure(5 * SECOND_NS).full_basis_points, 1100);
        assert_eq!(stalls.recent(5 * SECOND_NS), Stall::Partial);
        stalls.add(10 * SECOND_NS, 0);
        assert_eq!(stalls.pressure(10 * SECOND_NS).full_basis_points, 100);
        assert_eq!(stalls.pressure(40 * SECOND_NS).full_basis_points, 0);
    }
}
