//! A replay of a sample of the pages, as an estimate of that of all pages: the fast tier is smaller by the rate of
//! the sample, and the counts are larger by it (a miniature simulation: Waldspurger, Saemundsson, Ahmad, Park, USENIX
//! ATC 2017). Eight groups of the pages are replayed by themselves, each with an eighth of that fast tier: the spread
//! of their estimates gives the confidence intervals.

use rayon::prelude::*;
use trace::Source;
use trace::sampled::{SAMPLE_GROUPS, Sampled};
use types::{Events, Nanos, Progress};

use super::outcome::{Outcome, TraceFacts};
use super::sample_error::{SimulateError, SimulateSample, TierError};
use super::slices::{Marks, Sliced};
use super::tally::{Counts, Tally, ZeroPages};
use super::{
    AtEnd, Readahead, RequestCells, Role, SimulateRequest, capacity, find, refuse_other_traces,
};
use crate::error::Error;
use crate::sample::{Groups, Sample, basis, group_rate, half_width};

/// The fewest frames that the fast tier has in a sample, so that each group has eight.
const FRAMES_MIN: u64 = 8 * SAMPLE_GROUPS as u64;

/// Replays a sample of a trace against one architecture. Counts are those of the sample times the accesses of the
/// trace per access of the sample, and so are times; `sample` has their errors. Counts of each process have none.
///
/// # Errors
/// Errors of [`super::simulate`]; `Usage` if what the request asks for cannot be scaled, with the reason.
pub fn simulate_sampled(
    source: &mut Sampled,
    request: &SimulateRequest,
    progress: &dyn Progress,
) -> Result<Outcome, Error> {
    refuse_other_traces(request, source.header())?;
    let rate = source.threshold().rate();
    refuse_unscalable(request)?;
    refuse_few_frames(request, rate)?;
    source.note_times();
    let whole = RequestCells::start(&at_rate(request, rate))?;
    let of_group = SimulateRequest { replays_range: false, ..at_rate(request, group_rate(rate)) };
    let mut group_cells = (0..SAMPLE_GROUPS)
        .map(|_| Ok(RequestCells::start(&of_group)?.cells.swap_remove(0)))
        .collect::<Result<Vec<_>, Error>>()?;
    let RequestCells { options, mut cells, has_range } = whole;
    let by_page = replay(source, &mut cells, &mut group_cells, progress)?;

    let at_end = AtEnd { progress, events: source.header().events };
    let finish = |cells: Vec<Sliced>| {
        let finished = cells.into_par_iter().map(|cell| cell.finish(&Marks::None, &at_end));
        let tallies = finished.map(|finished| finished.map(|(tally, _)| tally));
        tallies.collect::<Result<Vec<Tally>, Error>>()
    };
    let (whole, of_groups) = (finish(cells)?, finish(group_cells)?);
    let facts = TraceFacts { header: source.header(), active: source.active_ns().map(Nanos) };
    let accesses = source.accesses_read();
    let factor = scale(rate, accesses, by_page.iter().map(|&(_, count)| count));
    let tallies: Vec<Tally> = whole.iter().map(|tally| scaled(tally, factor)).collect();
    let outcome = Outcome::new(request, options.clone(), &tallies, has_range, &facts);
    let of_group = |(group, tally): (usize, &Tally)| {
        let own = by_page.iter().filter(|&&(of, _)| usize::from(of) == group);
        let factor = scale(group_rate(rate), accesses, own.map(|&(_, count)| count));
        let tallies = [scaled(tally, factor)];
        Outcome::new(request, options.clone(), &tallies, false, &facts)
    };
    let groups: Vec<Outcome> = of_groups.iter().enumerate().map(of_group).collect();
    let error = errors(rate, &outcome, &groups);
    let found = by_page.iter().map(|&(_, count)| u64::from(count));
    let pages = found.clone().filter(|&count| count > 0).count() as u64;
    let sample = Sample { rate, pages, accesses: found.sum() };
    Ok(Outcome { sample: Some(SimulateSample { sample, error }), ..outcome })
}

/// Refuses what a sample of the pages cannot show, whatever its size.
///
/// # Errors
/// `Usage` with the reason.
pub fn refuse_unscalable(request: &SimulateRequest) -> Result<(), Error> {
    let refuse = |why: String| Err(Error::usage(why));
    if request.readahead != Readahead::Off {
        return refuse(format!(
            "readahead={} needs the pages beside the one that is read, and a sample has few of them; leave it out, \
             or replay all pages",
            request.readahead.name()
        ));
    }
    if request.queueing {
        return refuse(
            "queueing=yes needs all operations of the slow device, and a sample has only a share of them; leave it \
             out, or replay all pages"
                .to_owned(),
        );
    }
    if find(&request.architecture)?.role == Role::Bound {
        return refuse(format!(
            "{} bounds the I/O time from below, and an estimate from a sample may lie above the bound; replay all \
             pages",
            request.architecture
        ));
    }
    // Mean errors of its I/O time on the recordings in examples/ are 1 %, and a seventh lies outside the intervals.
    if request.architecture == "adaptive" {
        return refuse(
            "adaptive learns from events one by one and decides otherwise with fewer of them, so its estimates \
             would be farther off than their intervals say; replay all pages"
                .to_owned(),
        );
    }
    if request.options.get("bit_epoch").is_some_and(|value| value != "never") {
        return refuse(
            "bit_epoch is a number of swap-ins, of which a sample has only a share; leave it out, or replay all pages"
                .to_owned(),
        );
    }
    Ok(())
}

