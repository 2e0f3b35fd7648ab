//! Misses of ARC at one size, on a timeline instead of queues. Policy `arc` is the plain form and
//! explains the rules.
//!
//! The residents of each of its two LRU lists and the ghosts that left it are one list of the
//! timeline: ghosts at the ticks `first..boundary`, residents from there on. So an eviction,
//! like forgetting a ghost, moves a boundary to the next bit without reading any page.
//!
//! The processor cannot predict which accesses hit, so most are counted without a branch.
//! Each access places one page, which fixes its tick beforehand, and evicts at most one: residents
//! younger than those that leave next (the zone) are sure hits. In a chunk of accesses, sure
//! hits move their pages first, without a branch, and the others follow in order. The two kinds name
//! different pages, and the others need only the number of sure hits that left `ONCE` before them.

use super::CountMisses;
use super::timeline::{CHUNK, TICK_FIRST, Timeline};
use types::PageId;

/// Counts the misses of an ARC memory of fixed size, at least one frame.
pub(super) struct ArcCounter {
    frames: u32,
    misses: u64,
    /// Target for residents of `ONCE`, from 0 to `frames`.
    target: f64,
    lists: [List; 2],
    pages: Timeline<2>,
    zone: Zone,
    /// As long as a chunk: its accesses that are not sure hits, and garbage after them.
    others: Vec<Other>,
}

/// The residents that leave next.
struct Zone {
    /// Ticks of each list from which residents are not in the zone.
    ends: [u32; 2],
    /// Residents in the zone, at least, of each list that has an end.
    residents: u32,
}

/// An access that is counted in order.
#[derive(Clone, Copy, Default)]
struct Other {
    /// Position within its chunk.
    index: u32,
    /// Number of sure hits of residents of `ONCE` before it.
    moved: u32,
}

/// Pages requested again since they entered (T2 and B2 in the paper).
const AGAIN: usize = 0;
/// Pages requested once (T1 and B1).
const ONCE: usize = 1;

/// Number of chunks for which a zone suffices at least.
const ZONE_CHUNKS: u32 = 8;
/// The end of a zone with all residents: no hit is sure.
const NO_END: u32 = u32::MAX;

/// Residents and ghosts of one list; the ghosts are older.
#[derive(Clone, Copy)]
struct List {
    /// No ghost has an earlier tick.
    first: u32,
    /// No resident has an earlier tick, and no ghost has this tick or a later one.
    boundary: u32,
    residents: u32,
    ghosts: u32,
}

impl ArcCounter {
    pub(super) fn new(frames: u32) -> ArcCounter {
        let list = List { first: TICK_FIRST, boundary: TICK_FIRST, residents: 0, ghosts: 0 };
        ArcCounter {
            frames,
            misses: 0,
            target: 0.0,
            lists: [list; 2],
            pages: Timeline::new(),
            zone: Zone { ends: [NO_END; 2], residents: 0 },
            others: vec![Other::default(); CHUNK],
        }
    }

    #[cfg(test)]
    pub(super) fn with_ticks_max(self, ticks_max: u32) -> ArcCounter {
        ArcCounter { pages: self.pages.with_ticks_max(ticks_max), ..self }
    }

    #[cfg(test)]
    pub(super) fn with_chunk(self, accesses: usize) -> ArcCounter {
        ArcCounter { others: vec![Other::default(); accesses], ..self }
    }

    fn make_room(&mut self, ticks: usize) {
        if let Some(new) = self.pages.make_room(ticks as u32, self.lists.map(|list| list.first)) {
            for list in &mut self.lists {
                list.first = new.of(list.first);
                list.boundary = new.of(list.boundary);
            }
            self.zone.residents = 0;
        }
    }

    fn count_chunk(&mut self, chunk: &[PageId]) {
        self.renew_zone(chunk.len() as u32);
        let (others, moved_all) = self.count_sure_hits(chunk);
        let mut moved_before = 0;
        for place in 0..others {
            let Other { index, moved } = self.others[place];
            self.move_to_again(moved - moved_before);
            moved_before = moved;
            self.access(chunk[index as usize], self.pages.now() + index);
        }
        self.move_to_again(moved_all - moved_before);
        // Each access evicts at most one resident of the zone, or moves it.
        self.zone.residents -= others as u32;
        self.pages.advance(chunk.len() as u32);
    }

    /// Begins a new zone if this one might not suffice for the next `accesses`.
    #[inline(always)]
    fn renew_zone(&mut self, accesses: u32) {
        if self.zone.residents >= accesses {
            return;
        }
        let residents = self.others.len() as u32 * ZONE_CHUNKS;
        self.zone = Zone { ends: [NO_END; 2], residents };
        // Sure hits enter `AGAIN` early, so evictions must not get that far.
        if self.lists[AGAIN].residents < residents {
            return;
        }
        for (end, kind) in self.zone.ends.iter_mut().zip(0..) {
            let list = self.lists[kind];
            if list.residents >= residents {
                *end = self.pages.end(kind, list.boundary, residents);
            }
        }
    }

