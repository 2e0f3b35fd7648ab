//! Samples of the pages against exact runs and against a naive sample.

mod memory_source;

use memory_source::MemorySource;
use proptest::prelude::*;
use sim::analysis::{Analysis, analyze, analyze_sampled};
use sim::misses;
use std::collections::BTreeSet;
use trace::TraceKind;
use trace::sampled::{SampleThreshold, Sampled};
use types::random::{Stream, mixed};
use types::{EventKind, NoProgress, PageId};

const POLICIES: [&str; 5] = ["lru", "fifo", "arc", "s3-fifo", "opt"];

fn source(pages: &[u32]) -> MemorySource {
    let pages: Vec<PageId> = pages.iter().copied().map(PageId).collect();
    MemorySource::accesses(&pages, 7)
}

fn sampled(pages: &[u32], threshold: SampleThreshold) -> Sampled {
    Sampled::new(Box::new(source(pages)), threshold)
}

/// Numbers from 0 in order of appearance, as sources give them.
fn numbered(pages: Vec<u32>) -> Vec<u32> {
    let mut known: Vec<u32> = Vec::new();
    let mut number = |page| {
        known.iter().position(|&each| each == page).unwrap_or_else(|| {
            known.push(page);
            known.len() - 1
        }) as u32
    };
    pages.into_iter().map(&mut number).collect()
}

/// The accesses found, if they are within three standard deviations of those expected, and the variance of the
/// accesses per page is at most twice their squared mean.
fn naive_basis(rate: f64, accesses: usize, kept: &[u32]) -> f64 {
    let expected = rate * accesses as f64;
    let distinct: BTreeSet<u32> = kept.iter().copied().collect();
    let count = |page| kept.iter().filter(|&&each| each == page).count() as f64;
    let counts: Vec<f64> = distinct.into_iter().map(count).collect();
    let mean = counts.iter().sum::<f64>() / counts.len().max(1) as f64;
    let spread: f64 = counts.iter().map(|count| (count - mean).powi(2)).sum();
    let is_even = spread <= 2.0 * mean * mean * counts.len() as f64;
    let variance = counts.iter().map(|count| count.powi(2) * (1.0 - rate)).sum::<f64>();
    let found = kept.len() as f64;
    if is_even && (found - expected).powi(2) <= 9.0 * variance { found } else { expected }
}

/// Misses of LRU, by a list of pages from the newest to the oldest.
fn naive_lru(pages: &[u32], frames: usize) -> u64 {
    let mut list: Vec<u32> = Vec::new();
    let mut misses = 0;
    for &page in pages {
        match list.iter().position(|&each| each == page) {
            Some(place) => drop(list.remove(place)),
            None => misses += 1,
        }
        list.insert(0, page);
        list.truncate(frames);
    }
    misses
}

