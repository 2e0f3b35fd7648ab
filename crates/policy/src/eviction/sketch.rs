//! How often pages were requested recently, estimated in a fixed memory: a count-min sketch with
//! minimal increment and aging (Einziger, Friedman and Manes, TinyLFU, ACM TOS 13(4), 2017).

use types::PageId;

/// Four rows of 4-bit counters; a page has one counter in each row, which other pages share.
///
/// Invariant: `added < sample`.
pub(super) struct Sketch {
    /// The rows one after the other, sixteen counters per word.
    words: Vec<u64>,
    /// Counters per row, minus one; their number is a power of two.
    mask: u64,
    added: u64,
    /// Requests after which all counters are halved.
    sample: u64,
}

const ROWS: u64 = 4;
const COUNTER_BITS: u32 = 4;
const COUNTER_MAX: u64 = 15;
const COUNTERS_PER_WORD: u64 = 16;
/// Mask that keeps each of sixteen counters in its four bits after a shift by one.
const HALVES: u64 = 0x7777_7777_7777_7777;
/// Counters per row for each frame of the memory.
const COUNTERS_PER_FRAME: u64 = 4;
/// Counters per row at most: 512 MiB in total, for more than 256 GiB of memory.
const COUNTERS_MAX: u64 = 1 << 28;

impl Sketch {
    /// A sketch for a memory of `frames`; counters are halved after `sample` requests.
    pub(super) fn new(frames: u32, sample: u64) -> Sketch {
        let counters = (u64::from(frames) * COUNTERS_PER_FRAME).next_power_of_two();
        let counters = counters.clamp(COUNTERS_PER_WORD, COUNTERS_MAX);
        let words = vec![0; (ROWS * counters / COUNTERS_PER_WORD) as usize];
        Sketch { words, mask: counters - 1, added: 0, sample }
    }

    /// Counts a request for `page`.
    pub(super) fn add(&mut self, page: PageId) {
        let least = self.estimate(page);
        if least < COUNTER_MAX {
            for counter in self.counters(page) {
                if self.count(counter) == least {
                    let (word, shift) = place(counter);
                    self.words[word] += 1 << shift;
                }
            }
        }
        self.added += 1;
        if self.added == self.sample {
            self.halve();
        }
    }

    /// Upper bound on the requests for `page`: pages that share its counters may add to it.
    pub(super) fn estimate(&self, page: PageId) -> u64 {
        let counts = self.counters(page).map(|counter| self.count(counter));
        counts.into_iter().fold(COUNTER_MAX, u64::min)
    }

    fn halve(&mut self) {
        for word in &mut self.words {
            *word = *word >> 1 & HALVES;
        }
        self.added /= 2;
    }

    /// The page's counter in each row (Kirsch and Mitzenmacher: two hashes yield any number).
    fn counters(&self, page: PageId) -> [u64; ROWS as usize] {
        let hash = mixed(page);
        let (first, step) = (hash & 0xffff_ffff, hash >> 32 | 1);
        std::array::from_fn(|row| {
            let column = (first + row as u64 * step) & self.mask;
            row as u64 * (self.mask + 1) + column
        })
    }

    fn count(&self, counter: u64) -> u64 {
        let (word, shift) = place(counter);
        self.words[word] >> shift & COUNTER_MAX
    }
}

/// The word of a counter, and the counter's lowest bit in it.
fn place(counter: u64) -> (usize, u32) {
    let shift = (counter % COUNTERS_PER_WORD) as u32 * COUNTER_BITS;
    ((counter / COUNTERS_PER_WORD) as usize, shift)
}

/// The page number with its bits well mixed (splitmix64).
fn mixed(page: PageId) -> u64 {
    let mut mixed = (u64::from(page.0) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
