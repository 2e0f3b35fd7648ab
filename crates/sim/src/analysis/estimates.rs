//! The sample in the result of an analysis, its errors, and counts of the sample scaled to estimates of the trace.

use super::fault_time::{Durations, FaultTime};
use super::histogram::Histogram;
use super::processes::{ProcessAnalysis, ProcessRow};
use super::skew::{SingleAccess, Skew, Spectrum};
use super::swap_traffic::SwapTraffic;
use super::traffic::Traffic;
use crate::sample::{Sample, basis, half_width, half_width_of_share};
use crate::shares::Share;
use crate::stack::Stack;
use crate::swap::ZeroPages;
use schemars::JsonSchema;
use serde::Serialize;

/// The sample behind an analysis, and how far its estimates may be from the truth.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AnalysisSample {
    /// The pages that were looked at.
    #[serde(flatten)]
    pub sample: Sample,
    /// Half of the width of the 95 % confidence interval of each estimate.
    pub error: AnalysisError,
}

/// Half of the width of 95 % confidence intervals, by field of the analysis.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AnalysisError {
    /// Of the number of pages.
    #[schemars(range(min = 0))]
    pub pages: f64,
    /// Of the figures of skew.
    #[serde(flatten)]
    pub skew: Skew,
    /// Of the share of accesses to pages that were accessed before.
    #[schemars(range(min = 0, max = 1))]
    pub reaccess_share: f64,
    /// (frames, half of the width) at each point of the miss-ratio curve.
    #[schemars(with = "Vec<(u64, Share)>")]
    pub miss_ratio_curve: Vec<(u64, f64)>,
}

/// Estimates from a sample at `rate` of a trace with this number of accesses.
pub(super) struct Estimate {
    pub(super) rate: f64,
    /// Accesses that shares are of: see [`basis`].
    pub(super) basis: f64,
    pub(super) spectrum: Spectrum,
    /// Misses of LRU in the sample by number of frames.
    misses: Vec<u64>,
    pages: u64,
}

impl Estimate {
    /// From the accesses of the whole trace, and those of each page of the sample.
    pub(super) fn new(
        rate: f64,
        accesses: u64,
        by_page: impl Iterator<Item = u32> + Clone,
        stack: &Stack,
    ) -> Estimate {
        let basis = basis(rate, accesses, by_page.clone());
        let mut misses = vec![stack.accesses()];
        let mut left = stack.accesses();
        for hits in stack.by_distance() {
            left -= hits;
            misses.push(left);
        }
        let spectrum = Spectrum::new(by_page).expecting(basis.round() as u64);
        Estimate { rate, basis, spectrum, misses, pages: stack.pages() }
    }

    pub(super) fn pages(&self) -> f64 {
        self.pages as f64 / self.rate
    }

    /// Misses per access of a memory of `frames`, which are not those of the sample.
    pub(super) fn miss_ratio(&self, frames: u64) -> f64 {
        if frames == 0 {
            return 1.0;
        }
        let scaled = frames as f64 * self.rate;
        let (below, part) = (scaled as usize, scaled.fract());
        let at = |frames: usize| self.misses[frames.min(self.misses.len() - 1)] as f64;
        self.share(at(below) * (1.0 - part) + at(below + 1) * part)
    }

    pub(super) fn reaccess_share(&self) -> f64 {
        if self.basis > 0.0 { 1.0 - self.share(self.pages as f64) } else { 0.0 }
    }

    fn share(&self, accesses: f64) -> f64 {
        if self.basis > 0.0 { (accesses / self.basis).min(1.0) } else { 0.0 }
    }
}

/// The error of a sample's estimate by those of its groups, with the curve's error at `frames`.
pub(super) fn errors(
    whole: &Estimate,
    groups: &[Estimate],
    frames: impl Iterator<Item = u64>,
) -> AnalysisError {
    let rate = whole.rate;
    let share = |figure: &dyn Fn(&Estimate) -> f64| {
        half_width_of_share(rate, figure(whole), groups.iter().map(figure))
    };
    let of_skew = |figure: &dyn Fn(&Skew) -> f64| share(&|each| figure(&each.spectrum.skew()));
    AnalysisError {
        pages: half_width(rate, whole.pages(), groups.iter().map(Estimate::pages)),
        skew: Skew {
            top_share: std::array::from_fn(|place| of_skew(&|skew| skew.top_share[place])),
            pages_for_80_percent: of_skew(&|skew| skew.pages_for_80_percent),
            single_access: SingleAccess {
                pages: of_skew(&|skew| skew.single_access.pages),
                accesses: of_skew(&|skew| skew.single_access.accesses),
            },
        },
        reaccess_share: share(&Estimate::reaccess_share),
        miss_ratio_curve: frames
            .map(|frames| (frames, share(&|each| each.miss_ratio(frames))))
            .collect(),
    }
}

/// Counts of a sample divided by its rate, which makes them estimates of the trace's.
pub(super) trait Scale {
    /// Multiplies every count by `factor`, which is 1 / rate. Shares, times and names stay.
    fn scale(&mut self, factor: f64);
}

impl Scale for u64 {
    fn scale(&mut self, factor: f64) {
        *self = (*self as f64 * factor).round() as u64;
    }
}

impl<T: Scale> Scale for Option<T> {
    fn scale(&mut self, factor: f64) {
        self.iter_mut().for_each(|each| each.scale(factor));
    }
}

impl<T: Scale> Scale for Vec<T> {
    fn scale(&mut self, factor: f64) {
        self.iter_mut().for_each(|each| each.scale(factor));
    }
}

impl Scale for Histogram {
    fn scale(&mut self, factor: f64) {
        self.counts_mut().iter_mut().for_each(|count| count.scale(factor));
    }
}

/// Scales the named fields of a struct.
macro_rules! scale {
    ($type:ty: $($field:ident),+) => {
        impl Scale for $type {
            fn scale(&mut self, factor: f64) {
                $(self.$field.scale(factor);)+
            }
        }
    };
}

scale!(Durations: count, sum_ns, distribution_ns);
scale!(FaultTime: device, cached);
scale!(ZeroPages: outs, ins);
scale!(ProcessAnalysis: accesses, pages, writes);
scale!(ProcessRow: accesses, pages, writes);

impl Scale for Traffic {
    fn scale(&mut self, factor: f64) {
        for series in &mut self.series {
            series.reads.scale(factor);
            series.writes.scale(factor);
        }
    }
}

impl Scale for SwapTraffic {
    fn scale(&mut self, factor: f64) {
        self.outs.scale(factor);
        self.ins.scale(factor);
        self.outs_per_page.scale(factor);
        self.ins_per_page.scale(factor);
        self.pages_in_swap_max.scale(factor);
        if let Some(reads) = &mut self.device_reads {
            reads.demand.scale(factor);
            reads.readahead.scale(factor);
        }
    }
}
