//! Order in which the user visits the apps.

use super::{Arrangement, Order, Scenario, Schedule};
use types::random::Stream;

/// Apps per session, and the number of times each session repeats before the next begins.
const SESSION_APPS: usize = 4;
const SESSION_TURNS: usize = 2;

/// The app of every visit, round after round.
pub(super) fn visits(scenario: &Scenario) -> Vec<u32> {
    let mut stream = Stream::named(scenario.seed, "schedule");
    let mut round = one_round(scenario);
    let mut visits = Vec::new();
    for _ in 0..scenario.rounds {
        if scenario.order == Order::Shuffled {
            stream.shuffle(&mut round);
        }
        arrange(scenario.arrangement, &round, &mut visits);
    }
    visits
}

/// The apps of one round: each once, or as often as Zipf's law (exponent 1) gives, at least
/// once. Repeated apps are spread evenly over the round.
fn one_round(scenario: &Scenario) -> Vec<u32> {
    let apps = scenario.apps;
    match scenario.schedule {
        Schedule::RoundRobin => (0..apps).collect(),
        Schedule::Zipf => {
            // Twice as many visits as apps, distributed as 1, 1/2, 1/3, ...
            let harmonic: f64 = (1..=apps).map(|rank| 1.0 / f64::from(rank)).sum();
            let mut placed: Vec<(u64, u32)> = Vec::new();
            for app in 0..apps {
                let share = 2.0 * f64::from(apps) / (f64::from(app + 1) * harmonic);
                let times = (share.round() as u64).max(1);
                for turn in 0..times {
                    // The position in the round, in units of 2^-20 of the round.
                    placed.push((((2 * turn + 1) << 20) / (2 * times), app));
                }
            }
            placed.sort_unstable();
            placed.into_iter().map(|(_, app)| app).collect()
        }
    }
}

fn arrange(arrangement: Arrangement, round: &[u32], visits: &mut Vec<u32>) {
    match arrangement {
        Arrangement::Rotation => visits.extend_from_slice(round),
        Arrangement::Sessions => {
            for session in round.chunks(SESSION_APPS) {
                for _ in 0..SESSION_TURNS {
                    visits.extend_from_slice(session);
                }
            }
        }
        Arrangement::Returning => {
            for &app in round {
                visits.push(app);
                if app != 0 {
                    visits.push(0);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario() -> Scenario {
        Scenario { apps: 6, rounds: 2, ..Scenario::default() }
    }

    #[test]
    fn strict_rotation_repeats_the_same_round() {
        assert_eq!(visits(&scenario()), [0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn shuffled_rounds_have_the_same_apps_in_another_order() {
        let all = visits(&Scenario { order: Order::Shuffled, ..scenario() });
        let (mut first, mut second) = (all[..6].to_vec(), all[6..].to_vec());
        assert_ne!(first, second);
        first.sort_unstable();
        second.sort_unstable();
        assert_eq!(first, second);
    }

    #[test]
    fn zipf_visits_the_first_app_most_and_every_app_once() {
        let round = one_round(&Scenario { schedule: Schedule::Zipf, ..scenario() });
        let times = |app: u32| round.iter().filter(|&&visited| visited == app).count();
        assert_eq!(times(0), 5);
        assert_eq!(times(1), 2);
        assert!((0..6).all(|app| times(app) >= 1));
    }

    #[test]
    fn sessions_repeat_twice_and_returning_alternates_with_the_first_app() {
        let sessions =
            visits(&Scenario { arrangement: Arrangement::Sessions, rounds: 1, ..scenario() });
        assert_eq!(sessions, [0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 4, 5]);
        let returning =
            visits(&Scenario { arrangement: Arrangement::Returning, rounds: 1, ..scenario() });
        assert_eq!(returning, [0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0]);
    }
}
