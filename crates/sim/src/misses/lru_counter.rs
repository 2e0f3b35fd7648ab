//! Misses of LRU at one size, without a branch that depends on whether an access hits.
//!
//! A log holds the page of each access, and an array the position of each page's last access: the valid
//! entries of the log are the pages in LRU order. A page is resident while its last access is at or
//! after `front`. The counter finds the next entries to leave for many evictions ahead (the zone), so
//! that hits and misses only differ in a number added. An access to a page of the zone, the only kind
//! that could change which pages leave, is rare and handled separately. So a hit in the middle of the
//! log, a miss and an eviction cost no misprediction. Policy `lru` is the plain form.

use super::CountMisses;
use types::PageId;

/// Counts the misses of an LRU memory of fixed size.
///
/// Invariant: the valid entries in `front..back` are the resident pages; those of them in
/// the zone, `front..zone_end`, are `zone` in order, and the first `evicted` of them have left.
pub(super) struct LruCounter {
    frames: u32,
    misses: u64,
    /// Pages that became resident while frames were free.
    filled: u32,
    /// Position of each page's last access; `NEVER`, or anything below `front`, if not resident.
    last: Vec<u32>,
    /// The entry of a position is in the slot of that number modulo the number of slots.
    log: Box<[PageId]>,
    front: u32,
    back: u32,
    zone: Vec<u32>,
    zone_end: u32,
    evicted: usize,
    /// Positions are lowered when they reach this.
    positions_max: u32,
}

const NEVER: u32 = 0;
/// Position of a page that is no longer resident, for any front.
const LONG_AGO: u32 = 1;
const POSITION_FIRST: u32 = 2;
const ZONE_MAX: usize = 1024;
/// Entries left at which the zone is renewed: runs up to its end would become too short.
const ZONE_LEFT_MIN: usize = 128;
const SLOTS_MIN: usize = 1 << 10;
/// Keeps positions within 32 bits: one log below `positions_max`, one above.
const SLOTS_MAX: usize = 1 << 30;

impl LruCounter {
    pub(super) fn new(frames: u32) -> LruCounter {
        LruCounter {
            frames,
            misses: 0,
            filled: 0,
            last: Vec::new(),
            log: vec![PageId(0); SLOTS_MIN].into_boxed_slice(),
            front: POSITION_FIRST,
            back: POSITION_FIRST,
            zone: Vec::new(),
            zone_end: POSITION_FIRST,
            evicted: 0,
            positions_max: 1 << 31,
        }
    }

    /// Handles accesses while frames are free: no page leaves. Returns how many were counted.
    fn fill(&mut self, requests: &[PageId]) -> usize {
        for (done, &page) in requests.iter().enumerate() {
            if self.filled == self.frames {
                return done;
            }
            let is_new = self.last[page.index()] == NEVER;
            self.filled += u32::from(is_new);
            self.misses += u64::from(is_new);
            self.append(page);
        }
        requests.len()
    }

    /// Handles accesses to a full memory, up to the first special access. Returns how many were counted.
    fn run(&mut self, requests: &[PageId]) -> usize {
        let zone_max = ZONE_MAX.min(self.frames as usize);
        if self.zone.len() - self.evicted < ZONE_LEFT_MIN.min(zone_max) {
            self.end_zone();
            self.find_zone(zone_max);
        }
        // Each access evicts at most one page, so none leaves beyond the zone.
        let left = self.zone.len() - self.evicted;
        let requests = &requests[..left.min(requests.len())];
        let done = self.run_outside_zone(requests);
        if let Some(&page) = requests.get(done) {
            self.access_in_zone(page);
            return done + 1;
        }
        done
    }

    /// Counts accesses up to the first to a page whose last access is in the zone.
    #[inline(never)]
    fn run_outside_zone(&mut self, requests: &[PageId]) -> usize {
        let (front, span) = (self.front, self.zone_end - self.front);
        let mask = self.log.len() - 1;
        let (last, log) = (&mut self.last[..], &mut self.log[..]);
        let mut back = self.back;
        let mut misses = 0;
        let mut done = 0;
        for &page in requests {
            let last = &mut last[page.index()];
            if last.wrapping_sub(front) < span {
                break;
            }
            misses += usize::from(*last < front);
            *last = back;
            log[back as usize & mask] = page;
            back += 1;
            done += 1;
        }
        self.back = back;
        self.evicted += misses;
        self.misses += misses as u64;
        done
    }

