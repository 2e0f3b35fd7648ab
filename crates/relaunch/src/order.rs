//! The order in which visits use the pages of an application, and the order in which its predicted pages are read. Pure.
//!
//! The order is kept for blocks of [`BLOCK_PAGES`] pages: a block has the place of its page that was used first. A place
//! counts the pages that the visit took out of swap before. Visits differ, so places follow them by the same weight as
//! scores do.
//!
//! A range costs a request of its own, and places are never exact. So pages whose places are within [`STRIDE_PAGES`] of
//! each other are read by process and address, and neighbours among them in one range.

use std::collections::{BTreeMap, BTreeSet};

use linux::address_space::PageRange;

use crate::ranges::{Key, Ranges, near, push};

/// Pages with one place: 256 KiB, so that ranges stay large on devices that prefer large reads.
pub(crate) const BLOCK_PAGES: u64 = 64;
/// Pages that are read by address although their places differ: 1 MiB.
pub(crate) const STRIDE_PAGES: u32 = 256;
/// The most blocks of an application whose place is kept: 16 bytes each.
const BLOCKS_MAX: usize = 1 << 18;

/// The place of pages in the order of use, in units of [`STRIDE_PAGES`]; pages whose place is unknown come last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stride(u32);

const UNKNOWN: Stride = Stride(u32::MAX);

/// The places of the blocks of all address spaces of an application.
#[derive(Debug, Default)]
pub(crate) struct Places(BTreeMap<Key, BTreeMap<u64, u32>>);

impl Places {
    /// Learns from the pages that a visit took out of swap, in the order of their first use.
    pub(crate) fn learn(&mut self, uses: &[(Key, u64)], weight_percent: u32) {
        let mut seen: BTreeSet<(Key, u64)> = BTreeSet::new();
        let mut new: Vec<(Key, u64, u32)> = Vec::new();
        for (place, &(key, page)) in (0_u32..).zip(uses) {
            let block = page / BLOCK_PAGES;
            if !seen.insert((key, block)) {
                continue;
            }
            match self.0.get_mut(&key).and_then(|blocks| blocks.get_mut(&block)) {
                Some(known) => *known = moved(*known, place, weight_percent),
                None => new.push((key, block, place)),
            }
        }
        // Of the new ones those stay that were used first.
        new.truncate(BLOCKS_MAX.saturating_sub(self.len()));
        for (key, block, place) in new {
            self.0.entry(key).or_default().insert(block, place);
        }
    }

    /// Forgets address spaces for which `is_in_use` is false.
    pub(crate) fn keep_spaces(&mut self, is_in_use: impl Fn(&Key) -> bool) {
        self.0.retain(|key, _| is_in_use(key));
    }

    /// Forgets the blocks of an address space that have none of these pages.
    pub(crate) fn keep_pages(&mut self, key: Key, pages: &[PageRange]) {
        let Some(blocks) = self.0.get_mut(&key) else { return };
        blocks.retain(|block, _| {
            let first = block * BLOCK_PAGES;
            !near(pages, PageRange::new(first, first + BLOCK_PAGES)).is_empty()
        });
    }

    /// The number of blocks whose place is known.
    fn len(&self) -> usize {
        self.0.values().map(BTreeMap::len).sum()
    }

    /// Cuts a range where the place changes.
    pub(crate) fn cut(&self, key: Key, range: PageRange) -> Vec<(Stride, PageRange)> {
        let mut found: Vec<(Stride, PageRange)> = Vec::new();
        let Some(blocks) = self.0.get(&key) else { return vec![(UNKNOWN, range)] };
        let mut first = range.first;
        while first < range.end {
            let block = first / BLOCK_PAGES;
            // The place is unknown until the next block that has one.
            let (stride, end) = match blocks.range(block..).next() {
                Some((&next, &place)) if next == block => {
                    (Stride(place / STRIDE_PAGES), (block + 1).saturating_mul(BLOCK_PAGES))
                }
                Some((&next, _)) => (UNKNOWN, next.saturating_mul(BLOCK_PAGES)),
                None => (UNKNOWN, u64::MAX),
            };
            let end = end.min(range.end);
            match found.last_mut() {
                Some((other, last)) if *other == stride => last.end = end,
                _ => found.push((stride, PageRange::new(first, end))),
            }
            first = end;
        }
        found
    }

    /// Sorts ranges by the order of use: an address space may come several times.
    pub(crate) fn ordered(&self, ranges: &Ranges) -> Ranges {
        let mut pieces: Vec<(Stride, Key, PageRange)> = Vec::new();
        for (key, ranges) in ranges {
            for &range in ranges {
                let cut = self.cut(*key, range);
                pieces.extend(cut.into_iter().map(|(stride, piece)| (stride, *key, piece)));
            }
        }
        pieces.sort_unstable_by_key(|&(stride, key, range)| (stride, key, range.first));
        let mut found: Ranges = Vec::new();
        for (_, key, range) in pieces {
            match found.last_mut() {
                Some((last, ranges)) if *last == key => push(ranges, range),
                _ => found.push((key, vec![range])),
            }
        }
        found
    }
}

