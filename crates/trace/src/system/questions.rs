//! The questions that a system trace answers by what it has, and what to switch on for the others, in the words of
//! the program that records a trace of that format.

use schemars::JsonSchema;
use serde::Serialize;

use super::Contents;

/// A question that a system trace may answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "SystemQuestion")]
pub struct Question {
    /// The question, in words, with the command that answers it in brackets, such as `(launches)`.
    pub question: String,
    /// Whether the trace has what the answer needs.
    pub is_answered: bool,
    /// What to switch on in the next trace of this format, as a line of a Perfetto config or a command; empty if it
    /// is answered.
    pub switch_on: Vec<String>,
}

/// Every question that a system trace may answer, and what this one, of the format of that name, lacks for it.
pub fn questions(contents: &Contents, format: &str) -> Vec<Question> {
    let occurs = |need: &Need| need.facts.iter().any(|fact| contents.facts.contains_key(*fact));
    let ask = |(question, needs): &(&str, &[Need])| {
        let missing = needs.iter().filter(|need| !occurs(need));
        let switch_on: Vec<String> = missing.map(|need| need.switch_on(format)).collect();
        Question { question: (*question).to_owned(), is_answered: switch_on.is_empty(), switch_on }
    };
    QUESTIONS.iter().map(ask).collect()
}

/// Something that a question needs, with what records it.
#[derive(Clone, Copy)]
struct Need {
    /// Facts of which one must occur.
    facts: &'static [&'static str],
    /// The lines of a Perfetto config.
    perfetto: &'static str,
    /// Events of the kernel, as `group:name`; empty if it has none.
    events: &'static [&'static str],
    /// Category of Android's own markers, which atrace switches on.
    markers: Option<&'static str>,
    /// The command that prints it, in the loop of a recording of /proc.
    in_loop: Option<&'static str>,
    /// Whether Android's log has it.
    is_in_log: bool,
    /// Whether records of DAMON have it.
    is_of_damon: bool,
}

impl Need {
    const fn new(facts: &'static [&'static str], perfetto: &'static str) -> Need {
        let (markers, in_loop) = (None, None);
        let (is_in_log, is_of_damon) = (false, false);
        Need { facts, perfetto, events: &[], markers, in_loop, is_in_log, is_of_damon }
    }

    const fn events(self, events: &'static [&'static str]) -> Need {
        Need { events, ..self }
    }

    const fn in_loop(self, command: &'static str) -> Need {
        Need { in_loop: Some(command), ..self }
    }

    fn switch_on(&self, format: &str) -> String {
        match format {
            "tracedat" => self.of_kernel(format, |events| {
                let options: Vec<String> =
                    events.iter().map(|event| format!("-e {event}")).collect();
                format!("trace-cmd record {}", options.join(" "))
            }),
            "ftrace" => self.of_kernel(format, |events| {
                format!("echo {} >> /sys/kernel/tracing/set_event", events.join(" "))
            }),
            "logcat" if self.is_in_log => "adb logcat -b all -v threadtime".to_owned(),
            "logcat" => format!("not in the log; with Perfetto: {}", self.perfetto),
            "procfs" => match self.in_loop {
                Some(command) => format!("{command}, in the loop"),
                None => format!("not in these files; with Perfetto: {}", self.perfetto),
            },
            "damo" if self.is_of_damon => "damo record".to_owned(),
            "damo" => format!("not in records of damo; with Perfetto: {}", self.perfetto),
            _ => self.perfetto.to_owned(),
        }
    }

    /// How a recorder of kernel events records this.
    fn of_kernel(&self, format: &str, line: impl Fn(&[&str]) -> String) -> String {
        match (self.events, self.markers, self.in_loop) {
            ([_, ..], ..) => line(self.events),
            (_, Some(category), _) if format == "ftrace" => format!("atrace -t 60 {category}"),
            (_, Some(category), _) => {
                format!("atrace --async_start {category}, before trace-cmd record")
            }
            (_, _, Some(command)) => {
                format!("no kernel event has it: run {command} in a loop meanwhile (procfs)")
            }
            _ => format!("no kernel event has it; with Perfetto: {}", self.perfetto),
        }
    }
}

