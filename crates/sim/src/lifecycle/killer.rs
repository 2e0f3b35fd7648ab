//! Chooses victims: by the launch lab's rule, or by a policy of the catalog on a snapshot of the phone.

use super::phone::{KillRule, Phone, nanos};
use crate::Error;
use policy::kill::{self, Candidate, Decision, KillPolicy, Memory, Ranking, Snapshot, Standing};
use types::{Bytes, Nanos, PAGE_BYTES};

/// Number of the first process that may be killed: policies spare those of the system's start.
const FIRST_PROCESS: u32 = 100;

/// State of a running app when a victim is chosen; dying apps do not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Running {
    pub(super) app: u32,
    /// Time of last use; more is later.
    pub(super) used: u64,
    pub(super) used_ns: u64,
    pub(super) resident: u64,
    pub(super) slots: u64,
    pub(super) is_visited: bool,
}

/// The apps that die now, and the rule that applied.
#[derive(Debug, Default)]
pub(super) struct Choice {
    pub(super) why: &'static str,
    pub(super) apps: Vec<u32>,
}

/// A rule at work.
pub(super) struct Killer {
    rule: Rule,
    ranking: Ranking,
    candidates: Vec<Candidate>,
}

enum Rule {
    None,
    Threshold { pages_max: u64 },
    Policy(Box<dyn KillPolicy>),
}

impl Killer {
    /// # Errors
    /// `Usage` for a policy, option or value that does not exist.
    pub(super) fn new(phone: &Phone, frames: usize) -> Result<Killer, Error> {
        let rule = match &phone.killer.rule {
            KillRule::None => Rule::None,
            KillRule::Threshold { share } => {
                Rule::Threshold { pages_max: (share * frames as f64) as u64 }
            }
            KillRule::Policy { name, options } => {
                let given: Vec<(&str, &str)> =
                    options.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
                let policy = kill::find(name).and_then(|row| row.build(&given));
                Rule::Policy(policy.map_err(|why| Error::usage(format!("phone: {why}")))?)
            }
        };
        let room = phone.apps.len();
        Ok(Killer { rule, ranking: Ranking::with_room(room), candidates: Vec::with_capacity(room) })
    }

    /// Whether there is a rule.
    pub(super) fn looks(&self) -> bool {
        !matches!(self.rule, Rule::None)
    }

    /// The apps of `running` that die now, the first to die first, when `anonymous` pages of
    /// `memory` are anonymous.
    pub(super) fn choose(
        &mut self,
        phone: &Phone,
        now_ns: u64,
        (memory, anonymous): (Memory, u64),
        running: &[Running],
    ) -> Choice {
        match &mut self.rule {
            Rule::None => Choice::default(),
            Rule::Threshold { pages_max } if anonymous <= *pages_max => Choice::default(),
            Rule::Threshold { .. } => Choice {
                why: "anonymous memory is above its share",
                apps: longest_ago(running).into_iter().collect(),
            },
            Rule::Policy(policy) => {
                self.candidates.clear();
                self.candidates.extend(candidates(phone, now_ns, running));
                let snapshot =
                    Snapshot { time: Nanos(now_ns as i64), memory, candidates: &self.candidates };
                let Decision::Kill { why, victims } = policy.decide(&snapshot, &mut self.ranking)
                else {
                    return Choice::default();
                };
                let ranked = self.ranking.ranked().iter().take(victims);
                Choice { why, apps: ranked.map(|ranked| running[ranked.candidate.0].app).collect() }
            }
        }
    }
}

/// The app used longest ago, never the visited one.
pub(super) fn longest_ago(running: &[Running]) -> Option<u32> {
    let visited = running.iter().find(|app| app.is_visited).map(|app| app.app);
    kill::used_longest_ago(running.iter().map(|app| (app.app, app.used)), visited)
}

/// Adj of an app of `running` that was last used at `used`.
pub(super) fn adj(running: &[Running], used: u64) -> i16 {
    kill::adj_by_use(running.iter().filter(|other| other.used > used).count())
}

/// Every running app as policies see it. The visited app is protected: a launch that ends with the
/// death of the launched app has no time.
fn candidates<'a>(
    phone: &'a Phone,
    now_ns: u64,
    running: &'a [Running],
) -> impl Iterator<Item = Candidate> + 'a {
    // The `adj` of every app, in one pass.
    let mut used: Vec<u64> = running.iter().map(|app| app.used).collect();
    used.sort_unstable();
    running.iter().map(move |app| {
        let later = used.len() - used.partition_point(|&used| used <= app.used);
        Candidate {
            process: FIRST_PROCESS + app.app,
            group: u64::from(app.app),
            adj: kill::adj_by_use(later),
            resident: Bytes(app.resident * PAGE_BYTES),
            swapped: Bytes(app.slots * PAGE_BYTES),
            idle: Nanos(now_ns.saturating_sub(app.used_ns) as i64),
            restart_cost: Nanos(nanos(phone.apps[app.app as usize].cold_ms) as i64),
            standing: if app.is_visited { Standing::Protected } else { Standing::Neutral },
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running(app: u32, used: u64) -> Running {
        Running { app, used, used_ns: used, resident: 10, slots: 0, is_visited: false }
    }

    #[test]
    fn the_visited_app_is_spared() {
        let visited = Running { is_visited: true, ..running(0, 1) };
        assert_eq!(longest_ago(&[visited]), None);
        assert_eq!(longest_ago(&[visited, running(2, 9), running(3, 8)]), Some(3));
    }

    #[test]
    fn importance_falls_with_the_time_since_the_last_use() {
        let phone: Phone = serde_json::from_str(
            r#"{"memory_mib": 64, "visits": [], "killer": {"rule": {"by": "none"}},
                "apps": [{"name": "a", "anonymous_mib": 1, "cold_ms": 5, "warm_ms": 1},
                         {"name": "b", "anonymous_mib": 1, "cold_ms": 5, "warm_ms": 1},
                         {"name": "c", "anonymous_mib": 1, "cold_ms": 5, "warm_ms": 1},
                         {"name": "d", "anonymous_mib": 1, "cold_ms": 5, "warm_ms": 1}]}"#,
        )
        .expect("a phone");
        let apps = [running(0, 3), running(1, 9), running(2, 7), running(3, 1)];
        let found: Vec<i16> = candidates(&phone, 10, &apps).map(|seen| seen.adj).collect();
        assert_eq!(found, [900, 0, 700, 910]);
    }
}