proptest! {
    #[test]
    fn a_sample_of_all_pages_is_exact(pages in prop::collection::vec(0_u32..40, 0..400)) {
        let pages = numbered(pages);
        let exact = analyze(&mut source(&pages), Some(5), &NoProgress).unwrap();
        let whole = SampleThreshold::of_rate(1.0);
        let found = analyze_sampled(&mut sampled(&pages, whole), Some(5), &NoProgress).unwrap();
        let sample = found.sample.clone().unwrap();
        prop_assert_eq!(sample.error.pages, 0.0);
        prop_assert!(sample.error.miss_ratio_curve.iter().all(|&(_, error)| error == 0.0));
        // 1 - pages / accesses and (accesses - pages) / accesses differ by rounding.
        prop_assert!((found.reaccess_share - exact.reaccess_share).abs() < 1e-12);
        let reaccess_share = exact.reaccess_share;
        // A sample has no map of accesses.
        prop_assert!(found.heat.is_none());
        let exact = Analysis { heat: None, ..exact };
        prop_assert_eq!(Analysis { sample: None, reaccess_share, ..found }, exact);

        let frames = [0, 1, 2, 5, 100];
        let exact = misses::run(&mut source(&pages), &POLICIES, &frames, &NoProgress).unwrap();
        let mut all = sampled(&pages, whole);
        let found = misses::run_sampled(&mut all, &POLICIES, &frames, &NoProgress).unwrap();
        prop_assert_eq!(found.misses, exact.misses);
        prop_assert_eq!((found.requests, found.pages), (exact.requests, exact.pages));
    }

    #[test]
    fn a_sample_has_all_accesses_of_its_pages(
        pages in prop::collection::vec(0_u32..60, 1..400),
        eighths in 1_u32..8,
    ) {
        let pages = numbered(pages);
        let rate = f64::from(eighths) / 8.0;
        let kept: Vec<u32> =
            pages.iter().copied().filter(|&page| mixed(page.into()) >> 61 < eighths.into()).collect();
        let mut sampled = sampled(&pages, SampleThreshold::of_rate(rate));
        // Frames that are whole numbers in the sample.
        let frames = [8, 16, 40];
        let found = misses::run_sampled(&mut sampled, &["lru"], &frames, &NoProgress).unwrap();
        let sample = found.sample.as_ref().unwrap().sample;
        let distinct: BTreeSet<u32> = kept.iter().copied().collect();
        prop_assert_eq!((sample.pages, sample.accesses), (distinct.len() as u64, kept.len() as u64));
        let basis = naive_basis(rate, pages.len(), &kept);
        for frames in frames {
            let misses = naive_lru(&kept, (f64::from(frames) * rate) as usize) as f64;
            let ratio = (misses / basis).min(1.0);
            let count = (ratio * pages.len() as f64).round() as u64;
            prop_assert_eq!(found.of("lru", frames), Some(count));
        }
    }

    #[test]
    fn a_sample_of_a_number_of_pages_has_the_smallest_hashes(
        pages in prop::collection::vec(0_u32..60, 1..300),
        pages_max in 1_u64..70,
    ) {
        let pages = numbered(pages);
        let threshold = SampleThreshold::of_pages(&mut source(&pages), pages_max, &NoProgress).unwrap();
        let mut hashes: Vec<u64> =
            pages.iter().collect::<BTreeSet<_>>().into_iter().map(|&page| mixed(page.into())).collect();
        hashes.sort_unstable();
        let kept = hashes.len().min(pages_max as usize);
        let analysis =
            analyze_sampled(&mut sampled(&pages, threshold), None, &NoProgress).unwrap();
        prop_assert_eq!(analysis.sample.unwrap().sample.pages, kept as u64);
        if kept < hashes.len() {
            let rate = (hashes[kept] >> 3) as f64 / 2_f64.powi(61);
            prop_assert!((threshold.rate() - rate).abs() < 1e-15);
        }
    }
}

/// Accesses to `pages` pages, of which a few are busy, and loops over stretches of them.
fn mixture(seed: u64, pages: u32, accesses: usize) -> Vec<u32> {
    let mut random = Stream::named(seed, "mixture");
    let mut found = Vec::with_capacity(accesses);
    while found.len() < accesses {
        if random.chance(30) {
            let from = random.below(pages);
            found.extend((from..pages.min(from + pages / 50)).take(accesses - found.len()));
        } else {
            // The square of a uniform number prefers small pages.
            let part = f64::from(random.below(1 << 20)) / f64::from(1 << 20);
            found.push((part * part * f64::from(pages)) as u32);
        }
    }
    numbered_large(found, pages)
}

fn numbered_large(pages: Vec<u32>, bound: u32) -> Vec<u32> {
    let mut numbers = vec![u32::MAX; bound as usize];
    let mut next = 0;
    let mut number = |page: u32| {
        let number = &mut numbers[page as usize];
        if *number == u32::MAX {
            *number = next;
            next += 1;
        }
        *number
    };
    pages.into_iter().map(&mut number).collect()
}

