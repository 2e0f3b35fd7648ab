//! Judges kills by what the trace says of memory before and then: whether a kill was needless, late, or hit the
//! wrong process.

use super::kills::Killed;
use super::memory::MemoryState;
use super::outcome::Judged;
use super::spans::Spans;

/// The time before a kill in which memory must have been short: the window of `replay-kills`.
const WINDOW_NS: i64 = 10_000_000_000;

/// Memory is short if some task stalled for it at least this share of the time between two samples.
const SHORT_SHARE: f64 = 0.01;

/// A kill is late if every task stalled for memory at least this share of the time between two samples: a freeze
/// as `replay-kills` defines it.
const FREEZE_SHARE: f64 = 0.5;

/// Memory is short if less than this share of it is available.
const AVAILABLE_SHARE: f64 = 0.1;

const MIB: f64 = (1 << 20) as f64;

/// What judgements rest on.
pub struct KillEvidence<'a> {
    /// Samples of pressure.
    pub memory: &'a MemoryState,
    /// Intervals of direct reclaim.
    pub direct_reclaim: &'a Spans,
}

impl KillEvidence<'_> {
    /// Whether memory was not short: no stalls and no direct reclaim in the 10 s before, and memory available.
    pub fn needless(&self, kill: &Killed) -> Judged {
        let from_ns = kill.time_ns.saturating_sub(WINDOW_NS);
        if self.direct_reclaim.touches(from_ns, kill.time_ns) {
            return answer(false, "threads reclaimed memory directly in the 10 s before");
        }
        let stalled = self.memory.some_share(from_ns, kill.time_ns);
        if let Some(share) = stalled.filter(|&share| share >= SHORT_SHARE) {
            let share = share * 100.0;
            return answer(
                false,
                &format!("some task stalled for memory {share:.0} % of the time"),
            );
        }
        let available = kill.memory.total.zip(kill.memory.available);
        let known = available.filter(|&(total, _)| total > 0);
        if let Some((total, available)) = known
            && (available as f64) < AVAILABLE_SHARE * total as f64
        {
            let (available, total) = (available as f64 / MIB, total as f64 / MIB);
            let why = format!("only {available:.0} of {total:.0} MiB were available");
            return answer(false, &why);
        }
        match (stalled, known) {
            (Some(_), Some((total, available))) => {
                let (available, total) = (available as f64 / MIB, total as f64 / MIB);
                let why = format!(
                    "{available:.0} of {total:.0} MiB were available, and no task stalled for memory in the \
                     10 s before"
                );
                answer(true, &why)
            }
            (None, Some(_)) => lacks("samples of memory pressure (PSI) around the kill"),
            (Some(_), None) => lacks("samples of MemTotal and MemAvailable before the kill"),
            (None, None) => lacks(
                "samples of memory pressure (PSI) around the kill, and of MemTotal and MemAvailable before it",
            ),
        }
    }

    /// Whether tasks had been stalled for long: a freeze in the 10 s before.
    pub fn late(&self, kill: &Killed) -> Judged {
        let from_ns = kill.time_ns.saturating_sub(WINDOW_NS);
        match self.memory.full_share(from_ns, kill.time_ns) {
            None => lacks("samples of full memory pressure (PSI) around the kill"),
            Some(share) => {
                let why =
                    format!("every task stalled for memory {:.0} % of the time", share * 100.0);
                answer(share >= FREEZE_SHARE, &why)
            }
        }
    }

    /// Whether a process with a higher oom_score_adj, which Android needs less, had at least as much memory.
    pub fn wrong_victim(
        &self,
        kill: &Killed,
        name: impl Fn(super::tasks::ProcessIndex) -> String,
    ) -> Judged {
        if kill.adj.is_none() || kill.resident_bytes.is_none() {
            return lacks("the victim's oom_score_adj or memory");
        }
        if let Some(better) = kill.better {
            let why = format!(
                "{} had adj {} and {:.0} MiB",
                name(better.process),
                better.adj,
                better.bytes as f64 / MIB
            );
            return answer(true, &why);
        }
        if kill.others == 0 {
            return lacks("oom_score_adj and memory of other processes");
        }
        let why = format!(
            "none of {} others with known memory had a higher adj and as much memory",
            kill.others
        );
        answer(false, &why)
    }
}

fn answer(answer: bool, why: &str) -> Judged {
    Judged { answer: Some(answer), why: why.to_owned() }
}

fn lacks(what: &str) -> Judged {
    Judged { answer: None, why: format!("cannot tell, because the trace lacks {what}") }
}
