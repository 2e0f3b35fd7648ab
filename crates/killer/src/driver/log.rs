//! The lines that the killer logs.

use std::fmt::Write;

use daemon::log::{Line, put, put_words};
use linux::system;
use policy::kill::{CandidateIndex, Memory, Stall};
use types::Nanos;

use super::{Cause, Killer, SAY_AGAIN};
use crate::Error;
use crate::wake::Woken;

/// The most candidates that a line names.
const NAMED_MAX: usize = 5;

impl Killer {
    pub(super) fn say_start(&mut self) {
        let Killer { config, group, output, .. } = self;
        output.say(|line| {
            put(line, "event", "start")?;
            put(line, "policy", &config.policy)?;
            if let Some(group) = group {
                put_words(line, "cgroup", group.folder.display())?;
            }
            put(line, "dry_run", config.is_dry_run)
        });
    }

    pub(super) fn say_reload(&mut self, outcome: Result<(), Error>) {
        let policy = &self.config.policy;
        self.output.say(|line| match &outcome {
            Ok(()) => {
                put(line, "event", "reload")?;
                put(line, "policy", policy)
            }
            Err(error) => {
                put(line, "event", "reload-refused")?;
                put_words(line, "why", error)
            }
        });
    }

    /// Logs that memory is short but nothing is killed: at first, when the reason changes, and once a second.
    pub(super) fn say_spared(&mut self, now: Nanos, why: &'static str, memory: &Memory) {
        let is_recent =
            |(then, logged): (Nanos, &str)| logged == why && now.0 - then.0 < SAY_AGAIN.0;
        if self.spared.is_some_and(is_recent) {
            return;
        }
        self.spared = Some((now, why));
        self.output.say(|line| {
            put(line, "event", "spared")?;
            put_words(line, "why", why)?;
            put_memory(line, memory)
        });
    }

    /// Logs processes without room: when this begins and ends, and when their number has doubled or halved.
    pub(super) fn say_overlooked(&mut self, now: Nanos) {
        let ((count, largest), (then, logged)) = (self.table.overlooked, self.overlooked);
        let has_doubled = count >= 2 * logged || 2 * count <= logged;
        let is_news = match (count, logged) {
            (0, 0) => false,
            (0, _) | (_, 0) => true,
            _ => has_doubled,
        };
        if !is_news || (logged > 0 && now.0 - then.0 < SAY_AGAIN.0) {
            return;
        }
        self.overlooked = (now, count);
        let room = self.table.len();
        self.output.say(|line| {
            put(line, "event", "overlooked")?;
            put(line, "processes", count)?;
            put(line, "largest_bytes", largest)?;
            put(line, "room", room)?;
            put_words(line, "why", "the table has room only for the largest processes")
        });
    }

    /// Logs the victim, the reason, and the first of the ranking.
    pub(super) fn say_kill(&mut self, event: &str, victim: CandidateIndex, cause: Cause) {
        let Killer { table, ranking, output, .. } = self;
        let candidate = table.candidate(victim);
        let name = |index| table.entry(index).name.text();
        output.say(|line| {
            put(line, "event", event)?;
            put(line, "process", candidate.process)?;
            put(line, "at_ns", system::monotonic_ns())?;
            put(line, "name", name(victim))?;
            put_words(line, "why", cause.why)?;
            put(line, "trigger", trigger_name(cause.woken))?;
            put_memory(line, &cause.memory)?;
            put(line, "adj", candidate.adj)?;
            put(line, "resident_bytes", candidate.resident.0)?;
            put(line, "swapped_bytes", candidate.swapped.0)?;
            put(line, "idle_ms", candidate.idle.0 / 1_000_000)?;
            put(line, "candidates", ranking.ranked().len())?;
            write!(line, " first=\"")?;
            for (rank, ranked) in ranking.ranked().iter().take(NAMED_MAX).enumerate() {
                let comma = if rank > 0 { "," } else { "" };
                let process = table.candidate(ranked.candidate).process;
                write!(line, "{comma}{process}:{}:{}", name(ranked.candidate), ranked.score.0)?;
            }
            line.write_str("\"")
        });
    }
}

fn put_memory(line: &mut Line, memory: &Memory) -> std::fmt::Result {
    put(line, "available_bytes", memory.available.0)?;
    put(line, "total_bytes", memory.total.0)?;
    put(line, "swap_free_bytes", memory.swap_free.0)
}

fn trigger_name(woken: Woken) -> &'static str {
    match woken {
        Woken::Time => "look",
        Woken::Kernel(Stall::None) => "threshold",
        Woken::Kernel(Stall::Partial) => "partial-stall",
        Woken::Kernel(Stall::Complete) => "complete-stall",
    }
}
