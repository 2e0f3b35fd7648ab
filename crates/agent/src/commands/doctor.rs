//! `pagewise-agent doctor`: what this kernel grants, and what a missing thing costs.

use std::collections::BTreeSet;
use std::process::ExitCode;

use clap::Args;
use linux::Root;
use linux::probe::{self, Grant};
use serde::Serialize;

use crate::Outcome;
use crate::exit::Exit;
use crate::output;

/// Columns of the longest name, `record --backend tracefs`.
const NAME_WIDTH: usize = 24;

/// Say which sources, controllers and calls this kernel grants.
#[derive(Args)]
#[command(after_help = "Example: pagewise-agent doctor --json")]
pub struct Arguments {
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Finding {
    name: String,
    is_granted: bool,
    /// What is worth knowing about it, or why it is refused.
    detail: String,
    /// What the user goes without; only where it is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    without_it: Option<String>,
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    kernel: String,
    findings: Vec<Finding>,
}

pub fn run(arguments: &Arguments) -> Outcome {
    let root = Root::system();
    let machine = linux::system::Machine::this(&root)?;
    let mut findings: Vec<Finding> = probe::CATALOG
        .iter()
        .map(|check| finding(check.name.to_owned(), (check.ask)(&root), check.without_it))
        .collect();
    findings.extend(recorder_sources());
    if arguments.json {
        let report = Report { schema: "pagewise.doctor/1", kernel: machine.kernel, findings };
        output::print(serde_json::to_string(&report).expect("a report is plain data"))?;
    } else {
        output::print(format_args!("Linux {} on {}", machine.kernel, machine.architecture))?;
        findings.iter().try_for_each(print)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn finding(name: String, grant: Grant, without_it: &str) -> Finding {
    match grant {
        Grant::Given(detail) => Finding { name, is_granted: true, detail, without_it: None },
        Grant::Refused(detail) => {
            Finding { name, is_granted: false, detail, without_it: Some(without_it.to_owned()) }
        }
    }
}

fn recorder_sources() -> Vec<Finding> {
    let one = |(source, attached): (&recorder::sources::Source, Result<(), recorder::Error>)| {
        let grant = match attached {
            Ok(()) => Grant::Given(source.summary.to_owned()),
            Err(error) => Grant::Refused(error.to_string()),
        };
        let without_it = format!("no recording of {}", source.summary);
        finding(format!("record --{}", source.name), grant, &without_it)
    };
    let mut findings = vec![function_entry()];
    findings.extend(recorder::probe().into_iter().map(one));
    let text = match recorder::probe_text() {
        Ok(()) => Grant::Given("text events, where BPF is refused".to_owned()),
        Err(error) => Grant::Refused(error.to_string()),
    };
    let without_it = "no recording where BPF is refused";
    findings.push(finding("record --backend tracefs".to_owned(), text, without_it));
    findings.push(kills());
    findings
}

fn function_entry() -> Finding {
    let grant = match recorder::probe_function_entry() {
        Ok(()) => Grant::Given("BPF programs may trace functions".to_owned()),
        Err(error) => Grant::Refused(error.to_string()),
    };
    let without_it = "before Linux 6.2, no faults by BPF; later kernels do without it";
    finding("fentry".to_owned(), grant, without_it)
}

fn kills() -> Finding {
    let grant = match recorder::kills::probe() {
        Ok(absent) if absent.is_empty() => Grant::Given("every phase of a kill".to_owned()),
        Ok(absent) => {
            let absent: BTreeSet<&str> = absent.iter().map(|one| one.what.as_str()).collect();
            let absent: Vec<&str> = absent.into_iter().collect();
            Grant::Given(format!("kills, without {}", absent.join(", ")))
        }
        Err(error) => Grant::Refused(error.to_string()),
    };
    finding("killtrace".to_owned(), grant, "kills are not taken apart")
}

fn print(finding: &Finding) -> Result<(), Exit> {
    let mark = if finding.is_granted { "yes" } else { "no " };
    output::print(format_args!("{mark}  {:<NAME_WIDTH$} {}", finding.name, finding.detail))?;
    match &finding.without_it {
        Some(without_it) => {
            output::print(format_args!("     {:<NAME_WIDTH$} without it: {without_it}", ""))
        }
        None => Ok(()),
    }
}
