//! Open addressing with eight bytes per slot, at most half full. Probing is linear, but wraps around
//! within each cache line before it continues with the next line.
//!
//! Hash and home together are a bijection, so an entry at its home needs only the hash bits that the
//! index does not contain: with 2^p slots these are 64 - p bits, a number takes p - 1 (half full), and
//! the last bit marks entries off their home, whose index has no hash bits. An entry at home is
//! therefore exact without a second memory access; an entry off its home is verified through `ids`.
//! Each doubling inserts the ids again in order of first appearance. Frequent ids appear early, so
//! they find their home free (on a Zipf trace 4 of 100 accesses meet an entry off its home).

use super::Full;
use super::extents::Part;
use super::probe::AHEAD;
use super::slots::{ASIDE_MAX, HUGE_PAGE_WORDS, Slots};
use types::{advise_huge_pages, prefetch};

/// 2^64 / golden ratio, odd: multiplying by it is a bijection that spreads into the high bits.
const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;
const SMALLEST_BITS: u32 = 12;
/// Numbers take one bit less than the index, and must fit u32.
const LARGEST_BITS: u32 = 32;

/// Slot = `hash << bits | off_home << (bits - 1) | number + 1`; 0 is empty. Off its home, where ids
/// are compared anyway, the number also uses the lowest bit of the hash. A table that must not grow
/// continues past half full with numbers that need this bit, and marks them as off home in any slot;
/// earlier ids are found as quickly as before.
///
/// Invariants: `slots.len() == 1 << bits`; `ids.len() <= crowd(bits)`; the slot of `ids[n]` holds
/// `n + 1` and is reached from its home without crossing an empty slot.
#[derive(Debug)]
pub(super) struct Table {
    slots: Slots,
    bits: u32,
    ids: Vec<u64>,
    /// Ids that fit before the table must grow or refuse.
    room: usize,
    limit_bytes: usize,
}

/// Bits of an id that choose the slot within its group.
const LANE_BITS: u32 = 3;
const LANES: u64 = (1 << LANE_BITS) - 1;

/// Ids, and slots, per group.
pub(super) const GROUP: usize = 1 << LANE_BITS;

/// The hash of an id: a bijection of u64. Its lowest bits are those of the id; the other bits depend only
/// on the id's group of eight. The first step folds the high half in, so that ids made of two fields
/// (process and page) spread as well as plain numbers.
#[inline(always)]
pub(super) fn hash(id: u64) -> u64 {
    let group = id >> LANE_BITS;
    (group ^ (group >> 32)).wrapping_mul(MULTIPLIER << LANE_BITS) | (id & LANES)
}

/// The slot to probe after `index`: around the cache line of the home, which is already fetched, then
/// around the next lines.
#[inline(always)]
fn next_slot(index: usize, home: usize, mask: usize) -> usize {
    let lanes = GROUP - 1;
    let next = index & !lanes | (index + 1) & lanes;
    if (next ^ home) & lanes == 0 { (next + GROUP) & mask } else { next }
}

/// The home slot in a table of `1 << bits` slots. Eight neighbouring ids share a group of eight slots,
/// which is a cache line: requests of many pages fetch a line for eight of them. The order within the
/// line depends on the group, so that ids which differ only in higher bits spread.
#[inline(always)]
pub(super) fn home(hash: u64, bits: u32) -> usize {
    ((hash >> (u64::BITS - bits)) ^ (hash & LANES)) as usize
}

/// Ids that a table with these index bits may hold: half of its slots, less one because slot value 0
/// means empty.
const fn capacity(bits: u32) -> usize {
    (1 << (bits - 1)) - 1
}

/// Ids that a table may hold if it must not grow: beyond this, chains get long.
const fn crowd(bits: u32) -> usize {
    (1 << bits) / 8 * 5
}

/// The homes of a part's ids.
struct Lanes {
    /// First slot of their cache line.
    line: usize,
    /// The group's permutation of the order within the line.
    turn: u64,
    /// The lane of the first id.
    first: u64,
    hash: u64,
    bits: u32,
}

