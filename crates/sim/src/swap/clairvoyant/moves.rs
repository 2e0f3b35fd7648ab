//! The possible moves of a page at one event, under any placement: the rules of the driver as a table.

use policy::placement::Latencies;

/// The valid copies of a page between two of its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// A valid copy on the slow tier only, or a page that was never written.
    Slow = 0,
    /// A valid copy in the fast tier only.
    FastOnly = 1,
    /// Valid copies in both tiers.
    Both = 2,
    /// No copy: its slots were freed at its swap-in, or it holds zeros.
    Memory = 3,
}

impl Place {
    pub const ALL: [Place; 4] = [Place::Slow, Place::FastOnly, Place::Both, Place::Memory];

    /// Whether the page has a frame in the fast tier.
    pub fn is_fast(self) -> bool {
        matches!(self, Place::FastOnly | Place::Both)
    }

    /// Cost of staying here while holding a frame costs `price`.
    #[inline(always)]
    pub fn price_of_stay(self, price: f64) -> f64 {
        if self.is_fast() { price } else { 0.0 }
    }
}

/// One event of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MoveStep {
    /// The page leaves memory and must be written.
    Out = 0,
    /// The page leaves memory unmodified.
    CleanOut = 1,
    /// The page comes back.
    In = 2,
    /// The page's process ends.
    End = 3,
    /// The page leaves or comes back as a page of zeros, so that no copy is valid.
    Void = 4,
}

impl MoveStep {
    pub const ALL: [MoveStep; 5] =
        [MoveStep::Out, MoveStep::CleanOut, MoveStep::In, MoveStep::End, MoveStep::Void];
}

/// A possible move of a page at a step, and its cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Move {
    pub to: Place,
    pub fast_reads: u8,
    pub fast_writes: u8,
    pub slow_reads: u8,
    pub slow_writes: u8,
    /// Whether a swap-in waits for the fast write.
    pub fills: bool,
}

impl Move {
    /// Time of the move.
    pub fn time_ns(&self, latencies: &Latencies) -> f64 {
        f64::from(self.fast_reads) * latencies.fast_read
            + f64::from(self.fast_writes) * latencies.fast_write
            + f64::from(self.slow_reads) * latencies.slow_read
            + f64::from(self.slow_writes) * latencies.slow_write
    }
}

const fn free(to: Place) -> Move {
    Move { to, fast_reads: 0, fast_writes: 0, slow_reads: 0, slow_writes: 0, fills: false }
}

const fn slow_write(before: Move) -> Move {
    Move { slow_writes: before.slow_writes + 1, ..before }
}

const fn fast_write(before: Move) -> Move {
    Move { fast_writes: before.fast_writes + 1, ..before }
}

const fn slow_read(before: Move) -> Move {
    Move { slow_reads: before.slow_reads + 1, ..before }
}

const fn fast_read(before: Move) -> Move {
    Move { fast_reads: before.fast_reads + 1, ..before }
}

const fn fill(before: Move) -> Move {
    Move { fills: true, ..fast_write(before) }
}

const WRITTEN: &[Move] = &[slow_write(free(Place::Slow)), fast_write(free(Place::FastOnly))];

/// All useful moves of a page at `place` in `step`. A move is omitted if another one with the same
/// outcome is cheaper: a clean copy is never written back early, no copy is freed for nothing.
pub(super) fn moves(step: MoveStep, place: Place) -> &'static [Move] {
    match (step, place) {
        (MoveStep::Out, _) | (MoveStep::CleanOut, Place::Memory) => WRITTEN,
        (MoveStep::CleanOut, Place::Slow) => {
            const { &[free(Place::Slow), fast_write(free(Place::Both))] }
        }
        (MoveStep::CleanOut, Place::FastOnly) => {
            const { &[free(Place::FastOnly), slow_write(free(Place::Slow))] }
        }
        (MoveStep::CleanOut, Place::Both) => const { &[free(Place::Both), free(Place::Slow)] },
        (MoveStep::In, Place::Slow) => {
            const {
                &[
                    slow_read(free(Place::Slow)),
                    fill(slow_read(free(Place::Both))),
                    slow_read(free(Place::Memory)),
                ]
            }
        }
        (MoveStep::In, Place::FastOnly) => {
            const {
                &[
                    fast_read(free(Place::FastOnly)),
                    slow_write(fast_read(free(Place::Slow))),
                    fast_read(free(Place::Memory)),
                ]
            }
        }
        (MoveStep::In, Place::Both) => {
            const {
                &[
                    fast_read(free(Place::Both)),
                    fast_read(free(Place::Slow)),
                    fast_read(free(Place::Memory)),
                ]
            }
        }
        // It left memory unrecorded, and without a copy it was written to the slow tier then.
        (MoveStep::In, Place::Memory) => {
            const {
                &[
                    slow_write(slow_read(free(Place::Slow))),
                    fill(slow_write(slow_read(free(Place::Both)))),
                    slow_write(slow_read(free(Place::Memory))),
                ]
            }
        }
        (MoveStep::End, _) => const { &[free(Place::Slow)] },
        (MoveStep::Void, _) => const { &[free(Place::Memory)] },
    }
}

/// Place of a page before the first step of its life.
pub(super) fn first_place(first: MoveStep, is_anonymous: bool) -> Place {
    if first == MoveStep::CleanOut && is_anonymous { Place::Memory } else { Place::Slow }
}
