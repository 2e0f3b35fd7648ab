//! One bit per page of the arena.

use std::sync::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Relaxed};

/// Bits in memory that lives as long as the program. Every change is atomic, so the owner of a page
/// may read and change its bits without the arena's lock, while others change those of other pages.
#[derive(Clone, Copy, Debug)]
pub struct Bits {
    words: &'static [AtomicU64],
    /// Index of this kind among the `stride` words of the same 64 pages.
    kind: usize,
    stride: usize,
}

/// State of pages, with one bit of each kind per page.
#[derive(Clone, Copy, Debug)]
pub struct PageBits {
    /// The page may contain something other than zeros. The bit does not change while the page is handed
    /// out, except that mapping it ahead sets the bit.
    pub dirty: Bits,
    /// The page belongs to an `mmap`.
    pub mapped: Bits,
    /// The page's mapping differs from the arena's: it is mapped again when it is freed.
    pub tainted: Bits,
    /// The page is tainted only because it was moved here: its mapping joins no other.
    pub moved: Bits,
    /// The page is free and inaccessible.
    pub closed: Bits,
    /// The page's content is in the vault.
    pub aside: Bits,
    /// The page is excluded from core files.
    pub undumped: Bits,
    /// The page's address is the kernel's again: it is unmapped, or the program mapped something since.
    pub released: Bits,
    /// The arena requested huge pages for the region of the page.
    pub huge: Bits,
    /// The program unmapped the page while the arena's lock was taken: it is unowned, without memory.
    pub returned: Bits,
    /// The program mapped over the page, which was free, while the arena's lock was taken.
    pub claimed: Bits,
}

impl PageBits {
    /// Number of kinds of bits.
    pub const COUNT: usize = 11;

    /// Bits of all kinds in one table: the words of the same pages are adjacent, so that a small
    /// arena touches few pages of the table.
    pub const fn new(words: &'static [AtomicU64]) -> PageBits {
        const fn bits(words: &'static [AtomicU64], kind: usize) -> Bits {
            Bits { words, kind, stride: PageBits::COUNT }
        }
        PageBits {
            dirty: bits(words, 0),
            mapped: bits(words, 1),
            tainted: bits(words, 2),
            closed: bits(words, 3),
            aside: bits(words, 4),
            undumped: bits(words, 5),
            released: bits(words, 6),
            huge: bits(words, 7),
            returned: bits(words, 8),
            claimed: bits(words, 9),
            moved: bits(words, 10),
        }
    }

    /// Marks these pages, except those that are the kernel's, as mapped differently from the arena.
    pub fn taint(self, first: u32, pages: u32) {
        for (from, to) in self.released.runs(first, first.saturating_add(pages), false) {
            self.tainted.set(from, to - from);
            self.moved.clear(from, to - from);
        }
    }

    /// Whether the pages have the arena's own attributes, even if they were moved.
    pub fn are_plain(self, first: u32, pages: u32) -> bool {
        let mut tainted = self.tainted.runs(first, first.saturating_add(pages), true);
        tainted.all(|(from, to)| self.moved.next(from, to, false) == to)
    }

    /// Marks the pages as mapped like the arena again.
    pub fn untaint(self, first: u32, pages: u32) {
        self.tainted.clear(first, pages);
        self.moved.clear(first, pages);
    }
}

const WORD: u32 = u64::BITS;

impl Bits {
    #[cfg(test)]
    pub const fn new(words: &'static [AtomicU64]) -> Bits {
        Bits { words, kind: 0, stride: 1 }
    }

    /// The word of the 64 pages that contain `page`.
    fn word(self, page: u32) -> Option<&'static AtomicU64> {
        self.words.get((page / WORD) as usize * self.stride + self.kind)
    }

    /// Sets the bits of `count` pages from `first` on.
    pub fn set(self, first: u32, count: u32) {
        // A word whose pages all belong to the caller needs only a store.
        self.each_word(first, count, |word, mask| match mask {
            u64::MAX => word.store(u64::MAX, Relaxed),
            _ => {
                word.fetch_or(mask, Relaxed);
            }
        });
    }

    /// Clears the bits of `count` pages from `first` on.
    pub fn clear(self, first: u32, count: u32) {
        self.each_word(first, count, |word, mask| match mask {
            u64::MAX => word.store(0, Relaxed),
            _ => {
                word.fetch_and(!mask, Relaxed);
            }
        });
    }

    /// Clears bits from `first` on while they are set, up to `end`. Returns the first page whose bit
    /// another thread cleared before, or `end`.
    pub fn take(self, first: u32, end: u32) -> u32 {
        let mut page = first;
        while page < end {
            let next = end.min((page / WORD + 1) * WORD);
            let Some(word) = self.word(page) else { return page };
            let wanted = mask(page, next);
            let taken = word.fetch_and(!wanted, AcqRel) & wanted;
            if taken != wanted {
                let missing = page / WORD * WORD + (wanted & !taken).trailing_zeros();
                word.fetch_or(taken & mask(missing, page / WORD * WORD + WORD), AcqRel);
                return missing;
            }
            page = next;
        }
        end
    }

    /// Whether any of `count` pages from `first` on has its bit set.
    pub fn any(self, first: u32, count: u32) -> bool {
        let end = first.saturating_add(count);
        self.next(first, end, true) < end
    }

    /// The first page from `from` on whose bit equals `is_set`; `end` if there is none before it.
    pub fn next(self, from: u32, end: u32, is_set: bool) -> u32 {
        let mut page = from;
        while page < end {
            let Some(word) = self.word(page) else { return end };
            let word = if is_set { word.load(Relaxed) } else { !word.load(Relaxed) };
            let rest = word >> (page % WORD);
            if rest != 0 {
                return end.min(page + rest.trailing_zeros());
            }
            page = (page / WORD + 1) * WORD;
        }
        end
    }

    /// The runs from `first` to `end` whose bits equal `is_set`: first page and the page after the last.
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
            if let Some(word) = self.word(page) {
                change(word, mask(page, next));
            }
            page = next;
        }
    }
}

/// The bits of the pages from `from` to `to`, at least one page, all in one word.
fn mask(from: u32, to: u32) -> u64 {
    (u64::MAX >> (WORD - (to - from))) << (from % WORD)
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
