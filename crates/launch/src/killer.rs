//! Who is killed for want of memory: in mode kill the application used longest ago, in mode minfree
//! whom the policy of that name ranks first. Decides only: [`crate::watch`] does it.

use std::collections::BTreeMap;
use std::time::Duration;

use linux::groups::{self, Layout, Usage};
use linux::{Root, times};
use policy::kill::{self, Candidate, Kill, Ranking, Snapshot, Standing, Verdict};
use types::{Bytes, Nanos};

use crate::Error;
use crate::plan::{Mode, Plan};

/// The killer of a run.
pub(crate) enum Killer {
    /// Kills above so much anonymous memory.
    Threshold(u64),
    /// Asks a policy about the memory of the group.
    Policy { policy: Box<dyn Kill>, ranking: Ranking, budget_bytes: u64 },
}

/// An application that runs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Running<'run> {
    pub(crate) name: &'run str,
    /// The number of its last visit.
    pub(crate) visit: u64,
    pub(crate) is_visited: bool,
    pub(crate) resident_bytes: u64,
}

impl Killer {
    /// The killer that the plan asks for; none in other modes.
    ///
    /// # Errors
    /// A table of mode minfree that the policy does not take.
    pub(crate) fn of(plan: &Plan) -> Result<Option<Killer>, Error> {
        let budget_bytes = plan.budget.unwrap_or_default().0;
        match plan.mode {
            Mode::Kill => Ok(plan.kill.as_ref().map(|kill| {
                // A share of a size: exact to the byte is not asked for.
                Killer::Threshold((kill.threshold * budget_bytes as f64) as u64)
            })),
            Mode::Minfree => {
                let row = kill::find("minfree").expect("the catalog has it");
                let counts = plan.minfree.file_cache_counts.to_string();
                let mut options = vec![("file_cache_counts", counts.as_str())];
                let levels = plan.minfree.levels.as_deref();
                options.extend(levels.map(|levels| ("minfree_levels", levels)));
                let policy = row.build(&options).map_err(|why| Error::Plan(why.clone()))?;
                let ranking = Ranking::with_room(plan.applications.len());
                Ok(Some(Killer::Policy { policy, ranking, budget_bytes }))
            }
            _ => Ok(None),
        }
    }

    /// Whom to kill now; none where memory suffices or nobody may be killed. Only where memory is
    /// short it is asked what is `running`, which takes reading.
    pub(crate) fn choose<'run>(
        &mut self,
        usage: Usage,
        running: impl FnOnce() -> Vec<Running<'run>>,
    ) -> Option<String> {
        match self {
            Killer::Threshold(bytes_max) if usage.anonymous_bytes <= *bytes_max => None,
            Killer::Threshold(_) => {
                let running = running();
                let others = running.iter().filter(|application| !application.is_visited);
                let oldest = others.min_by_key(|application| application.visit)?;
                Some(oldest.name.to_owned())
            }
            Killer::Policy { policy, ranking, budget_bytes } => {
                let memory = seen(usage, *budget_bytes);
                if policy.margin(&memory) > Bytes(0) {
                    return None;
                }
                let running = running();
                let candidates = candidates(&running);
                let snapshot = Snapshot { time: Nanos(0), memory, candidates: &candidates };
                match policy.decide(&snapshot, ranking) {
                    Verdict::Spare { .. } => None,
                    Verdict::Kill { .. } => {
                        let first = ranking.ranked().first()?;
                        Some(running[first.candidate].name.to_owned())
                    }
                }
            }
        }
    }
}

/// The group's memory as the policy sees it: the budget is all there is.
fn seen(usage: Usage, budget_bytes: u64) -> kill::Memory {
    let free = budget_bytes.saturating_sub(usage.memory_bytes);
    let files = usage.memory_bytes.saturating_sub(usage.anonymous_bytes);
    kill::Memory {
        total: Bytes(budget_bytes),
        free: Bytes(free),
        available: Bytes(free + files),
        files: Bytes(files),
        ..kill::Memory::default()
    }
}

