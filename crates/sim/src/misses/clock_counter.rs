//! Misses of CLOCK at one size, without a branch that depends on whether an access hits.
//!
//! The pages are in a ring of frames, and a page that enters takes the frame of the one that
//! leaves. The counter finds the next victims of the hand for many evictions ahead (the zone), so that
//! hits and misses differ only in a number added. An access to a page of the zone, the only kind
//! that could change which pages leave, is rare and handled separately. Policy `clock` is the plain
//! form: its mispredictions are whether an access hits, and how many pages the hand passes.

use super::CountMisses;
use types::PageId;

/// Counts the misses of a CLOCK memory of fixed size.
///
/// Invariant: `ring` holds the resident pages except the first `entered.len()` victims of the
/// zone, which have left, and the pages that entered in their place. A page whose frame is in the
/// zone has a state of `IN_ZONE` or above, unless it entered there.
pub(super) struct ClockCounter {
    frames: usize,
    misses: u64,
    /// State of each page.
    states: Vec<u8>,
    ring: Vec<PageId>,
    hand: usize,
    zone: Zone,
}

/// The frames from the hand up to `end`.
struct Zone {
    end: usize,
    /// Frames whose page was not used since the hand last passed it, in order.
    victims: Vec<usize>,
    /// As long as `victims`: pages that took the frames of the first `evicted` victims, then garbage.
    entered: Vec<PageId>,
    evicted: usize,
}

const NEVER: u8 = 0;
/// The page was resident.
const GONE: u8 = 1;
/// The page was not used since the hand last passed it.
const RESIDENT: u8 = 2;
const REFERENCED: u8 = 3;
const IN_ZONE: u8 = 4;
/// The page is in the zone, the hand has passed it there, and it was used since.
const IN_ZONE_REFERENCED: u8 = 5;

const ZONE_MAX: usize = 256;
/// Frames per frame of the zone: a larger zone would make accesses to it frequent.
const FRAMES_PER_ZONE: usize = 64;

impl ClockCounter {
    /// Fewest frames for which a zone is long enough to gain anything.
    pub(super) const FRAMES_MIN: u32 = 4096;

    pub(super) fn new(frames: u32) -> ClockCounter {
        let zone = Zone { end: 0, victims: Vec::new(), entered: Vec::new(), evicted: 0 };
        let frames = frames as usize;
        ClockCounter { frames, misses: 0, states: Vec::new(), ring: Vec::new(), hand: 0, zone }
    }

    /// Accesses one page while there is no zone. Returns whether it was a miss.
    fn access(&mut self, page: PageId) -> bool {
        let state = &mut self.states[page.index()];
        if *state >= RESIDENT {
            *state = REFERENCED;
            return false;
        }
        *state = RESIDENT;
        self.misses += 1;
        if self.ring.len() < self.frames {
            self.ring.push(page);
            return true;
        }
        loop {
            let frame = self.hand;
            self.hand = self.after(frame);
            let state = &mut self.states[self.ring[frame].index()];
            if *state == RESIDENT {
                *state = GONE;
                self.ring[frame] = page;
                return true;
            }
            *state = RESIDENT;
        }
    }

    fn after(&self, frame: usize) -> usize {
        if frame + 1 == self.frames { 0 } else { frame + 1 }
    }

    /// Marks the next frames as the zone and lists those whose pages will leave.
    #[inline(never)]
    fn begin_zone(&mut self) {
        let length = (self.frames / FRAMES_PER_ZONE).clamp(1, ZONE_MAX);
        let end = (self.hand + length).min(self.frames);
        let zone = &mut self.zone;
        zone.end = end;
        zone.evicted = 0;
        zone.victims.resize(end - self.hand, 0);
        let mut found = 0;
        for (frame, page) in (self.hand..).zip(&self.ring[self.hand..end]) {
            let state = &mut self.states[page.index()];
            // Always written, but counted only if the page will leave.
            zone.victims[found] = frame;
            found += usize::from(*state == RESIDENT);
            *state = IN_ZONE;
        }
        zone.victims.truncate(found);
        zone.entered.resize(found, PageId(0));
    }

