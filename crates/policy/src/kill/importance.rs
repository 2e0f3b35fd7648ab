//! How important an application is to Android by its last use (ProcessList and ActivityManagerService
//! of Android 5 to 13, on the scale of `oom_score_adj`).

/// The application before the visited one.
const PREVIOUS: i16 = 700;
/// The first and the last of the cached ones.
const CACHED: (i16, i16) = (900, 999);
/// From one cached application to the one used before it.
const CACHED_STEP: i16 = 10;

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

#[cfg(test)]
mod tests {
    use super::adj_by_use;

    #[test]
    fn importance_falls_with_every_use_of_another() {
        let found: Vec<i16> = [0, 1, 2, 3, 11, 12, 13, usize::MAX].map(adj_by_use).to_vec();
        assert_eq!(found, [0, 700, 900, 910, 990, 999, 999, 999]);
    }
}
