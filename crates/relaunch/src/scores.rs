//! Predicts which pages of a process the next visit of its application uses. Pure.
//!
//! Each page has a score: the exponentially weighted share of visits that used it, among the visits in which it could be
//! seen. A visit shows the use of a page only if the page was not in memory when the visit began: in swap, or not there
//! at all. A page that was in memory may have been used or not, so it keeps its score. A page that is mapped no more has
//! none.
//!
//! What the kernel evicts between two visits tells something about such pages: it evicts first what was not used for
//! long. If it evicted few of the pages that it could, those few were hardly used; if it evicted all, this says nothing.
//! So the score of an evicted page whose use was not seen is multiplied by the evicted share ([`Scores::fade`]).
//!
//! Neighbours mostly have the same history, so scores are stored as spans of pages with equal scores, in order and
//! without overlap. The number of spans is bounded: [`Scores::bound`] drops those with the lowest scores.

use linux::address_space::PageRange;

use crate::ranges::{common, near, push, without};

/// The score of a page that every visit used.
const FULL: u32 = 10_000;
/// A page with a lower score is forgotten: it would take many visits to matter again.
const LEAST: u32 = 50;

/// Pages with the same score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Scored {
    range: PageRange,
    score: u32,
}

/// The scores of the pages of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scores(Vec<Scored>);

/// How scores follow visits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Learning {
    /// The share of the last visit in a score, in percent: 100 is "as in the last visit".
    pub weight_percent: u32,
    /// A page is predicted from this score on, in percent.
    pub threshold_percent: u32,
}

/// What a visit shows of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    /// Pages in swap when the visit began.
    pub out: &'a [PageRange],
    /// Pages that were not in memory when the visit began, and were when it ended.
    pub used: &'a [PageRange],
    /// All anonymous pages when it ended, in memory or in swap.
    pub mapped: &'a [PageRange],
}

impl Scores {
    /// Learns from a visit.
    pub(crate) fn learn(&mut self, seen: Seen<'_>, learning: Learning) {
        let mut next: Vec<Scored> = Vec::with_capacity(self.0.len());
        let mut bounds: Vec<u64> = Vec::new();
        let ranges = [seen.out, seen.used, seen.mapped].into_iter().flatten();
        let all = self.0.iter().map(|span| &span.range).chain(ranges);
        all.for_each(|range| bounds.extend([range.first, range.end]));
        bounds.sort_unstable();
        bounds.dedup();
        let mut old = Cursor::new(&self.0, |span: &Scored| span.range);
        let [mut out, mut used, mut mapped] =
            [seen.out, seen.used, seen.mapped].map(|set| Cursor::new(set, |range| *range));
        for pair in bounds.windows(2) {
            let page = pair[0];
            let before = old.at(page).map_or(0, |span| span.score);
            let (is_out, is_used) = (out.at(page).is_some(), used.at(page).is_some());
            let score = match mapped.at(page) {
                None => 0,
                Some(_) if is_used => risen(before, learning.weight_percent),
                Some(_) if is_out => fallen(before, learning.weight_percent),
                Some(_) => before,
            };
            if score >= LEAST {
                append(&mut next, Scored { range: PageRange::new(page, pair[1]), score });
            }
        }
        self.0 = next;
    }

    /// Lowers the scores of pages that the kernel evicted although their use was not seen, to the share `evicted` of
    /// `could` pages that it evicted.
    pub(crate) fn fade(&mut self, pages: &[PageRange], evicted: u64, could: u64) {
        if could == 0 || pages.is_empty() {
            return;
        }
        let mut next: Vec<Scored> = Vec::with_capacity(self.0.len());
        for span in &self.0 {
            let faded = common(&[span.range], near(pages, span.range));
            let kept = without(&[span.range], &faded);
            let score = (u64::from(span.score) * evicted.min(could) / could) as u32;
            let mut parts: Vec<Scored> =
                kept.iter().map(|&range| Scored { range, ..*span }).collect();
            parts.extend(faded.iter().map(|&range| Scored { range, score }));
            parts.sort_by_key(|part| part.range.first);
            parts.retain(|part| part.score >= LEAST);
            parts.into_iter().for_each(|part| append(&mut next, part));
        }
        self.0 = next;
    }