    /// Moves the hand behind the last page that left, and resolves the states of the zone.
    #[inline(never)]
    fn end_zone(&mut self) {
        let zone = &self.zone;
        let (left, staying) = zone.victims.split_at(zone.evicted);
        let hand = left.last().map_or(self.hand, |&frame| frame + 1);
        for page in &self.ring[self.hand..hand] {
            let state = &mut self.states[page.index()];
            // A page used before the hand passed it has had its second chance.
            *state = if *state == IN_ZONE_REFERENCED { REFERENCED } else { RESIDENT };
        }
        for page in &self.ring[hand..zone.end] {
            self.states[page.index()] = REFERENCED;
        }
        for &frame in staying {
            self.states[self.ring[frame].index()] = RESIDENT;
        }
        for (&frame, &page) in left.iter().zip(&zone.entered) {
            let left = std::mem::replace(&mut self.ring[frame], page);
            self.states[left.index()] = GONE;
        }
        self.misses += zone.evicted as u64;
        self.hand = if hand == self.frames { 0 } else { hand };
    }

    /// Counts accesses up to the first to a page of the zone, or until no victim is left.
    #[inline(never)]
    fn run_outside_zone(&mut self, requests: &[PageId]) -> usize {
        let states = &mut self.states[..];
        let entered = &mut self.zone.entered[..];
        let mut evicted = self.zone.evicted;
        let mut done = 0;
        for &page in requests {
            let state = &mut states[page.index()];
            if *state >= IN_ZONE || evicted >= entered.len() {
                break;
            }
            let is_miss = *state < RESIDENT;
            *state = REFERENCED - u8::from(is_miss);
            // Always written, but counted only if the page enters.
            entered[evicted] = page;
            evicted += usize::from(is_miss);
            done += 1;
        }
        self.zone.evicted = evicted;
        done
    }

    /// Handles an access to a page of the zone. Returns false if the page has already left.
    #[cold]
    fn access_in_zone(&mut self, page: PageId) -> bool {
        let mut frames = self.ring[self.hand..self.zone.end].iter();
        let found = frames.position(|&other| other == page).expect("its state is IN_ZONE");
        let zone = &mut self.zone;
        match zone.victims.binary_search(&(self.hand + found)) {
            Ok(place) if place < zone.evicted => return false,
            Ok(place) => {
                zone.victims.remove(place);
                zone.entered.pop();
            }
            // The hand has passed the page together with the last page that left.
            Err(place) if place < zone.evicted => self.states[page.index()] = IN_ZONE_REFERENCED,
            Err(_) => {}
        }
        true
    }

    /// Handles accesses to a full memory with a zone at the hand. Returns how many were counted: all, or up
    /// to one that needs a miss without a zone.
    fn run(&mut self, requests: &[PageId]) -> usize {
        let mut done = 0;
        loop {
            done += self.run_outside_zone(&requests[done..]);
            let Some(&page) = requests.get(done) else { return done };
            if self.zone.evicted >= self.zone.entered.len() || !self.access_in_zone(page) {
                return done;
            }
            done += 1;
        }
    }
}

impl CountMisses for ClockCounter {
    fn count(&mut self, requests: &[PageId], bound: usize) {
        if self.states.len() < bound {
            self.states.resize(bound, NEVER);
        }
        if self.frames == 0 {
            for page in requests {
                self.states[page.index()] = GONE;
            }
            self.misses += requests.len() as u64;
            return;
        }
        let mut requests = requests.iter();
        while !requests.as_slice().is_empty() {
            // The hand advances here when a zone had no victim.
            let is_full = requests.by_ref().any(|&page| {
                let is_miss = self.access(page);
                is_miss && self.ring.len() == self.frames
            });
            if is_full {
                self.begin_zone();
                let done = self.run(requests.as_slice());
                self.end_zone();
                requests = requests.as_slice()[done..].iter();
            }
        }
    }

    fn misses(&self) -> u64 {
        self.misses
    }

    fn pages(&self) -> u64 {
        self.states.iter().map(|&state| u64::from(state != NEVER)).sum()
    }
}
