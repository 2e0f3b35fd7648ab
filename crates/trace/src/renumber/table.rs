//! Open addressing with linear probing, eight bytes per slot, at most half full.
//!
//! The hash is a bijection, so a slot at index `home` needs only the hash bits that the index does
//! not give: with 2^p slots those are 64 - p bits, a number takes p - 1 (half full), and one bit is
//! left to say that the entry sits off its home, where the index gives nothing away. An entry at
//! home is thus exact without a second memory access; one off its home is verified through `ids`.
//! After each doubling ids go back in order of first appearance: frequent ids appear early, so
//! they find their home free (on a Zipf trace 4 of 100 accesses meet an entry off its home).

use super::Full;
use super::probe::{AHEAD, advise_huge_pages, fetch};

/// 2^64 / golden ratio, odd: multiplying by it is a bijection that spreads into the high bits.
const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;
const SMALLEST_BITS: u32 = 12;
/// Numbers take one bit less than the index, and must fit u32.
const LARGEST_BITS: u32 = 32;

/// Slot = `hash << bits | off_home << (bits - 1) | number + 1`; 0 is empty.
///
/// Invariants: `slots.len() == 1 << bits`; `ids.len() <= capacity(bits)`; the slot of `ids[n]`
/// holds `n + 1` and is reached from its home without crossing an empty slot.
#[derive(Debug)]
pub(super) struct Table {
    slots: Vec<u64>,
    bits: u32,
    ids: Vec<u64>,
    limit_bytes: usize,
}

/// The hash of an id: a bijection of u64. The first step folds the high half in, so that ids made
/// of two fields (process and page) spread as well as plain numbers.
#[inline(always)]
pub(super) fn hash(id: u64) -> u64 {
    (id ^ (id >> 32)).wrapping_mul(MULTIPLIER)
}

/// How many ids a table with this many index bits may hold: half of its slots, less one because
/// slot value 0 is empty.
const fn capacity(bits: u32) -> usize {
    (1 << (bits - 1)) - 1
}

impl Table {
    pub(super) fn with_limit(limit_bytes: usize) -> Table {
        Table {
            slots: vec![0; 1 << SMALLEST_BITS],
            bits: SMALLEST_BITS,
            ids: Vec::new(),
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

    /// The number of `id`, a new one if it was never seen. The exact way; `probe` is the quick one.
    #[inline(never)]
    pub(super) fn find_or_insert(&mut self, id: u64) -> Result<u32, Full> {
        let hash = hash(id);
        let mask = self.slots.len() - 1;
        let mut index = self.home(hash);
        loop {
            let slot = self.slots[index];
            if slot == 0 {
                return self.insert(id, index);
            }
            let differing = slot ^ (hash << self.bits);
            if differing >> self.bits == 0 {
                let number = (differing as usize & (mask >> 1)) - 1;
                if self.ids[number] == id {
                    return Ok(number as u32);
                }
            }
            index = (index + 1) & mask;
        }
    }

    /// Gives `id` the next number, and the slot `empty` if the table need not grow.
    fn insert(&mut self, id: u64, empty: usize) -> Result<u32, Full> {
        let is_full = self.ids.len() == capacity(self.bits);
        if is_full {
            self.double()?;
        }
        if self.bytes() + size_of::<u64>() > self.limit_bytes && self.bits > SMALLEST_BITS {
            return Err(Full);
        }
        let number = self.ids.len();
        self.ids.push(id);
        if is_full {
            self.place(id, number);
        } else {
            self.fill(empty, hash(id), number);
        }
        Ok(number as u32)
    }

    /// Memory in use: slots and ids.
    fn bytes(&self) -> usize {
        (self.slots.len() + self.ids.len()) * size_of::<u64>()
    }

    fn place(&mut self, id: u64, number: usize) {
        let hash = hash(id);
        let mask = self.slots.len() - 1;
        let mut index = self.home(hash);
        while self.slots[index] != 0 {
            index = (index + 1) & mask;
        }
        self.fill(index, hash, number);
    }

    fn fill(&mut self, index: usize, hash: u64, number: usize) {
        let off_home = u64::from(index != self.home(hash)) << (self.bits - 1);
        self.slots[index] = (hash << self.bits) | off_home | (number as u64 + 1);
    }

    fn home(&self, hash: u64) -> usize {
        (hash >> (64 - self.bits)) as usize
    }

    #[cold]
    fn double(&mut self) -> Result<(), Full> {
        let bits = self.bits + 1;
        let bytes =
            (1usize << bits).saturating_add(self.ids.len()).saturating_mul(size_of::<u64>());
        if bits > LARGEST_BITS || bytes > self.limit_bytes {
            return Err(Full);
        }
        // The old slots go first: everything needed is in `ids`, and both at once would not fit
        // the limit.
        self.slots = Vec::new();
        self.slots = vec![0; 1 << bits];
        advise_huge_pages(&mut self.slots);
        self.bits = bits;
        self.ids.reserve_exact(capacity(bits) - self.ids.len());
        for number in 0..self.ids.len() {
            if let Some(&later) = self.ids.get(number + AHEAD) {
                fetch(&self.slots, (hash(later) >> (64 - bits)) as usize);
            }
            self.place(self.ids[number], number);
        }
        Ok(())
    }
}
