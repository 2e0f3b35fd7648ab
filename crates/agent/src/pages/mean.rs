//! Means of samples, with their standard errors.

/// The mean of some values, as they come.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mean {
    count: f64,
    mean: f64,
    /// Sum of squared differences from the mean (Welford 1962).
    squares: f64,
}

/// A mean and its standard error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean of the sample.
    pub mean: f64,
    /// The standard error of the mean; None for a sample of one, unless it is all there is.
    pub error: Option<f64>,
}

impl Mean {
    /// Adds a value.
    pub fn add(&mut self, value: f64) {
        self.count += 1.0;
        let before = value - self.mean;
        self.mean += before / self.count;
        self.squares += before * (value - self.mean);
    }

    /// The number of values.
    pub fn count(&self) -> u64 {
        self.count as u64
    }

    /// The mean of a sample, drawn without replacement from `population` values; None without values.
    pub fn estimate(&self, population: f64) -> Option<Estimate> {
        if self.count == 0.0 {
            return None;
        }
        let left = (1.0 - self.count / population.max(self.count)).max(0.0);
        let variance = self.squares / (self.count - 1.0) / self.count * left;
        let error = if left == 0.0 { Some(0.0) } else { Some(variance.sqrt()) };
        Some(Estimate { mean: self.mean, error: error.filter(|error| error.is_finite()) })
    }
}

/// The mean over parts, each with its weight; None without weight. The parts were sampled independently.
pub fn weighted(parts: impl Iterator<Item = (f64, Estimate)>) -> Option<Estimate> {
    let (mut weights, mut sum, mut variance) = (0.0, 0.0, Some(0.0));
    for (weight, estimate) in parts.filter(|(weight, _)| *weight > 0.0) {
        weights += weight;
        sum += weight * estimate.mean;
        let error = estimate.error.map(|error| (weight * error).powi(2));
        variance = variance.zip(error).map(|(all, own)| all + own);
    }
    let error = variance.map(|variance: f64| variance.sqrt() / weights);
    (weights > 0.0).then_some(Estimate { mean: sum / weights, error })
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::random::Stream;

    #[test]
    fn a_mean_and_its_error_are_those_of_the_textbook() {
        let mut mean = Mean::default();
        assert_eq!(mean.estimate(10.0), None);
        [2.0, 4.0, 9.0].into_iter().for_each(|value| mean.add(value));
        // Variance 13, over 3, times 1 - 3/12.
        let estimate = mean.estimate(12.0).unwrap();
        assert!((estimate.mean - 5.0).abs() < 1e-12);
        assert!((estimate.error.unwrap() - (13.0_f64 / 3.0 * 0.75).sqrt()).abs() < 1e-12);
        assert_eq!(mean.estimate(3.0).unwrap().error, Some(0.0));
        let mut single = Mean::default();
        single.add(7.0);
        assert_eq!(single.estimate(5.0), Some(Estimate { mean: 7.0, error: None }));
        assert_eq!(single.estimate(1.0), Some(Estimate { mean: 7.0, error: Some(0.0) }));
    }

    #[test]
    fn means_of_parts_count_by_their_weights() {
        let part = |mean, error| Estimate { mean, error: Some(error) };
        let all = weighted([(3.0, part(10.0, 1.0)), (1.0, part(2.0, 4.0))].into_iter()).unwrap();
        assert_eq!(all.mean, 8.0);
        assert!((all.error.unwrap() - 5.0 / 4.0).abs() < 1e-12);
        assert_eq!(weighted([(0.0, part(1.0, 1.0))].into_iter()), None);
        let unsure = Estimate { mean: 1.0, error: None };
        assert_eq!(weighted([(1.0, unsure)].into_iter()).unwrap().error, None);
    }

    #[test]
    fn two_thirds_of_samples_are_within_their_standard_error() {
        let values: Vec<f64> = (0..1000).map(|number| f64::from(number % 37)).collect();
        let truth = values.iter().sum::<f64>() / 1000.0;
        let within = |seed: &u64| {
            let mut shuffled = values.clone();
            Stream::named(*seed, "test").shuffle(&mut shuffled);
            let mut mean = Mean::default();
            shuffled[..200].iter().for_each(|&value| mean.add(value));
            let estimate = mean.estimate(1000.0).unwrap();
            (estimate.mean - truth).abs() <= estimate.error.unwrap()
        };
        let count = (0..1000).filter(within).count();
        assert!((620..750).contains(&count), "{count}");
    }
}
