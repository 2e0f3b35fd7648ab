//! Candidates in the order in which they would die.

use std::cmp::Reverse;

use super::{Candidate, Snapshot, Standing};

/// How much a policy wants a candidate dead: the first number decides, the second between equals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Score(pub u64, pub u64);

/// A candidate with its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranked {
    /// Its index among the candidates of the snapshot.
    pub candidate: usize,
    /// What the policy gave it.
    pub score: Score,
    /// Its standing, which comes before the score.
    pub standing: Standing,
}

/// A ranking of fixed room: no candidate enters it that may not be killed, and it never allocates
/// once made.
#[derive(Debug)]
pub struct Ranking {
    ranked: Vec<Ranked>,
    room: usize,
}

impl Ranking {
    /// Room for as many candidates.
    pub fn with_room(room: usize) -> Ranking {
        Ranking { ranked: Vec::with_capacity(room), room }
    }

    /// The ranking, the first to die first.
    pub fn ranked(&self) -> &[Ranked] {
        &self.ranked
    }

    /// Whether nobody is in it.
    pub fn is_empty(&self) -> bool {
        self.ranked.is_empty()
    }

    /// Nobody is in it from now on.
    pub fn clear(&mut self) {
        self.ranked.clear();
    }

    /// Ranks every candidate to whom `score` gives one; those who may not die are not asked for.
    /// Between equals the younger process, of the higher number, dies first.
    pub(super) fn rank(
        &mut self,
        snapshot: &Snapshot<'_>,
        mut score: impl FnMut(&Candidate) -> Option<Score>,
    ) {
        self.ranked.clear();
        for (place, candidate) in snapshot.candidates.iter().enumerate() {
            if self.ranked.len() == self.room {
                break;
            }
            if !candidate.is_eligible() {
                continue;
            }
            if let Some(score) = score(candidate) {
                let standing = candidate.standing;
                self.ranked.push(Ranked { candidate: place, score, standing });
            }
        }
        let process = |ranked: &Ranked| snapshot.candidates[ranked.candidate].process;
        self.ranked.sort_unstable_by_key(|ranked| {
            Reverse((ranked.standing, ranked.score, process(ranked)))
        });
    }

    /// Moves the one at `from` back to place `to`, past those between.
    pub(super) fn move_back(&mut self, from: usize, to: usize) {
        self.ranked[from..=to].rotate_left(1);
    }

    /// Moves the one at `from` to the front.
    pub(super) fn move_to_front(&mut self, from: usize) {
        self.ranked[..=from].rotate_right(1);
    }
}