fn refuse_few_frames(request: &SimulateRequest, rate: f64) -> Result<(), Error> {
    let (frames, sampled) = (capacity(request), frames_at(request, rate));
    if frames > 0 && sampled < FRAMES_MIN && rate < 1.0 {
        return Err(Error::usage(format!(
            "the fast tier has room for {frames} pages, and in the sample for {sampled}, which is too few for an \
             estimate: {FRAMES_MIN} are needed; take a larger sample, or replay all pages"
        )));
    }
    Ok(())
}

/// Frames of the fast tier for a sample at `rate`.
fn frames_at(request: &SimulateRequest, rate: f64) -> u64 {
    (capacity(request) as f64 * rate).round() as u64
}

/// The request with the fast tier that a sample at `rate` has.
fn at_rate(request: &SimulateRequest, rate: f64) -> SimulateRequest {
    let fast_bytes = frames_at(request, rate) * request.page_bytes;
    SimulateRequest { fast_bytes, ..request.clone() }
}

/// Feeds every batch of the sample to the cells of the whole sample, and its part to the cell of each group. Returns
/// the group and the number of accesses of each page.
fn replay(
    source: &mut Sampled,
    cells: &mut [Sliced],
    group_cells: &mut [Sliced],
    progress: &dyn Progress,
) -> Result<Vec<(u8, u32)>, Error> {
    let (mut groups, mut parts) = (Groups::default(), <[Events; SAMPLE_GROUPS]>::default());
    let mut events = Events::default();
    let mut by_page: Vec<(u8, u32)> = Vec::new();
    while source.next_batch(&mut events)? {
        let done = source.events_read();
        progress.advance(done, source.header().events.max(done))?;
        groups.split_events(&events, source, &mut parts);
        for page in by_page.len()..source.header().pages.unwrap_or(0) as usize {
            by_page.push((groups.of_page(page), 0));
        }
        for event in events.iter().filter(|event| event.kind.is_access()) {
            let (_, count) = &mut by_page[event.page.index()];
            *count = count.saturating_add(1);
        }
        let of_groups = group_cells.iter_mut().zip(&parts);
        let mut fed: Vec<(&mut Sliced, &Events)> =
            cells.iter_mut().map(|cell| (cell, &events)).chain(of_groups).collect();
        fed.par_iter_mut().for_each(|(cell, events)| cell.replay(std::slice::from_ref(*events)));
    }
    Ok(by_page)
}

/// What counts of a sample at `rate` are multiplied by, from the accesses of the trace and of each sampled page.
fn scale(rate: f64, accesses: u64, by_page: impl Iterator<Item = u32>) -> f64 {
    let basis = basis(rate, accesses, by_page);
    if basis > 0.0 { accesses as f64 / basis } else { 0.0 }
}

/// The counts of the trace, from those of a sample.
fn scaled(tally: &Tally, factor: f64) -> Tally {
    let times = |count: u64| (count as f64 * factor).round() as u64;
    let of_process = |counts: &Counts| Counts {
        fast_reads: times(counts.fast_reads),
        fast_writes: times(counts.fast_writes),
        slow_reads: times(counts.slow_reads),
        slow_writes: times(counts.slow_writes),
        promotions: times(counts.promotions),
        demotions: times(counts.demotions),
    };
    Tally {
        processes: tally.processes.iter().map(of_process).collect(),
        fast_writes_stalling: times(tally.fast_writes_stalling),
        slow_writes_stalling: times(tally.slow_writes_stalling),
        fast_only_pages: times(tally.fast_only_pages),
        clean_page_outs: times(tally.clean_page_outs),
        zero_pages: ZeroPages {
            outs: times(tally.zero_pages.outs),
            ins: times(tally.zero_pages.ins),
        },
        notes: tally.notes.clone(),
        ..Tally::default()
    }
}

/// The errors of the estimates in `whole`, by those of the groups.
fn errors(rate: f64, whole: &Outcome, groups: &[Outcome]) -> SimulateError {
    let of =
        |figure: fn(&Outcome) -> f64| half_width(rate, figure(whole), groups.iter().map(figure));
    SimulateError {
        fast: TierError {
            reads: of(|outcome| outcome.fast.reads as f64),
            writes: of(|outcome| outcome.fast.writes as f64),
        },
        slow: TierError {
            reads: of(|outcome| outcome.slow.reads as f64),
            writes: of(|outcome| outcome.slow.writes as f64),
        },
        promotions: of(|outcome| outcome.promotions as f64),
        demotions: of(|outcome| outcome.demotions as f64),
        io_time_s: of(|outcome| outcome.io_time_s),
        stall_time_s: of(|outcome| outcome.stall_time_s),
    }
}
