//! `clairvoyant`: a lower bound for every placement of this catalog, with the whole trace known.
//!
//! It bounds the I/O time of every placement of whole pages on the two tiers that keeps to the rules
//! of the driver: a page that leaves memory without a valid copy is written to one tier; a page read
//! from the slow tier may be copied to the fast one; a page leaves the fast tier with a write to the
//! slow one unless a valid copy is there, or without any while it is in memory and its slots are freed.
//! `method=bound` gives a lower bound and the counts of a schedule that reaches it by holding too many
//! frames at some moments; `method=exact` gives the optimum itself, on small traces.

mod bound;
mod exact;
mod lives;
mod moves;
mod prices;
mod relaxation;
mod story;

use super::driver::Cell;
use super::tally::Tally;
use crate::error::Error;
use policy::placement::Latencies;
use policy::tiers::{Architecture, OptionSpec, Profile, Role, Settings, Setup, Values};
use story::Story;
use types::{Events, Progress};

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "clairvoyant",
    summary: "offline bound: no placement that keeps to the rules takes less time",
    role: Role::Bound,
    decides_by_latency: true,
    options: &[OptionSpec {
        name: "method",
        default: "bound",
        meaning: "how the bound is found",
        values: Values::Words(&[
            ("bound", "a lower bound from priced frames, for traces of any size"),
            ("exact", "the optimum itself, for traces of at most 12 pages and 2000 events"),
        ]),
    }],
    profiles: &[
        Profile { name: "faithful", settings: Settings::Fixed(&[]) },
        Profile { name: "practical", settings: Settings::Fixed(&[]) },
    ],
};

/// A run of the bound, which decides once the whole trace is known.
pub(super) struct Clairvoyant {
    story: Story,
    capacity: u64,
    infers_clean: bool,
    is_exact: bool,
    latencies: Latencies,
}

impl Clairvoyant {
    pub(super) fn new(setup: &Setup<'_>, infers_clean: bool) -> Clairvoyant {
        let is_exact = setup.options.is("method", "exact");
        let (story, latencies) = (Story::default(), setup.latencies);
        Clairvoyant { story, capacity: setup.capacity, infers_clean, is_exact, latencies }
    }
}

impl Cell for Clairvoyant {
    fn replay(&mut self, events: &Events) {
        self.story.extend(events, self.infers_clean);
    }

    fn finish(mut self: Box<Self>, progress: &dyn Progress) -> Result<Tally, Error> {
        if self.is_exact {
            exact::book_optimum(&mut self.story, self.capacity, &self.latencies)?;
        } else {
            let capacity = self.capacity;
            let bound_ns = bound::book_bound(&mut self.story, capacity, &self.latencies, progress)?;
            self.story.tally.notes.push(format!(
                "a bound, not a placement: no placement takes less than {:.6} s of I/O; the counts \
                 are those of a schedule that takes about this time, by holding too many frames at \
                 some moments and too few at others",
                bound_ns / 1e9
            ));
        }
        Ok(self.story.tally)
    }
}
