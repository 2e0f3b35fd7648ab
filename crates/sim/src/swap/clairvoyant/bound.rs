//! A lower bound on the time of any placement, by pricing frames instead of limiting them.
//!
//! Lagrangian relaxation: if every frame costs `price` per event instead of being one of `capacity`,
//! pages do not compete, and a backward pass over each page's life gives its best fate. The
//! cheapest total, less the payment for a full fast tier, is at most the time of every placement
//! within the capacity, for any prices (weak duality). Prices are constant over a block of
//! events and move towards the point where the demand for frames equals the capacity.

use super::lives::Lives;
use super::prices::Prices;
use super::relaxation::Relaxation;
use super::story::Story;
use crate::error::Error;
use policy::placement::Latencies;
use types::Progress;

/// Rounds of price adjustment on a sample of the lives, whose prices are nearly those of all lives.
const ROUNDS_SAMPLED: usize = 80;
/// Lives in a sample, or all lives if there are fewer.
const SAMPLE: usize = 1 << 15;
/// Rounds of price adjustment on all lives; further rounds change the bound in the fourth digit.
const ROUNDS: usize = 10;
/// First steps of both adjustments, as exponents.
const STEP_SAMPLED: f64 = 1.0;
const STEP: f64 = 0.1;
/// First factor on the prices in the search for a schedule at the bound; each next factor is the square.
const FACTOR: f64 = 1.05;
/// Highest factor tried.
const FACTOR_MAX: f64 = 1024.0;
/// Number of halvings in that search.
const HALVINGS: usize = 2;
/// A prohibitive price in nanoseconds, for a capacity of no frames.
const PRICE_PROHIBITIVE: f64 = 1e15;
/// Times are whole nanoseconds, so a schedule this much above the bound is still at most the optimum.
const ROUNDING: f64 = 0.5;

/// Adds to `story` a schedule whose time is at most that of any placement within `capacity` frames and just
/// below the bound, which is returned in nanoseconds. It is not a placement: it may hold more frames than
/// the capacity.
///
/// # Errors
/// `Cancelled` if `progress`, which is called now and then, cancels.
pub(super) fn book_bound(
    story: &mut Story,
    capacity: u64,
    latencies: &Latencies,
    progress: &dyn Progress,
) -> Result<f64, Error> {
    let moments = std::mem::take(&mut story.moments);
    let lives = Lives::of(&moments, story.pages());
    let mut relaxation = Relaxation::new(&lives, moments.len(), latencies, progress);
    let first_price =
        if capacity == 0 { PRICE_PROHIBITIVE } else { 0.5 * latencies.slow_read / capacity as f64 };
    let prices = Prices::new(moments.len(), first_price);
    let (bound, prices) = best_bound(&mut relaxation, capacity, prices)?;
    let (within, beyond) = bracket(&mut relaxation, &prices, bound + ROUNDING)?;

    // Whole lives change from the fate that costs less to the one that costs more, until the bound is met.
    let mut left = bound + ROUNDING - within.time();
    let mut times = within.times.iter().zip(&beyond.times);
    relaxation.for_each_life(1, |relaxation, life| {
        let (cheap, dear) = times.next().expect("every life has times");
        let is_dear = dear > cheap && dear - cheap <= left;
        if is_dear {
            left -= dear - cheap;
        }
        relaxation.decide(life, if is_dear { &beyond.prices } else { &within.prices });
        for (when, from, chosen) in relaxation.moves_of(life) {
            story.book(moments[when as usize], from, chosen);
        }
    })?;
    Ok(bound)
}

/// The highest bound of the price adjustment, and its prices.
fn best_bound(
    relaxation: &mut Relaxation<'_>,
    capacity: u64,
    mut prices: Prices,
) -> Result<(f64, Prices), Error> {
    let frames = capacity as f64;
    if capacity > 0 {
        let stride = (relaxation.lives() / SAMPLE).max(1);
        let mut steps = prices.steps(STEP_SAMPLED);
        for _ in 0..ROUNDS_SAMPLED {
            let fates = relaxation.fates(&prices, stride)?;
            prices.adjust(&fates.frames, frames / stride as f64, &mut steps);
        }
    }
    let mut steps = prices.steps(STEP);
    let mut best = (0.0, prices.scaled(0.0));
    for _ in 0..if capacity == 0 { 1 } else { ROUNDS } {
        let fates = relaxation.fates(&prices, 1)?;
        let bound = fates.priced - frames * prices.total();
        if bound >= best.0 {
            best = (bound, prices.scaled(1.0));
        }
        prices.adjust(&fates.frames, frames.max(1.0), &mut steps);
    }
    Ok(best)
}

/// Times of all lives at these prices.
struct Timed {
    factor: f64,
    prices: Prices,
    times: Vec<f64>,
}

impl Timed {
    fn time(&self) -> f64 {
        self.times.iter().sum()
    }
}

/// Finds two factors on the prices, close to each other, such that the time of the lives is within `limit`
/// at the first and beyond it at the second. The time rises with the factor; at zero it is that of a fast
/// tier for everything, a lower bound of every placement.
fn bracket(
    relaxation: &mut Relaxation<'_>,
    prices: &Prices,
    limit: f64,
) -> Result<(Timed, Timed), Error> {
    let mut at = |factor: f64| -> Result<Timed, Error> {
        let prices = prices.scaled(factor);
        let times = relaxation.times(&prices)?;
        Ok(Timed { factor, prices, times })
    };
    let mut step = FACTOR;
    let first = at(1.0)?;
    let (mut within, mut beyond) = if first.time() <= limit {
        let (mut within, mut beyond) = (first, at(step)?);
        while beyond.time() <= limit && step < FACTOR_MAX {
            step *= step;
            (within, beyond) = (beyond, at(step)?);
        }
        (within, beyond)
    } else {
        let (mut within, mut beyond) = (at(1.0 / step)?, first);
        while within.time() > limit && within.factor > 0.0 {
            step *= step;
            (within, beyond) = (at(if step < FACTOR_MAX { 1.0 / step } else { 0.0 })?, within);
        }
        (within, beyond)
    };
    for _ in 0..HALVINGS {
        let middle = at((within.factor + beyond.factor) / 2.0)?;
        if middle.time() <= limit {
            within = middle;
        } else {
            beyond = middle;
        }
    }
    Ok((within, beyond))
}
