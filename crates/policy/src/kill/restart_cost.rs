//! `restart-cost`: ours. Kills the process with the lowest cost for the memory it frees: the cost of a
//! restart, less the longer it has idled, more the more important its adj. As many die as bring
//! available memory above the upper threshold, and none that is not needed for it.

use types::{Bytes, Nanos};

use super::ranking::{Ranking, Score};
use super::{Candidate, Decision, KillPolicy, Memory, Snapshot, share};
use crate::options::{OptionRow, Values};

pub(super) const OPTIONS: &[OptionRow] = &[
    OptionRow {
        name: "low_percent",
        default: "6",
        summary: "available memory at which processes die, in per cent of all",
    },
    OptionRow {
        name: "high_percent",
        default: "9",
        summary: "available memory that the victims must restore, in per cent of all",
    },
    OptionRow {
        name: "swap_percent",
        default: "10",
        summary: "free swap on devices above which no process dies yet, in per cent of that swap",
    },
    OptionRow {
        name: "stall_percent",
        default: "40",
        summary: "share of ten seconds in which all tasks stall that kills despite free swap",
    },
    OptionRow { name: "victims_max", default: "8", summary: "how many may die at once" },
];

/// Idle time that halves the cost of an application.
const HALF_MISSED: Nanos = Nanos(60_000_000_000);

/// Minimum cost of any restart, added to the measured cost; without it candidates that have nothing
/// and cost nothing would die first.
const ANY_RESTART: Nanos = Nanos(100_000_000);

struct RestartCost {
    low_percent: u64,
    high_percent: u64,
    swap_percent: u64,
    stall_percent: u64,
    victims_max: usize,
}

pub(super) fn make(values: &Values<'_>) -> Result<Box<dyn KillPolicy>, String> {
    let low_percent = values.number("low_percent", 1..=90)?;
    Ok(Box::new(RestartCost {
        low_percent,
        high_percent: values.number("high_percent", low_percent..=99)?,
        swap_percent: values.number("swap_percent", 0..=100)?,
        stall_percent: values.number("stall_percent", 1..=100)?,
        victims_max: values.number("victims_max", 1..=1000)? as usize,
    }))
}

/// Loss to the user, in nanoseconds of waiting times (1001 - adj).
fn loss(candidate: &Candidate) -> u128 {
    let idle = candidate.idle.0.max(0) as u128;
    let half = HALF_MISSED.0 as u128;
    let restart = (candidate.restart_cost.0.max(0) + ANY_RESTART.0) as u128;
    let missed = restart * half / (half + idle);
    let importance = (1001 - i32::from(candidate.adj)).max(1) as u128;
    missed.max(1) * importance
}

/// Memory freed per loss, in bytes per millisecond of waiting.
fn score(candidate: &Candidate) -> Score {
    let gain = u128::from(candidate.resident.0) * 1_000_000_000 / loss(candidate);
    Score(u64::try_from(gain).unwrap_or(u64::MAX), candidate.resident.0)
}

impl RestartCost {
    /// Reason to kill, or as an error the reason not to.
    fn need(&self, memory: &Memory) -> Result<&'static str, &'static str> {
        if !memory.is_available_within(self.low_percent) {
            return Err("enough memory is available");
        }
        if memory.is_disk_swap_within(self.swap_percent) {
            return Ok(memory.without_room());
        }
        let stalls = memory.pressure.map_or(0, |pressure| pressure.full_basis_points);
        match u64::from(stalls) >= self.stall_percent * 100 {
            true => Ok("little memory is available and all tasks stall"),
            false => Err("there is swap left, and tasks make progress"),
        }
    }

    /// How many of the ranking free `needed`: the best first, then without those that the rest does not
    /// need, which move behind; or a single candidate, if that loses less.
    fn choose(&self, snapshot: &Snapshot<'_>, ranking: &mut Ranking, needed: u64) -> usize {
        let of =
            |ranking: &Ranking, rank: usize| snapshot.candidate(ranking.ranked()[rank].candidate);
        let most = ranking.ranked().len().min(self.victims_max);
        let (mut victims, mut sum) = (0, 0_u64);
        while victims < most && sum < needed {
            sum += of(ranking, victims).resident.0;
            victims += 1;
        }
        for rank in (0..victims).rev() {
            let bytes = of(ranking, rank).resident.0;
            if victims > 1 && sum - bytes >= needed {
                ranking.move_back(rank, victims - 1);
                victims -= 1;
                sum -= bytes;
            }
        }
        let lost: u128 = (0..victims).map(|rank| loss(of(ranking, rank))).sum();
        let standing = ranking.ranked()[0].standing;
        let alone = (0..ranking.ranked().len())
            .filter(|&rank| ranking.ranked()[rank].standing == standing)
            .filter(|&rank| of(ranking, rank).resident.0 >= needed)
            .min_by_key(|&rank| loss(of(ranking, rank)));
        match alone {
            Some(rank) if victims > 1 && loss(of(ranking, rank)) <= lost => {
                ranking.move_to_front(rank);
                1
            }
            _ => victims,
        }
    }
}

impl KillPolicy for RestartCost {
    fn decide(&mut self, snapshot: &Snapshot<'_>, ranking: &mut Ranking) -> Decision {
        ranking.clear();
        let memory = &snapshot.memory;
        let why = match self.need(memory) {
            Ok(why) => why,
            Err(why) => return Decision::Spare { why },
        };
        ranking.rank(snapshot, |candidate| Some(score(candidate)));
        if ranking.is_empty() {
            return Decision::first(why, ranking);
        }
        let target = share(memory.total, self.high_percent);
        let needed = target.0.saturating_sub(memory.available.0).max(1);
        Decision::Kill { why, victims: self.choose(snapshot, ranking, needed) }
    }

    fn margin(&self, memory: &Memory) -> Bytes {
        let least = share(memory.total, self.low_percent);
        Bytes(memory.available.0.saturating_sub(least.0))
    }
}
