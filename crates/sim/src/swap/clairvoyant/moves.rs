//! What can become of one page at one event, whoever decides: the rules of the driver as a table.

use policy::placement::Latencies;

/// Where a page's copies are between two of its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// A valid copy on the slow tier only, or a page nobody has written yet.
    Slow = 0,
    /// A valid copy in the fast tier only.
    FastOnly = 1,
    /// Valid copies in both tiers.
    Both = 2,
    /// No tier has it: its slots were freed when it was swapped in, or it holds zeros.
    Memory = 3,
}

impl Place {
    pub const ALL: [Place; 4] = [Place::Slow, Place::FastOnly, Place::Both, Place::Memory];

    /// Whether the page has a frame in the fast tier.
    pub fn is_fast(self) -> bool {
        matches!(self, Place::FastOnly | Place::Both)
    }

    /// What a stay here costs where holding a frame for as long costs `price`.
    #[inline(always)]
    pub fn price_of_stay(self, price: f64) -> f64 {
        if self.is_fast() { price } else { 0.0 }
    }
}

/// One event of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It leaves memory and must be written.
    Out = 0,
    /// It leaves memory unmodified.
    CleanOut = 1,
    /// It comes back.
    In = 2,
    /// Its process ends.
    End = 3,
    /// It leaves or comes back as a page of zeros, so that no copy is valid.
    Void = 4,
}

impl Step {
    pub const ALL: [Step; 5] = [Step::Out, Step::CleanOut, Step::In, Step::End, Step::Void];
}

/// One thing that can happen to a page at a step, and what it costs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Move {
    pub to: Place,
    pub fast_reads: u8,
    pub fast_writes: u8,
    pub slow_reads: u8,
    pub slow_writes: u8,
    /// A swap-in waits for the fast write.
    pub fills: bool,
}

impl Move {
    /// The time that it takes.
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

/// Everything that can happen to a page at `place` in `step`. Moves that another one of the same
/// outcome beats are left out: a clean copy is never written back early, no copy is freed for nothing.
pub(super) fn moves(step: Step, place: Place) -> &'static [Move] {
    match (step, place) {
        (Step::Out, _) | (Step::CleanOut, Place::Memory) => WRITTEN,
        (Step::CleanOut, Place::Slow) => {
            const { &[free(Place::Slow), fast_write(free(Place::Both))] }
        }
        (Step::CleanOut, Place::FastOnly) => {
            const { &[free(Place::FastOnly), slow_write(free(Place::Slow))] }
        }
        (Step::CleanOut, Place::Both) => const { &[free(Place::Both), free(Place::Slow)] },
        (Step::In, Place::Slow) => {
            const {
                &[
                    slow_read(free(Place::Slow)),
                    fill(slow_read(free(Place::Both))),
                    slow_read(free(Place::Memory)),
                ]
            }
        }
        (Step::In, Place::FastOnly) => {
            const {
                &[
                    fast_read(free(Place::FastOnly)),
                    slow_write(fast_read(free(Place::Slow))),
                    fast_read(free(Place::Memory)),
                ]
            }
        }
        (Step::In, Place::Both) => {
            const {
                &[
                    fast_read(free(Place::Both)),
                    fast_read(free(Place::Slow)),
                    fast_read(free(Place::Memory)),
                ]
            }
        }
        // It left memory unseen, and without a copy it was written to the slow tier in leaving.
        (Step::In, Place::Memory) => {
            const {
                &[
                    slow_write(slow_read(free(Place::Slow))),
                    fill(slow_write(slow_read(free(Place::Both)))),
                    slow_write(slow_read(free(Place::Memory))),
                ]
            }
        }
        (Step::End, _) => const { &[free(Place::Slow)] },
        (Step::Void, _) => const { &[free(Place::Memory)] },
    }
}

/// Where a page is before the first step of its life.
pub(super) fn first_place(first: Step, is_anonymous: bool) -> Place {
    if first == Step::CleanOut && is_anonymous { Place::Memory } else { Place::Slow }
}
