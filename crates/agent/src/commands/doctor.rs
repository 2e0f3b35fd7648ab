//! `pagewise-agent doctor`: what this kernel permits, and which features of pagewise need what it refuses.

use std::collections::BTreeSet;
use std::process::ExitCode;

use clap::Args;
use linux::Root;
use linux::probe::{self, Grant};
use serde::Serialize;
use trace::recording::Missing;

use crate::exit::{Exit, ExitOutcome};
use crate::output;

/// Columns of the longest name, `record --backend tracefs`.
const NAME_WIDTH: usize = 24;

/// Show which event sources, cgroup controllers and system calls this kernel permits.
#[derive(Args)]
#[command(after_help = "Example: pagewise-agent doctor --json")]
pub struct Arguments {
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Diagnosis {
    name: String,
    is_granted: bool,
    /// If granted, a note such as a version or a path; if refused, the reason.
    detail: String,
    /// The reasons that `detail` joins; empty if granted.
    #[serde(skip)]
    reasons: Vec<String>,
    /// The feature that the user loses; present only if refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    without_it: Option<String>,
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    kernel: String,
    findings: Vec<Diagnosis>,
}

pub fn run(arguments: &Arguments) -> ExitOutcome {
    let root = Root::system();
    let machine = linux::system::Machine::this(&root)?;
    let mut findings: Vec<Diagnosis> = probe::CATALOG
        .iter()
        .map(|check| finding(check.name.to_owned(), (check.ask)(&root), check.without_it))
        .collect();
    findings.extend(recorder_sources());
    if arguments.json {
        let report = Report { schema: "pagewise.doctor/1", kernel: machine.kernel, findings };
        output::print(serde_json::to_string(&report).expect("a report is plain data"))?;
    } else {
        output::print(format_args!("Linux {} on {}", machine.kernel, machine.architecture))?;
        let mut seen = Seen::default();
        findings.iter().try_for_each(|finding| print(finding, &mut seen))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn finding(name: String, grant: Grant, without_it: &str) -> Diagnosis {
    match grant {
        Grant::Given(detail) => given(name, detail),
        Grant::Refused(reason) => refused(name, vec![reason], without_it),
    }
}

fn given(name: String, detail: String) -> Diagnosis {
    Diagnosis { name, is_granted: true, detail, reasons: Vec::new(), without_it: None }
}

fn refused(name: String, reasons: Vec<String>, without_it: &str) -> Diagnosis {
    let detail = reasons.join("; and ");
    let without_it = Some(without_it.to_owned());
    Diagnosis { name, is_granted: false, detail, reasons, without_it }
}

/// The finding about a part of the recorder, from its probe's answer.
fn answered(name: &str, answer: Result<String, recorder::Error>, without_it: &str) -> Diagnosis {
    match answer {
        Ok(detail) => given(name.to_owned(), detail),
        Err(error) => refused(name.to_owned(), error.reasons(), without_it),
    }
}

fn recorder_sources() -> Vec<Diagnosis> {
    let of_source =
        |(source, attached): (&recorder::sources::Source, Result<(), recorder::Error>)| {
            let without_it = format!("no recording of {}", source.summary);
            let attached = attached.map(|()| source.summary.to_owned());
            answered(&format!("record --{}", source.name), attached, &without_it)
        };
    let mut findings = vec![answered(
        "fentry",
        recorder::probe_function_entry().map(|()| "BPF programs may trace functions".to_owned()),
        "before Linux 6.2, no faults by BPF; later kernels do without it",
    )];
    findings.extend(recorder::probe().into_iter().map(of_source));
    findings.push(answered(
        "record --backend tracefs",
        recorder::probe_text().map(|()| "text events, if BPF is refused".to_owned()),
        "no recording if BPF is refused",
    ));
    findings.push(answered(
        "killtrace",
        recorder::kills::probe().map(|absent| phases(&absent)),
        "no recording of the phases of a kill",
    ));
    findings
}

fn phases(absent: &[Missing]) -> String {
    let absent: BTreeSet<&str> = absent.iter().map(|missing| missing.what.as_str()).collect();
    if absent.is_empty() {
        return "every phase of a kill".to_owned();
    }
    let absent: Vec<&str> = absent.into_iter().collect();
    format!("kills, without {}", absent.join(", "))
}

/// The reasons printed so far, each with the name of the finding that printed it.
#[derive(Default)]
struct Seen(Vec<(String, String)>);

impl Seen {
    /// The text of a finding's reasons: the first time a reason in full, later a reference to the finding
    /// that printed it.
    fn once(&mut self, finding: &Diagnosis) -> String {
        let (mut words, mut earlier) = (Vec::new(), Vec::new());
        for reason in &finding.reasons {
            match self.0.iter().find(|(seen, _)| seen == reason) {
                Some((_, name)) => earlier.push(name.clone()),
                None => {
                    words.push(reason.clone());
                    self.0.push((reason.clone(), finding.name.clone()));
                }
            }
        }
        if !earlier.is_empty() {
            words.push(format!("see {}", earlier.join(" and ")));
        }
        words.join("; and ")
    }
}

fn print(finding: &Diagnosis, seen: &mut Seen) -> Result<(), Exit> {
    let mark = if finding.is_granted { "yes" } else { "no " };
    let detail = if finding.is_granted { finding.detail.clone() } else { seen.once(finding) };
    let indent = indent(linux::terminal::columns());
    output::print_wrapped(&format!("{mark}  {:<NAME_WIDTH$}  {detail}", finding.name), indent)?;
    match &finding.without_it {
        Some(without_it) => {
            output::print_wrapped(&format!("{:indent$}without it: {without_it}", ""), indent)
        }
        None => Ok(()),
    }
}

/// How far continued lines are indented: below the details, unless the terminal is narrow.
fn indent(columns: Option<usize>) -> usize {
    const BESIDE_NAMES: usize = 5 + NAME_WIDTH + 2;
    if columns.is_none_or(|columns| columns >= 2 * BESIDE_NAMES) { BESIDE_NAMES } else { 5 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_printed_once() {
        let finding = |name: &str, reasons: &[&str]| {
            let reasons = reasons.iter().map(|&reason| reason.to_owned()).collect();
            refused(name.to_owned(), reasons, "nothing")
        };
        let mut seen = Seen::default();
        let mut printed = |name, reasons: &[&str]| seen.once(&finding(name, reasons));
        assert_eq!(printed("tracefs", &["not mounted"]), "not mounted");
        assert_eq!(printed("btf", &["no types"]), "no types");
        assert_eq!(printed("record", &["no types"]), "see btf");
        assert_eq!(printed("killtrace", &["not mounted", "no types"]), "see tracefs and btf");
        assert_eq!(printed("other", &["off", "no types"]), "off; and see btf");
    }
}