/// Every application as the policy sees it: the visited one is protected, since its launch is timed.
fn candidates(running: &[Running<'_>]) -> Vec<Candidate> {
    /// Policies spare the first processes of a system.
    const FIRST_PROCESS: u32 = 100;
    let mut visits: Vec<u64> = running.iter().map(|application| application.visit).collect();
    visits.sort_unstable();
    (0..)
        .zip(running)
        .map(|(index, application)| {
            let later = visits.len() - visits.partition_point(|&visit| visit <= application.visit);
            let is_visited = application.is_visited;
            Candidate {
                process: FIRST_PROCESS + index,
                group: u64::from(index),
                adj: kill::adj_by_use(later),
                resident: Bytes(application.resident_bytes),
                standing: if is_visited { Standing::Protected } else { Standing::Neutral },
                ..Candidate::default()
            }
        })
        .collect()
}

/// The applications that run, by the number of their last visit.
pub(crate) fn running<'run>(
    root: &Root,
    layout: &dyn Layout,
    page_bytes: u64,
    last_visits: &'run BTreeMap<String, u64>,
    visited: Option<&str>,
) -> Vec<Running<'run>> {
    let each = last_visits.iter().map(|(name, &visit)| {
        let folder = layout.programs().join(name);
        let processes = groups::processes(root, &folder).unwrap_or_default();
        Running {
            name,
            visit,
            is_visited: visited == Some(name),
            resident_bytes: times::resident_bytes(root, &processes, page_bytes),
        }
    });
    each.collect()
}

/// How often the killer looks: Android's daemon does every 10 ms while memory is short.
pub(crate) fn look_every(plan: &Plan) -> Duration {
    Duration::from_millis(if plan.mode == Mode::Minfree { 10 } else { 50 })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn running(name: &str, visit: u64, is_visited: bool) -> Running<'_> {
        Running { name, visit, is_visited, resident_bytes: 30 * MIB }
    }

    fn plan(mode: &str) -> Plan {
        toml::from_str(&format!(
            "name = \"p\"\norder = [\"a\"]\nbudget = \"100MiB\"\nmode = \"{mode}\"\n\
             kill = {{ threshold = 0.5 }}\nminfree = {{ levels = \"2560:0,5120:900\" }}\n\
             [applications.a]\ncommand = [\"cat\"]\ninterface = \"line\"\n"
        ))
        .expect("a plan")
    }

    #[test]
    fn mode_kill_ends_the_one_used_longest_ago_and_never_the_visited_one() {
        let mut killer = Killer::of(&plan("kill")).expect("sound").expect("a killer");
        let apps = [running("a", 1, true), running("b", 3, false), running("c", 2, false)];
        let usage = |anonymous| Usage { memory_bytes: 90 * MIB, anonymous_bytes: anonymous * MIB };
        assert_eq!(killer.choose(usage(50), || apps.to_vec()), None);
        assert_eq!(killer.choose(usage(51), || apps.to_vec()).as_deref(), Some("c"));
        assert_eq!(killer.choose(usage(51), || apps[..1].to_vec()), None);
    }

    #[test]
    fn mode_minfree_goes_by_the_table_and_by_importance() {
        let mut killer = Killer::of(&plan("minfree")).expect("sound").expect("a killer");
        let apps = [
            running("a", 9, true),
            running("b", 8, false),
            running("c", 2, false),
            running("d", 3, false),
        ];
        let usage = |memory, anonymous| Usage {
            memory_bytes: memory * MIB,
            anonymous_bytes: anonymous * MIB,
        };
        // 5120 pages are 20 MiB, 2560 are 10.
        assert_eq!(killer.choose(usage(80, 80), || apps.to_vec()), None, "20 MiB are free");
        assert_eq!(killer.choose(usage(90, 60), || apps.to_vec()), None, "30 MiB are files");
        assert_eq!(killer.choose(usage(81, 80), || apps.to_vec()).as_deref(), Some("c"));
        assert_eq!(
            killer.choose(usage(81, 80), || apps[..2].to_vec()),
            None,
            "b was used too lately"
        );
        assert_eq!(killer.choose(usage(91, 90), || apps[..2].to_vec()).as_deref(), Some("b"));
    }

    #[test]
    fn other_modes_have_no_killer_and_a_table_that_is_none_is_refused() {
        assert!(Killer::of(&plan("no-limit")).expect("sound").is_none());
        let mut wrong = plan("minfree");
        wrong.minfree.levels = Some("low".to_owned());
        assert!(Killer::of(&wrong).is_err());
    }
}
