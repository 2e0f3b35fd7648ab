//! The victims of a decision: the candidates that a policy named, and those that must die with them.

use types::Bytes;

use super::super::{Candidate, CandidateIndex, Ranked, Standing};
use super::{Holder, HolderSearch, Sharer, borrowers};

/// The most victims of one decision.
pub const VICTIMS_MAX: usize = 32;

/// Why a process is a victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The policy named it, or it is in the group of a process that the policy named.
    Named,
    /// A member of a family that holds the memory.
    OfFamily,
    /// A process that uses the memory of this candidate.
    Borrower(CandidateIndex),
}

impl Part {
    /// Whether a victim that was measured once more frees what it was chosen for; `promised` is what its end was
    /// expected to free before.
    pub fn is_worth_it(
        self,
        promised: Bytes,
        index: CandidateIndex,
        candidates: &[Candidate],
    ) -> bool {
        let bytes = candidates[index.0].bytes();
        match self {
            Part::Named => bytes.0 > 0 && bytes.0 >= promised.0 / 2,
            Part::OfFamily => true,
            Part::Borrower(lender) => candidates[lender.0].standing == Standing::Dying,
        }
    }
}

/// The victims of one decision, without duplicates.
#[derive(Clone, Copy, Debug)]
pub struct Chosen {
    victims: [(CandidateIndex, Part); VICTIMS_MAX],
    count: usize,
    refused: [CandidateIndex; VICTIMS_MAX],
    refused_count: usize,
}

impl Chosen {
    fn add(&mut self, index: CandidateIndex, part: Part) {
        let is_new = !self.victims().iter().any(|&(chosen, _)| chosen == index);
        if is_new && self.count < VICTIMS_MAX {
            self.victims[self.count] = (index, part);
            self.count += 1;
        }
    }

    fn refuse(&mut self, index: CandidateIndex) {
        if self.refused_count < VICTIMS_MAX {
            self.refused[self.refused_count] = index;
            self.refused_count += 1;
        }
    }

    /// The victims in the order in which they die.
    pub fn victims(&self) -> &[(CandidateIndex, Part)] {
        &self.victims[..self.count]
    }

    /// Candidates that the policy named but that may not die, because a protected process uses their memory.
    pub fn refused(&self) -> &[CandidateIndex] {
        &self.refused[..self.refused_count]
    }
}

impl HolderSearch {
    /// The victims of a decision to kill the candidates `named`: they, the other members of the family of a
    /// named root, with `takes_groups` the other processes of their groups, and children that use their memory. Marks
    /// refused candidates.
    pub fn choose(
        &self,
        named: &[Ranked],
        candidates: &mut [Candidate],
        sharers: &[Sharer],
        takes_groups: bool,
    ) -> Chosen {
        let none = CandidateIndex(0);
        let mut chosen = Chosen {
            victims: [(none, Part::Named); VICTIMS_MAX],
            count: 0,
            refused: [none; VICTIMS_MAX],
            refused_count: 0,
        };
        for &Ranked { candidate: index, .. } in named {
            let may_die = |other: CandidateIndex| candidates[other.0].may_die();
            if !borrowers(index, candidates, sharers).all(may_die) {
                candidates[index.0].standing = Standing::Refused;
                chosen.refuse(index);
                continue;
            }
            chosen.add(index, Part::Named);
            if let Holder::Family(family) = self.holder
                && family.root == index
            {
                chosen.victims[chosen.count - 1].1 = Part::OfFamily;
                let members = self.families.iter().enumerate();
                members
                    .filter(|&(_, &key)| key == family.key)
                    .for_each(|(member, _)| chosen.add(CandidateIndex(member), Part::OfFamily));
            }
            if takes_groups {
                let group = candidates[index.0].group;
                let all = candidates.iter().enumerate();
                all.filter(|(_, other)| other.group == group && other.is_eligible())
                    .for_each(|(other, _)| chosen.add(CandidateIndex(other), Part::Named));
            }
            borrowers(index, candidates, sharers)
                .for_each(|other| chosen.add(other, Part::Borrower(index)));
        }
        chosen
    }
}
