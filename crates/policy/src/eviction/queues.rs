//! Queues of numbered pages that can be left from the middle, without linked lists.
//!
//! A queue is a ring of page numbers. One array, shared by all queues of a policy, holds the position
//! of each page's valid entry; an entry that its page no longer points to is stale and is skipped when it
//! reaches the front. Moving a page to the back is therefore two stores, and neither depends on a read,
//! where a linked list would chase four pointers. Stale entries are squeezed out when a ring is full, so
//! each is visited once.

use types::PageId;

/// Queues over the same pages, each from oldest to newest, in groups: a page is in at most one queue
/// of each group. One group (the default) holds all queues; with two, queue 0 is the first group
/// and all others are the second. The places of a page in all groups are adjacent in memory.
///
/// Invariant: `rings[q].length` pages have a place in `q`, and each of those places is the ring
/// position of an entry that names the page.
pub struct Queues<const COUNT: usize, const GROUPS: usize = 1> {
    places: Vec<[Place; GROUPS]>,
    rings: [Ring; COUNT],
}

/// Position of a page's entry in its ring, and the ring's number, in one word.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place(u32);

const QUEUE_BITS: u32 = 2;
const POSITIONS_MAX: u32 = (1 << (u32::BITS - QUEUE_BITS)) - 1;

const AHEAD: u32 = 64;

impl Place {
    /// Means "in no queue": `POSITIONS_MAX` itself is not a position.
    const NOWHERE: Place = Place(u32::MAX);

    #[inline(always)]
    fn new(queue: usize, position: u32) -> Place {
        Place(position << QUEUE_BITS | queue as u32)
    }

    #[inline(always)]
    fn queue(self) -> usize {
        (self.0 & ((1 << QUEUE_BITS) - 1)) as usize
    }
}

/// Entries at positions `front..back`, each in the slot of its position modulo the ring's size.
struct Ring {
    slots: Box<[PageId]>,
    front: u32,
    back: u32,
    /// Bound of `back` before the ring must make space: at most one lap past a former `front`.
    limit: u32,
    length: u32,
}

impl<const COUNT: usize, const GROUPS: usize> Default for Queues<COUNT, GROUPS> {
    fn default() -> Self {
        const { assert!(COUNT <= 1 << QUEUE_BITS && (GROUPS == 1 || GROUPS == 2)) };
        Queues { places: Vec::new(), rings: std::array::from_fn(|_| Ring::new(Ring::SLOTS_MIN)) }
    }
}

/// The group of a queue.
#[inline(always)]
const fn group_of<const GROUPS: usize>(queue: usize) -> usize {
    if GROUPS > 1 && queue > 0 { 1 } else { 0 }
}

impl<const COUNT: usize, const GROUPS: usize> Queues<COUNT, GROUPS> {
    /// Makes room for pages numbered below `pages`.
    pub fn grow(&mut self, pages: usize) {
        if self.places.len() < pages {
            self.places.resize(pages, [Place::NOWHERE; GROUPS]);
        }
    }

    /// Reads the places of pages that are about to be used, and of the pages next to leave a queue, so
    /// that the waits for scattered memory overlap.
    #[inline(always)]
    pub fn read_ahead(&self, pages: &[PageId]) {
        let mut read = 0;
        for page in pages {
            read |= self.places[page.index()][0].0;
        }
        for ring in &self.rings {
            for ahead in 0..AHEAD {
                let page = ring.page(ring.front.wrapping_add(ahead));
                read |= self.places[page.index()][0].0;
            }
        }
        std::hint::black_box(read);
    }

    /// Number of pages in `queue`.
    #[inline(always)]
    pub fn len(&self, queue: usize) -> u32 {
        self.rings[queue].length
    }

    /// Whether `queue` is empty.
    #[inline(always)]
    pub fn is_empty(&self, queue: usize) -> bool {
        self.len(queue) == 0
    }

    /// The queue of the last group that holds `page`.
    #[inline(always)]
    pub fn queue_of(&self, page: PageId) -> Option<usize> {
        self.queue_in(GROUPS - 1, page)
    }

    /// Whether `page` is in the queue of the first of two groups.
    #[inline(always)]
    pub fn is_in_first(&self, page: PageId) -> bool {
        self.queue_in(0, page).is_some()
    }

    #[inline(always)]
    fn queue_in(&self, group: usize, page: PageId) -> Option<usize> {
        let place = self.places[page.index()][group];
        (place != Place::NOWHERE).then_some(place.queue())
    }

    /// Makes `page`, which is in no queue of this group, the newest of `queue`.
    #[inline(always)]
    pub fn push(&mut self, queue: usize, page: PageId) {
        debug_assert!(self.queue_in(group_of::<GROUPS>(queue), page).is_none());
        self.rings[queue].length += 1;
        self.append(queue, page);
    }

    /// Makes `page`, which is in a queue of this group, the newest of `queue`.
    #[inline(always)]
    pub fn promote(&mut self, queue: usize, page: PageId) {
        let place = self.places[page.index()][group_of::<GROUPS>(queue)];
        assert!(place != Place::NOWHERE && place.queue() < COUNT, "page {page:?} is in no queue");
        self.rings[place.queue()].length -= 1;
        self.rings[queue].length += 1;
        self.append(queue, page);
    }

