//! Draws pages at random from ranges, each at most once.

use std::collections::BTreeSet;

use linux::address_space::PageRange;
use types::random::Stream;

/// Draws `count` of the pages of `ranges`, or all if there are fewer, in random order (Floyd's algorithm, and a
/// shuffle), so that the beginning of the list is a random sample too. Of more than 2^32 pages, only the first are drawn.
pub fn pages(ranges: &[PageRange], count: usize, stream: &mut Stream) -> Vec<u64> {
    let mut ends = Vec::with_capacity(ranges.len());
    let mut total = 0_u64;
    for range in ranges {
        total = total.saturating_add(range.pages());
        ends.push(total);
    }
    let total = u32::try_from(total).unwrap_or(u32::MAX);
    let count = u32::try_from(count).unwrap_or(u32::MAX).min(total);
    let mut places = BTreeSet::new();
    for last in total - count..total {
        let place = stream.below(last.saturating_add(1));
        if !places.insert(place) {
            places.insert(last);
        }
    }
    let mut drawn: Vec<u64> = places
        .into_iter()
        .map(|place| {
            let place = u64::from(place);
            let number = ends.partition_point(|&end| end <= place);
            ranges[number].end - (ends[number] - place)
        })
        .collect();
    stream.shuffle(&mut drawn);
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_is_drawn_once_and_all_are_as_likely() {
        let ranges = [PageRange::new(10, 13), PageRange::new(20, 21), PageRange::new(30, 36)];
        let all: Vec<u64> = ranges.iter().flat_map(|range| range.first..range.end).collect();
        let mut counts = std::collections::BTreeMap::new();
        for seed in 0..10_000 {
            let drawn = pages(&ranges, 4, &mut Stream::named(seed, "test"));
            assert_eq!(drawn.iter().collect::<BTreeSet<_>>().len(), 4, "seed {seed}");
            for page in drawn {
                *counts.entry(page).or_insert(0) += 1;
            }
        }
        assert!(counts.keys().eq(all.iter()), "{counts:?}");
        assert!(counts.values().all(|&count| (3700..4300).contains(&count)), "{counts:?}");
        let mut whole = pages(&ranges, 100, &mut Stream::named(1, "test"));
        whole.sort_unstable();
        assert_eq!(whole, all);
        assert_eq!(pages(&[], 5, &mut Stream::named(1, "test")), [0; 0]);
    }

    #[test]
    fn the_beginning_of_a_sample_is_random_too() {
        let ranges = [PageRange::new(0, 100)];
        let first = |seed| pages(&ranges, 50, &mut Stream::named(seed, "test"))[0];
        let mean = (0..2000).map(first).sum::<u64>() as f64 / 2000.0;
        assert!((46.0..53.0).contains(&mean), "{mean}");
    }
}
