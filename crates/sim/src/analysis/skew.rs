//! How unevenly accesses fall on pages.
//!
//! The busiest x % of `n` pages are the ceil(x * n) pages with the most accesses. Everything here
//! follows from the number of pages for each number of accesses.

use crate::shares::Share;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// Percentages of pages whose share of accesses is reported.
pub const TOP_PERCENT: [u64; 5] = [1, 5, 10, 25, 50];

/// The curve has a point wherever one of its axes has advanced this much: at most 512 points.
const CURVE_STEP: f64 = 1.0 / 255.0;

/// Skew of a set of pages. Shares are fractions, and 0 for an empty set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Skew {
    /// Share of accesses of the busiest 1, 5, 10, 25 and 50 % of pages; in JSON an object by
    /// share of pages ("0.01" ... "0.5").
    #[serde(serialize_with = "by_share")]
    #[schemars(with = "std::collections::BTreeMap<String, Share>")]
    pub top_share: [f64; 5],
    /// Smallest share of pages that receives 80 % of accesses.
    #[schemars(range(min = 0, max = 1))]
    pub pages_for_80_percent: f64,
    /// Pages with exactly one access.
    pub single_access: SingleAccess,
}

/// Pages with exactly one access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct SingleAccess {
    /// The share of pages that have exactly one access.
    #[schemars(range(min = 0, max = 1))]
    pub pages: f64,
    /// The share of accesses that went to pages with exactly one access.
    #[schemars(range(min = 0, max = 1))]
    pub accesses: f64,
}

/// Numbers of pages by their number of accesses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spectrum {
    /// Number of accesses, which is never 0, to number of pages.
    pages_by_count: BTreeMap<u64, u64>,
    pub(crate) pages: u64,
    pub(crate) accesses: u64,
    /// Accesses of the busiest page beyond those in `pages_by_count`; 0 unless the pages are a sample.
    beyond: i64,
}

impl Spectrum {
    /// Counts pages by their accesses; pages without accesses do not count.
    pub(crate) fn new(counts: impl Iterator<Item = u32>) -> Spectrum {
        let mut spectrum = Spectrum::default();
        // Most pages have few accesses: those are counted without a map look-up.
        let mut small = [0_u64; 256];
        for count in counts {
            match small.get_mut(count as usize) {
                Some(pages) => *pages += 1,
                None => *spectrum.pages_by_count.entry(u64::from(count)).or_insert(0) += 1,
            }
        }
        let small = (0..).zip(small).skip(1).filter(|&(_, pages)| pages > 0);
        spectrum.pages_by_count.extend(small);
        spectrum.pages = spectrum.pages_by_count.values().sum();
        spectrum.accesses =
            spectrum.pages_by_count.iter().map(|(count, pages)| count * pages).sum();
        spectrum
    }

    /// Sets the number of accesses; the busiest pages take the difference to those counted.
    pub(super) fn expecting(self, accesses: u64) -> Spectrum {
        Spectrum { accesses, beyond: accesses as i64 - self.accesses as i64, ..self }
    }

    /// The accesses of the busiest pages from the number counted.
    fn adjusted(&self, counted: u64) -> u64 {
        counted.saturating_add_signed(self.beyond).min(self.accesses)
    }

    /// Number of pages in the busiest `percent`.
    pub(super) fn top_pages(&self, percent: u64) -> u64 {
        (self.pages * percent).div_ceil(100)
    }

    /// Number of accesses of the busiest `pages`.
    pub(super) fn top_accesses(&self, pages: u64) -> u64 {
        let mut left = pages;
        let mut accesses = 0;
        for (&count, &pages) in self.pages_by_count.iter().rev() {
            let taken = left.min(pages);
            accesses += taken * count;
            left -= taken;
        }
        if pages == 0 { 0 } else { self.adjusted(accesses) }
    }

    pub(crate) fn skew(&self) -> Skew {
        let single = self.pages_by_count.get(&1).copied().unwrap_or(0);
        Skew {
            top_share: TOP_PERCENT
                .map(|percent| share(self.top_accesses(self.top_pages(percent)), self.accesses)),
            pages_for_80_percent: share(self.pages_for_four_fifths(), self.pages),
            single_access: SingleAccess {
                pages: share(single, self.pages),
                accesses: share(single.min(self.accesses), self.accesses),
            },
        }
    }

