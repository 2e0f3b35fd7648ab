//! What an application uses from visit to visit, and so what to do when it thaws and when it freezes. Pure: the driver
//! reads page maps and gives advice.
//!
//! A visit begins with [`Application::begin`] and ends with [`Application::end`]. A process that has called `exec` is
//! another address space with another key, so nothing that was learned before counts for it.

use std::collections::BTreeMap;

use linux::address_space::{AnonymousPages, PageRange};

use crate::order::{Places, Stride};
use crate::ranges::{Key, Ranges, bridged, common, either, near, pages, pages_of, without};
use crate::scores::{Learning, Scores, Seen};

/// The most spans of scores that an application has: 24 bytes each.
const SPANS_MAX: usize = 1 << 18;

/// How an application is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choices {
    pub learning: Learning,
    /// Gaps of at most this many pages in swap are read too, to make longer ranges.
    pub gap_pages: u64,
    /// Whether pages that are not predicted leave memory when the application freezes.
    pub page_out: bool,
    /// Whether pages that stay in memory then are reclaimed before those of running applications.
    pub cold: bool,
}

/// The memory of an application, and its counters.
#[derive(Debug, Default)]
pub(crate) struct Application {
    scores: BTreeMap<Key, Scores>,
    places: Places,
    visit: Option<BTreeMap<Key, Begun>>,
    /// What each address space had when the last visit ended.
    left: BTreeMap<Key, Left>,
}

/// What an address space had when a visit ended.
#[derive(Debug)]
struct Left {
    /// Predicted pages in memory.
    predicted: Vec<PageRange>,
    /// Predicted pages in memory that the visit was not seen to use.
    unseen: Vec<PageRange>,
}

/// What an address space had when the visit began.
#[derive(Debug)]
struct Begun {
    out: Vec<PageRange>,
    resident: Vec<PageRange>,
    prefetched: Vec<PageRange>,
}

/// What to do before an application runs again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct VisitBegin {
    /// The ranges to read, in the order in which to read them: by key and address, or in the order of use, in which an
    /// address space may come several times.
    pub prefetch: Ranges,
    /// The pages that the visit is expected to use, in memory or in swap.
    pub predicted_pages: u64,
    /// The predicted pages that are in swap.
    pub wanted_pages: u64,
}

/// The end of a visit, and what to do now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct VisitEnd {
    /// Pages that were prefetched and used.
    pub used_pages: u64,
    /// Pages that were used and not prefetched.
    pub missed_pages: u64,
    /// Pages to reclaim now.
    pub page_out: Ranges,
    /// Pages to reclaim before others.
    pub cold: Ranges,
}

impl Application {
    /// A visit begins: `present` are the address spaces now. Plans to read at most `pages_max` pages: those with the
    /// highest scores.
    pub(crate) fn begin(
        &mut self,
        present: &[(Key, AnonymousPages)],
        pages_max: u64,
        choices: Choices,
    ) -> VisitBegin {
        self.keep_only(present);
        self.fade(present, choices);
        let mut begin = VisitBegin::default();
        let mut wanted: Vec<Wanted> = Vec::new();
        for (key, found) in present {
            let Some(scores) = self.scores.get(key) else { continue };
            begin.predicted_pages += pages(&scores.predicted(choices.learning));
            for (score, range) in scores.ranked(choices.learning) {
                let out = common(&[range], near(&found.swapped, range));
                let cut = out.into_iter().flat_map(|range| self.places.cut(*key, range));
                wanted.extend(cut.map(|(stride, range)| Wanted {
                    score,
                    stride,
                    key: *key,
                    range,
                }));
            }
        }
        begin.wanted_pages = wanted.iter().map(|wanted| wanted.range.pages()).sum();
        let chosen = affordable(wanted, pages_max);
        let mut left = pages_max - pages_of(&chosen);
        for (key, chosen) in chosen {
            let swapped = present.iter().find(|(other, _)| *other == key);
            let swapped = swapped.map_or(&[][..], |(_, found)| &found.swapped);
            let longer = bridged(&chosen, choices.gap_pages, swapped);
            let extra = pages(&longer) - pages(&chosen);
            let taken = if extra <= left { longer } else { chosen };
            left -= if extra <= left { extra } else { 0 };
            begin.prefetch.push((key, taken));
        }
        let mut begun: BTreeMap<Key, Begun> = present
            .iter()
            .map(|(key, found)| {
                let AnonymousPages { swapped: out, resident } = found.clone();
                (*key, Begun { out, resident, prefetched: Vec::new() })
            })
            .collect();
        for (key, ranges) in &begin.prefetch {
            if let Some(begun) = begun.get_mut(key) {
                begun.prefetched.clone_from(ranges);
            }
        }
        self.visit = Some(begun);
        begin.prefetch = self.places.ordered(&begin.prefetch);
        begin
    }