/// A place that a visit moves by `weight_percent` of the way to its own.
fn moved(known: u32, place: u32, weight_percent: u32) -> u32 {
    let weight = u64::from(weight_percent.min(100));
    let sum = u64::from(known) * (100 - weight) + u64::from(place) * weight;
    // A mean of two places is not larger than both.
    (sum / 100) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranges::tests::set;
    use types::random::Stream;

    /// The oracle: the pages one by one, sorted by the definition. Then neighbours are put together.
    fn naive(places: &BTreeMap<(Key, u64), u32>, ranges: &Ranges) -> Vec<(Key, u64)> {
        let mut all: Vec<(u32, Key, u64)> = Vec::new();
        for (key, ranges) in ranges {
            for page in ranges.iter().flat_map(|range| range.first..range.end) {
                let place = places.get(&(*key, page / BLOCK_PAGES));
                all.push((place.map_or(u32::MAX, |place| place / STRIDE_PAGES), *key, page));
            }
        }
        all.sort_unstable();
        all.into_iter().map(|(_, key, page)| (key, page)).collect()
    }

    fn one_by_one(ranges: &Ranges) -> Vec<(Key, u64)> {
        let pages = |(key, ranges): &(Key, Vec<PageRange>)| {
            let key = *key;
            let pages: Vec<u64> = ranges.iter().flat_map(|range| range.first..range.end).collect();
            pages.into_iter().map(move |page| (key, page))
        };
        ranges.iter().flat_map(pages).collect()
    }

    #[test]
    fn the_order_agrees_with_a_sort_of_single_pages() {
        for seed in 0..200 {
            let mut random = Stream::named(seed, "order");
            let (mut places, mut known) = (Places::default(), BTreeMap::new());
            for _ in 0..3 {
                let weight = 1 + random.below(100);
                let mut uses: Vec<(Key, u64)> = Vec::new();
                for _ in 0..random.below(3000) {
                    let page = (Key(u64::from(random.below(3))), u64::from(random.below(4000)));
                    uses.push(page);
                }
                places.learn(&uses, weight);
                // By the definition: the first of the block's uses, moved by the weight.
                let blocks: BTreeSet<(Key, u64)> =
                    uses.iter().map(|&(key, page)| (key, page / BLOCK_PAGES)).collect();
                for block in blocks {
                    let is_of = |use_: &(Key, u64)| (use_.0, use_.1 / BLOCK_PAGES) == block;
                    let first = uses.iter().position(is_of).unwrap() as u64;
                    let before = known.get(&block).copied().map_or(first, u64::from);
                    let weight = u64::from(weight);
                    let now = (before * (100 - weight) + first * weight) / 100;
                    known.insert(block, now as u32);
                }
            }
            let ranges: Ranges = (0..3)
                .map(|key| {
                    let mut ranges = Vec::new();
                    let mut first = 0;
                    while first < 4200 {
                        let end = first + 1 + u64::from(random.below(300));
                        ranges.push(PageRange::new(first, end));
                        first = end + 1 + u64::from(random.below(300));
                    }
                    (Key(key), ranges)
                })
                .collect();
            let ordered = places.ordered(&ranges);
            assert_eq!(one_by_one(&ordered), naive(&known, &ranges), "seed {seed}");
            for (_, ranges) in &ordered {
                assert!(ranges.windows(2).all(|pair| pair[0].end != pair[1].first), "seed {seed}");
            }
            assert!(ordered.windows(2).all(|pair| pair[0].0 != pair[1].0), "seed {seed}");
        }
    }

    #[test]
    fn without_places_the_order_is_that_of_addresses() {
        let ranges = vec![(Key(1), set(&[(3, 900), (1000, 1001)])), (Key(2), set(&[(0, 5)]))];
        assert_eq!(Places::default().ordered(&ranges), ranges);
    }

    #[test]
    fn pages_used_first_come_first_also_across_processes() {
        let mut places = Places::default();
        let (a, b) = (Key(1), Key(2));
        let pages = |key, first: u64| (first..first + 256).map(move |page| (key, page));
        let uses: Vec<(Key, u64)> =
            pages(b, 512).chain(pages(a, 0)).chain(pages(b, 0)).chain(pages(a, 512)).collect();
        places.learn(&uses, 50);
        let all = vec![(a, set(&[(0, 800)])), (b, set(&[(0, 800)]))];
        let expected = vec![
            (b, set(&[(512, 768)])),
            (a, set(&[(0, 256)])),
            (b, set(&[(0, 256)])),
            // Pages whose place is unknown come last, by address.
            (a, set(&[(512, 768), (256, 512), (768, 800)])),
            (b, set(&[(256, 512), (768, 800)])),
        ];
        assert_eq!(places.ordered(&all), expected);
    }

    #[test]
    fn places_are_forgotten_with_their_pages_and_address_spaces() {
        let mut places = Places::default();
        places.learn(&[(Key(1), 0), (Key(1), 640), (Key(2), 0)], 50);
        places.keep_pages(Key(1), &set(&[(63, 64)]));
        let blocks = |key| places.0[&key].keys().copied().collect::<Vec<u64>>();
        assert_eq!((blocks(Key(1)), blocks(Key(2))), (vec![0], vec![0]));
        places.keep_spaces(|key| *key == Key(2));
        assert_eq!(places.0.keys().copied().collect::<Vec<_>>(), [Key(2)]);
    }

    #[test]
    fn memory_is_bounded() {
        let mut places = Places::default();
        let uses: Vec<(Key, u64)> =
            (0..BLOCKS_MAX as u64 + 10).map(|block| (Key(1), block * BLOCK_PAGES)).collect();
        places.learn(&uses, 50);
        assert_eq!(places.len(), BLOCKS_MAX);
        assert!(places.0[&Key(1)].contains_key(&0), "the pages used first stay");
        assert_eq!(moved(u32::MAX, u32::MAX, 100), u32::MAX);
    }
}
