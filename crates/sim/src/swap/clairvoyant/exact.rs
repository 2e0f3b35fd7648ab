//! The true optimum on small traces: every reachable combination of places of all pages, moment by
//! moment, with the least time that leads to it.

use super::moves::{Move, Place, moves};
use super::story::{PageEvent, Story};
use crate::error::Error;
use policy::placement::Latencies;
use std::collections::BTreeMap;

/// Pages in a combination at most: two bits each.
const PAGES_MAX: usize = 12;
/// Moments whose combinations are kept, at most.
const MOMENTS_MAX: usize = 2_000;

/// Places of all pages, two bits each.
type Combination = u32;

/// The combinations reachable at a moment.
type Layer = BTreeMap<Combination, Reached>;

struct Reached {
    time: f64,
    before: Combination,
    chosen: &'static Move,
}

/// Adds to `story` a schedule of least time within `capacity` frames.
///
/// # Errors
/// `Usage` if the trace is too large for this method.
pub(super) fn book_optimum(
    story: &mut Story,
    capacity: u64,
    latencies: &Latencies,
) -> Result<(), Error> {
    let moments = std::mem::take(&mut story.moments);
    let pages = moments.iter().map(|moment| moment.page.index() + 1).max().unwrap_or(0);
    if pages > PAGES_MAX || moments.len() > MOMENTS_MAX {
        return Err(Error::usage(format!(
            "clairvoyant with method=exact takes at most {PAGES_MAX} pages and {MOMENTS_MAX} events; \
             this trace has {pages} and {}; use method=bound",
            moments.len()
        )));
    }
    let mut layers: Vec<Layer> = Vec::with_capacity(moments.len());
    for moment in &moments {
        let mut layer = Layer::new();
        let mut extend = |before: Combination, time: f64| {
            for chosen in moves(moment.step, place_before(moment, before)) {
                let after = with_place(before, moment.page.index(), chosen.to);
                let time = time + chosen.time_ns(latencies);
                let is_better = |known: &Reached| time < known.time;
                if frames(after, pages) <= capacity && layer.get(&after).is_none_or(is_better) {
                    layer.insert(after, Reached { time, before, chosen });
                }
            }
        };
        match layers.last() {
            None => extend(0, 0.0),
            Some(layer) => layer.iter().for_each(|(before, reached)| extend(*before, reached.time)),
        }
        layers.push(layer);
    }
    for (moment, reached) in moments.iter().zip(cheapest(&layers)) {
        story.book(*moment, place_before(moment, reached.before), reached.chosen);
    }
    Ok(())
}

/// The choices at each moment on the way of least time.
fn cheapest(layers: &[Layer]) -> Vec<&Reached> {
    let Some(last) = layers.last() else { return Vec::new() };
    let best = last.iter().min_by(|left, right| left.1.time.total_cmp(&right.1.time));
    let mut combination = *best.expect("keeping every page slow is always possible").0;
    let mut schedule = Vec::with_capacity(layers.len());
    for layer in layers.iter().rev() {
        let reached = &layer[&combination];
        combination = reached.before;
        schedule.push(reached);
    }
    schedule.reverse();
    schedule
}

/// The place of a moment's page before that moment.
fn place_before(moment: &PageEvent, combination: Combination) -> Place {
    moment.begins_at.unwrap_or_else(|| place_of(combination, moment.page.index()))
}

fn place_of(combination: Combination, page: usize) -> Place {
    Place::ALL[(combination >> (2 * page) & 3) as usize]
}

fn with_place(combination: Combination, page: usize, place: Place) -> Combination {
    combination & !(3 << (2 * page)) | (place as u32) << (2 * page)
}

fn frames(combination: Combination, pages: usize) -> u64 {
    (0..pages).filter(|page| place_of(combination, *page).is_fast()).count() as u64
}
