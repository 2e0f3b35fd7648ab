//! The analysis of a sample of the pages, as an estimate of that of the whole trace.

use super::estimates::{AnalysisSample, Estimate, Scale, errors};
use super::histogram::Histogram;
use super::reuse::miss_ratio_curve_of;
use super::{Analysis, Observer, VolumeSplit};
use crate::Error;
use crate::sample::{Groups, Sample, group_rate};
use crate::stack::Stack;
use trace::sampled::{SAMPLE_GROUPS, Sampled};
use trace::{Rows, Source};
use types::Progress;

/// Analyses a sample of a trace in one pass. `accesses` is counted; every other count is that of the sample
/// divided by its rate, and every share an estimate. `sample` has the errors of skew, pages and miss ratios.
/// Memory: up to 80 bytes per page of the sample, and with `top_processes` as much more as [`super::analyze`].
///
/// # Errors
/// A trace that cannot be read, or a caller that stops.
pub fn analyze_sampled(
    source: &mut Sampled,
    top_processes: Option<usize>,
    progress: &dyn Progress,
) -> Result<Analysis, Error> {
    let mut observer = Observer::new(source.header(), top_processes.is_some());
    let mut groups = Groups::default();
    let mut counted: [Counted; SAMPLE_GROUPS] = Default::default();
    let mut rows = Rows::default();
    while source.next_rows(&mut rows)? {
        let done = source.events_read();
        progress.advance(done, source.header().events.max(done))?;
        observer.add(&rows);
        let split = groups.split(&observer.batch, source);
        for (counted, (pages, bound)) in counted.iter_mut().zip(split) {
            counted.accesses.resize(bound, 0);
            for page in pages {
                let accesses = &mut counted.accesses[page.index()];
                *accesses = accesses.saturating_add(1);
            }
            counted.stack.push(pages, bound);
        }
    }
    let (rate, accesses) = (source.threshold().rate(), source.accesses_read());
    let whole = Estimate::new(rate, accesses, observer.accesses.iter().copied(), &observer.stack);
    let of_group = |counted: Counted| {
        let by_page = counted.accesses.iter().copied();
        Estimate::new(group_rate(rate), accesses, by_page, &counted.stack)
    };
    let groups = counted.map(of_group);
    let curve = miss_ratio_curve_of(&observer.stack, whole.basis);
    let factor = 1.0 / rate;
    let scaled = |frames: u64| (frames as f64 * factor).round() as u64;
    let curve: Vec<_> = curve.into_iter().map(|(frames, ratio)| (scaled(frames), ratio)).collect();
    let distances = reuse_distance(&observer.stack, &whole);
    let analysis = observer.finish(source.header(), top_processes.unwrap_or(0));
    let sample = Sample { rate, pages: analysis.pages, accesses: analysis.accesses };
    let error = errors(&whole, &groups, curve.iter().map(|&(frames, _)| frames));
    let mut analysis = Analysis {
        accesses,
        skew: whole.spectrum.skew(),
        skew_curve: whole.spectrum.curve(),
        reaccess_share: whole.reaccess_share(),
        miss_ratio_curve: curve,
        reuse_distance: distances,
        heat: None,
        sample: Some(AnalysisSample { sample, error }),
        ..analysis
    };
    scale(&mut analysis, &whole);
    Ok(analysis)
}

/// What is counted of one group of the pages.
#[derive(Default)]
struct Counted {
    accesses: Vec<u32>,
    stack: Stack,
}

/// The reuse distances of the sample times 1 / rate. Accesses of the basis that are not in the sample count as
/// accesses with the smallest distance, as in the miss ratios.
fn reuse_distance(stack: &Stack, whole: &Estimate) -> Histogram {
    let mut histogram = Histogram::default();
    for (distance, &count) in stack.by_distance().iter().enumerate() {
        histogram.add((distance as f64 / whole.rate).round() as u64, count);
    }
    let beyond = whole.basis.round() as i64 - stack.accesses() as i64;
    let nearest = &mut histogram.counts_mut()[0];
    *nearest = nearest.saturating_add_signed(beyond);
    histogram
}

/// Makes the counts of the sample those of the trace.
fn scale(analysis: &mut Analysis, whole: &Estimate) {
    let factor = 1.0 / whole.rate;
    analysis.pages.scale(factor);
    analysis.writes.scale(factor);
    analysis.writes = analysis.writes.min(analysis.accesses);
    analysis.reuse_distance.scale(factor);
    analysis.reaccess_interval_ns.scale(factor);
    analysis.swap.scale(factor);
    analysis.zero_pages.scale(factor);
    analysis.fault_time.scale(factor);
    analysis.processes.scale(factor);
    analysis.top_processes.scale(factor);
    analysis.traffic.scale(factor);
    let mut top = whole.spectrum.top_accesses(whole.spectrum.top_pages(10));
    top.scale(factor);
    let top = top.min(analysis.accesses);
    for split in [&mut analysis.volume.swap, &mut analysis.volume.block].into_iter().flatten() {
        *split = VolumeSplit {
            top_10_percent_bytes: top * analysis.page_bytes,
            rest_bytes: (analysis.accesses - top) * analysis.page_bytes,
        };
    }
}
