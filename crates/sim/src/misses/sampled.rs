//! Miss counts of a sample of the pages, as estimates of those of the whole trace: LRU by its scaled sizes
//! (SHARDS, Waldspurger et al., FAST 2015), other policies as miniature simulations (Waldspurger, Saemundsson,
//! Ahmad, Park, USENIX ATC 2017).

use super::counts::{MissCounts, MissSample, PolicyMisses};
use super::{Counting, Room, choose_all, without_repeats};
use crate::Error;
use crate::accesses::Batch;
use crate::sample::{Groups, Sample, basis, group_rate, half_width_of_share};
use policy::eviction::Choice;
use std::collections::BTreeMap;
use trace::Source;
use trace::sampled::{SAMPLE_GROUPS, Sampled};
use types::{PageId, Progress};

/// Scaled sizes below this are between two whole numbers of frames; larger ones are rounded.
const FRACTIONS_BELOW: f64 = 64.0;

/// Estimates the misses of each policy with each number of frames by a sample. `requests` is counted.
///
/// Memory: a few bytes for each page of the sample and cell, twice; with `opt`, also 8 bytes for each access of
/// the sample.
///
/// # Errors
/// Errors of [`super::run`].
pub fn run_sampled(
    source: &mut Sampled,
    policies: &[&str],
    frames: &[u32],
    progress: &dyn Progress,
) -> Result<MissCounts, Error> {
    let choices = choose_all(policies)?;
    let frames = without_repeats(frames);
    let rate = source.threshold().rate();
    let mut whole = Counting::new(&choices, &near(&frames, rate), Room::Ample, 0)?;
    let group_frames = near(&frames, group_rate(rate));
    let mut of_groups = (0..SAMPLE_GROUPS)
        .map(|_| Counting::new(&choices, &group_frames, Room::Ample, 0))
        .collect::<Result<Vec<_>, _>>()?;
    let (mut groups, mut pages) = (Groups::default(), Vec::new());
    let mut by_page: Vec<u32> = Vec::new();
    while source.next_accesses(&mut pages)? {
        let done = source.events_read();
        progress.advance(done, source.header().events.max(done))?;
        let bound = source.header().pages.unwrap_or(0) as usize;
        whole.add(&Batch { pages: &pages, bound });
        by_page.resize(bound, 0);
        for page in &pages {
            let accesses = &mut by_page[page.index()];
            *accesses = accesses.saturating_add(1);
        }
        for (counting, (pages, bound)) in of_groups.iter_mut().zip(groups.split(&pages, source)) {
            counting.add(&Batch { pages, bound });
        }
    }
    let requests = source.accesses_read();
    let base = basis(rate, requests, by_page.iter().copied());
    let whole = Estimate { rate, requests, basis: base, counts: whole.finish(progress)? };
    let mut by_group: [Vec<u32>; SAMPLE_GROUPS] = Default::default();
    for (page, accesses) in (0..).map(PageId).zip(by_page) {
        by_group[source.group(page)].push(accesses);
    }
    let rate = group_rate(rate);
    let of_groups = of_groups
        .into_iter()
        .zip(by_group)
        .map(|(counting, by_page)| {
            let basis = basis(rate, requests, by_page.into_iter());
            Ok(Estimate { rate, requests, basis, counts: counting.finish(progress)? })
        })
        .collect::<Result<Vec<_>, Error>>()?;
    Ok(combined(&whole, &of_groups, &choices, &frames))
}

/// The whole numbers of frames around each size times `rate`.
fn near(frames: &[u32], rate: f64) -> Vec<u32> {
    let around = frames.iter().flat_map(|&frames| {
        let (below, above, _) = place(frames, rate);
        [below, above]
    });
    without_repeats(&around.collect::<Vec<_>>())
}

/// The sizes in the sample next to `frames`, and how far the scaled size is from the first to the second.
fn place(frames: u32, rate: f64) -> (u32, u32, f64) {
    let scaled = f64::from(frames) * rate;
    if scaled < FRACTIONS_BELOW {
        (scaled.floor() as u32, scaled.ceil() as u32, scaled.fract())
    } else {
        let rounded = scaled.round() as u32;
        (rounded, rounded, 0.0)
    }
}

/// The counts of a sample at a rate, and the requests of the trace.
struct Estimate {
    rate: f64,
    requests: u64,
    /// Accesses of the sample that miss ratios are of.
    basis: f64,
    counts: MissCounts,
}

impl Estimate {
    /// Misses per request.
    fn miss_ratio(&self, policy: &str, frames: u32) -> f64 {
        if frames == 0 || self.basis == 0.0 {
            return 1.0;
        }
        let misses = |frames| {
            self.counts.of(policy, frames).expect("every size next to one asked for is counted")
                as f64
        };
        let (below, above, part) = place(frames, self.rate);
        let misses = misses(below) * (1.0 - part) + misses(above) * part;
        (misses / self.basis).min(1.0)
    }
}

fn combined(
    whole: &Estimate,
    groups: &[Estimate],
    choices: &[Choice],
    frames: &[u32],
) -> MissCounts {
    let mut error = BTreeMap::new();
    let mut misses = Vec::with_capacity(choices.len());
    for Choice { label, .. } in choices {
        let mut by_frames = Vec::with_capacity(frames.len());
        let mut errors = BTreeMap::new();
        for &size in frames {
            let ratio = whole.miss_ratio(label, size);
            let of_groups = groups.iter().map(|group| group.miss_ratio(label, size));
            errors.insert(size, half_width_of_share(whole.rate, ratio, of_groups));
            by_frames.push((size, (ratio * whole.requests as f64).round() as u64));
        }
        error.insert(label.clone(), errors);
        misses.push(PolicyMisses { policy: label.clone(), by_frames });
    }
    let MissCounts { requests: accesses, pages, .. } = whole.counts;
    let sample = Sample { rate: whole.rate, pages, accesses };
    MissCounts {
        requests: whole.requests,
        pages: (pages as f64 / whole.rate).round() as u64,
        misses,
        sample: Some(MissSample { sample, error }),
        ..whole.counts.clone()
    }
}
