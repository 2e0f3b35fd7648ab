//! The sample that a result was computed from, and how the errors of its estimates are computed.
//!
//! The pages of a sample fall into disjoint groups by other bits of their hash. Each group is a spatial sample
//! of its own, at a part of the rate, so the spread of the groups' estimates shows how far an estimate of the
//! whole sample may be from the truth (random groups: Wolter, Introduction to Variance Estimation, 2007).

use schemars::JsonSchema;
use serde::Serialize;
use trace::Source;
use trace::sampled::{SAMPLE_GROUPS, Sampled};
use types::{Event, EventKind, Events, PageId};

/// The 97.5 % quantile of Student's t for one degree of freedom less than there are groups.
const STUDENT_T: f64 = 2.365;
const _: () = assert!(SAMPLE_GROUPS == 8, "STUDENT_T is for 7 degrees of freedom");

/// The pages that were looked at instead of all pages.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Sample {
    /// Share of all pages whose hash is in the sample.
    #[schemars(range(min = 0, max = 1))]
    pub rate: f64,
    /// Pages in the sample.
    pub pages: u64,
    /// Accesses of the pages in the sample.
    pub accesses: u64,
}

/// Greatest squared coefficient of variation of the accesses per page at which shares are of the accesses found.
/// A ratio is the better estimator while the denominator varies little (Cochran, Sampling Techniques, 1977, section
/// 6.6). The six recordings in `examples/` have from 0.1 to 1.3.
const VARIATION_MAX: f64 = 2.0;
/// A difference of more than this many standard deviations is not by chance.
const DEVIATIONS: f64 = 3.0;

/// The number of accesses that counts of a sample at `rate` are shares of, from the accesses of the trace and of
/// each page of the sample.
///
/// These are the accesses found, if the pages of the sample have similar numbers of accesses and the accesses found
/// differ from those expected (`rate` times `accesses`) by no more than the choice of pages explains. Otherwise
/// busy pages are in the sample that stand for few others, or are missing from it. Those miss rarely, so the number
/// is the expected one, which leaves their misses as they are (SHARDS-adj: Waldspurger et al. 2015). On recordings
/// of swap the accesses found give less than half of the error (`bench/samples.py`).
pub(crate) fn basis(rate: f64, accesses: u64, by_page: impl Iterator<Item = u32>) -> f64 {
    let expected = rate * accesses as f64;
    let (mut pages, mut found, mut squares) = (0.0, 0.0, 0.0);
    for count in by_page.filter(|&count| count > 0).map(f64::from) {
        pages += 1.0;
        found += count;
        squares += count * count;
    }
    let deviation = (squares * (1.0 - rate)).sqrt();
    let is_even = squares * pages <= (1.0 + VARIATION_MAX) * found * found;
    let is_chance = (found - expected).abs() <= DEVIATIONS * deviation;
    if is_even && is_chance { found } else { expected }
}

/// Half of the width of a 95 % confidence interval around `whole`, an estimate from a sample at `rate`, by the
/// spread of the estimates of its groups. 0 if every page is in the sample.
pub(crate) fn half_width(rate: f64, whole: f64, groups: impl Iterator<Item = f64>) -> f64 {
    let count = SAMPLE_GROUPS as f64;
    let squares: f64 = groups.map(|estimate| (estimate - whole).powi(2)).sum();
    // The last factor is the correction for a finite population.
    STUDENT_T * (squares / (count * (count - 1.0)) * (1.0 - rate)).sqrt()
}

/// Half of the width of a confidence interval of a share.
pub(crate) fn half_width_of_share(rate: f64, whole: f64, groups: impl Iterator<Item = f64>) -> f64 {
    half_width(rate, whole, groups).min(1.0)
}

/// The rate of each group of a sample at `rate`.
pub(crate) fn group_rate(rate: f64) -> f64 {
    rate / SAMPLE_GROUPS as f64
}

/// Splits the accesses of a sample among its groups, and numbers the pages of each group from 0.
#[derive(Default)]
pub(crate) struct Groups {
    /// Group, and number in the group, of each page of the sample.
    places: Vec<(u8, u32)>,
    pages: [u32; SAMPLE_GROUPS],
    batches: [Vec<PageId>; SAMPLE_GROUPS],
}

impl Groups {
    /// Numbers the pages that `sampled` has returned for the first time.
    fn grow(&mut self, sampled: &Sampled) {
        for number in self.places.len() as u32..sampled.header().pages.unwrap_or(0) {
            let group = sampled.group(PageId(number));
            self.places.push((group as u8, self.pages[group]));
            self.pages[group] += 1;
        }
    }

    /// The group of a page that was split.
    pub(crate) fn of_page(&self, page: usize) -> u8 {
        self.places[page].0
    }

    /// Replaces `parts` by the events of each group in `events`, which `sampled` has just returned. The end of a
    /// process is in every group.
    pub(crate) fn split_events(
        &mut self,
        events: &Events,
        sampled: &Sampled,
        parts: &mut [Events; SAMPLE_GROUPS],
    ) {
        self.grow(sampled);
        parts.iter_mut().for_each(Events::clear);
        for (index, event) in events.iter().enumerate() {
            let time_ns = events.time_ns.get(index).copied();
            let push = |part: &mut Events, page: PageId| {
                part.time_ns.extend(time_ns);
                part.push(Event { page, ..event });
            };
            if event.kind == EventKind::Exit {
                parts.iter_mut().for_each(|part| push(part, event.page));
            } else {
                let (group, number) = self.places[event.page.index()];
                push(&mut parts[usize::from(group)], PageId(number));
            }
        }
    }

    /// The accesses of each group in `batch`, which `sampled` has just returned, with a bound on the numbers
    /// of the group's pages.
    pub(crate) fn split(
        &mut self,
        batch: &[PageId],
        sampled: &Sampled,
    ) -> impl Iterator<Item = (&[PageId], usize)> {
        self.grow(sampled);
        self.batches.iter_mut().for_each(Vec::clear);
        for page in batch {
            let (group, number) = self.places[page.index()];
            self.batches[group as usize].push(PageId(number));
        }
        let bounds = self.pages.iter().map(|&pages| pages as usize);
        self.batches.iter().map(Vec::as_slice).zip(bounds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_basis_is_what_was_found_unless_busy_pages_were() {
        let quiet = [1_u32; 1000];
        // 1,030 are expected, and 1,000 is within three deviations of 30.
        assert_eq!(basis(0.1, 10_300, quiet.into_iter()), 1000.0);
        assert_eq!(basis(0.1, 12_000, quiet.into_iter()), 1200.0);
        let busy = quiet.into_iter().chain([500]);
        assert_eq!(basis(0.1, 10_300, busy), 1030.0);
        assert_eq!(basis(0.1, 0, std::iter::empty()), 0.0);
    }

    #[test]
    fn groups_that_agree_leave_no_error() {
        assert_eq!(half_width(0.5, 0.25, [0.25; SAMPLE_GROUPS].into_iter()), 0.0);
    }

    #[test]
    fn the_error_is_that_of_a_mean_of_groups() {
        // Four groups at 1 and four at 3 around 2: a variance of 8 / 7, of the mean 1 / 7.
        let groups = [1.0, 3.0, 1.0, 3.0, 1.0, 3.0, 1.0, 3.0];
        let found = half_width(0.0, 2.0, groups.into_iter());
        assert!((found - 2.365 / 7_f64.sqrt()).abs() < 1e-12, "{found}");
        assert_eq!(half_width(1.0, 2.0, groups.into_iter()), 0.0);
    }
}