impl Lanes {
    #[inline(always)]
    fn of(part: &Part, bits: u32) -> Lanes {
        let turn = part.hash >> (u64::BITS - bits);
        let line = turn as usize & !(GROUP - 1);
        Lanes { line, turn, first: part.first & LANES, hash: part.hash, bits }
    }

    /// The slot within the line that is the home of a lane.
    #[inline(always)]
    fn slot(&self, lane: u64) -> usize {
        ((self.turn ^ lane) & LANES) as usize
    }

    /// The bits of an id's slot at home except for the number.
    #[inline(always)]
    fn tag(&self, lane: u64) -> u64 {
        (self.hash | lane) << self.bits
    }
}

impl Table {
    pub(super) fn with_limit(limit_bytes: usize) -> Table {
        Table {
            slots: Slots::new(1 << SMALLEST_BITS, limit_bytes / size_of::<u64>()),
            bits: SMALLEST_BITS,
            ids: Vec::with_capacity(ASIDE_MAX.min(limit_bytes / size_of::<u64>())),
            // The smallest table is always allowed.
            room: capacity(SMALLEST_BITS),
            limit_bytes,
        }
    }

    pub(super) fn ids(&self) -> &[u64] {
        &self.ids
    }

    pub(super) fn slots(&self) -> &[u64] {
        &self.slots
    }

    pub(super) fn bits(&self) -> u32 {
        self.bits
    }

    /// The number of `id`; a new id gets the next number. This is the exact path; `probe` is the fast
    /// path.
    #[inline]
    pub(super) fn find_or_insert(&mut self, id: u64) -> Result<u32, Full> {
        let hash = hash(id);
        let mask = self.slots.len() - 1;
        let home = home(hash, self.bits);
        let mut index = home;
        loop {
            let slot = self.slots[index];
            if slot == 0 {
                return self.insert(id, index);
            }
            let differing = slot ^ (hash << self.bits);
            if slot & self.off_home() == 0 {
                if differing >> self.bits == 0 {
                    return Ok(differing as u32 - 1);
                }
            } else if differing >> self.bits >> 1 == 0 {
                let high = (slot >> self.bits & 1) << (self.bits - 1);
                let number = (slot & (self.off_home() - 1) | high) as usize - 1;
                if self.ids[number] == id {
                    return Ok(number as u32);
                }
            }
            index = next_slot(index, home, mask);
        }
    }

    /// Whether all ids of a part are known and at home; if so, fills in their numbers.
    #[inline]
    pub(super) fn find_part(&self, part: &Part, numbers: &mut [u32; GROUP]) -> bool {
        let lanes = Lanes::of(part, self.bits);
        let Some(slots) = self.slots.get(lanes.line..).and_then(<[u64]>::first_chunk::<GROUP>)
        else {
            return false;
        };
        let mut greatest = 0;
        for (number, place) in numbers[..part.count].iter_mut().zip(lanes.first..) {
            let found = (slots[lanes.slot(place)] ^ lanes.tag(place)).wrapping_sub(1);
            greatest = greatest.max(found);
            *number = found as u32;
        }
        greatest < self.off_home() - 1
    }

    /// Inserts the ids of a part if all their homes are empty and the table need not grow; if so, returns
    /// true and fills in their numbers.
    #[inline]
    pub(super) fn insert_part(&mut self, part: &Part, numbers: &mut [u32; GROUP]) -> bool {
        let next = self.ids.len();
        if next + part.count > self.room || !self.fill_part(part, next) {
            return false;
        }
        self.ids.extend(part.first..part.first + part.count as u64);
        for (number, next) in numbers.iter_mut().zip(next as u32..) {
            *number = next;
        }
        true
    }

    /// Puts the numbers from `next` on into the homes of a part, if all homes are empty.
    #[inline]
    fn fill_part(&mut self, part: &Part, next: usize) -> bool {
        let lanes = Lanes::of(part, self.bits);
        let slots = self.slots.get_mut(lanes.line..);
        let Some(slots) = slots.and_then(<[u64]>::first_chunk_mut::<GROUP>) else {
            return false;
        };
        let places = lanes.first..lanes.first + part.count as u64;
        if places.clone().fold(0, |any, place| any | slots[lanes.slot(place)]) != 0 {
            return false;
        }
        for (place, value) in places.zip(next as u64 + 1..) {
            slots[lanes.slot(place)] = lanes.tag(place) | value;
        }
        true
    }

