//! The driver's inner loop, compiled once per policy with the policy's decisions inlined.
//!
//! It stands beside the policies only so that a catalog row can offer it behind one dynamic call
//! per batch. The driver owns the [`Residency`], and the loop counts by it alone: no policy can
//! write its own loop, and none can misreport its hits.

use super::Eviction;
use types::PageId;

/// Which pages a memory of fixed size holds: the driver's own map, not the policy's.
pub struct Residency {
    /// One bit per page that is in memory.
    words: Vec<u64>,
    /// One bit per page that was ever missed, hence ever requested.
    missed: Vec<u64>,
    resident: u32,
    frames: u32,
}

impl Residency {
    /// An empty memory. Without frames it stays empty.
    pub fn new(frames: u32) -> Residency {
        Residency { words: Vec::new(), missed: Vec::new(), resident: 0, frames }
    }

    /// Pages numbered below `pages` may be named from now on.
    pub fn grow(&mut self, pages: usize) {
        let words = pages.div_ceil(u64::BITS as usize);
        if self.words.len() < words {
            self.words.resize(words, 0);
            self.missed.resize(words, 0);
        }
    }

    /// Distinct pages requested so far: each is missed at its first request.
    pub fn pages_seen(&self) -> u64 {
        self.missed.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Whether `page` is in memory.
    #[inline(always)]
    pub fn contains(&self, page: PageId) -> bool {
        self.words[page.index() / 64] >> (page.0 % 64) & 1 != 0
    }

    /// Without frames nothing is ever resident, and no policy has anything to decide.
    fn miss_all(&mut self, requests: &[PageId]) -> u64 {
        for &page in requests {
            self.note_miss(page);
        }
        requests.len() as u64
    }

    #[inline(always)]
    fn note_miss(&mut self, page: PageId) {
        self.missed[page.index() / 64] |= 1 << (page.0 % 64);
    }

    #[inline(always)]
    fn fill(&mut self, page: PageId) {
        assert!(self.resident < self.frames, "the policy makes room before a page enters");
        self.resident += 1;
        self.words[page.index() / 64] |= 1 << (page.0 % 64);
    }

    #[inline(always)]
    fn free(&mut self, page: PageId) {
        assert!(self.contains(page), "a victim is resident");
        self.resident -= 1;
        self.words[page.index() / 64] &= !(1 << (page.0 % 64));
    }
}

/// A policy as the catalog hands it out: replays a batch at a time.
pub trait Replay: Send {
    /// Requests each page in turn and counts the misses. Every page is numbered below `pages`.
    fn replay(&mut self, requests: &[PageId], pages: usize, memory: &mut Residency) -> u64;
}

/// Requests that a policy may look at together before they are replayed one by one.
const CHUNK: usize = 64;

impl<Policy: Eviction + Send> Replay for Policy {
    fn replay(&mut self, requests: &[PageId], pages: usize, memory: &mut Residency) -> u64 {
        self.grow(pages);
        memory.grow(pages);
        if memory.frames == 0 {
            return memory.miss_all(requests);
        }
        requests.chunks(CHUNK).map(|chunk| replay_chunk(self, chunk, memory)).sum()
    }
}

#[inline(always)]
fn replay_chunk(policy: &mut impl Eviction, requests: &[PageId], memory: &mut Residency) -> u64 {
    policy.read_ahead(requests);
    let mut misses = 0;
    for &page in requests {
        if memory.contains(page) {
            if let Some(victim) = policy.hit(page) {
                memory.free(victim);
            }
            continue;
        }
        misses += 1;
        memory.note_miss(page);
        if policy.miss(page) {
            while let Some(victim) = policy.make_room(page) {
                memory.free(victim);
            }
            policy.insert(page);
            memory.fill(page);
        }
    }
    misses
}