    fn pages_for_four_fifths(&self) -> u64 {
        let missing = (self.accesses * 4).div_ceil(5);
        let mut missing = missing.saturating_add_signed(-self.beyond);
        let mut pages_taken = 0;
        for (&count, &pages) in self.pages_by_count.iter().rev() {
            let needed = missing.div_ceil(count).min(pages);
            pages_taken += needed;
            missing = missing.saturating_sub(needed * count);
        }
        pages_taken
    }

    /// (share of pages, share of accesses) with the busiest pages first, ending at (1, 1). The curve is
    /// straight between two numbers of accesses, so its corners define it.
    pub(super) fn curve(&self) -> Vec<(f64, f64)> {
        let mut points = Vec::new();
        let (mut pages_taken, mut accesses_taken) = (0, 0);
        let mut last = (0.0, 0.0);
        for (&count, &pages) in self.pages_by_count.iter().rev() {
            pages_taken += pages;
            accesses_taken += pages * count;
            let point = (
                share(pages_taken, self.pages),
                share(self.adjusted(accesses_taken), self.accesses),
            );
            let is_far = point.0 - last.0 >= CURVE_STEP || point.1 - last.1 >= CURVE_STEP;
            if is_far || pages_taken == self.pages {
                points.push(point);
                last = point;
            }
        }
        points
    }
}

/// `part` of `whole`; 0 if `whole` is 0.
pub(super) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn by_share<S: Serializer>(shares: &[f64; 5], serializer: S) -> Result<S::Ok, S::Error> {
    let names = TOP_PERCENT.map(|percent| (percent as f64 / 100.0).to_string());
    serializer.collect_map(names.iter().zip(shares))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_follow_the_definitions() {
        // Ten pages with 10, 4, 2, 1, 1, 1, 1, 0... accesses; the page without any does not count.
        let spectrum = Spectrum::new([1, 10, 0, 1, 4, 1, 2, 1].into_iter());
        assert_eq!((spectrum.pages, spectrum.accesses), (7, 20));
        let skew = spectrum.skew();
        // ceil(.01 * 7) = 1 page, ceil(.25 * 7) = 2, ceil(.5 * 7) = 4.
        assert_eq!(skew.top_share, [0.5, 0.5, 0.5, 0.7, 0.85]);
        assert_eq!(skew.pages_for_80_percent, 3.0 / 7.0);
        assert_eq!(skew.single_access, SingleAccess { pages: 4.0 / 7.0, accesses: 0.2 });
        let corners = [(1.0 / 7.0, 0.5), (2.0 / 7.0, 0.7), (3.0 / 7.0, 0.8), (1.0, 1.0)];
        assert_eq!(spectrum.curve(), corners);
    }

    #[test]
    fn a_tenth_of_a_round_number_is_not_rounded_up() {
        let spectrum = Spectrum::new(std::iter::repeat_n(1, 70));
        assert_eq!(spectrum.top_pages(10), 7);
        assert_eq!(Spectrum::new(std::iter::repeat_n(1, 71)).top_pages(10), 8);
    }

    #[test]
    fn no_accesses_have_no_skew() {
        let spectrum = Spectrum::new(std::iter::empty());
        assert_eq!(spectrum.skew(), Skew::default());
        assert!(spectrum.curve().is_empty());
    }

    #[test]
    fn the_curve_stays_short() {
        let spectrum = Spectrum::new((1..100_000).map(|page| page % 5000 + 1));
        let curve = spectrum.curve();
        assert!(curve.len() <= 512, "{}", curve.len());
        assert_eq!(curve.last(), Some(&(1.0, 1.0)));
    }

    #[test]
    fn json_names_shares_as_fractions() {
        let json = serde_json::to_string(&Spectrum::new([1].into_iter()).skew()).unwrap();
        let top = r#""top_share":{"0.01":1.0,"0.05":1.0,"0.1":1.0,"0.25":1.0,"0.5":1.0}"#;
        assert!(json.contains(top), "{json}");
    }
}
