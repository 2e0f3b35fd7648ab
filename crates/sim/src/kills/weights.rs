//! Weights of processes as a killer knows them: it measures a process again only after a time, or when the size of
//! the process has changed. Until then its growth counts as its own memory.

use std::collections::BTreeMap;

use policy::kill::Candidate;
use policy::kill::search::{Sharer, is_weight_valid};
use trace::recording::moments::{ProcessState, Weight};
use types::{Bytes, Nanos};

use super::Identity;

/// A size is similar if it differs by at most one part in this many.
const CHANGED_PART: u64 = 8;

/// The recorder measures some time before a moment, or after it. What the killer would have measured at a moment is
/// the first measurement of the recorder since then, if it comes within this time.
const SOON: u64 = 250_000_000;

/// The weights that a killer has measured.
#[derive(Debug, Default)]
pub(super) struct Weights {
    known: BTreeMap<Identity, Known>,
}

/// A process as it was measured.
#[derive(Clone, Debug)]
struct Known {
    at: Nanos,
    name: String,
    weight: Weight,
    anonymous: u64,
    swapped: u64,
}

impl Weights {
    /// Measures the processes whose weight is not valid; `longest` is the longest time for which it is.
    pub(super) fn measure(&mut self, now: Nanos, longest: Nanos, processes: &[&ProcessState]) {
        let mut before = std::mem::take(&mut self.known);
        for state in processes {
            let identity = (state.process, state.start);
            let known = before.remove(&identity).filter(|known| known.name == state.name);
            let is_valid = |known: &Known| {
                is_weight_valid(Nanos(now.0 - known.at.0), longest, known.is_similar(state))
            };
            let known = match known {
                Some(known) if is_valid(&known) => Some(known.or_later(state)),
                known => Known::of(state, now).or(known),
            };
            self.known.extend(known.map(|known| (identity, known)));
        }
    }

    /// Measures one process, unless that was less than a second ago.
    pub(super) fn measure_one(&mut self, now: Nanos, state: &ProcessState) {
        let identity = (state.process, state.start);
        let age = |known: &Known| Nanos(now.0 - known.at.0);
        let is_valid = |known: &Known| is_weight_valid(age(known), Nanos(0), true);
        if !self.known.get(&identity).is_some_and(is_valid) {
            self.known.extend(Known::of(state, now).map(|known| (identity, known)));
        }
    }

    /// Discards all weights.
    pub(super) fn forget(&mut self) {
        self.known.clear();
    }

    /// The weight of a process now; None if it was never measured.
    pub(super) fn weight(&self, state: &ProcessState) -> Option<Weight> {
        match self.known.get(&(state.process, state.start)) {
            Some(known) if known.name == state.name => Some(known.now(state)),
            _ => state.weight,
        }
    }

    /// Sets the memory of a candidate to what its end frees.
    pub(super) fn fill(&self, candidate: &mut Candidate, state: &ProcessState) {
        let freed = ProcessState { weight: self.weight(state), ..state.clone() }.freed();
        (candidate.resident, candidate.swapped) = (Bytes(freed.memory), Bytes(freed.swapped));
    }

    /// How a process shares memory.
    pub(super) fn sharer(&self, state: &ProcessState) -> Sharer {
        let weight = self.weight(state);
        let shares = weight.filter(|weight| !weight.is_borrowed);
        let mut name = [0; 16];
        name.iter_mut().zip(state.name.bytes().take(15)).for_each(|(to, byte)| *to = byte);
        Sharer {
            parent: state.parent,
            process_group: state.process_group,
            name,
            mapped: Bytes(state.resident),
            is_weighed: weight.is_some(),
            share: shares.and_then(|weight| weight.share).map(Bytes),
            shared: Bytes(shares.map_or(0, |weight| weight.shared)),
            is_borrowed: weight.is_some_and(|weight| weight.is_borrowed),
            ending: Bytes(0),
        }
    }
}

impl Known {
    /// The measurement of a process at a moment that has its weight.
    fn of(state: &ProcessState, at: Nanos) -> Option<Known> {
        let (weight, anonymous) = (state.weight?, state.own?);
        Some(Known { at, name: state.name.clone(), weight, anonymous, swapped: state.swapped })
    }

    /// This measurement, or a later one of the recorder that is closer to the time at which the killer measured.
    fn or_later(self, state: &ProcessState) -> Known {
        let then_ns = u64::try_from(self.at.0).unwrap_or(0);
        let is_closer = |later: &Known| {
            let (measured_ns, later_ns) = (self.weight.time_ns, later.weight.time_ns);
            measured_ns < then_ns.min(later_ns) && later_ns < then_ns.saturating_add(SOON)
        };
        Known::of(state, self.at).filter(is_closer).unwrap_or(self)
    }

    fn is_similar(&self, state: &ProcessState) -> bool {
        let differs = state.own.map(|own| own.abs_diff(self.anonymous));
        differs.is_some_and(|bytes| bytes <= self.anonymous / CHANGED_PART)
    }

    /// The weight now: as measured, and the growth since then.
    fn now(&self, state: &ProcessState) -> Weight {
        let grown = |bytes: u64, now: u64, then: u64| (now + bytes).saturating_sub(then);
        let (anonymous, weight) = (state.own.unwrap_or(self.anonymous), self.weight);
        if weight.is_borrowed {
            return weight;
        }
        Weight {
            memory: grown(weight.memory, anonymous, self.anonymous),
            swapped: grown(weight.swapped, state.swapped, self.swapped),
            share: weight.share.map(|share| grown(share, anonymous, self.anonymous)),
            ..weight
        }
    }
}
