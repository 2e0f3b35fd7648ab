//! Makes the list of visits of a plan.

use std::path::Path;

use crate::plan::{Plan, Schedule};
use crate::{Error, text};

/// A planned visit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visit {
    /// The round of the visit, from 0.
    pub round: u32,
    /// The application.
    pub application: String,
}

/// All visits of the plan, in order.
///
/// # Errors
/// The usage log cannot be read, or names an application that the plan does not run.
pub fn visits(plan: &Plan) -> Result<Vec<Visit>, Error> {
    let per_round = plan.order.len();
    let count = per_round * plan.rounds as usize;
    let names: Vec<String> = match &plan.schedule {
        Schedule::RoundRobin => plan.order.iter().cycle().take(count).cloned().collect(),
        Schedule::Zipf { exponent } => drawn(plan, *exponent, count),
        Schedule::Log { file } => logged(plan, file)?,
    };
    let visit = |(number, application)| Visit { round: (number / per_round) as u32, application };
    Ok(names.into_iter().enumerate().map(visit).collect())
}

fn drawn(plan: &Plan, exponent: f64, count: usize) -> Vec<String> {
    let weights: Vec<f64> =
        (1..=plan.order.len()).map(|rank| (rank as f64).powf(-exponent)).collect();
    let total: f64 = weights.iter().sum();
    let mut random = SplitMix64(plan.seed);
    let mut draw = || {
        let mut left = random.share() * total;
        let rank = weights.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        // Because of rounding, a draw may fall behind the last weight.
        plan.order[rank.unwrap_or(plan.order.len() - 1)].clone()
    };
    (0..count).map(|_| draw()).collect()
}

fn logged(plan: &Plan, file: &Path) -> Result<Vec<String>, Error> {
    let text = text::read(file)?;
    let mut lines = text.lines().map(str::trim).zip(1..).filter(|(line, _)| !line.is_empty());
    if lines.next().is_none_or(|(header, _)| header != "app") {
        let what = "expected the header `app`, then one application per line";
        return Err(Error::Plan(format!("{}: {what}", file.display())));
    }
    let name = |(name, line): (&str, u32)| match plan.order.iter().any(|known| known == name) {
        true => Ok(name.to_owned()),
        false => {
            let what = format!("{name:?} is not in the plan's `order`");
            Err(Error::Plan(format!("{}:{line}: {what}", file.display())))
        }
    };
    let names: Vec<String> = lines.map(name).collect::<Result<_, _>>()?;
    if names.is_empty() {
        let what = "names no application: expected one per line";
        return Err(Error::Plan(format!("{}: {what}", file.display())));
    }
    Ok(names)
}

/// Sebastiano Vigna's generator: short, and stable across versions, unlike that of a library.
struct SplitMix64(u64);

impl SplitMix64 {
    /// A random number from 0 up to, but not including, 1.
    fn share(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        (bits >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn plan(schedule: &str) -> Plan {
        let text = format!(
            "name = 'a'\norder = ['one', 'two', 'three']\nrounds = 200\nmode = 'no-limit'\n\
             schedule = {schedule}\n"
        );
        toml::from_str(&text).unwrap()
    }

    #[test]
    fn rounds_repeat_the_order() {
        let visits = visits(&plan("{ kind = 'round-robin' }")).unwrap();
        assert_eq!(visits.len(), 600);
        assert_eq!(visits[4], Visit { round: 1, application: "two".to_owned() });
    }

    #[test]
    fn zipf_prefers_the_first_applications_and_is_reproducible() {
        let plan = plan("{ kind = 'zipf', exponent = 1.0 }");
        let visits = visits(&plan).unwrap();
        assert_eq!(visits, super::visits(&plan).unwrap());
        let count = |name: &str| visits.iter().filter(|visit| visit.application == name).count();
        // Weights 6 : 3 : 2 of 600; four standard deviations are 49.
        for (name, expected) in [("one", 327), ("two", 164), ("three", 109)] {
            assert!(count(name).abs_diff(expected) < 49, "{name}: {}", count(name));
        }
    }

    #[test]
    fn a_log_is_followed_line_by_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("usage.csv");
        let plan = plan(&format!("{{ kind = 'log', file = '{}' }}", file.display()));
        fs::write(&file, "app\ntwo\ntwo\n\none\nthree\n").unwrap();
        let names: Vec<String> =
            visits(&plan).unwrap().into_iter().map(|visit| visit.application).collect();
        assert_eq!(names, ["two", "two", "one", "three"]);
        fs::write(&file, "app\ntwo\nfour\n").unwrap();
        let error = visits(&plan).unwrap_err().to_string();
        assert!(error.contains("usage.csv:3: \"four\" is not in"), "{error}");
        fs::write(&file, "app\n\n").unwrap();
        assert!(visits(&plan).unwrap_err().to_string().contains("names no application"));
        fs::write(&file, "two\n").unwrap();
        assert!(visits(&plan).unwrap_err().to_string().contains("header `app`"));
    }
}