#[test]
fn nine_of_ten_exact_figures_are_within_the_errors_of_a_sample() {
    let (mut within, mut all, mut distance) = (0, 0, 0.0);
    // Figures of one trace are right or wrong together, so it takes many traces.
    for seed in 0..40 {
        let pages = mixture(seed, 15_000, 100_000);
        let frames = [500, 1500, 4000, 8000, 12_000];
        let policies = ["lru", "fifo", "arc"];
        let exact = misses::run(&mut source(&pages), &policies, &frames, &NoProgress).unwrap();
        let mut sample = sampled(&pages, SampleThreshold::of_rate(0.1));
        let found = misses::run_sampled(&mut sample, &policies, &frames, &NoProgress).unwrap();
        for policy in policies {
            for frames in frames {
                let ratio = |counts: &misses::MissCounts| {
                    counts.of(policy, frames).unwrap() as f64 / counts.requests as f64
                };
                let off = (ratio(&found) - ratio(&exact)).abs();
                let error = found.sample.as_ref().unwrap().error[policy][&frames];
                within += u32::from(off <= error);
                all += 1;
                distance += off;
            }
        }
    }
    assert!(within * 10 >= all * 9, "{within} of {all}");
    assert!(distance / f64::from(all) < 0.01, "mean {}", distance / f64::from(all));
}

#[test]
fn a_busy_page_in_or_out_of_the_sample_moves_no_share_far() {
    // Page 0 has half of all accesses, and either all or none of them are in the sample.
    let mut random = Stream::named(1, "busy");
    let mut pages = Vec::new();
    for _ in 0..100_000 {
        pages.extend([0, 1 + random.below(20_000)]);
    }
    let pages = numbered_large(pages, 20_001);
    let exact = analyze(&mut source(&pages), None, &NoProgress).unwrap();
    let mut sample = sampled(&pages, SampleThreshold::of_rate(0.1));
    let found = analyze_sampled(&mut sample, None, &NoProgress).unwrap();
    for (exact, found) in exact.skew.top_share.iter().zip(found.skew.top_share) {
        assert!((exact - found).abs() < 0.02, "{exact} {found}");
    }
    assert!((exact.reaccess_share - found.reaccess_share).abs() < 0.02);
    assert_eq!((found.accesses, found.writes), (200_000, 0));
}

#[test]
fn counts_of_a_sample_are_estimates_of_the_trace() {
    let mut random = Stream::named(3, "swap");
    let mut events = Vec::new();
    for _ in 0..50_000 {
        let page = random.below(20_000);
        events.push((EventKind::SwapOut, page));
        if random.chance(60) {
            events.push((EventKind::SwapIn, page));
        }
    }
    let exact = analyze(&mut MemorySource::events(&events), Some(3), &NoProgress).unwrap();
    let source = Box::new(MemorySource::events(&events));
    let mut sampled = Sampled::new(source, SampleThreshold::of_rate(0.25));
    let found = analyze_sampled(&mut sampled, Some(3), &NoProgress).unwrap();
    let near = |exact: u64, found: u64| {
        assert!(exact.abs_diff(found) * 20 < exact, "{exact} {found}");
    };
    assert_eq!(exact.kind, TraceKind::Swap);
    assert_eq!(exact.accesses, found.accesses);
    let (exact_swap, found_swap) = (exact.swap.unwrap(), found.swap.unwrap());
    near(exact.pages, found.pages);
    near(exact.writes, found.writes);
    near(exact_swap.outs, found_swap.outs);
    near(exact_swap.ins, found_swap.ins);
    near(exact_swap.pages_in_swap_max, found_swap.pages_in_swap_max);
    let processes = [exact.processes.unwrap(), found.processes.unwrap()];
    near(processes[0][0].accesses, processes[1][0].accesses);
    let sum =
        |analysis: &sim::analysis::Histogram| analysis.buckets().map(|(_, count)| count).sum();
    near(sum(&exact.reuse_distance), sum(&found.reuse_distance));
    let volume = found.volume.swap.unwrap();
    assert_eq!(volume.top_10_percent_bytes + volume.rest_bytes, exact.accesses * 4096);
}