    /// Learns the order of use of the visit that ends: the pages that it took out of swap, in the order of first use.
    pub(crate) fn learn_order(&mut self, uses: &[(Key, u64)], choices: Choices) {
        self.places.learn(uses, choices.learning.weight_percent);
    }

    /// Forgets the order of use.
    pub(crate) fn forget_order(&mut self) {
        self.places = Places::default();
    }

    /// The kernel did not prefetch `key`, for instance because its process has ended.
    pub(crate) fn not_prefetched(&mut self, key: Key) {
        if let Some(begun) = self.visit.as_mut().and_then(|visit| visit.get_mut(&key)) {
            begun.prefetched.clear();
        }
    }

    /// A visit ends: `present` are the address spaces now. Learns what the visit used. None if no visit had begun.
    pub(crate) fn end(
        &mut self,
        present: &[(Key, AnonymousPages)],
        choices: Choices,
    ) -> Option<VisitEnd> {
        let mut visit = self.visit.take()?;
        self.keep_only(present);
        let mut end = VisitEnd::default();
        for (key, found) in present {
            // An address space that is younger than the visit shows nothing yet.
            let Some(Begun { out, resident, prefetched }) = visit.remove(key) else { continue };
            let read = common(&out, &found.resident);
            end.used_pages += pages(&common(&read, &prefetched));
            end.missed_pages += pages(&without(&read, &prefetched));
            // Pages that the visit allocated were used, too.
            let used = without(&found.resident, &resident);
            let mapped = either(&found.resident, &found.swapped);
            let seen = Seen { out: &out, used: &used, mapped: &mapped };
            let scores = self.scores.entry(*key).or_default();
            scores.learn(seen, choices.learning);
            let predicted = common(&scores.predicted(choices.learning), &found.resident);
            let unseen = without(&predicted, &used);
            self.left.insert(*key, Left { predicted, unseen });
        }
        self.bound(SPANS_MAX);
        for (key, scores) in &self.scores {
            self.places.keep_pages(*key, &scores.known());
        }
        self.settle(present, choices, &mut end);
        Some(end)
    }

    /// Learns from what the kernel evicted since the last visit. If relaunchd has made pages cold, the order in which
    /// they were evicted says nothing about their use.
    fn fade(&mut self, present: &[(Key, AnonymousPages)], choices: Choices) {
        for (key, found) in present {
            let Some(Left { predicted, unseen }) = self.left.remove(key) else { continue };
            let Some(scores) = self.scores.get_mut(key).filter(|_| !choices.cold) else { continue };
            let evicted = pages(&common(&predicted, &found.swapped));
            scores.fade(&common(&unseen, &found.swapped), evicted, pages(&predicted));
        }
    }