const LAUNCH: Need = Need {
    markers: Some("am"),
    is_in_log: true,
    ..Need::new(&["launch"], "atrace_categories: \"am\"")
};

/// Every question, with what it needs.
const QUESTIONS: [(&str, &[Need]); 13] = [
    ("which apps were launched, when and for how long (launches)", &[LAUNCH]),
    (
        "how long a launch ran, and how long it waited for a CPU or for I/O (launches)",
        &[
            LAUNCH,
            Need::new(&["switch"], "ftrace_events: \"sched/sched_switch\"")
                .events(&["sched:sched_switch"]),
            Need::new(&["wake"], "ftrace_events: \"sched/sched_waking\"")
                .events(&["sched:sched_waking"]),
            Need::new(&["blocked_reason"], "ftrace_events: \"sched/sched_blocked_reason\"")
                .events(&["sched:sched_blocked_reason"]),
        ],
    ),
    (
        "which pages of files a launch read (launches)",
        &[
            LAUNCH,
            Need::new(&["page_added"], "ftrace_events: \"filemap/mm_filemap_add_to_page_cache\"")
                .events(&["filemap:mm_filemap_add_to_page_cache"]),
        ],
    ),
    (
        "how long threads reclaimed memory themselves (pressure)",
        &[Need::new(
            &["direct_reclaim"],
            "ftrace_events: \"vmscan/mm_vmscan_direct_reclaim_begin\" and \
             \"vmscan/mm_vmscan_direct_reclaim_end\"",
        )
        .events(&["vmscan:mm_vmscan_direct_reclaim_begin", "vmscan:mm_vmscan_direct_reclaim_end"])],
    ),
    (
        "when kswapd reclaimed memory (pressure)",
        &[Need::new(
            &["kswapd"],
            "ftrace_events: \"vmscan/mm_vmscan_kswapd_wake\" and \"vmscan/mm_vmscan_kswapd_sleep\"",
        )
        .events(&["vmscan:mm_vmscan_kswapd_wake", "vmscan:mm_vmscan_kswapd_sleep"])],
    ),
    (
        "which processes were killed, and why (kills)",
        &[Need {
            is_in_log: true,
            ..Need::new(
                &[
                    "lmkd_kill",
                    "lowmemory_kill",
                    "oom_kill",
                    "log_kill",
                    "signal",
                    "kills_expected",
                ],
                "atrace_apps: \"lmkd\", ftrace_events: \"oom/mark_victim\" and \
                 \"oom/oom_score_adj_update\"",
            )
            .events(&[
                "oom:mark_victim",
                "oom:oom_score_adj_update",
                "signal:signal_generate",
            ])
        }],
    ),
    (
        "how much memory each process had (pressure)",
        &[Need::new(
            &["rss", "process_memory"],
            "ftrace_events: \"kmem/rss_stat\", or proc_stats_poll_ms of linux.process_stats",
        )
        .events(&["kmem:rss_stat"])
        .in_loop("ps -A -o USER,PID,PPID,RSS,NAME")],
    ),
    (
        "how much memory was free (pressure)",
        &[Need::new(&["meminfo"], "meminfo_period_ms of linux.sys_stats")
            .in_loop("cat /proc/meminfo")],
    ),
    (
        "how many pages were swapped and faulted again (pressure)",
        &[Need::new(&["vmstat"], "vmstat_period_ms of linux.sys_stats")
            .in_loop("cat /proc/vmstat")],
    ),
    (
        "how long tasks stalled for memory, by PSI (pressure)",
        &[Need::new(&["pressure"], "psi_period_ms of linux.sys_stats")
            .in_loop("cat /proc/pressure/memory")],
    ),
    (
        "which requests went to block devices (import --as block)",
        &[Need::new(
            &["block_request", "block_complete"],
            "ftrace_events: \"block/block_rq_issue\" and \"block/block_rq_complete\"",
        )
        .events(&["block:block_rq_issue", "block:block_rq_complete"])],
    ),
    (
        "how long threads compacted memory (pressure)",
        &[Need::new(
            &["compaction"],
            "ftrace_events: \"compaction/mm_compaction_begin\" and \
             \"compaction/mm_compaction_end\"",
        )
        .events(&["compaction:mm_compaction_begin", "compaction:mm_compaction_end"])],
    ),
    (
        "which addresses were used when, by DAMON (pressure)",
        &[Need {
            is_of_damon: true,
            ..Need::new(
                &["region"],
                "ftrace_events: \"damon/damon_aggregated\", while DAMON monitors",
            )
            .events(&["damon:damon_aggregated"])
        }],
    ),
];

