//! The killer of mode kill: chooses the application used longest ago. [`crate::watch`] kills it.

use std::collections::BTreeMap;
use std::time::Duration;

use linux::groups::Usage;
use policy::kill::used_longest_ago;

use crate::plan::{Mode, Plan};

/// The bytes of anonymous memory above which the killer kills.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Threshold(u64);

impl Threshold {
    /// The threshold of the plan; None in modes other than kill.
    pub(crate) fn of(plan: &Plan) -> Option<Threshold> {
        let kill = plan.kill.as_ref().filter(|_| plan.mode == Mode::Kill)?;
        let budget_bytes = plan.budget.unwrap_or_default().0;
        // Rounding to the byte does not matter.
        Some(Threshold((kill.threshold * budget_bytes as f64) as u64))
    }

    /// The application to kill now, from the running applications and the numbers of their last visits. None
    /// if memory is enough, or if only the visited application runs.
    pub(crate) fn choose(
        self,
        usage: Usage,
        last_visits: &BTreeMap<String, u64>,
        visited: Option<&str>,
    ) -> Option<String> {
        if usage.anonymous_bytes <= self.0 {
            return None;
        }
        let last_uses = last_visits.iter().map(|(name, &visit)| (name.as_str(), visit));
        used_longest_ago(last_uses, visited).map(str::to_owned)
    }
}

/// How often to check memory: Android's lmkd checks every 10 ms while memory is short.
pub(crate) fn look_every(plan: &Plan) -> Duration {
    Duration::from_millis(if plan.mode == Mode::Minfree { 10 } else { 50 })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_application_used_longest_ago_dies_but_never_the_visited_one() {
        let plan = |mode: &str| -> Plan {
            toml::from_str(&format!(
                "name = \"p\"\norder = [\"a\"]\nbudget = \"100MiB\"\nmode = \"{mode}\"\n\
                 kill = {{ threshold = 0.5 }}\n[applications.a]\ncommand = [\"cat\"]\n\
                 interface = \"line\"\n"
            ))
            .expect("a plan")
        };
        assert!(Threshold::of(&plan("no-limit")).is_none());
        let threshold = Threshold::of(&plan("kill")).expect("a killer");
        let visits = |names: &[(&str, u64)]| -> BTreeMap<String, u64> {
            names.iter().map(|(name, visit)| ((*name).to_owned(), *visit)).collect()
        };
        let all = visits(&[("a", 1), ("b", 3), ("c", 2)]);
        let usage = |anonymous| Usage { memory_bytes: 90 * MIB, anonymous_bytes: anonymous * MIB };
        let choose = |anonymous, visits| threshold.choose(usage(anonymous), visits, Some("a"));
        assert_eq!(choose(50, &all), None);
        assert_eq!(choose(51, &all).as_deref(), Some("c"));
        assert_eq!(choose(51, &visits(&[("a", 1)])), None);
    }
}
