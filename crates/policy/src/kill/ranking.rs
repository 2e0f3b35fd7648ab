//! Candidates in the order in which they would die.

use std::cmp::Reverse;

use super::{Candidate, Snapshot, Standing};

/// Preference for killing a candidate: the first number decides, the second breaks ties.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Score(pub u64, pub u64);

/// The index of a candidate in its snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CandidateIndex(pub usize);

/// A candidate in the ranking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranked {
    /// Which candidate of the snapshot it is.
    pub candidate: CandidateIndex,
    /// Score that the policy gave it.
    pub score: Score,
    /// Standing, which comes before the score.
    pub standing: Standing,
}

/// A ranking of fixed capacity: it holds only candidates that may be killed, and never allocates once
/// made.
#[derive(Debug)]
pub struct Ranking {
    ranked: Vec<Ranked>,
    room: usize,
}

impl Ranking {
    /// A ranking with room for `room` candidates.
    pub fn with_room(room: usize) -> Ranking {
        Ranking { ranked: Vec::with_capacity(room), room }
    }

    /// The ranking, the first to die first.
    pub fn ranked(&self) -> &[Ranked] {
        &self.ranked
    }

    /// Whether the ranking is empty.
    pub fn is_empty(&self) -> bool {
        self.ranked.is_empty()
    }

    /// Removes all candidates.
    pub fn clear(&mut self) {
        self.ranked.clear();
    }

    /// Ranks every candidate for which `score` returns one, and skips those that may not be killed.
    /// Between equals the younger process, of the higher number, dies first.
    pub(super) fn rank(
        &mut self,
        snapshot: &Snapshot<'_>,
        mut score: impl FnMut(&Candidate) -> Option<Score>,
    ) {
        self.ranked.clear();
        for (index, candidate) in snapshot.candidates.iter().enumerate() {
            if self.ranked.len() == self.room {
                break;
            }
            if !candidate.is_eligible() {
                continue;
            }
            if let Some(score) = score(candidate) {
                let standing = candidate.standing;
                let candidate = CandidateIndex(index);
                self.ranked.push(Ranked { candidate, score, standing });
            }
        }
        let process = |ranked: &Ranked| snapshot.candidate(ranked.candidate).process;
        self.ranked.sort_unstable_by_key(|ranked| {
            Reverse((ranked.standing, ranked.score, process(ranked)))
        });
    }

    /// Moves the candidate of rank `from` back to rank `to`, past those between.
    pub(super) fn move_back(&mut self, from: usize, to: usize) {
        self.ranked[from..=to].rotate_left(1);
    }

    /// Moves the candidate of rank `from` to the front.
    pub(super) fn move_to_front(&mut self, from: usize) {
        self.ranked[..=from].rotate_right(1);
    }
}