    /// Divides the pages in memory between those to reclaim now and those to reclaim first.
    fn settle(&self, present: &[(Key, AnonymousPages)], choices: Choices, end: &mut VisitEnd) {
        let predicted = |key: &Key| {
            self.scores
                .get(key)
                .map(|scores| scores.predicted(choices.learning))
                .unwrap_or_default()
        };
        let is_any_predicted = present.iter().any(|(key, _)| !predicted(key).is_empty());
        for (key, found) in present {
            let predicted = predicted(key);
            // While nothing is predicted, nothing is known: reclaim would hit what the next visit needs.
            let out = match choices.page_out && is_any_predicted {
                true => without(&found.resident, &predicted),
                false => Vec::new(),
            };
            if choices.cold {
                let cold = without(&found.resident, &out);
                end.cold.extend((!cold.is_empty()).then_some((*key, cold)));
            }
            end.page_out.extend((!out.is_empty()).then_some((*key, out)));
        }
    }

    /// Whether a visit has begun and not ended.
    #[cfg(test)]
    fn is_visited(&self) -> bool {
        self.visit.is_some()
    }

    /// The number of address spaces about which something is known.
    #[cfg(test)]
    fn known(&self) -> usize {
        self.scores.len()
    }

    /// Forgets address spaces that are in use no more.
    fn keep_only(&mut self, present: &[(Key, AnonymousPages)]) {
        let is_present = |key: &Key| present.iter().any(|(other, _)| other == key);
        self.scores.retain(|key, _| is_present(key));
        self.left.retain(|key, _| is_present(key));
        self.places.keep_spaces(is_present);
    }

    /// Gives each address space its share of `count` spans.
    fn bound(&mut self, count: usize) {
        let all: usize = self.scores.values().map(Scores::len).sum();
        if all > count {
            for scores in self.scores.values_mut() {
                scores.bound(scores.len() * count / all);
            }
        }
    }
}

/// Predicted pages in swap.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    score: u32,
    stride: Stride,
    key: Key,
    range: PageRange,
}

