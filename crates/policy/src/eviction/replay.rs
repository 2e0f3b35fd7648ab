//! The driver's inner loop, compiled once per policy with the policy's decisions inlined.
//!
//! It is in this crate, beside the policies, so that a catalog row can offer it behind one dynamic call
//! per batch. The driver owns the [`Residency`], and the loop counts only by that map: no policy can
//! write its own loop, and none can misreport its hits.

use super::{NotedEviction, Residency};
use types::PageId;

/// A policy as the catalog hands it out: replays a batch at a time.
pub trait Replay: Send {
    /// Requests each page in turn and counts the misses. Every page is numbered below `pages`.
    fn replay(&mut self, requests: &[PageId], pages: usize, memory: &mut Residency) -> u64;
}

/// Requests that a policy may prefetch together before they are replayed one by one.
const CHUNK: usize = 64;

impl<Policy: NotedEviction + Send> Replay for Policy {
    fn replay(&mut self, requests: &[PageId], pages: usize, memory: &mut Residency) -> u64 {
        self.grow(pages);
        memory.grow(pages);
        if memory.frames() == 0 {
            return miss_all(requests, memory);
        }
        requests.chunks(CHUNK).map(|chunk| replay_chunk(self, chunk, memory)).sum()
    }
}

#[inline(always)]
fn replay_chunk(
    policy: &mut impl NotedEviction,
    requests: &[PageId],
    memory: &mut Residency,
) -> u64 {
    policy.read_ahead(requests);
    let mut misses = 0;
    for &page in requests {
        if memory.contains(page) {
            if let Some(victim) = policy.hit(page, memory.notes()) {
                memory.free(victim);
            }
            continue;
        }
        misses += 1;
        if !policy.miss(page, memory.notes()) {
            memory.pass_by(page);
            continue;
        }
        while let Some(victim) = policy.make_room(page, memory.notes()) {
            memory.free(victim);
        }
        policy.insert(page, memory.notes());
        memory.fill(page);
    }
    misses
}

/// Counts every request as a miss: without frames no page is ever resident, and no policy decides.
fn miss_all(requests: &[PageId], memory: &mut Residency) -> u64 {
    for &page in requests {
        memory.pass_by(page);
    }
    requests.len() as u64
}
