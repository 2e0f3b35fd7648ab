//! Lists of free spans by state and length. Up to 64 pages each length has its own list; above
//! that each doubling has eight, so the best fit needs no walk or a short one.

use crate::spans::{Free, Tag};

/// Pages up to which each length has its own bin.
const EXACT: u32 = 64;
/// log2(EXACT), and log2 of the bins of each doubling above it.
const EXACT_BITS: u32 = EXACT.trailing_zeros();
const DOUBLING_BITS: u32 = 3;
/// Enough bins for spans of a chunk, 2^18 pages.
const BINS: usize = 192;
const WORDS: usize = BINS / 64;
/// Spans examined in a bin of several lengths, to find the shortest that fits.
const LOOKS: usize = 32;

/// Means "no page".
pub const NONE: u32 = u32::MAX;

/// Heads of the lists, with one bit for each list that is not empty.
#[derive(Debug)]
pub struct Bins {
    heads: [[u32; BINS]; Free::COUNT],
    filled: [[u64; WORDS]; Free::COUNT],
}

impl Bins {
    pub const fn new() -> Bins {
        Bins { heads: [[NONE; BINS]; Free::COUNT], filled: [[0; WORDS]; Free::COUNT] }
    }

    /// Inserts the span at `first`, whose tag has its length, at the head of its list.
    pub fn push(&mut self, tags: &mut [Tag], first: u32, state: Free) {
        let Some(tag) = tags.get_mut(first as usize) else { return };
        let bin = bin_of(tag.pages);
        let Some(head) = head(&mut self.heads, state, bin) else { return };
        let next = *head;
        *head = first;
        (tag.previous, tag.next) = (NONE, next);
        if let Some(tag) = tags.get_mut(next as usize) {
            tag.previous = first;
        }
        self.mark(state, bin, true);
    }

    /// Removes the span at `first` from its list.
    pub fn remove(&mut self, tags: &mut [Tag], first: u32, state: Free) {
        let Some(&Tag { pages, previous, next, .. }) = tags.get(first as usize) else { return };
        if let Some(tag) = tags.get_mut(next as usize) {
            tag.previous = previous;
        }
        if let Some(tag) = tags.get_mut(previous as usize) {
            tag.next = next;
            return;
        }
        let bin = bin_of(pages);
        if let Some(head) = head(&mut self.heads, state, bin) {
            *head = next;
        }
        if next == NONE {
            self.mark(state, bin, false);
        }
    }

    /// The first page of a span of `state` that `is_wanted`, with at least `pages` pages, roughly the
    /// shortest.
    pub fn find(
        &self,
        tags: &[Tag],
        state: Free,
        pages: u32,
        is_wanted: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let mut bin = self.next_filled(state, bin_of(pages));
        while let Some(place) = bin {
            let fits = |first: u32, tag: &Tag| tag.pages >= pages && is_wanted(first);
            if let Some(first) = self.best_of(tags, state, place, fits) {
                return Some(first);
            }
            bin = self.next_filled(state, place + 1);
        }
        None
    }

    /// First pages of a bounded number of spans of `state`, roughly the longest first.
    pub fn longest<'a>(&'a self, tags: &'a [Tag], state: Free) -> impl Iterator<Item = u32> + 'a {
        let head = move |bin: usize| self.heads.get(state as usize)?.get(bin).copied();
        let list = |head: u32| {
            std::iter::successors(Some(head), |&first| Some(tags.get(first as usize)?.next))
                .take_while(|&first| first != NONE)
        };
        self.filled_from_last(state).filter_map(head).flat_map(list).take(LOOKS)
    }

    /// Bins of `state` that are not empty, in descending order.
    fn filled_from_last(&self, state: Free) -> impl Iterator<Item = usize> + use<> {
        let mut words = self.filled.get(state as usize).copied().unwrap_or_default();
        std::iter::from_fn(move || {
            let (place, word) = words.iter_mut().enumerate().rfind(|(_, word)| **word != 0)?;
            let bit = word.ilog2();
            *word &= !(1 << bit);
            Some(place * 64 + bit as usize)
        })
    }

    fn best_of(
        &self,
        tags: &[Tag],
        state: Free,
        bin: usize,
        fits: impl Fn(u32, &Tag) -> bool,
    ) -> Option<u32> {
        let head = *self.heads.get(state as usize)?.get(bin)?;
        let tag_of = |first: u32| tags.get(first as usize).map(|tag| (first, tag));
        std::iter::successors(tag_of(head), |(_, tag)| tag_of(tag.next))
            .take(LOOKS)
            .filter(|(first, tag)| fits(*first, tag))
            .min_by_key(|(_, tag)| tag.pages)
            .map(|(first, _)| first)
    }

    fn next_filled(&self, state: Free, from: usize) -> Option<usize> {
        let words = self.filled.get(state as usize)?;
        let first = words.get(from / 64)? & (u64::MAX << (from % 64));
        if first != 0 {
            return Some(from / 64 * 64 + first.trailing_zeros() as usize);
        }
        let (place, word) =
            words.iter().enumerate().skip(from / 64 + 1).find(|(_, word)| **word != 0)?;
        Some(place * 64 + word.trailing_zeros() as usize)
    }

    fn mark(&mut self, state: Free, bin: usize, is_filled: bool) {
        let word = self.filled.get_mut(state as usize).and_then(|words| words.get_mut(bin / 64));
        if let Some(word) = word {
            let mask = 1 << (bin % 64);
            *word = if is_filled { *word | mask } else { *word & !mask };
        }
    }
}

fn head(heads: &mut [[u32; BINS]; Free::COUNT], state: Free, bin: usize) -> Option<&mut u32> {
    heads.get_mut(state as usize)?.get_mut(bin)
}

/// The bin of spans of `pages` pages; longer spans are in no lower bin.
fn bin_of(pages: u32) -> usize {
    if pages <= EXACT {
        return pages.saturating_sub(1) as usize;
    }
    let doubling = pages.ilog2();
    let part = (pages >> (doubling - DOUBLING_BITS)) & ((1 << DOUBLING_BITS) - 1);
    let bin = EXACT + ((doubling - EXACT_BITS) << DOUBLING_BITS) + part;
    (bin as usize).min(BINS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_spans_lie_in_no_lower_bin() {
        let bins: Vec<usize> = (1..=1 << 18).map(bin_of).collect();
        assert!(bins.is_sorted());
        assert_eq!((bins[0], bins[63], bins.last()), (0, 63, Some(&160)));
    }
}