    /// Handles an access to a page that is about to leave, or has left with this zone.
    #[cold]
    fn access_in_zone(&mut self, page: PageId) {
        let last = self.last[page.index()];
        // A stale entry is no page's last access, so the list has the page's entry.
        let place = self.zone.binary_search(&last).expect("the zone lists its valid entries");
        if place < self.evicted {
            self.misses += 1;
            self.evicted += 1;
        } else {
            self.zone.remove(place);
        }
        self.append(page);
    }

    fn append(&mut self, page: PageId) {
        self.last[page.index()] = self.back;
        self.log[self.back as usize & (self.log.len() - 1)] = page;
        self.back += 1;
    }

    /// Moves `front` to the first page that has not left.
    fn end_zone(&mut self) {
        self.front = self.zone.get(self.evicted).copied().unwrap_or(self.zone_end);
        self.zone.clear();
        self.evicted = 0;
        self.zone_end = self.front;
    }

    /// Lists the next entries to leave.
    #[inline(never)]
    fn find_zone(&mut self, length: usize) {
        let mask = self.log.len() - 1;
        self.zone.resize(length, 0);
        let mut position = self.front;
        let mut found = 0;
        while found < length {
            let page = self.log[position as usize & mask];
            // Always written, but counted only if valid.
            self.zone[found] = position;
            found += usize::from(self.last[page.index()] == position);
            position += 1;
        }
        self.zone_end = position;
    }

    /// Gives the resident pages consecutive new positions, in a log that is at most a quarter full.
    #[cold]
    fn make_space(&mut self) {
        let slots = (self.filled as usize * 4).next_power_of_two();
        assert!(slots <= SLOTS_MAX, "LRU counts up to 2^28 resident pages");
        if slots > self.log.len() {
            let mut larger = vec![PageId(0); slots].into_boxed_slice();
            for position in self.front..self.back {
                larger[position as usize & (slots - 1)] =
                    self.log[position as usize & (self.log.len() - 1)];
            }
            self.log = larger;
        }
        let entries = self.front..self.back;
        self.front = self.back;
        for position in entries {
            let page = self.log[position as usize & (self.log.len() - 1)];
            if self.last[page.index()] == position {
                self.append(page);
            }
        }
        if self.back >= self.positions_max {
            self.lower_positions();
        }
        self.zone_end = self.front;
    }

    /// Subtracts whole laps of the log from all positions.
    fn lower_positions(&mut self) {
        let laps = (self.front - POSITION_FIRST) / self.log.len() as u32;
        let shift = laps * self.log.len() as u32;
        for last in &mut self.last {
            *last = match *last {
                NEVER => NEVER,
                last if last < self.front => LONG_AGO,
                last => last - shift,
            };
        }
        self.front -= shift;
        self.back -= shift;
    }
}

impl CountMisses for LruCounter {
    fn count(&mut self, mut requests: &[PageId], bound: usize) {
        if self.last.len() < bound {
            self.last.resize(bound, NEVER);
        }
        if self.frames == 0 {
            for page in requests {
                self.last[page.index()] = LONG_AGO;
            }
            self.misses += requests.len() as u64;
            return;
        }
        while !requests.is_empty() {
            let free = self.log.len() - (self.back - self.front) as usize;
            if free == 0 || self.back >= self.positions_max {
                self.end_zone();
                self.make_space();
                continue;
            }
            let done = if self.filled < self.frames {
                self.fill(&requests[..free.min(requests.len())])
            } else {
                self.run(&requests[..free.min(requests.len())])
            };
            requests = &requests[done..];
        }
    }

    fn misses(&self) -> u64 {
        self.misses
    }

    fn pages(&self) -> u64 {
        self.last.iter().map(|&last| u64::from(last != NEVER)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::eviction::model;
    use testkit::generate::{renumber, synth1};

    #[test]
    fn lowering_positions_changes_no_count() {
        let (requests, _) = renumber(&synth1()[..50_000]);
        let requests: Vec<PageId> = requests.iter().map(|page| PageId(page.0 % 900)).collect();
        for frames in [1, 7, 100, 400] {
            let mut counter = LruCounter::new(frames);
            counter.positions_max = 4000;
            counter.count(&requests, 900);
            let mut model = model("lru", frames as usize, &requests).unwrap();
            let naive: u64 = requests.iter().map(|&page| u64::from(!model.request(page))).sum();
            assert_eq!((counter.misses(), counter.pages()), (naive, 900), "{frames} frames");
        }
    }
}
