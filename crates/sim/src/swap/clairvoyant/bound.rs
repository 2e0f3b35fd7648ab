//! A lower bound on the time of any placement, by pricing frames instead of limiting them.
//!
//! Lagrangian relaxation: where every frame costs `price` per event instead of being one of `capacity`,
//! pages do not compete, and the best fate of each follows from a backward pass over its own life. The
//! cheapest total, less what a full fast tier would pay, is at most the time of every placement that
//! keeps to the capacity, whatever the prices (weak duality). Prices are constant over a block of
//! events and move towards where the demand for frames meets the capacity.

use super::moves::{Move, Place, Step, moves};
use super::story::{Lives, Moment, Story};

/// Blocks of constant price. More follow the demand closer and cost memory only.
const BLOCKS: usize = 400;
/// Rounds of price adjustment; the bound of a later round differs in the fourth digit.
const ROUNDS: usize = 60;
/// First step of the price adjustment, as an exponent.
const STEP: f64 = 0.6;
/// Rounds after which the step has halved.
const STEP_HALVING: f64 = 12.0;
/// Highest factor on the prices tried in the search for a schedule at the bound.
const FACTOR_MAX: f64 = 1024.0;
/// Halvings of that search.
const SEARCHES: usize = 8;
/// Least price of a frame and event in nanoseconds: zero could never rise again.
const PRICE_MIN: f64 = 1e-6;
/// A price nobody pays, in nanoseconds: where there is no frame.
const PRICE_PROHIBITIVE: f64 = 1e15;
/// Times are whole nanoseconds, so a schedule this much above the bound is still at most the optimum.
const ROUNDING: f64 = 0.5;

/// What one operation costs, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Costs {
    pub fast_read: f64,
    pub fast_write: f64,
    pub slow_read: f64,
    pub slow_write: f64,
}

impl Costs {
    pub fn of(&self, chosen: &Move) -> f64 {
        f64::from(chosen.fast_reads) * self.fast_read
            + f64::from(chosen.fast_writes) * self.fast_write
            + f64::from(chosen.slow_reads) * self.slow_read
            + f64::from(chosen.slow_writes) * self.slow_write
    }
}

/// Price of a frame per event, by block of events.
struct Prices {
    by_block: Vec<f64>,
    events_per_block: f64,
    /// What holding a frame from the start to the start of each block costs.
    sums: Vec<f64>,
}

impl Prices {
    fn new(events: usize, first: f64) -> Prices {
        let blocks = BLOCKS.min(events).max(1);
        let events_per_block = events.max(1) as f64 / blocks as f64;
        let mut prices = Prices {
            by_block: vec![first.max(PRICE_MIN); blocks],
            events_per_block,
            sums: vec![0.0; blocks + 1],
        };
        prices.sum_up();
        prices
    }

    fn sum_up(&mut self) {
        for (block, price) in self.by_block.iter().enumerate() {
            self.sums[block + 1] = self.sums[block] + price * self.events_per_block;
        }
    }

    /// What holding a frame from the start to `moment` costs.
    fn sum_to(&self, moment: usize) -> f64 {
        let position = moment as f64 / self.events_per_block;
        let block = (position as usize).min(self.by_block.len() - 1);
        self.sums[block] + (position - block as f64) * self.events_per_block * self.by_block[block]
    }

    fn total(&self) -> f64 {
        self.sums[self.by_block.len()]
    }

    fn scaled(&self, factor: f64) -> Prices {
        let by_block = self.by_block.iter().map(|price| price * factor).collect();
        let sums = self.sums.iter().map(|sum| sum * factor).collect();
        Prices { by_block, events_per_block: self.events_per_block, sums }
    }

    /// Raises prices where more frames were wanted than there are, lowers them elsewhere.
    fn adjust(&mut self, frames: &Frames, capacity: f64, step: f64) {
        for (price, used) in self.by_block.iter_mut().zip(frames.by_block()) {
            let excess = ((used - capacity) / capacity).clamp(-1.0, 1.0);
            *price = (*price * (step * excess).exp()).max(PRICE_MIN);
        }
        self.sum_up();
    }
}