/// The ranges with the highest scores, and of equal ones those used first, that have at most `pages_max` pages together,
/// in order of keys and addresses.
fn affordable(mut wanted: Vec<Wanted>, pages_max: u64) -> Ranges {
    wanted.sort_by_key(|&Wanted { score, stride, key, range }| {
        (std::cmp::Reverse(score), stride, key, range.first)
    });
    let mut left = pages_max;
    for Wanted { range, .. } in &mut wanted {
        range.end = range.end.min(range.first.saturating_add(left));
        left -= range.pages();
    }
    wanted.retain(|wanted| wanted.range.pages() > 0);
    let mut found: BTreeMap<Key, Vec<PageRange>> = BTreeMap::new();
    wanted.iter().for_each(|wanted| found.entry(wanted.key).or_default().push(wanted.range));
    found.into_iter().map(|(key, ranges)| (key, either(&ranges, &[]))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranges::tests::set;

    const CHOICES: Choices = Choices {
        learning: Learning { weight_percent: 50, threshold_percent: 20 },
        gap_pages: 0,
        page_out: true,
        cold: true,
    };
    const FIRST: Key = Key(1);
    const ALL: u64 = u64::MAX;

    fn found(swapped: &[(u64, u64)], resident: &[(u64, u64)]) -> AnonymousPages {
        AnonymousPages { swapped: set(swapped), resident: set(resident) }
    }

    /// An application with one process, all of whose 100 pages were out, and whose first visit used 10 to 20.
    fn visited() -> Application {
        let mut application = Application::default();
        let before = found(&[(0, 100)], &[(300, 310)]);
        let begin = application.begin(&[(FIRST, before)], ALL, CHOICES);
        assert_eq!(begin, VisitBegin::default());
        assert!(application.is_visited());
        let after = found(&[(0, 10), (20, 100)], &[(10, 20), (300, 310)]);
        let end = application.end(&[(FIRST, after)], CHOICES).unwrap();
        assert_eq!((end.used_pages, end.missed_pages), (0, 10));
        // What was in memory all along is not predicted. What the visit used stays, at the end of the queue.
        assert_eq!(end.page_out, [(FIRST, set(&[(300, 310)]))]);
        assert_eq!(end.cold, [(FIRST, set(&[(10, 20)]))]);
        application
    }

    #[test]
    fn the_next_visit_finds_what_the_last_used() {
        let mut application = visited();
        let begin = application.begin(&[(FIRST, found(&[(0, 15)], &[(15, 20)]))], ALL, CHOICES);
        assert_eq!(begin.prefetch, [(FIRST, set(&[(10, 15)]))]);
        assert_eq!((begin.predicted_pages, begin.wanted_pages), (10, 5));
        // It uses 12 to 14, which were prefetched, and 3, which was not.
        let after = found(&[(0, 3), (4, 12), (14, 15)], &[(3, 4), (12, 14), (15, 20)]);
        let end = application.end(&[(FIRST, after)], CHOICES).unwrap();
        assert_eq!((end.used_pages, end.missed_pages), (2, 1));
        assert!(application.end(&[], CHOICES).is_none(), "no visit has begun");
    }

    #[test]
    fn allocated_pages_count_as_used_and_few_evicted_pages_as_unused() {
        let choices = Choices { cold: false, page_out: false, ..CHOICES };
        let mut application = Application::default();
        application.begin(&[(FIRST, found(&[], &[]))], ALL, choices);
        let end = application.end(&[(FIRST, found(&[], &[(0, 100)]))], choices).unwrap();
        assert_eq!((end.used_pages, end.missed_pages), (0, 0));
        // A visit finds all of it in memory, and the kernel then evicts a tenth: those were not used.
        application.begin(&[(FIRST, found(&[], &[(0, 100)]))], ALL, choices);
        application.end(&[(FIRST, found(&[], &[(0, 100)]))], choices).unwrap();
        let tenth = found(&[(0, 10)], &[(10, 100)]);
        let begin = application.begin(&[(FIRST, tenth)], ALL, choices);
        assert_eq!((begin.predicted_pages, begin.wanted_pages), (90, 0));
        application.end(&[(FIRST, found(&[(0, 10)], &[(10, 100)]))], choices).unwrap();
        // All of the rest is evicted, which says nothing.
        let begin = application.begin(&[(FIRST, found(&[(0, 100)], &[]))], ALL, choices);
        assert_eq!(begin.prefetch, [(FIRST, set(&[(10, 100)]))]);
    }

    #[test]
    fn too_little_memory_leaves_the_least_likely_pages_out() {
        let mut application = visited();
        // A second visit uses 10 to 12 again, and 50 to 60.
        let out = || (FIRST, found(&[(0, 100)], &[]));
        application.begin(&[out()], ALL, CHOICES);
        let after = found(&[(0, 10), (12, 50), (60, 100)], &[(10, 12), (50, 60)]);
        application.end(&[(FIRST, after)], CHOICES).unwrap();
        let begin = application.begin(&[out()], 7, CHOICES);
        assert_eq!(begin.prefetch, [(FIRST, set(&[(10, 12), (50, 55)]))]);
        assert_eq!(begin.wanted_pages, 20);
        let begin = application.begin(&[out()], 0, CHOICES);
        assert_eq!((begin.prefetch, begin.wanted_pages), (vec![], 20));
    }

    #[test]
    fn pages_are_read_in_the_order_of_use_and_the_first_used_stay_if_memory_is_short() {
        let mut application = Application::default();
        let second = Key(2);
        let out = || [(FIRST, found(&[(0, 640)], &[])), (second, found(&[(0, 640)], &[]))];
        application.begin(&out(), ALL, CHOICES);
        // The second process uses its pages from 320 on, then the first one all of its pages.
        let uses: Vec<(Key, u64)> = (320..640)
            .map(|page| (second, page))
            .chain((0..640).map(|page| (FIRST, page)))
            .collect();
        application.learn_order(&uses, CHOICES);
        let after = [(FIRST, found(&[], &[(0, 640)])), (second, found(&[(0, 320)], &[(320, 640)]))];
        application.end(&after, CHOICES).unwrap();
        let begin = application.begin(&out(), ALL, CHOICES);
        // Its last block has a place like the first of the other process.
        let expected = [
            (second, set(&[(320, 576)])),
            (FIRST, set(&[(0, 192)])),
            (second, set(&[(576, 640)])),
            (FIRST, set(&[(192, 640)])),
        ];
        assert_eq!(begin.prefetch, expected);
        let begin = application.begin(&out(), 100, CHOICES);
        assert_eq!(begin.prefetch, [(second, set(&[(320, 420)]))]);
        // The second process runs another program now, and the first one keeps its order.
        let present = [(FIRST, found(&[(0, 640)], &[])), (Key(3), found(&[(0, 640)], &[]))];
        let begin = application.begin(&present, ALL, CHOICES);
        assert_eq!(begin.prefetch, [(FIRST, set(&[(0, 640)]))]);
        application.forget_order();
        let begin = application.begin(&out(), ALL, CHOICES);
        assert_eq!(begin.prefetch, [(FIRST, set(&[(0, 640)]))]);
    }

    #[test]
    fn short_gaps_in_swap_are_read_too_if_memory_suffices() {
        let mut application = Application::default();
        application.begin(&[(FIRST, found(&[(0, 30)], &[]))], ALL, CHOICES);
        let after = found(&[(2, 4), (6, 30)], &[(0, 2), (4, 6)]);
        application.end(&[(FIRST, after)], CHOICES);
        let choices = Choices { gap_pages: 2, ..CHOICES };
        for (pages_max, expected) in
            [(ALL, set(&[(0, 6)])), (6, set(&[(0, 6)])), (5, set(&[(0, 2), (4, 6)]))]
        {
            let begin = application.begin(&[(FIRST, found(&[(0, 30)], &[]))], pages_max, choices);
            assert_eq!(begin.prefetch, [(FIRST, expected)]);
        }
    }

    #[test]
    fn another_address_space_begins_from_nothing() {
        let mut application = visited();
        let other = Key(2);
        let present = [(other, found(&[(0, 100)], &[]))];
        assert_eq!(application.begin(&present, ALL, CHOICES), VisitBegin::default());
        assert_eq!(application.known(), 0);
        // The address space of the visit ends meanwhile, and another begins.
        let after = [(Key(3), found(&[], &[(0, 100)]))];
        let end = application.end(&after, CHOICES).unwrap();
        assert_eq!((end.used_pages, end.missed_pages), (0, 0));
        assert_eq!((end.page_out, application.known()), (vec![], 0));
    }

    #[test]
    fn a_refused_prefetch_does_not_count() {
        let mut application = visited();
        application.begin(&[(FIRST, found(&[(0, 100)], &[]))], ALL, CHOICES);
        application.not_prefetched(FIRST);
        let after = found(&[(0, 10), (20, 100)], &[(10, 20)]);
        let end = application.end(&[(FIRST, after)], CHOICES).unwrap();
        assert_eq!((end.used_pages, end.missed_pages), (0, 10));
    }

    #[test]
    fn the_spans_of_all_processes_are_bounded_together() {
        let mut application = Application::default();
        let odd: Vec<PageRange> =
            (0..100).map(|page| PageRange::new(2 * page, 2 * page + 1)).collect();
        let before = |key| (key, found(&[(0, 200)], &[]));
        application.begin(&[before(FIRST), before(Key(2))], ALL, CHOICES);
        let after = AnonymousPages { swapped: without(&set(&[(0, 200)]), &odd), resident: odd };
        application.end(&[(FIRST, after.clone()), (Key(2), after)], CHOICES);
        application.bound(50);
        assert_eq!(application.scores.values().map(Scores::len).collect::<Vec<_>>(), [25, 25]);
    }
}
