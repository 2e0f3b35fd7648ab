//! Finishes what a killer that was itself killed has left behind, from its notes: a victim in a frozen group
//! dies only once the group is thawed, and the group must be frozen again afterwards.

use std::path::{Component, Path};
use std::time::Duration;

use linux::Root;
use linux::held_process::{HeldProcess, open_processes};
use linux::stat::Stat;

use super::{Hierarchies, THAWED_FOR, recover};
use crate::choices::Reclaim;
use crate::notes::Unfinished;

/// How old a note may be for its group to be frozen again.
const FROZEN_AGAIN_WITHIN: Duration = Duration::from_secs(60);

/// Lets a victim of an earlier killer die, and freezes the group again that it thawed. Returns whether there
/// was anything to do.
pub(crate) fn finish(root: &Root, unfinished: &Unfinished) -> bool {
    let hierarchies = Hierarchies::find(root);
    let victim = killed_victim(root, unfinished);
    if let Some(victim) = &victim {
        recover(victim, true, Reclaim::Late, Duration::ZERO, &hierarchies, None);
    }
    let is_frozen_again = unfinished.thawed.as_ref().is_some_and(|path| {
        if let Some(victim) = &victim {
            victim.has_ended(THAWED_FOR);
        }
        freeze_again(&hierarchies, path, unfinished.at_ns)
    });
    victim.is_some() || is_frozen_again
}

/// The process of a note, if it is still the same process and SIGKILL is pending.
fn killed_victim(root: &Root, unfinished: &Unfinished) -> Option<HeldProcess> {
    let processes = open_processes(root).ok()?;
    let victim = HeldProcess::open(&processes, unfinished.process).ok()?;
    let mut buffer = [0; 4096];
    let stat = Stat::parse(victim.read(c"stat", &mut buffer).ok()?)?;
    let is_same = stat.start_ticks() == Some(unfinished.start);
    let status = victim.read(c"status", &mut buffer).ok()?;
    (is_same && is_killed(status)).then_some(victim)
}

/// Whether SIGKILL is pending, from the text of `/proc/PID/status`.
fn is_killed(status: &[u8]) -> bool {
    const SIGKILL_BIT: u64 = 1 << 8;
    status.split(|&byte| byte == b'\n').any(|line| {
        let mask = line.strip_prefix(b"SigPnd:").or_else(|| line.strip_prefix(b"ShdPnd:"));
        let mask = mask.and_then(|mask| std::str::from_utf8(mask.trim_ascii()).ok());
        mask.and_then(|mask| u64::from_str_radix(mask, 16).ok())
            .is_some_and(|mask| mask & SIGKILL_BIT != 0)
    })
}

/// Freezes a group again that an earlier killer thawed for a victim. A group that was thawed long ago may
/// have been thawed by another program since, so it stays as it is.
fn freeze_again(hierarchies: &Hierarchies, state: &Path, at_ns: u64) -> bool {
    let is_state = hierarchies.freezer.as_ref().is_some_and(|mount| {
        let below = state.strip_prefix(mount).ok();
        below.is_some_and(|below| {
            below.ends_with("freezer.state")
                && below.components().all(|part| matches!(part, Component::Normal(_)))
        })
    });
    let age = linux::system::monotonic_ns().checked_sub(at_ns).map(Duration::from_nanos);
    let is_recent = age.is_some_and(|age| age <= FROZEN_AGAIN_WITHIN);
    let is_thawed = || std::fs::read(state).is_ok_and(|text| text.starts_with(b"THAWED"));
    is_state && is_recent && is_thawed() && std::fs::write(state, "FROZEN").is_ok()
}

#[cfg(test)]
mod tests {
    use super::super::tests::sleeper;
    use super::*;

    #[test]
    fn a_pending_kill_is_seen() {
        for (line, expected) in [
            ("SigPnd:\t0000000000000100", true),
            ("ShdPnd:\t0000000000000101", true),
            ("SigPnd:\t0000000000000080", false),
            ("SigBlk:\t0000000000000100", false),
            ("ShdPnd:\tx", false),
        ] {
            let text = format!("Name:\tx\n{line}\n");
            assert_eq!(is_killed(text.as_bytes()), expected, "{line}");
        }
    }

    #[test]
    fn a_group_that_was_left_thawed_is_frozen_again_for_a_minute() {
        let folder = tempfile::tempdir().unwrap();
        let mount = folder.path().join("freezer");
        std::fs::create_dir_all(mount.join("app")).unwrap();
        let state = mount.join("app/freezer.state");
        let hierarchies = Hierarchies {
            freezer: Some(mount.to_str().unwrap().to_owned()),
            ..Hierarchies::default()
        };
        let now = linux::system::monotonic_ns();
        let hour = 3_600_000_000_000;
        let outside = folder.path().join("freezer.state");
        let around = mount.join("../freezer.state");
        for path in [&state, &outside] {
            std::fs::write(path, "THAWED\n").unwrap();
        }
        for (path, at_ns, expected) in [
            (&state, now - hour, false),
            (&state, now + hour, false),
            (&outside, now, false),
            (&around, now, false),
            (&state, now, true),
            (&state, now, false),
        ] {
            assert_eq!(freeze_again(&hierarchies, path, at_ns), expected, "{}", path.display());
        }
        assert_eq!(std::fs::read_to_string(&outside).unwrap(), "THAWED\n");
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