/// Frame-events used, by block: partial blocks at the ends of a stay, whole ones as differences.
struct Frames {
    partial: Vec<f64>,
    changes: Vec<f64>,
}

impl Frames {
    fn new(blocks: usize) -> Frames {
        Frames { partial: vec![0.0; blocks + 1], changes: vec![0.0; blocks + 1] }
    }

    fn hold(&mut self, from: usize, to: usize, prices: &Prices) {
        let blocks = prices.by_block.len();
        let (start, end) =
            (from as f64 / prices.events_per_block, to as f64 / prices.events_per_block);
        let (first, last) = ((start as usize).min(blocks - 1), (end as usize).min(blocks - 1));
        if first == last {
            self.partial[first] += end - start;
            return;
        }
        self.partial[first] += (first + 1) as f64 - start;
        self.partial[last] += end - last as f64;
        self.changes[first + 1] += 1.0;
        self.changes[last] -= 1.0;
    }

    /// Mean frames in use.
    fn by_block(&self) -> impl Iterator<Item = f64> + '_ {
        let mut whole = 0.0;
        self.partial.iter().zip(&self.changes).map(move |(partial, change)| {
            whole += change;
            partial + whole
        })
    }
}

/// The fates of all pages at given prices.
struct Relaxed {
    /// Their time plus the price of the frames they hold.
    priced: f64,
    /// Their time alone.
    time: f64,
    frames: Frames,
}

/// Lives whose best fates are sought.
struct Relaxation<'a> {
    moments: &'a [Moment],
    lives: &'a Lives,
    costs: &'a Costs,
    /// The best move at each moment of one life, by the place before it.
    choices: Vec<[u8; 4]>,
}

impl Relaxation<'_> {
    /// All lives at these prices.
    fn relax(&mut self, prices: &Prices) -> Relaxed {
        let (mut priced, mut time) = (0.0, 0.0);
        let mut frames = Frames::new(prices.by_block.len());
        for life in self.lives.iter(self.moments) {
            priced += self.decide(life, prices);
            time += self.follow(life, |index, _, chosen| {
                if chosen.to.is_fast() {
                    frames.hold(life[index] as usize, end(self.moments, life, index), prices);
                }
            });
        }
        Relaxed { priced, time, frames }
    }

    /// Time of each life at these prices.
    fn times(&mut self, prices: &Prices) -> Vec<f64> {
        let mut times = Vec::new();
        for life in self.lives.iter(self.moments) {
            self.decide(life, prices);
            times.push(self.follow(life, |_, _, _| {}));
        }
        times
    }

    /// Backward over a life: the best move at each moment. Returns the life's time and price.
    fn decide(&mut self, life: &[u32], prices: &Prices) -> f64 {
        let mut later = [0.0f64; 4];
        self.choices.clear();
        self.choices.resize(life.len(), [0; 4]);
        for (index, moment) in life.iter().enumerate().rev() {
            let step = self.moments[*moment as usize].step;
            let stay = if step == Step::End {
                0.0
            } else {
                prices.sum_to(end(self.moments, life, index)) - prices.sum_to(*moment as usize)
            };
            let continued = Place::ALL
                .map(|place| later[place as usize] + if place.is_fast() { stay } else { 0.0 });
            for place in Place::ALL {
                let (choice, cost) = best(moves(step, place), self.costs, &continued);
                later[place as usize] = cost;
                self.choices[index][place as usize] = choice;
            }
        }
        later[self.start(life) as usize]
    }

    /// Forward over the life that was decided last. Returns its time.
    fn follow(&self, life: &[u32], mut visit: impl FnMut(usize, Place, &'static Move)) -> f64 {
        let (mut place, mut time) = (self.start(life), 0.0);
        for (index, moment) in life.iter().enumerate() {
            let step = self.moments[*moment as usize].step;
            let chosen = &moves(step, place)[usize::from(self.choices[index][place as usize])];
            time += self.costs.of(chosen);
            visit(index, place, chosen);
            place = chosen.to;
        }
        time
    }

    fn start(&self, life: &[u32]) -> Place {
        let first = self.moments[life[0] as usize].begins_at;
        first.expect("a life starts with the moment that begins it")
    }
}