    /// Moves the pages of sure hits. Returns the number of accesses left in `others`, and the number of
    /// pages that left `ONCE`.
    #[inline(never)]
    fn count_sure_hits(&mut self, chunk: &[PageId]) -> (usize, u32) {
        let (mut others, mut moved) = (0, 0);
        for (index, &page) in (0..).zip(chunk) {
            let stamp = self.pages.stamp(page);
            let is_sure = stamp.tick() >= self.zone.ends[stamp.kind()];
            // Always written, but counted only if not sure.
            self.others[others] = Other { index, moved };
            others += usize::from(!is_sure);
            moved += u32::from(is_sure) & u32::from(stamp.kind() == ONCE);
            self.pages.move_if(is_sure, page, stamp, self.pages.now() + index);
        }
        (others, moved)
    }

    #[inline(always)]
    fn move_to_again(&mut self, residents: u32) {
        self.lists[ONCE].residents -= residents;
        self.lists[AGAIN].residents += residents;
    }

    /// Counts an access of any kind, and places its page at `tick`.
    #[inline(always)]
    fn access(&mut self, page: PageId, tick: u32) {
        let stamp = self.pages.stamp(page);
        let list = stamp.kind();
        if stamp.tick() >= self.lists[list].boundary {
            self.move_to_again(u32::from(list == ONCE));
            self.pages.take(stamp);
            self.pages.place_at(tick, page, AGAIN);
            return;
        }
        self.misses += 1;
        if stamp.tick() >= self.lists[list].first {
            self.adapt(list);
            self.lists[list].ghosts -= 1;
            self.pages.take(stamp);
            if self.is_full() {
                self.replace(list == AGAIN);
            }
            self.place::<AGAIN>(page, tick);
        } else {
            if self.is_full() {
                self.replace_for_unknown();
            }
            self.place::<ONCE>(page, tick);
        }
    }

    #[inline(always)]
    fn place<const LIST: usize>(&mut self, page: PageId, tick: u32) {
        self.lists[LIST].residents += 1;
        self.pages.place_at(tick, page, LIST);
    }

    #[inline(always)]
    fn is_full(&self) -> bool {
        self.lists[ONCE].residents + self.lists[AGAIN].residents == self.frames
    }

    /// Moves the target towards the list whose ghost was missed.
    #[inline(always)]
    fn adapt(&mut self, ghost_of: usize) {
        let once = f64::from(self.lists[ONCE].ghosts);
        let again = f64::from(self.lists[AGAIN].ghosts);
        self.target = if ghost_of == ONCE {
            (self.target + (again / once).max(1.0)).min(f64::from(self.frames))
        } else {
            (self.target - (once / again).max(1.0)).max(0.0)
        };
    }

    #[inline(always)]
    fn replace(&mut self, for_ghost_of_again: bool) {
        let residents = self.lists[ONCE].residents;
        let once = f64::from(residents);
        let is_over = once > self.target || (once == self.target && for_ghost_of_again);
        if (residents > 0 && is_over) || self.lists[AGAIN].residents == 0 {
            self.evict::<ONCE>();
        } else {
            self.evict::<AGAIN>();
        }
    }

    #[inline(always)]
    fn replace_for_unknown(&mut self) {
        let [again, once] = self.lists.map(|list| list.residents + list.ghosts);
        if once >= self.frames {
            if self.lists[ONCE].ghosts == 0 {
                // The oldest resident leaves without becoming a ghost.
                self.evict::<ONCE>();
                self.forget::<ONCE>();
                return;
            }
            self.forget::<ONCE>();
        } else if once + again >= 2 * self.frames && self.lists[AGAIN].ghosts > 0 {
            self.forget::<AGAIN>();
        }
        self.replace(false);
    }

    /// Makes the oldest resident of a list its newest ghost.
    #[inline(always)]
    fn evict<const LIST: usize>(&mut self) {
        let list = &mut self.lists[LIST];
        list.boundary = self.pages.next([LIST], list.boundary) + 1;
        list.residents -= 1;
        list.ghosts += 1;
    }

    /// Forgets the oldest ghost of a list.
    #[inline(always)]
    fn forget<const LIST: usize>(&mut self) {
        let list = &mut self.lists[LIST];
        list.first = self.pages.next([LIST], list.first) + 1;
        list.ghosts -= 1;
    }
}

impl CountMisses for ArcCounter {
    fn count(&mut self, requests: &[PageId], bound: usize) {
        self.pages.grow(bound);
        let mut chunks = requests.chunks(self.others.len()).peekable();
        while let Some(chunk) = chunks.next() {
            self.make_room(chunk.len());
            self.pages.fetch_stamps(chunks.peek().copied().unwrap_or_default());
            self.pages.fetch_blocks(chunk);
            self.count_chunk(chunk);
        }
    }

    fn misses(&self) -> u64 {
        self.misses
    }

    fn pages(&self) -> u64 {
        self.pages.pages_placed()
    }
}
