//! The importance of an application, by its use.

use types::Nanos;

/// Adj of the application used just before the visited one.
const PREVIOUS: i16 = 700;
/// Adj of the first and the last cached application.
const CACHED: (i16, i16) = (900, 999);
/// Step in adj from a cached application to the next older one.
const CACHED_STEP: i16 = 10;

/// Adj that Android gives an application by its last use (ProcessList and ActivityManagerService
/// of Android 5 to 13), on the scale of `oom_score_adj`.
///
/// `later` counts the applications used since; 0 is the visited one.
pub fn adj_by_use(later: usize) -> i16 {
    let (first, last) = CACHED;
    let steps = ((last - first) / CACHED_STEP + 1) as usize;
    match later {
        0 => 0,
        1 => PREVIOUS,
        _ => (first + CACHED_STEP * (later - 2).min(steps) as i16).min(last),
    }
}

/// The application used longest ago, never the visited one. Takes names and last uses; a later use is
/// a larger number.
pub fn used_longest_ago<Name: PartialEq>(
    last_uses: impl IntoIterator<Item = (Name, u64)>,
    visited: Option<Name>,
) -> Option<Name> {
    let others = last_uses.into_iter().filter(|(name, _)| visited.as_ref() != Some(name));
    others.min_by_key(|&(_, used)| used).map(|(name, _)| name)
}

/// Longest CPU time that counts as that of a start.
const START_MAX: Nanos = Nanos(10_000_000_000);
/// Assumed cost of reading a page from storage.
const MAJOR_FAULT: Nanos = Nanos(1_000_000);

/// Estimated cost of a program's start: the CPU time that it used so far in user mode, up to ten seconds,
/// plus a millisecond for each page that it read from storage.
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
