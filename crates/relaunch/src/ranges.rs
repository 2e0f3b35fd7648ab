//! Sets of pages as ranges in order that neither overlap nor touch, and the address spaces that they belong to. Pure.

use linux::address_space::PageRange;

/// An address space: numbers are never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(pub u64);

/// Ranges of pages of address spaces.
pub(crate) type Ranges = Vec<(Key, Vec<PageRange>)>;

/// The number of pages of a set.
pub(crate) fn pages(set: &[PageRange]) -> u64 {
    set.iter().map(|range| range.pages()).sum()
}

/// The pages of all ranges.
pub(crate) fn pages_of(ranges: &Ranges) -> u64 {
    ranges.iter().map(|(_, ranges)| pages(ranges)).sum()
}

/// Appends a range that begins at or after the end of the last; a range that touches the last extends it.
pub(crate) fn push(set: &mut Vec<PageRange>, range: PageRange) {
    match set.last_mut() {
        _ if range.pages() == 0 => {}
        Some(last) if last.end == range.first => last.end = range.end,
        _ => set.push(range),
    }
}

/// The pages of both sets.
pub(crate) fn common(left: &[PageRange], right: &[PageRange]) -> Vec<PageRange> {
    let (mut found, mut other) = (Vec::new(), right);
    for range in left {
        while let Some((next, rest)) = other.split_first() {
            let both = PageRange::new(range.first.max(next.first), range.end.min(next.end));
            push(&mut found, both);
            if next.end > range.end {
                break;
            }
            other = rest;
        }
    }
    found
}

/// The pages of `left` that are not in `right`.
pub(crate) fn without(left: &[PageRange], right: &[PageRange]) -> Vec<PageRange> {
    let (mut found, mut other) = (Vec::new(), right);
    for range in left {
        let mut first = range.first;
        while let Some((next, rest)) =
            other.split_first().filter(|(next, _)| next.first < range.end)
        {
            if first < next.first {
                push(&mut found, PageRange::new(first, next.first));
            }
            first = first.max(next.end);
            if next.end > range.end {
                break;
            }
            other = rest;
        }
        if first < range.end {
            push(&mut found, PageRange::new(first, range.end));
        }
    }
    found
}

/// The pages of either set.
pub(crate) fn either(left: &[PageRange], right: &[PageRange]) -> Vec<PageRange> {
    let mut all: Vec<PageRange> = left.iter().chain(right).copied().collect();
    all.sort_unstable();
    let mut found: Vec<PageRange> = Vec::with_capacity(all.len());
    for range in all {
        match found.last_mut().filter(|last| range.first <= last.end) {
            Some(last) => last.end = last.end.max(range.end),
            None => push(&mut found, range),
        }
    }
    found
}

/// `set`, and gaps of at most `gap` pages in it that lie wholly in `within`: fewer, longer ranges.
pub(crate) fn bridged(set: &[PageRange], gap: u64, within: &[PageRange]) -> Vec<PageRange> {
    let gaps: Vec<PageRange> = set
        .windows(2)
        .map(|pair| PageRange::new(pair[0].end, pair[1].first))
        .filter(|between| between.pages() <= gap)
        .collect();
    let whole: Vec<PageRange> = gaps
        .into_iter()
        .filter(|between| {
            pages(&common(std::slice::from_ref(between), near(within, *between))) == between.pages()
        })
        .collect();
    either(set, &whole)
}

/// The ranges of `set` that can overlap `range`.
pub(crate) fn near(set: &[PageRange], range: PageRange) -> &[PageRange] {
    let begin = set.partition_point(|other| other.end <= range.first);
    let end = set.partition_point(|other| other.first < range.end);
    &set[begin..end.max(begin)]
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use types::random::Stream;

    pub(crate) fn set(list: &[(u64, u64)]) -> Vec<PageRange> {
        list.iter().map(|&(first, end)| PageRange::new(first, end)).collect()
    }

    pub(crate) fn listed(set: &[PageRange]) -> BTreeSet<u64> {
        set.iter().flat_map(|range| range.first..range.end).collect()
    }

    pub(crate) fn of(pages: &BTreeSet<u64>) -> Vec<PageRange> {
        let mut found = Vec::new();
        pages.iter().for_each(|&page| push(&mut found, PageRange::new(page, page + 1)));
        found
    }

    /// Some of the first 64 pages.
    pub(crate) fn some(random: &mut Stream) -> BTreeSet<u64> {
        let share = random.below(101);
        (0..64).filter(|_| random.chance(share)).collect()
    }

    #[test]
    fn sets_agree_with_sets_of_single_pages() {
        let mut random = Stream::named(1, "ranges");
        for round in 0..2000 {
            let (left, right) = (some(&mut random), some(&mut random));
            let (a, b) = (of(&left), of(&right));
            assert_eq!(listed(&a), left);
            assert_eq!(pages(&a), left.len() as u64);
            assert_eq!(common(&a, &b), of(&(&left & &right)), "round {round}");
            assert_eq!(without(&a, &b), of(&(&left - &right)), "round {round}");
            assert_eq!(either(&a, &b), of(&(&left | &right)), "round {round}");
            let gap = u64::from(random.below(4));
            let bridged = listed(&bridged(&a, gap, &b));
            for page in 0..64 {
                let below = left.range(..page).next_back();
                let above = left.range(page..).next();
                let is_bridge = below.zip(above).is_some_and(|(below, above)| {
                    above - below - 1 <= gap
                        && (below + 1..*above).all(|page| right.contains(&page))
                });
                assert_eq!(bridged.contains(&page), left.contains(&page) || is_bridge);
            }
        }
    }
}