    /// Gives `id` the next number, and the slot `empty` if the table need not grow.
    #[inline(always)]
    fn insert(&mut self, id: u64, empty: usize) -> Result<u32, Full> {
        if self.ids.len() >= self.room {
            return self.insert_beyond(id, empty);
        }
        let number = self.ids.len();
        self.ids.push(id);
        self.fill(empty, hash(id), number);
        Ok(number as u32)
    }

    /// The slow path of `insert`: the table grows, continues past half full, or is full.
    #[cold]
    fn insert_beyond(&mut self, id: u64, empty: usize) -> Result<u32, Full> {
        let has_grown = self.ids.len() == capacity(self.bits) && self.double().is_ok();
        if self.ids.len() >= crowd(self.bits) {
            return Err(Full);
        }
        if self.bytes() + size_of::<u64>() > self.limit_bytes && self.bits > SMALLEST_BITS {
            return Err(Full);
        }
        let number = self.ids.len();
        self.ids.push(id);
        if has_grown {
            self.place(id, number);
        } else {
            self.fill(empty, hash(id), number);
        }
        Ok(number as u32)
    }

    pub(super) fn set_limit(&mut self, bytes: usize) -> Result<(), Full> {
        self.limit_bytes = bytes;
        let ids_max = (bytes / size_of::<u64>()).saturating_sub(self.slots.len());
        self.room = self.room.min(ids_max);
        if self.bytes() > bytes { Err(Full) } else { Ok(()) }
    }

    /// Memory in use: slots and ids.
    pub(super) fn bytes(&self) -> usize {
        (self.slots.len() + self.ids.len()) * size_of::<u64>()
    }

    fn place(&mut self, id: u64, number: usize) {
        let hash = hash(id);
        let mask = self.slots.len() - 1;
        let home = home(hash, self.bits);
        let mut index = home;
        while self.slots[index] != 0 {
            index = next_slot(index, home, mask);
        }
        self.fill(index, hash, number);
    }

    fn fill(&mut self, index: usize, hash: u64, number: usize) {
        let (tag, value) = (hash << self.bits, number as u64 + 1);
        let is_home = index == home(hash, self.bits) && number < capacity(self.bits);
        self.slots[index] = if is_home {
            tag | value
        } else {
            let high = value >> (self.bits - 1) << self.bits;
            tag & !(1 << self.bits) | high | self.off_home() | value & (self.off_home() - 1)
        };
    }

    /// The bit of a slot that marks an entry off its home.
    #[inline(always)]
    fn off_home(&self) -> u64 {
        1 << (self.bits - 1)
    }

    #[cold]
    fn double(&mut self) -> Result<(), Full> {
        let bits = self.bits + 1;
        let bytes =
            (1usize << bits).saturating_add(self.ids.len()).saturating_mul(size_of::<u64>());
        if bits > LARGEST_BITS || bytes > self.limit_bytes {
            return Err(Full);
        }
        // `ids` has everything to fill the slots again.
        self.slots.grow(1 << bits);
        self.bits = bits;
        let ids_max = self.limit_bytes / size_of::<u64>() - self.slots.len();
        self.room = capacity(bits).min(ids_max);
        self.ids.reserve_exact(capacity(bits) - self.ids.len());
        if self.ids.len() >= HUGE_PAGE_WORDS {
            advise_huge_pages(self.ids.spare_capacity_mut());
        }
        let mut number = 0;
        while let Some(&first) = self.ids.get(number) {
            let rest = &self.ids[number..self.ids.len().min(number + GROUP)];
            let lane = (first & LANES) as usize;
            let count = (1..rest.len().min(GROUP - lane))
                .find(|&place| rest[place] != first + place as u64)
                .unwrap_or(rest.len().min(GROUP - lane));
            if let Some(&later) = self.ids.get(number + AHEAD) {
                prefetch(&self.slots, home(hash(later), bits));
            }
            let part = Part { hash: hash(first - lane as u64), first, count };
            if !self.fill_part(&part, number) {
                (number..number + count).for_each(|number| self.place(self.ids[number], number));
            }
            number += count;
        }
        Ok(())
    }
}
