//! W-TinyLFU: an LRU window, a segmented LRU behind it, and rows of plain counters.

use super::{Model, Options, Order};
use types::PageId;

pub struct TinyLfu {
    frames: usize,
    window_limit: usize,
    protected_limit: usize,
    window: Order,
    probation: Order,
    protected: Order,
    rows: [Vec<u8>; 4],
    added: u64,
    sample: u64,
}

impl TinyLfu {
    pub fn new(frames: usize, options: &Options) -> TinyLfu {
        let window = frames * options.number("window", 1) as usize / 100;
        let window_limit = window.max(1);
        let counters = (4 * frames).next_power_of_two().max(16);
        TinyLfu {
            frames,
            window_limit,
            protected_limit: (frames - window_limit) * 4 / 5,
            window: Order::default(),
            probation: Order::default(),
            protected: Order::default(),
            rows: [(); 4].map(|()| vec![0; counters]),
            added: 0,
            sample: frames as u64 * options.number("sample", 10),
        }
    }

    /// Index of the counter of `page` in `row`. The low half of splitmix64 of the page's number is the
    /// index in row 0; its high half, made odd, is the step from row to row.
    fn counter(&self, row: usize, page: PageId) -> usize {
        let hash = crate::generate::SplitMix(u64::from(page.0).wrapping_mul(STEP)).next_bits();
        let (low, high) = (hash % (1 << 32), hash / (1 << 32) / 2 * 2 + 1);
        ((low + row as u64 * high) % self.rows[row].len() as u64) as usize
    }

    fn frequency(&self, page: PageId) -> u8 {
        (0..4).map(|row| self.rows[row][self.counter(row, page)]).min().expect("four rows")
    }

    fn count(&mut self, page: PageId) {
        let least = self.frequency(page);
        for row in 0..4 {
            let place = self.counter(row, page);
            if self.rows[row][place] == least && least < 15 {
                self.rows[row][place] += 1;
            }
        }
        self.added += 1;
        if self.added == self.sample {
            self.added /= 2;
            self.rows.iter_mut().flatten().for_each(|counter| *counter /= 2);
        }
    }

    fn hit(&mut self, page: PageId) {
        if self.window.refresh(page) {
            return;
        }
        self.probation.take(page);
        self.protected.take(page);
        self.protected.push(page);
        if self.protected.len() > self.protected_limit
            && let Some(oldest) = self.protected.pop()
        {
            self.probation.push(oldest);
        }
    }

    /// Evicts either the page that leaves the window, if any, or the oldest page of the main memory.
    fn settle(&mut self) {
        if self.window.len() <= self.window_limit {
            return;
        }
        let Some(candidate) = self.window.pop() else { return };
        let main = self.probation.len() + self.protected.len();
        if main < self.frames - self.window_limit {
            self.probation.push(candidate);
            return;
        }
        let victim = self.probation.oldest().or_else(|| self.protected.oldest());
        if let Some(victim) = victim
            && self.frequency(candidate) > self.frequency(victim)
        {
            self.probation.take(victim);
            self.protected.take(victim);
            self.probation.push(candidate);
        }
    }
}

/// The increment of SplitMix, multiplied by the page's number.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

impl Model for TinyLfu {
    fn holds(&self, page: PageId) -> bool {
        [&self.window, &self.probation, &self.protected].iter().any(|queue| queue.contains(page))
    }

    fn request(&mut self, page: PageId) -> bool {
        self.count(page);
        let is_hit = self.holds(page);
        if is_hit {
            self.hit(page);
        } else {
            self.window.push(page);
            self.settle();
        }
        is_hit
    }
}
