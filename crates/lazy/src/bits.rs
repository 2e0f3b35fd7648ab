//! One bit per page of the arena.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bits over memory that lives as long as the program. They are written under the pool's lock; a
/// page's owner reads its own without.
#[derive(Clone, Copy, Debug)]
pub struct Bits(&'static [AtomicU64]);

const WORD: u32 = u64::BITS;

impl Bits {
    pub const fn new(words: &'static [AtomicU64]) -> Bits {
        Bits(words)
    }

    /// Sets the bits of `count` pages from `first` on.
    pub fn set(self, first: u32, count: u32) {
        self.each_word(first, count, |word, mask| word.store(word.load(Relaxed) | mask, Relaxed));
    }

    /// Clears the bits of `count` pages from `first` on.
    pub fn clear(self, first: u32, count: u32) {
        self.each_word(first, count, |word, mask| word.store(word.load(Relaxed) & !mask, Relaxed));
    }

    /// Whether any of `count` pages from `first` on has its bit set.
    pub fn any(self, first: u32, count: u32) -> bool {
        let end = first.saturating_add(count);
        self.next(first, end, true) < end
    }

    /// The first page from `from` on whose bit is `is_set`, `end` where none before it is.
    pub fn next(self, from: u32, end: u32, is_set: bool) -> u32 {
        let mut page = from;
        while page < end {
            let Some(word) = self.0.get((page / WORD) as usize) else { return end };
            let word = if is_set { word.load(Relaxed) } else { !word.load(Relaxed) };
            let rest = word >> (page % WORD);
            if rest != 0 {
                return end.min(page + rest.trailing_zeros());
            }
            page = (page / WORD + 1) * WORD;
        }
        end
    }

    /// The stretches from `first` to `end` whose bits are `is_set`: first page and the one behind.
    pub fn runs(self, first: u32, end: u32, is_set: bool) -> impl Iterator<Item = (u32, u32)> {
        let mut page = first;
        std::iter::from_fn(move || {
            let from = self.next(page, end, is_set);
            page = self.next(from, end, !is_set);
            (from < end).then_some((from, page))
        })
    }

    fn each_word(self, first: u32, count: u32, mut change: impl FnMut(&AtomicU64, u64)) {
        let end = first.saturating_add(count);
        let mut page = first;
        while page < end {
            let next = end.min((page / WORD + 1) * WORD);
            let mask = (u64::MAX >> (WORD - (next - page))) << (page % WORD);
            if let Some(word) = self.0.get((page / WORD) as usize) {
                change(word, mask);
            }
            page = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bits(pages: usize) -> Bits {
        let words: Vec<AtomicU64> = (0..pages.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Bits::new(words.leak())
    }

    proptest! {
        #[test]
        fn bits_equal_a_vector(changes in prop::collection::vec((0..300_u32, 0..150_u32, any::<bool>()), 1..40)) {
            let (bits, mut model) = (bits(512), vec![false; 512]);
            for (first, count, is_set) in changes {
                if is_set { bits.set(first, count) } else { bits.clear(first, count) }
                model[first as usize..(first + count) as usize].fill(is_set);
                for from in (0..450).step_by(7) {
                    for wanted in [true, false] {
                        let expected = (from..450).find(|&page| model[page as usize] == wanted);
                        prop_assert_eq!(bits.next(from, 450, wanted), expected.unwrap_or(450));
                    }
                }
                let mut set = vec![false; 512];
                for (from, to) in bits.runs(3, 450, true) {
                    prop_assert!(from < to && !set[from as usize - 1] && !model[to as usize..450].starts_with(&[true]));
                    set[from as usize..to as usize].fill(true);
                }
                prop_assert_eq!(&set[3..450], &model[3..450]);
                prop_assert_eq!(bits.any(first, 9), model[first as usize..first as usize + 9].contains(&true));
            }
        }
    }
}