    /// Makes the oldest page of `from` the newest of `to`.
    #[inline(always)]
    pub fn shift(&mut self, from: usize, to: usize) -> Option<PageId> {
        let page = self.pop(from)?;
        self.push(to, page);
        Some(page)
    }

    /// Makes `page`, which is in `queue`, its newest.
    #[inline(always)]
    pub fn refresh(&mut self, queue: usize, page: PageId) {
        debug_assert_eq!(self.queue_in(group_of::<GROUPS>(queue), page), Some(queue));
        self.append(queue, page);
    }

    /// Removes `page` from its queue of the last group.
    #[inline(always)]
    pub fn remove(&mut self, page: PageId) {
        self.remove_in(GROUPS - 1, page);
    }

    /// Removes `page` from its queue of the first of two groups.
    #[inline(always)]
    pub fn remove_from_first(&mut self, page: PageId) {
        self.remove_in(0, page);
    }

    #[inline(always)]
    fn remove_in(&mut self, group: usize, page: PageId) {
        if let Some(queue) = self.queue_in(group, page) {
            self.rings[queue].length -= 1;
            self.places[page.index()][group] = Place::NOWHERE;
        }
    }

    /// Removes and returns the oldest page of `queue`.
    #[inline(always)]
    pub fn pop(&mut self, queue: usize) -> Option<PageId> {
        let page = self.oldest(queue)?;
        let ring = &mut self.rings[queue];
        ring.front += 1;
        ring.length -= 1;
        self.places[page.index()][group_of::<GROUPS>(queue)] = Place::NOWHERE;
        Some(page)
    }

    /// The oldest page of `queue`; drops the stale entries before it.
    #[inline(always)]
    pub fn oldest(&mut self, queue: usize) -> Option<PageId> {
        let ring = &mut self.rings[queue];
        if ring.length == 0 {
            return None;
        }
        let mut front = ring.front;
        loop {
            let page = ring.page(front);
            if self.places[page.index()][group_of::<GROUPS>(queue)] == Place::new(queue, front) {
                ring.front = front;
                return Some(page);
            }
            front += 1;
        }
    }

    #[inline(always)]
    fn append(&mut self, queue: usize, page: PageId) {
        let ring = &mut self.rings[queue];
        if ring.back == ring.limit {
            ring.make_space(queue, &mut self.places);
        }
        self.places[page.index()][group_of::<GROUPS>(queue)] = Place::new(queue, ring.back);
        ring.push(page);
    }
}

impl Ring {
    const SLOTS_MIN: usize = 1 << 10;

    fn new(slots: usize) -> Ring {
        Ring {
            slots: vec![PageId(0); slots].into_boxed_slice(),
            front: 0,
            back: 0,
            limit: slots as u32,
            length: 0,
        }
    }

    #[inline(always)]
    fn page(&self, position: u32) -> PageId {
        self.slots[position as usize & (self.slots.len() - 1)]
    }

    #[inline(always)]
    fn push(&mut self, page: PageId) {
        let slot = self.back as usize & (self.slots.len() - 1);
        self.slots[slot] = page;
        self.back += 1;
    }

    /// Advances `limit`; squeezes out stale entries first if none had left at the front.
    #[cold]
    #[inline(never)]
    fn make_space<const GROUPS: usize>(&mut self, queue: usize, places: &mut [[Place; GROUPS]]) {
        let is_full = (self.back - self.front) as usize == self.slots.len();
        if is_full || self.back == POSITIONS_MAX {
            self.widen();
            self.squeeze(queue, places);
        }
        self.limit = (self.front as usize + self.slots.len()).min(POSITIONS_MAX as usize) as u32;
    }

    /// Enlarges the ring until valid entries fill at most a quarter of it.
    fn widen(&mut self) {
        let slots = (self.length as usize * 4).next_power_of_two();
        if slots > self.slots.len() {
            let mut larger = vec![PageId(0); slots].into_boxed_slice();
            for position in self.front..self.back {
                larger[position as usize & (slots - 1)] = self.page(position);
            }
            self.slots = larger;
        }
    }

    /// Gives the valid entries consecutive positions; the first keeps its slot.
    fn squeeze<const GROUPS: usize>(&mut self, queue: usize, places: &mut [[Place; GROUPS]]) {
        let entries = self.front..self.back;
        self.front &= self.slots.len() as u32 - 1;
        self.back = self.front;
        let mask = self.slots.len() - 1;
        for position in entries {
            let page = self.slots[position as usize & mask];
            let place = &mut places[page.index()][group_of::<GROUPS>(queue)];
            // Half the entries are stale, in no order: arithmetic replaces a branch. A stale
            // entry is written too, and the next one overwrites it.
            let is_valid = *place == Place::new(queue, position);
            *place = if is_valid { Place::new(queue, self.back) } else { *place };
            self.slots[self.back as usize & mask] = page;
            self.back += u32::from(is_valid);
        }
    }
}
