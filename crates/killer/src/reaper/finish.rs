//! Finishes what a killer that was itself killed has left behind, from its notes: a victim in a frozen group
//! dies only once the group is thawed, and the group must be frozen again afterwards.

use std::path::Path;
use std::time::Duration;

use linux::Root;
use linux::confinement::Confinement;
use linux::held_process::{HeldProcess, open_processes};
use linux::stat::Stat;

use super::{THAWED_FOR, recover};
use crate::choices::Reclaim;
use crate::notes::Unfinished;

/// How old a note may be for its group to be frozen again.
const FROZEN_AGAIN_WITHIN: Duration = Duration::from_secs(60);

/// Lets a victim of an earlier killer die, and freezes the group again that it thawed. Returns whether there
/// was anything to do.
pub(crate) fn finish(root: &Root, unfinished: &Unfinished) -> bool {
    let confinement = Confinement::find(root);
    let victim = killed_victim(root, unfinished);
    if let Some(victim) = &victim {
        recover(victim, true, Reclaim::Late, Duration::ZERO, &confinement, None);
    }
    let is_frozen_again = unfinished.thawed.as_ref().is_some_and(|path| {
        if let Some(victim) = &victim {
            victim.has_ended(THAWED_FOR);
        }
        freeze_again(&confinement, path, unfinished.at_ns)
    });
    victim.is_some() || is_frozen_again
}

/// The process of a note, if it is still the same process and SIGKILL is pending.
fn killed_victim(root: &Root, unfinished: &Unfinished) -> Option<HeldProcess> {
    let processes = open_processes(root).ok()?;
    let victim = HeldProcess::open(&processes, unfinished.process).ok()?;
    let mut buffer = [0; 1024];
    let stat = Stat::parse(victim.read(c"stat", &mut buffer).ok()?)?;
    let is_same = stat.start_ticks() == Some(unfinished.start);
    (is_same && victim.is_killed()).then_some(victim)
}

/// Freezes a group again that an earlier killer thawed for a victim. A group that was thawed long ago may
/// have been thawed by another program since, so it stays as it is.
fn freeze_again(confinement: &Confinement, state: &Path, at_ns: u64) -> bool {
    let age = linux::system::monotonic_ns().checked_sub(at_ns).map(Duration::from_nanos);
    age.is_some_and(|age| age <= FROZEN_AGAIN_WITHIN) && confinement.freeze_again(state)
}

#[cfg(test)]
mod tests {
    use super::super::tests::sleeper;
    use super::*;

    #[test]
    fn a_group_that_was_left_thawed_is_frozen_again_for_a_minute() {
        let folder = tempfile::tempdir().unwrap();
        let mount = folder.path().join("freezer");
        std::fs::create_dir_all(mount.join("app")).unwrap();
        let state = mount.join("app/freezer.state");
        let mounts = format!("cgroup {} cgroup rw,freezer 0 0\n", mount.display());
        std::fs::create_dir_all(folder.path().join("proc/self")).unwrap();
        std::fs::write(folder.path().join("proc/self/mounts"), mounts).unwrap();
        let confinement = Confinement::find(&Root::at(folder.path()));
        let now = linux::system::monotonic_ns();
        let hour = 3_600_000_000_000;
        std::fs::write(&state, "THAWED\n").unwrap();
        for (at_ns, expected) in [(now - hour, false), (now + hour, false), (now, true)] {
            assert_eq!(freeze_again(&confinement, &state, at_ns), expected, "{at_ns}");
        }
        assert_eq!(std::fs::read_to_string(&state).unwrap(), "FROZEN");
    }

    #[test]
    fn only_the_same_process_that_was_killed_is_finished() {
        let (mut sleeper, held) = sleeper();
        let mut buffer = [0; 1024];
        let stat = Stat::parse(held.read(c"stat", &mut buffer).unwrap()).unwrap();
        let unfinished =
            |start| Unfinished { process: sleeper.0.id(), start, at_ns: 0, thawed: None };
        let start = stat.start_ticks().unwrap();
        assert!(!finish(&Root::system(), &unfinished(start)), "no SIGKILL is pending");
        assert!(!finish(&Root::system(), &unfinished(start + 1)));
        assert!(!held.has_ended(Duration::ZERO));
        sleeper.0.kill().unwrap();
        sleeper.0.wait().unwrap();
    }
}