    /// The pages that have a score.
    pub(crate) fn known(&self) -> Vec<PageRange> {
        let mut found = Vec::new();
        self.0.iter().for_each(|span| push(&mut found, span.range));
        found
    }

    /// The pages that the next visit uses, as far as known.
    pub(crate) fn predicted(&self, learning: Learning) -> Vec<PageRange> {
        let mut found = Vec::new();
        let spans = self.0.iter().filter(|span| learning.predicts(span.score));
        spans.for_each(|span| push(&mut found, span.range));
        found
    }

    /// The predicted pages in pieces of equal score, each with its score.
    pub(crate) fn ranked(&self, learning: Learning) -> impl Iterator<Item = (u32, PageRange)> + '_ {
        let spans = self.0.iter().filter(move |span| learning.predicts(span.score));
        spans.map(|span| (span.score, span.range))
    }

    /// The number of spans.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Drops spans until there are at most `count`: those with the lowest scores, and of equal ones the shortest.
    pub(crate) fn bound(&mut self, count: usize) {
        if self.0.len() <= count {
            return;
        }
        let mut order: Vec<Scored> = std::mem::take(&mut self.0);
        order.sort_by_key(|span| {
            (std::cmp::Reverse((span.score, span.range.pages())), span.range.first)
        });
        order.truncate(count);
        order.sort_by_key(|span| span.range.first);
        self.0 = order;
    }
}

impl Learning {
    fn predicts(self, score: u32) -> bool {
        score >= self.threshold_percent * (FULL / 100)
    }
}

fn risen(score: u32, weight_percent: u32) -> u32 {
    score + (FULL - score) * weight_percent / 100
}

fn fallen(score: u32, weight_percent: u32) -> u32 {
    score - score * weight_percent / 100
}

fn append(spans: &mut Vec<Scored>, span: Scored) {
    match spans.last_mut() {
        Some(last) if last.range.end == span.range.first && last.score == span.score => {
            last.range.end = span.range.end;
        }
        _ => spans.push(span),
    }
}

/// A place in a list of ranges, which moves forward only.
struct Cursor<'a, Item, Of> {
    rest: &'a [Item],
    of: Of,
}

