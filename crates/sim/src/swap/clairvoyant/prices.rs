//! The price of holding a frame over time, and the frames held at these prices.

/// Blocks of constant price. More blocks follow the demand closer and cost only memory.
const BLOCKS: usize = 400;
/// Least price per frame and event in nanoseconds: from zero it could never rise.
const PRICE_MIN: f64 = 1e-6;

/// Price of a frame per event, by block of events.
pub(super) struct Prices {
    by_block: Vec<f64>,
    events_per_block: f64,
    /// Cost of holding a frame from the start to the start of each block.
    sums: Vec<f64>,
}

impl Prices {
    /// A list with an equal price at each of `events` events.
    pub fn new(events: usize, first: f64) -> Prices {
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

    /// Cost of holding a frame from the start to `moment`.
    #[inline(always)]
    pub fn sum_to(&self, moment: u32) -> f64 {
        let position = f64::from(moment) / self.events_per_block;
        let block = (position as usize).min(self.by_block.len() - 1);
        self.sums[block] + (position - block as f64) * self.events_per_block * self.by_block[block]
    }

    /// Cost of holding a frame all the time.
    pub fn total(&self) -> f64 {
        self.sums[self.by_block.len()]
    }

    /// This list with each price multiplied by `factor`.
    pub fn scaled(&self, factor: f64) -> Prices {
        let by_block = self.by_block.iter().map(|price| price * factor).collect();
        let sums = self.sums.iter().map(|sum| sum * factor).collect();
        Prices { by_block, events_per_block: self.events_per_block, sums }
    }

    /// No frame held.
    pub fn no_frames(&self) -> Frames {
        let blocks = self.by_block.len();
        Frames {
            events_per_block: self.events_per_block,
            partial: vec![0.0; blocks + 1],
            changes: vec![0.0; blocks + 1],
        }
    }

    /// Steps of equal size for every block.
    pub fn steps(&self, first: f64) -> Steps {
        let first = PriceStep { exponent: first, last_excess: 0.0 };
        Steps { by_block: vec![first; self.by_block.len()], rounds: 0 }
    }

    /// Raises prices of blocks that wanted more frames than `capacity`, and lowers the others.
    pub fn adjust(&mut self, frames: &Frames, capacity: f64, steps: &mut Steps) {
        let least = steps.least(capacity);
        let blocks = self.by_block.iter_mut().zip(frames.by_block()).zip(&mut steps.by_block);
        for ((price, used), step) in blocks {
            let excess = (used - capacity) / capacity;
            *price = (*price * step.towards(excess, least).exp()).max(PRICE_MIN);
        }
        self.sum_up();
    }
}

/// Size of each block's next price step: it grows while the price moves in one direction, and halves
/// after the price has overshot.
pub(super) struct Steps {
    by_block: Vec<PriceStep>,
    rounds: u32,
}

#[derive(Clone, Copy)]
struct PriceStep {
    exponent: f64,
    /// Excess of demand in the last round, as a share of the capacity.
    last_excess: f64,
}

impl Steps {
    const LEAST: f64 = 0.5;
    const ROUNDS_TO_HALVE_LEAST: f64 = 12.0;

    /// The least step of the next round. Demand changes by whole frames: if they are few, it jumps
    /// from too little to too much at any step size, and halving would end far from the best
    /// price.
    fn least(&mut self, capacity: f64) -> f64 {
        let age = 1.0 + f64::from(self.rounds) / Steps::ROUNDS_TO_HALVE_LEAST;
        self.rounds += 1;
        Steps::LEAST / capacity.sqrt() / age
    }
}

impl PriceStep {
    const GROWTH: f64 = 1.3;
    const SHRINKAGE: f64 = 0.5;
    const MAX: f64 = 3.0;
    /// Excess from which a step is taken in full; below it, in part.
    const EXCESS_FULL: f64 = 0.25;

    /// The exponent by which the price moves.
    fn towards(&mut self, excess: f64, least: f64) -> f64 {
        let has_direction = excess * self.last_excess > 0.0;
        let factor = if has_direction { PriceStep::GROWTH } else { PriceStep::SHRINKAGE };
        self.exponent = (self.exponent * factor).max(least).min(PriceStep::MAX);
        self.last_excess = excess;
        let part = (excess.abs() / PriceStep::EXCESS_FULL).sqrt().min(1.0);
        self.exponent * part.copysign(excess)
    }
}

/// Frame-events used, by block: partial blocks at the ends of a stay, whole ones as differences.
pub(super) struct Frames {
    events_per_block: f64,
    partial: Vec<f64>,
    changes: Vec<f64>,
}

impl Frames {
    /// Records that a frame is held from one moment to another.
    #[inline(always)]
    pub fn hold(&mut self, from: u32, to: u32) {
        let last_block = self.partial.len() - 2;
        let start = f64::from(from) / self.events_per_block;
        let end = f64::from(to) / self.events_per_block;
        let (first, last) = ((start as usize).min(last_block), (end as usize).min(last_block));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_add_up_over_blocks_and_rise_where_frames_are_short() {
        let mut prices = Prices::new(4 * BLOCKS, 2.0);
        assert_eq!(prices.sum_to(10), 20.0);
        let mut frames = prices.no_frames();
        for _ in 0..3 {
            frames.hold(2, 10);
        }
        let means: Vec<f64> = frames.by_block().take(4).collect();
        assert_eq!(means, [1.5, 3.0, 1.5, 0.0]);
        let mut steps = prices.steps(1.0);
        prices.adjust(&frames, 2.0, &mut steps);
        assert!(prices.sum_to(8) - prices.sum_to(4) > 8.0, "three pages wanted two frames");
        assert!(prices.sum_to(4) < 8.0 && prices.sum_to(16) - prices.sum_to(12) < 8.0);
        assert_eq!(prices.total(), prices.sum_to(4 * BLOCKS as u32));
    }
}
