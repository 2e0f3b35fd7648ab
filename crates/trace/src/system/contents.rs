//! What a system trace has, for `pagewise info`: counts by what an analysis needs, and the questions that the
//! trace therefore answers or not.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Tally;

/// Counts of a system trace beside those of its kernel events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SystemContents")]
pub struct Contents {
    /// Recording sessions that the file joins.
    pub sessions: u64,
    /// Packets by the name of their field; a packet with several counts under each.
    pub packets: BTreeMap<String, u64>,
    /// Kernel events without a message of their own, which `events` counts as `generic`, by the kernel's name.
    pub generic_events: BTreeMap<String, u64>,
    /// Events by what they say, such as `launch` or `lmkd_kill`; only those that occur.
    pub facts: BTreeMap<String, u64>,
    /// Fields of messages that pagewise does not know.
    pub unknown_fields: Vec<UnknownField>,
    /// Bytes of the file that are not read: of parts that are cut, damaged or too large.
    pub skipped_bytes: u64,
    /// Times that are out of order, or on a clock that the trace does not relate to others.
    pub clock_problems: BTreeMap<String, u64>,
}

/// A field of a message that pagewise does not know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnknownField {
    /// Name of the message.
    pub message: String,
    /// Number of the field; 0 for further fields of very many.
    pub number: u32,
    /// Number of occurrences of the field.
    pub count: u64,
}

impl Contents {
    /// The contents of a trace that is read to its end.
    pub fn new(tally: &Tally, facts: BTreeMap<String, u64>) -> Contents {
        let unknown = tally.unknown_fields();
        let problems = tally.clock_problems();
        Contents {
            sessions: tally.sessions(),
            skipped_bytes: tally.skipped_bytes(),
            packets: tally.packets(),
            generic_events: tally.generic(),
            facts,
            unknown_fields: unknown
                .map(|(message, number, count)| UnknownField {
                    message: message.to_owned(),
                    number,
                    count,
                })
                .collect(),
            clock_problems: problems.map(|(what, count)| (what.to_owned(), count)).collect(),
        }
    }

    /// Adds the contents of another file.
    pub fn join(&mut self, other: Contents) {
        self.sessions += other.sessions;
        self.skipped_bytes = self.skipped_bytes.saturating_add(other.skipped_bytes);
        for (counts, others) in [
            (&mut self.packets, other.packets),
            (&mut self.generic_events, other.generic_events),
            (&mut self.facts, other.facts),
            (&mut self.clock_problems, other.clock_problems),
        ] {
            for (name, count) in others {
                *counts.entry(name).or_insert(0) += count;
            }
        }
        self.unknown_fields.extend(other.unknown_fields);
    }

    /// Every question that a system trace may answer, and what this one lacks for it.
    pub fn questions(&self) -> Vec<Question> {
        QUESTIONS.iter().map(|row| row.ask(self)).collect()
    }
}

/// A question that a system trace may answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "SystemQuestion")]
pub struct Question {
    /// The question, in words.
    pub question: String,
    /// Whether the trace has what the answer needs.
    pub is_answered: bool,
    /// What to switch on in the next trace, as lines of a Perfetto config; empty if it is answered.
    pub switch_on: Vec<String>,
}

struct Row {
    question: &'static str,
    /// Each of these sets of facts must have at least one that occurs, with what records it.
    needs: &'static [(&'static [&'static str], &'static str)],
}

impl Row {
    fn ask(&self, contents: &Contents) -> Question {
        let occurs = |facts: &[&str]| facts.iter().any(|fact| contents.facts.contains_key(*fact));
        let missing = self.needs.iter().filter(|(facts, _)| !occurs(facts));
        let switch_on: Vec<String> = missing.map(|(_, line)| (*line).to_owned()).collect();
        Question {
            question: self.question.to_owned(),
            is_answered: switch_on.is_empty(),
            switch_on,
        }
    }
}

/// Every question, with what it needs.
const QUESTIONS: [Row; 11] = [
    Row {
        question: "which apps were launched, when and for how long",
        needs: &[(&["launch"], "atrace_categories: \"am\"")],
    },
    Row {
        question: "how long a launch ran, and how long it waited for a CPU or for I/O",
        needs: &[
            (&["launch"], "atrace_categories: \"am\""),
            (&["switch"], "ftrace_events: \"sched/sched_switch\""),
            (&["wake"], "ftrace_events: \"sched/sched_waking\""),
            (&["blocked_reason"], "ftrace_events: \"sched/sched_blocked_reason\""),
        ],
    },
    Row {
        question: "which pages of files a launch read",
        needs: &[
            (&["launch"], "atrace_categories: \"am\""),
            (&["page_added"], "ftrace_events: \"filemap/mm_filemap_add_to_page_cache\""),
        ],
    },
    Row {
        question: "how long threads reclaimed memory themselves",
        needs: &[(
            &["direct_reclaim"],
            "ftrace_events: \"vmscan/mm_vmscan_direct_reclaim_begin\" and \
             \"vmscan/mm_vmscan_direct_reclaim_end\"",
        )],
    },
    Row {
        question: "when kswapd reclaimed memory",
        needs: &[(
            &["kswapd"],
            "ftrace_events: \"vmscan/mm_vmscan_kswapd_wake\" and \"vmscan/mm_vmscan_kswapd_sleep\"",
        )],
    },
    Row {
        question: "which processes were killed, and why",
        needs: &[(
            &["lmkd_kill", "lowmemory_kill", "oom_kill", "log_kill"],
            "atrace_apps: \"lmkd\", ftrace_events: \"oom/mark_victim\" and \
             \"oom/oom_score_adj_update\"",
        )],
    },
    Row {
        question: "how much memory each process had",
        needs: &[(
            &["rss", "process_memory"],
            "ftrace_events: \"kmem/rss_stat\", or proc_stats_poll_ms of linux.process_stats",
        )],
    },
    Row {
        question: "how much memory was free",
        needs: &[(&["meminfo"], "meminfo_period_ms of linux.sys_stats")],
    },
    Row {
        question: "how many pages were swapped and faulted again",
        needs: &[(&["vmstat"], "vmstat_period_ms of linux.sys_stats")],
    },
    Row {
        question: "how long tasks stalled for memory (PSI)",
        needs: &[(&["pressure"], "psi_period_ms of linux.sys_stats")],
    },
    Row {
        question: "which requests went to block devices (import --as block)",
        needs: &[(
            &["block_request", "block_complete"],
            "ftrace_events: \"block/block_rq_issue\" and \"block/block_rq_complete\"",
        )],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_answered_by_what_occurs() {
        let mut contents = Contents::default();
        assert!(contents.questions().iter().all(|question| !question.is_answered));
        for fact in ["launch", "switch", "wake", "oom_kill"] {
            contents.facts.insert(fact.to_owned(), 1);
        }
        let answered: Vec<_> =
            contents.questions().into_iter().filter(|question| question.is_answered).collect();
        assert_eq!(answered.len(), 2, "{answered:?}");
        let waits = &contents.questions()[1];
        assert_eq!(waits.switch_on, ["ftrace_events: \"sched/sched_blocked_reason\""]);
        let twice = contents.clone();
        contents.join(twice);
        assert_eq!(contents.facts["launch"], 2);
    }
}