/// The moment until which a page stays where the moment at `index` of its life put it.
fn end(moments: &[Moment], life: &[u32], index: usize) -> usize {
    life.get(index + 1).map_or(moments.len(), |next| *next as usize)
}

fn best(moves: &[Move], costs: &Costs, continued: &[f64; 4]) -> (u8, f64) {
    let mut best = (0, f64::INFINITY);
    for (index, candidate) in moves.iter().enumerate() {
        let cost = costs.of(candidate) + continued[candidate.to as usize];
        if cost < best.1 {
            best = (index as u8, cost);
        }
    }
    best
}

/// Books a schedule whose time is at most that of any placement within `capacity` frames and just
/// below the bound, which is returned in nanoseconds. It is no placement: it may hold more frames than
/// there are.
pub(super) fn book_bound(story: &mut Story, capacity: u64, costs: &Costs) -> f64 {
    let lives = story.lives();
    let moments = std::mem::take(&mut story.moments);
    let mut relaxation =
        Relaxation { moments: &moments, lives: &lives, costs, choices: Vec::new() };
    let (bound, prices) = best_bound(&mut relaxation, capacity);
    let (within, beyond) = bracket(&mut relaxation, &prices, bound);
    let (within, beyond) = (prices.scaled(within), prices.scaled(beyond));

    // Whole lives move from the cheaper fate to the dearer one until the bound is met.
    let (cheap, dear) = (relaxation.times(&within), relaxation.times(&beyond));
    let mut left = bound + ROUNDING - cheap.iter().sum::<f64>();
    for ((life, cheap), dear) in lives.iter(&moments).zip(cheap).zip(dear) {
        let is_dear = dear > cheap && dear - cheap <= left;
        if is_dear {
            left -= dear - cheap;
        }
        relaxation.decide(life, if is_dear { &beyond } else { &within });
        relaxation.follow(life, |index, place, chosen| {
            story.book(moments[life[index] as usize], place, chosen);
        });
    }
    bound
}

/// The highest bound that price adjustment finds, and its prices.
fn best_bound(relaxation: &mut Relaxation<'_>, capacity: u64) -> (f64, Prices) {
    let costs = relaxation.costs;
    let first_price =
        if capacity == 0 { PRICE_PROHIBITIVE } else { 0.5 * costs.slow_read / capacity as f64 };
    let rounds = if capacity == 0 { 1 } else { ROUNDS };
    let frames = capacity as f64;
    let mut prices = Prices::new(relaxation.moments.len(), first_price);
    let mut best = (0.0, prices.scaled(0.0));
    for round in 0..rounds {
        let relaxed = relaxation.relax(&prices);
        let bound = relaxed.priced - frames * prices.total();
        if bound >= best.0 {
            best = (bound, prices.scaled(1.0));
        }
        let step = STEP / (1.0 + round as f64 / STEP_HALVING);
        prices.adjust(&relaxed.frames, frames.max(1.0), step);
    }
    best
}

/// Two factors on the prices, close to each other, so that the lives' own time is within the bound at
/// the first and beyond it at the second. The time rises with the factor; at zero it is that of a fast
/// tier for everything.
fn bracket(relaxation: &mut Relaxation<'_>, prices: &Prices, bound: f64) -> (f64, f64) {
    let mut is_within =
        |factor: f64| relaxation.relax(&prices.scaled(factor)).time <= bound + ROUNDING;
    let (mut within, mut beyond) = (0.0, 1.0);
    while beyond < FACTOR_MAX && is_within(beyond) {
        (within, beyond) = (beyond, 2.0 * beyond);
    }
    for _ in 0..SEARCHES {
        let middle = (within + beyond) / 2.0;
        if is_within(middle) {
            within = middle;
        } else {
            beyond = middle;
        }
    }
    (within, beyond)
}
