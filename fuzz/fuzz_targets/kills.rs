//! Reads arbitrary bytes as a recording of kills: they are refused, or the phases of each kill add up.

#![no_main]

use libfuzzer_sys::fuzz_target;
use trace::kills::read_bytes;

fuzz_target!(|bytes: &[u8]| {
    let Ok(outcome) = read_bytes("kills", bytes) else { return };
    for kill in outcome.kills {
        if let (Some(threads), Some(reclaim), Some(total)) =
            (kill.threads_us, kill.reclaim_us, kill.total_us)
        {
            let sum = kill.signal_us.unwrap_or(0.0) + threads + reclaim;
            assert!((sum - total).abs() <= 1e-9 * total.max(1.0), "{sum} of {total}");
        }
    }
});