#[cfg(test)]
mod tests {
    use super::super::formats::CATALOG;
    use super::*;

    #[test]
    fn a_question_is_answered_by_what_occurs() {
        let mut contents = Contents::default();
        for format in CATALOG {
            let every = questions(&contents, format.name);
            assert!(every.iter().all(|question| !question.is_answered));
            let lines = every.iter().flat_map(|question| &question.switch_on);
            assert!(lines.into_iter().all(|line| !line.is_empty()));
        }
        for fact in ["launch", "switch", "wake", "oom_kill"] {
            contents.facts.insert(fact.to_owned(), 1);
        }
        let asked = questions(&contents, "perfetto");
        assert_eq!(asked.iter().filter(|question| question.is_answered).count(), 2, "{asked:?}");
        assert_eq!(asked[1].switch_on, ["ftrace_events: \"sched/sched_blocked_reason\""]);
    }

    #[test]
    fn every_question_ends_with_the_command_that_answers_it() {
        for (question, _) in QUESTIONS {
            let (words, command) = question.strip_suffix(')').unwrap().rsplit_once(" (").unwrap();
            let commands = ["launches", "kills", "pressure", "import --as block"];
            assert!(commands.contains(&command), "{question}");
            assert!(!words.contains('('), "{question}");
        }
    }

    #[test]
    fn regions_of_damon_answer_which_addresses_were_used() {
        let mut contents = Contents::default();
        contents.facts.insert("region".to_owned(), 1);
        for format in CATALOG {
            let asked = questions(&contents, format.name);
            let answered = asked.iter().filter(|question| question.is_answered);
            let answered: Vec<&str> = answered.map(|each| each.question.as_str()).collect();
            assert_eq!(answered, ["which addresses were used when, by DAMON (pressure)"]);
        }
    }

    #[test]
    fn what_to_switch_on_is_in_the_words_of_the_format() {
        let lines = |format: &str, question: usize| {
            questions(&Contents::default(), format)[question].switch_on.join("; ")
        };
        let kswapd = "vmscan:mm_vmscan_kswapd_wake";
        assert!(lines("tracedat", 4).starts_with(&format!("trace-cmd record -e {kswapd} -e ")));
        assert!(lines("ftrace", 4).starts_with(&format!("echo {kswapd} ")));
        assert!(lines("ftrace", 4).ends_with(" >> /sys/kernel/tracing/set_event"));
        assert_eq!(lines("ftrace", 0), "atrace -t 60 am");
        assert_eq!(lines("tracedat", 0), "atrace --async_start am, before trace-cmd record");
        assert_eq!(lines("logcat", 5), "adb logcat -b all -v threadtime");
        assert!(lines("logcat", 9).starts_with("not in the log; with Perfetto: psi_period_ms"));
        assert_eq!(lines("procfs", 9), "cat /proc/pressure/memory, in the loop");
        assert!(lines("tracedat", 7).contains("cat /proc/meminfo in a loop meanwhile (procfs)"));
        assert_eq!(lines("tracedat", 12), "trace-cmd record -e damon:damon_aggregated");
        assert_eq!(lines("damo", 12), "damo record");
        assert_eq!(
            lines("damo", 9),
            "not in records of damo; with Perfetto: psi_period_ms of linux.sys_stats"
        );
    }
}
