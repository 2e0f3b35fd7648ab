//! What the use of an application says of its importance.

use types::Nanos;

/// The application before the visited one.
const PREVIOUS: i16 = 700;
/// The first and the last of the cached ones.
const CACHED: (i16, i16) = (900, 999);
/// From one cached application to the one used before it.
const CACHED_STEP: i16 = 10;

/// How important an application is to Android by its last use (ProcessList and ActivityManagerService
/// of Android 5 to 13), on the scale of `oom_score_adj`.
///
/// The adj of an application since whose last use `later` others were used; 0 is the visited one.
pub fn adj_by_use(later: usize) -> i16 {
    let (first, last) = CACHED;
    let steps = ((last - first) / CACHED_STEP + 1) as usize;
    match later {
        0 => 0,
        1 => PREVIOUS,
        _ => (first + CACHED_STEP * (later - 2).min(steps) as i16).min(last),
    }
}

/// The application used longest ago, by their names and last uses, of which a later one is larger;
/// never the visited one.
pub fn used_longest_ago<Name: PartialEq>(
    last_uses: impl IntoIterator<Item = (Name, u64)>,
    visited: Option<Name>,
) -> Option<Name> {
    let others = last_uses.into_iter().filter(|(name, _)| visited.as_ref() != Some(name));
    others.min_by_key(|&(_, used)| used).map(|(name, _)| name)
}

/// Longest CPU time that counts as that of a start.
const START_MAX: Nanos = Nanos(10_000_000_000);
/// What reading a page from storage is taken to cost.
const MAJOR_FAULT: Nanos = Nanos(1_000_000);

/// What the start of a program is taken to have cost: the CPU time that it used so far, up to ten seconds,
/// and a millisecond for each page that it read from storage.
pub fn start_cost(cpu: Nanos, major_faults: u64) -> Nanos {
    let faults = i64::try_from(major_faults).unwrap_or(i64::MAX);
    Nanos(cpu.0.clamp(0, START_MAX.0).saturating_add(faults.saturating_mul(MAJOR_FAULT.0)))
}

#[cfg(test)]
mod tests {
    use super::{adj_by_use, start_cost, used_longest_ago};
    use types::Nanos;

    #[test]
    fn a_start_costs_its_first_seconds_and_what_it_reads() {
        assert_eq!(start_cost(Nanos(30_000_000), 5), Nanos(35_000_000));
        assert_eq!(start_cost(Nanos(3_600_000_000_000), 0), Nanos(10_000_000_000));
        assert_eq!(start_cost(Nanos(0), u64::MAX), Nanos(i64::MAX));
    }

    #[test]
    fn the_visited_application_is_spared() {
        let uses = [("a", 1), ("b", 9), ("c", 8)];
        assert_eq!(used_longest_ago(uses, None), Some("a"));
        assert_eq!(used_longest_ago(uses, Some("a")), Some("c"));
        assert_eq!(used_longest_ago([("a", 1)], Some("a")), None);
    }

    #[test]
    fn importance_falls_with_every_use_of_another() {
        let found: Vec<i16> = [0, 1, 2, 3, 11, 12, 13, usize::MAX].map(adj_by_use).to_vec();
        assert_eq!(found, [0, 700, 900, 910, 990, 999, 999, 999]);
    }
}
