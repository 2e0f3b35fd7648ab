//! The counters of each application, and their text as JSON (docs/relaunchd.md describes each field) and OpenMetrics.

use std::fmt::{self, Write};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

/// The state of an application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// The group does not exist.
    #[default]
    Absent,
    /// The application runs.
    Thawed,
    /// The application is frozen.
    Frozen,
}

/// The counters of an application since the start.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Counters {
    /// The name of the application.
    pub name: String,
    /// The group as the settings name it.
    pub cgroup: String,
    /// The state of the application.
    pub state: State,
    /// Visits that have ended.
    pub visits: u64,
    /// Pages that visits were expected to use.
    pub predicted_pages: u64,
    /// Pages that were read before visits.
    pub prefetched_pages: u64,
    /// The ranges in which they were read.
    pub prefetched_ranges: u64,
    /// Pages that visits took out of swap and whose place in the order of use was noted.
    pub ordered_pages: u64,
    /// Faults of all processes that were lost during visits, so that their place is unknown.
    pub lost_faults: u64,
    /// Prefetched pages that were used.
    pub used_pages: u64,
    /// Used pages that were in swap and not prefetched.
    pub missed_pages: u64,
    /// Seconds that prefetches took.
    pub prefetch_s: f64,
    /// Pages for which memory was too short.
    pub unaffordable_pages: u64,
    /// Pages that were to leave memory when the application froze.
    pub paged_out_pages: u64,
    /// Pages that were made to leave memory before others.
    pub cold_pages: u64,
    /// Address spaces that ended or that `exec` replaced, and that are forgotten.
    pub voided: u64,
}

/// Counters of all applications.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// `pagewise.relaunchd/1`.
    pub schema: &'static str,
    /// Whether nothing is prefetched or reclaimed.
    pub dry_run: bool,
    /// `use` if pages are read in the order of use, else `address`.
    pub order: &'static str,
    /// Where the faults that show the order of use come from: `bpf` or `tracefs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order_source: Option<&'static str>,
    /// Why the order is that of addresses although the settings have `use`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order_refused: Option<String>,
    /// The applications, in the order of the settings.
    pub applications: Vec<Counters>,
}

/// The last report, which the threads of the daemon share.
#[derive(Debug, Default)]
pub struct Statistics(Mutex<Report>);

/// The schema of the report.
pub(crate) const SCHEMA: &str = "pagewise.relaunchd/1";

/// A metric: its name, its type, its help text, and its value.
type Metric = (&'static str, &'static str, &'static str, fn(&Counters) -> f64);

const METRICS: &[Metric] = &[
    ("visits", "counter", "Visits that have ended.", |all| all.visits as f64),
    ("predicted_pages", "counter", "Pages that visits were expected to use.", |all| {
        all.predicted_pages as f64
    }),
    ("prefetched_pages", "counter", "Pages read before visits.", |all| all.prefetched_pages as f64),
    ("prefetched_ranges", "counter", "Ranges in which pages were read before visits.", |all| {
        all.prefetched_ranges as f64
    }),
    ("ordered_pages", "counter", "Used pages whose place in the order of use was noted.", |all| {
        all.ordered_pages as f64
    }),
    ("lost_faults", "counter", "Faults that were lost during visits.", |all| {
        all.lost_faults as f64
    }),
    ("used_pages", "counter", "Prefetched pages that visits used.", |all| all.used_pages as f64),
    ("missed_pages", "counter", "Pages that visits read from swap by faults.", |all| {
        all.missed_pages as f64
    }),
    ("prefetch_seconds", "counter", "Time that prefetches took.", |all| all.prefetch_s),
    ("unaffordable_pages", "counter", "Predicted pages for which memory was short.", |all| {
        all.unaffordable_pages as f64
    }),
    ("paged_out_pages", "counter", "Pages that were to leave memory after visits.", |all| {
        all.paged_out_pages as f64
    }),
    ("cold_pages", "counter", "Pages made to leave memory first.", |all| all.cold_pages as f64),
    ("voided", "counter", "Address spaces that ended or that exec replaced.", |all| {
        all.voided as f64
    }),
    ("is_frozen", "gauge", "1 if the application is frozen.", |all| {
        f64::from(all.state == State::Frozen)
    }),
];

impl Statistics {
    /// Replaces the report.
    pub(crate) fn publish(&self, report: Report) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = report;
    }

    /// The last report.
    pub fn report(&self) -> Report {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Appends the report as one line of JSON.
    ///
    /// # Errors
    /// The text cannot be appended.
    pub fn json(&self, text: &mut String) -> fmt::Result {
        let line = serde_json::to_string(&self.report()).map_err(|_| fmt::Error)?;
        writeln!(text, "{line}")
    }

    /// Appends the report as OpenMetrics 1.0.
    pub(crate) fn open_metrics(&self, text: &mut String) -> fmt::Result {
        let report = self.report();
        for (name, kind, help, of) in METRICS {
            let suffix = if *kind == "counter" { "_total" } else { "" };
            writeln!(text, "# HELP pagewise_relaunchd_{name} {help}")?;
            writeln!(text, "# TYPE pagewise_relaunchd_{name} {kind}")?;
            for counters in &report.applications {
                let (app, value) = (&counters.name, of(counters));
                writeln!(text, "pagewise_relaunchd_{name}{suffix}{{app=\"{app}\"}} {value}")?;
            }
        }
        writeln!(text, "# EOF")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_texts_have_every_application() {
        let statistics = Statistics::default();
        let notes = Counters {
            name: "notes".to_owned(),
            cgroup: "/apps/notes".to_owned(),
            state: State::Frozen,
            visits: 3,
            prefetch_s: 0.25,
            ..Counters::default()
        };
        let mail = Counters { name: "mail".to_owned(), used_pages: 7, ..Counters::default() };
        let applications = vec![notes, mail];
        let report = Report { schema: SCHEMA, order: "use", applications, ..Report::default() };
        statistics.publish(report);
        let mut json = String::new();
        statistics.json(&mut json).unwrap();
        let begin = "{\"schema\":\"pagewise.relaunchd/1\",\"dry_run\":false,\"order\":\"use\",\"applications\":[{\
                     \"name\":\"notes\",\"cgroup\":\"/apps/notes\",\"state\":\"frozen\",\"visits\":3,";
        assert!(json.starts_with(begin) && json.ends_with("]}\n"), "{json}");
        let mut text = String::new();
        statistics.open_metrics(&mut text).unwrap();
        for line in [
            "pagewise_relaunchd_visits_total{app=\"notes\"} 3",
            "pagewise_relaunchd_prefetch_seconds_total{app=\"notes\"} 0.25",
            "pagewise_relaunchd_used_pages_total{app=\"mail\"} 7",
            "pagewise_relaunchd_is_frozen{app=\"notes\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }
}
