//! The true optimum on small traces: every reachable combination of places of all pages, moment by
//! moment, with the least time that leads there.

use super::moves::{Move, Place, moves};
use super::relaxation::Costs;
use super::story::Story;
use crate::error::Error;
use std::collections::BTreeMap;

/// Pages that are told apart: two bits each.
const PAGES_MAX: usize = 12;
/// Moments whose combinations are remembered.
const MOMENTS_MAX: usize = 2_000;

/// Places of all pages, two bits each.
type Combination = u32;

struct Reached {
    time: f64,
    before: Combination,
    chosen: &'static Move,
}

/// Books a schedule of least time within `capacity` frames.
///
/// # Errors
/// `Usage` where the trace is too large for this.
pub(super) fn book_optimum(story: &mut Story, capacity: u64, costs: &Costs) -> Result<(), Error> {
    let moments = std::mem::take(&mut story.moments);
    let pages = moments.iter().map(|moment| moment.page.index() + 1).max().unwrap_or(0);
    if pages > PAGES_MAX || moments.len() > MOMENTS_MAX {
        return Err(Error::usage(format!(
            "clairvoyant with method=exact takes at most {PAGES_MAX} pages and {MOMENTS_MAX} events; \
             this trace has {pages} and {}; use method=bound",
            moments.len()
        )));
    }
    let mut layers: Vec<BTreeMap<Combination, Reached>> = Vec::with_capacity(moments.len());
    for moment in &moments {
        let page = moment.page.index();
        let mut layer = BTreeMap::new();
        let mut extend = |before: Combination, time: f64| {
            let place = moment.begins_at.unwrap_or_else(|| place_of(before, page));
            for chosen in moves(moment.step, place) {
                let after = with_place(before, page, chosen.to);
                let time = time + costs.of(chosen);
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
    let Some(last) = layers.last() else { return Ok(()) };
    let best = last.iter().min_by(|left, right| left.1.time.total_cmp(&right.1.time));
    let mut combination = *best.expect("keeping every page slow is always possible").0;
    let mut schedule = Vec::with_capacity(moments.len());
    for layer in layers.iter().rev() {
        let reached = &layer[&combination];
        schedule.push((reached.before, reached.chosen));
        combination = reached.before;
    }
    for (moment, (before, chosen)) in moments.iter().zip(schedule.into_iter().rev()) {
        let from = moment.begins_at.unwrap_or_else(|| place_of(before, moment.page.index()));
        story.book(*moment, from, chosen);
    }
    Ok(())
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
