//! The two paper schemes on sequences small enough to check by hand
//! (../shared/golden/worked-cases.md), and the rules every architecture shares.

use crate::support::{operations, request, run, script};

const NVM_CACHE: &str = "outA D, inA, outA c, inA, outA D, outB D, inB, outB D, inA";
const HYBRID: &str = "outA D, inA, outA c, inA, outA c, inA, outB D, inB, outB c, inB, outA c, inA";

#[test]
fn nvm_cache_gives_the_worked_counts() {
    for (admit_clean, expected) in [("yes", [3, 3, 1, 3]), ("no", [4, 3, 0, 2])] {
        let request = request("nvm-cache", 1, &format!("admit_clean={admit_clean}"));
        let outcome = run(&request, &script(NVM_CACHE));
        assert_eq!(operations(&outcome), expected, "admit_clean={admit_clean}");
    }
}

#[test]
fn hybrid_gives_the_worked_counts() {
    for (entry_bit, copy, expected) in [
        (0, "free", [5, 3, 1, 2]),
        (1, "free", [3, 3, 3, 2]),
        (0, "keep", [5, 2, 1, 2]),
        (1, "keep", [3, 2, 3, 2]),
    ] {
        let options = format!("entry_bit={entry_bit} flash_copy_on_promotion={copy}");
        let outcome = run(&request("hybrid", 1, &options), &script(HYBRID));
        assert_eq!(operations(&outcome), expected, "{options}");
        assert_eq!((outcome.promotions, outcome.demotions), (2, 1), "{options}");
    }
}

#[test]
fn times_are_counts_times_latencies_and_a_stall_is_what_a_swap_in_waits_for() {
    let options = "entry_bit=1 flash_copy_on_promotion=free";
    let outcome = run(&request("hybrid", 1, options), &script(HYBRID));
    assert_eq!(outcome.io_time_s, (3. * 90. + 3. * 40. + 3. * 4. + 2. * 5.) / 1e6);
    // Reads, both promotions and the demotion of A happen inside a fault; two page-outs do not.
    assert_eq!(outcome.stall_time_s, (3. * 90. + 1. * 40. + 3. * 4. + 2. * 5.) / 1e6);
}

#[test]
fn the_faithful_profile_of_hybrid_names_the_four_pairs() {
    let mut request = request("hybrid", 1, "");
    request.profile = Some("faithful".to_owned());
    let mut source = crate::support::Recorded::swap(script(HYBRID));
    let error = sim::swap::simulate(&mut source, &request, &types::NoProgress).unwrap_err();
    let text = error.to_string();
    for entry_bit in ["0", "1"] {
        for copy in ["free", "keep"] {
            let pair =
                format!("--option entry_bit={entry_bit} --option flash_copy_on_promotion={copy}");
            assert!(text.contains(&pair), "{text}");
        }
    }
}
