//! Memory that several candidates share: families of forks, and children between vfork and exec.

use std::cmp::Reverse;

use types::Bytes;

use super::super::{Candidate, CandidateIndex, Standing};

/// Processes that share an address space have the same size, up to what changes between two measurements.
const SAME_MAP: u64 = 256 << 10;
/// Two processes with the same name are alike if their sizes differ by less than one part in this many.
const LIKE_PART: u64 = 16;
/// Candidates that free less than one part in this many of a victim are too small to be chosen in its place.
const BEST_PART: u64 = 8;
/// Shared memory below this does not make a child a member of a family.
const LENT_MIN: u64 = 1 << 20;
/// Ancestors that are followed.
const DEPTH_MAX: usize = 16;

/// How a candidate shares memory, as the driver last measured it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sharer {
    /// Process id of the parent.
    pub parent: u32,
    /// Id of the process group.
    pub process_group: u32,
    /// Name of the process, padded with zeros.
    pub name: [u8; 16],
    /// All pages in memory.
    pub mapped: Bytes,
    /// Whether the memory of only this process was measured; if not, the candidate counts all of its anonymous memory.
    pub is_weighed: bool,
    /// The proportional share of a process that shares memory which comes back with the last user; None if it
    /// shares none.
    pub share: Option<Bytes>,
    /// The share of the process of shared memory without a name.
    pub shared: Bytes,
    /// Whether the process uses its parent's memory: it is between vfork and exec.
    pub is_borrowed: bool,
    /// Bytes that come back soon because it is ending, but not by a kill of this driver.
    pub ending: Bytes,
}

/// A victim to which others are compared after kills in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lookalike {
    /// Name of the victim, padded with zeros.
    pub name: [u8; 16],
    /// All pages that it had in memory.
    pub mapped: Bytes,
}

/// Processes that share memory by fork or by shared memory without a name, which comes back when all have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family {
    /// Number of the family: a process group.
    pub key: u32,
    /// The member that represents the family.
    pub root: CandidateIndex,
    /// Number of members.
    pub processes: usize,
    /// What the end of all members frees.
    pub bytes: Bytes,
}

/// The processes that use the memory of `lender`: its children between vfork and exec.
pub fn borrowers<'a>(
    lender: CandidateIndex,
    candidates: &'a [Candidate],
    sharers: &'a [Sharer],
) -> impl Iterator<Item = CandidateIndex> + 'a {
    let number = candidates[lender.0].process;
    let is_borrower = move |sharer: &Sharer| sharer.parent == number && sharer.is_borrowed;
    let found = sharers.iter().enumerate().filter(move |(_, sharer)| is_borrower(sharer));
    found.map(|(index, _)| CandidateIndex(index))
}

/// The family with the most memory, of those without a protected member. Sets the family of each candidate.
pub(super) fn largest_family(
    candidates: &[Candidate],
    sharers: &[Sharer],
    families: &mut Vec<u32>,
    order: &mut Vec<(u32, CandidateIndex)>,
) -> Option<Family> {
    families.clear();
    order.clear();
    for index in 0..candidates.len() {
        let key = family_of(index, candidates, sharers);
        families.push(key);
        if key != 0 {
            order.push((key, CandidateIndex(index)));
        }
    }
    order.sort_unstable();
    let chunks = order.chunk_by(|first, second| first.0 == second.0);
    let found = chunks.filter_map(|members| family(members, candidates, sharers));
    found.max_by_key(|family| family.bytes)
}

fn family(
    members: &[(u32, CandidateIndex)],
    candidates: &[Candidate],
    sharers: &[Sharer],
) -> Option<Family> {
    let indexes = || members.iter().map(|&(_, index)| index);
    if members.len() < 2 || !indexes().all(|index| candidates[index.0].may_die()) {
        return None;
    }
    let share = |index: CandidateIndex| sharers[index.0].share.map_or(0, |share| share.0);
    // The first of the largest members, so that it stays the same from poll to poll.
    let root = indexes().max_by_key(|&index| (share(index), Reverse(index)))?;
    Some(Family {
        key: members[0].0,
        root,
        processes: members.len(),
        bytes: Bytes(indexes().map(share).sum()),
    })
}

/// The family of a process: the process group of its topmost ancestor that shares memory, too, so
/// that orphans of one server stay together. 0 if it shares nothing.
fn family_of(index: usize, candidates: &[Candidate], sharers: &[Sharer]) -> u32 {
    let parent_of = |sharer: &Sharer| {
        let found = candidates.binary_search_by_key(&sharer.parent, |candidate| candidate.process);
        found.ok().map(|parent| &sharers[parent])
    };
    let mut top = &sharers[index];
    if top.share.is_none() && !parent_of(top).is_some_and(|parent| parent.lends_to(top)) {
        return 0;
    }
    for _ in 0..DEPTH_MAX {
        match parent_of(top) {
            Some(parent) if parent.share.is_some() => top = parent,
            _ => break,
        }
    }
    top.process_group
}

impl Sharer {
    /// Whether `child` is a fork that maps the shared memory of this process, as forks do even if they have touched no
    /// page of it, and so have no share.
    fn lends_to(&self, child: &Sharer) -> bool {
        self.share.is_some()
            && self.shared.0 >= LENT_MIN
            && (self.name, self.process_group) == (child.name, child.process_group)
    }
}

/// Assumes that the end of candidates with the name and the size of `victim` frees nothing, as it did for the
/// victim: they share memory in a way that weights do not show. Without a weight, nearly the same size is enough.
/// If no other candidate has much memory, nothing changes.
pub(super) fn discount(candidates: &mut [Candidate], sharers: &[Sharer], victim: Lookalike) {
    let Lookalike { name, mapped } = victim;
    let is_like = |sharer: &Sharer| {
        let most = if sharer.is_weighed { SAME_MAP } else { mapped.0 / LIKE_PART };
        sharer.name == name && sharer.mapped.0.abs_diff(mapped.0) <= most
    };
    let mut others = (sharers.iter().zip(candidates.iter()))
        .filter(|(sharer, candidate)| candidate.is_eligible() && !is_like(sharer));
    if others.any(|(_, candidate)| candidate.bytes().0 >= mapped.0 / BEST_PART) {
        for (sharer, candidate) in sharers.iter().zip(candidates) {
            if is_like(sharer) {
                (candidate.resident, candidate.swapped) = (Bytes(0), Bytes(0));
            }
        }
    }
}

/// Gives the memory of the whole `family` to its root, so that policies see what the end of all members frees.
pub(super) fn adopt(candidates: &mut [Candidate], families: &[u32], family: &Family) {
    let mut lowest = None;
    for (&key, candidate) in families.iter().zip(candidates.iter_mut()) {
        if key == family.key {
            let standing = candidate.standing;
            lowest = Some(lowest.map_or(standing, |lowest: Standing| lowest.min(standing)));
            (candidate.resident, candidate.swapped) = (Bytes(0), Bytes(0));
        }
    }
    let root = &mut candidates[family.root.0];
    root.resident = family.bytes;
    root.standing = lowest.unwrap_or(Standing::Neutral);
}