impl<'a, Item, Of: Fn(&Item) -> PageRange> Cursor<'a, Item, Of> {
    fn new(rest: &'a [Item], of: Of) -> Cursor<'a, Item, Of> {
        Cursor { rest, of }
    }

    /// The item whose range has `page`; pages are asked for in order.
    fn at(&mut self, page: u64) -> Option<&'a Item> {
        while let Some((item, rest)) = self.rest.split_first() {
            let range = (self.of)(item);
            if page < range.end {
                return (page >= range.first).then_some(item);
            }
            self.rest = rest;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranges::tests::{listed, of, set, some};
    use std::collections::BTreeMap;
    use types::random::Stream;

    const HALF: Learning = Learning { weight_percent: 50, threshold_percent: 20 };

    /// The oracle: a score for each page, by the definition.
    #[derive(Default)]
    struct Naive(BTreeMap<u64, u32>);

    impl Naive {
        fn learn(&mut self, seen: Seen<'_>, weight_percent: u32) {
            let [out, used, mapped] = [seen.out, seen.used, seen.mapped].map(listed);
            for page in 0..64 {
                let score = self.0.entry(page).or_default();
                if !mapped.contains(&page) {
                    *score = 0;
                } else if used.contains(&page) {
                    *score += (FULL - *score) * weight_percent / 100;
                } else if out.contains(&page) {
                    *score -= *score * weight_percent / 100;
                }
                if *score < LEAST {
                    *score = 0;
                }
            }
        }
    }

    #[test]
    fn spans_agree_with_a_score_for_each_page() {
        for seed in 0..300 {
            let mut random = Stream::named(seed, "scores");
            let learning = Learning {
                weight_percent: 1 + random.below(100),
                threshold_percent: 1 + random.below(100),
            };
            let (mut scores, mut naive) = (Scores::default(), Naive::default());
            for _ in 0..20 {
                let (out, used, mapped) = (some(&mut random), some(&mut random), some(&mut random));
                let used = of(&(&(&used & &out) & &mapped));
                let (out, mapped) = (of(&out), of(&mapped));
                let seen = Seen { out: &out, used: &used, mapped: &mapped };
                scores.learn(seen, learning);
                naive.learn(seen, learning.weight_percent);
                let predicted = listed(&scores.predicted(learning));
                for (page, &score) in &naive.0 {
                    let span = scores.0.iter().find(|span| listed(&[span.range]).contains(page));
                    assert_eq!(
                        span.map_or(0, |span| span.score),
                        score,
                        "seed {seed}, page {page}"
                    );
                    let is_predicted = score >= learning.threshold_percent * 100;
                    assert_eq!(predicted.contains(page), is_predicted && score > 0);
                }
                assert!(scores.0.windows(2).all(|pair| pair[0].range.end <= pair[1].range.first));
            }
        }
    }

    #[test]
    fn a_page_is_predicted_until_visits_do_without_it() {
        let (all, first) = (set(&[(0, 10)]), set(&[(0, 4)]));
        let mut scores = Scores::default();
        let mut visit = |used: &[PageRange], out: &[PageRange]| {
            scores.learn(Seen { out, used, mapped: &all }, HALF);
            scores.predicted(HALF)
        };
        assert_eq!(visit(&first, &all), first);
        // A visit that found it in memory shows nothing.
        assert_eq!(visit(&[], &[]), first);
        assert_eq!(visit(&[], &all), first);
        assert_eq!(visit(&[], &all), []);
        assert_eq!(visit(&first, &first), first);
        scores.learn(Seen { out: &all, used: &[], mapped: &[] }, HALF);
        assert_eq!((scores.len(), scores.predicted(HALF)), (0, vec![]));
    }

    #[test]
    fn pages_that_the_kernel_evicted_unseen_fade_by_the_evicted_share() {
        let (all, used) = (set(&[(0, 100)]), set(&[(0, 20), (40, 60)]));
        let mut scores = Scores::default();
        scores.learn(Seen { out: &all, used: &used, mapped: &all }, HALF);
        scores.fade(&set(&[(10, 15), (30, 50)]), 15, 20);
        let ranked: Vec<(u32, PageRange)> = scores.ranked(HALF).collect();
        let expected = [
            (5000, (0, 10)),
            (3750, (10, 15)),
            (5000, (15, 20)),
            (3750, (40, 50)),
            (5000, (50, 60)),
        ];
        assert_eq!(
            ranked,
            expected.map(|(score, (first, end))| (score, PageRange::new(first, end)))
        );
        scores.fade(&all, 0, 20);
        assert_eq!(scores.len(), 0);
        scores.fade(&all, 0, 0);
    }

    #[test]
    fn memory_is_bounded_and_the_most_likely_pages_stay() {
        let odd: Vec<PageRange> =
            (0..1000).map(|page| PageRange::new(2 * page, 2 * page + 1)).collect();
        let all = set(&[(0, 2000)]);
        let mut scores = Scores::default();
        for used in [&odd[..], &odd[100..200]] {
            scores.learn(Seen { out: &all, used, mapped: &all }, HALF);
        }
        assert_eq!(scores.len(), 1000);
        scores.bound(100);
        assert_eq!(scores.predicted(HALF), odd[100..200]);
        let ranked: Vec<u32> = scores.ranked(HALF).map(|(score, _)| score).collect();
        assert_eq!(ranked, [7500; 100]);
    }
}
