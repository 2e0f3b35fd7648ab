//! The best fate of each page if frames have a price and no limit: a backward pass over its life.

use super::lives::{Lives, PageLife};
use super::moves::{Move, MoveStep, Place, moves};
use super::prices::{Frames, Prices};
use crate::error::Error;
use policy::placement::Latencies;
use types::Progress;

/// Lives between two checks for cancellation: some tens of milliseconds.
const LIVES_PER_QUESTION: usize = 1 << 18;

/// Most moves from one place at one step.
const MOVES_MAX: usize = 3;

/// The moves of a page at one step and place: their targets and costs, infinite for
/// missing moves.
#[derive(Clone, Copy)]
struct Candidates {
    to: [Place; MOVES_MAX],
    cost: [f64; MOVES_MAX],
}

impl Candidates {
    fn new(step: MoveStep, place: Place, latencies: &Latencies) -> Candidates {
        let mut candidates =
            Candidates { to: [Place::Slow; MOVES_MAX], cost: [f64::INFINITY; MOVES_MAX] };
        for (index, candidate) in moves(step, place).iter().enumerate() {
            candidates.to[index] = candidate.to;
            candidates.cost[index] = candidate.time_ns(latencies);
        }
        candidates
    }

    /// The cheapest move if continuing from each place costs `later`; the first among equals. Without a
    /// branch, which would be mispredicted.
    #[inline(always)]
    fn best(&self, later: &[f64; 4]) -> (u8, f64) {
        let cost = |index: usize| self.cost[index] + later[self.to[index] as usize];
        let less = |left: f64, right: f64| if left < right { left } else { right };
        let costs = [cost(0), cost(1), cost(2)];
        let least = less(less(costs[0], costs[1]), costs[2]);
        let is_not_first = u8::from(costs[0] > least);
        (is_not_first + (is_not_first & u8::from(costs[1] > least)), least)
    }
}

/// The fates of the pages at given prices.
pub(super) struct Fates {
    /// The time of the fates, plus the price of the frames they hold.
    pub priced: f64,
    /// The frames they hold.
    pub frames: Frames,
}

/// The lives to optimise.
pub(super) struct Relaxation<'a> {
    lives: &'a Lives,
    /// Moments of the trace.
    moments: u32,
    candidates: [[Candidates; 4]; MoveStep::ALL.len()],
    /// Best move at each moment of the life decided last: two bits for each place before it.
    choices: Vec<u8>,
    progress: &'a dyn Progress,
}

impl<'a> Relaxation<'a> {
    /// Number of lives.
    pub fn lives(&self) -> usize {
        self.lives.len()
    }

    /// A relaxation for `moments` moments in total.
    pub fn new(
        lives: &'a Lives,
        moments: usize,
        latencies: &Latencies,
        progress: &'a dyn Progress,
    ) -> Relaxation<'a> {
        let candidates = MoveStep::ALL
            .map(|step| Place::ALL.map(|place| Candidates::new(step, place, latencies)));
        Relaxation { lives, moments: moments as u32, candidates, choices: Vec::new(), progress }
    }

    /// The fates of one life in `stride` at these prices.
    ///
    /// # Errors
    /// `Cancelled` if the progress cancels; the same holds for the other passes over lives.
    pub fn fates(&mut self, prices: &Prices, stride: usize) -> Result<Fates, Error> {
        let mut priced = 0.0;
        let mut frames = prices.no_frames();
        self.for_each_life(stride, |relaxation, life| {
            priced += relaxation.decide(life, prices);
            relaxation.follow(life, |from, until| frames.hold(from, until));
        })?;
        Ok(Fates { priced, frames })
    }

    /// The time of each life at these prices.
    pub fn times(&mut self, prices: &Prices) -> Result<Vec<f64>, Error> {
        let mut times = Vec::with_capacity(self.lives.len());
        self.for_each_life(1, |relaxation, life| {
            relaxation.decide(life, prices);
            times.push(relaxation.follow(life, |_, _| {}));
        })?;
        Ok(times)
    }

    /// Visits one life in `stride`, in order.
    pub fn for_each_life(
        &mut self,
        stride: usize,
        mut visit: impl FnMut(&mut Self, PageLife<'a>),
    ) -> Result<(), Error> {
        let lives = self.lives;
        for first in (0..lives.len()).step_by(LIVES_PER_QUESTION) {
            self.progress.advance(0, 0)?;
            let end = lives.len().min(first + LIVES_PER_QUESTION);
            lives.range(first..end).step_by(stride).for_each(|life| visit(self, life));
        }
        Ok(())
    }

    /// Decides the best move at each moment, backward over a life. Returns the life's time and price.
    #[inline(always)]
    pub fn decide(&mut self, life: PageLife<'_>, prices: &Prices) -> f64 {
        let mut later = [0.0f64; 4];
        self.choices.clear();
        self.choices.resize(life.steps.len(), 0);
        let mut until = prices.sum_to(self.moments);
        let moments = life.steps.iter().zip(life.when).zip(&mut self.choices).rev();
        for ((&step, &when), choices) in moments {
            let now = prices.sum_to(when);
            let stay = if step == MoveStep::End { 0.0 } else { until - now };
            until = now;
            let continued =
                Place::ALL.map(|place| later[place as usize] + place.price_of_stay(stay));
            let candidates = &self.candidates[step as usize];
            if step == MoveStep::Out {
                // The moves of a page that must be written do not depend on its place before.
                let (choice, cost) = candidates[0].best(&continued);
                later = [cost; 4];
                *choices = choice * 0b01_01_01_01;
            } else {
                let best = candidates.each_ref().map(|candidates| candidates.best(&continued));
                later = best.map(|(_, cost)| cost);
                *choices = best[0].0 | best[1].0 << 2 | best[2].0 << 4 | best[3].0 << 6;
            }
        }
        later[life.begins_at as usize]
    }

    /// Follows the life decided last, and reports each stay in the fast tier. Returns its time.
    #[inline(always)]
    fn follow(&self, life: PageLife<'_>, mut hold: impl FnMut(u32, u32)) -> f64 {
        let (mut place, mut time) = (life.begins_at, 0.0);
        let ends = life.when[1..].iter().chain(std::iter::once(&self.moments));
        let moments = life.steps.iter().zip(life.when).zip(ends);
        for (((&step, &when), &end), &choices) in moments.zip(&self.choices) {
            let candidates = &self.candidates[step as usize][place as usize];
            let choice = chosen(choices, place);
            time += candidates.cost[choice];
            place = candidates.to[choice];
            if place.is_fast() {
                hold(when, end);
            }
        }
        time
    }

    /// The moves of the life decided last: moment, place before, and move.
    pub fn moves_of(
        &self,
        life: PageLife<'a>,
    ) -> impl Iterator<Item = (u32, Place, &'static Move)> + '_ {
        let mut place = life.begins_at;
        let moments = life.steps.iter().zip(life.when).zip(&self.choices);
        moments.map(move |((&step, &when), &choices)| {
            let from = place;
            let chosen = &moves(step, from)[chosen(choices, from)];
            place = chosen.to;
            (when, from, chosen)
        })
    }
}

#[inline(always)]
fn chosen(choices: u8, place: Place) -> usize {
    usize::from(choices >> (2 * place as u8) & 3)
}
