//! `pagewise-agent launch`: applications in rounds, under a memory budget.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use launch::{Lock, Observer, Preparation, RunOutcome, Visited, changes};
use linux::Root;
use serde_json::{Value, json};

use crate::exit::{self, DATA_LOST, Exit, INTERRUPTED};
use crate::interrupt::Interrupt;
use crate::output::{print, say};

/// Launch the applications of a plan in rounds, under its memory budget, and time each launch.
#[derive(Args)]
#[command(after_help = "\
launch undoes every change that it makes on the machine, however the run ends. Needs root.

Examples:
  pagewise-agent launch lab/plans/small.toml -o run --dry-run
  pagewise-agent launch lab/plans/small.toml -o run
  pagewise-agent launch --undo")]
pub struct Arguments {
    /// The plan, a TOML file.
    #[arg(required_unless_present = "undo", value_name = "PLAN")]
    plan: Option<PathBuf>,
    /// Folder for the results: visits.parquet, processes.parquet, run.toml; new or empty.
    #[arg(short, long, required_unless_present = "undo", value_name = "RUNDIR")]
    output: Option<PathBuf>,
    /// Record the run into recording.pgr: swap, faults, files, block, kills, launches.
    #[arg(long)]
    record: bool,
    /// Print the steps but do not run them; needs no root.
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object at the end.
    #[arg(long)]
    json: bool,
    /// Undo the changes of a run that was killed together with its guard process.
    #[arg(long, conflicts_with_all = ["plan", "output", "record", "dry_run"])]
    undo: bool,
    /// With --undo, first wait for the end of standard input.
    #[arg(long, hide = true, requires = "undo")]
    guard: bool,
}

pub fn run(arguments: &Arguments) -> exit::ExitOutcome {
    let root = Root::system();
    let (Some(plan), Some(folder)) = (&arguments.plan, &arguments.output) else {
        return undo(&root, arguments);
    };
    let preparation = Preparation::new(&root, plan, folder)?;
    if arguments.dry_run {
        let refusals = preparation.refusals(&root)?;
        show(&preparation, &refusals, arguments.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    let interrupt = Interrupt::listen()?;
    let mut progress = Progress::of(&preparation);
    let is_interrupted = Arc::new(move || interrupt.came());
    let outcome =
        launch::run(&root, &preparation, arguments.record, is_interrupted, &mut progress)?;
    match arguments.json {
        true => print(report(&preparation, &outcome))?,
        false => print_summary(&preparation, &outcome)?,
    }
    let is_lossy = outcome.recording.as_ref().is_some_and(recorder::RecordingOutcome::is_lossy);
    if is_lossy {
        say("more than 0.1 % of the records were lost: run it again on a less busy machine");
    }
    Ok(match (outcome.is_interrupted, is_lossy) {
        (true, _) => ExitCode::from(INTERRUPTED),
        (false, true) => ExitCode::from(DATA_LOST),
        (false, false) => ExitCode::SUCCESS,
    })
}

fn undo(root: &Root, arguments: &Arguments) -> exit::ExitOutcome {
    if arguments.guard {
        changes::undo_after_run(root)?;
        return Ok(ExitCode::SUCCESS);
    }
    // A run that holds the lock undoes its own changes.
    let _lock = Lock::take(root)?;
    let count = changes::undo(root)?;
    match arguments.json {
        true => print(json!({ "schema": "pagewise.undo/1", "changes": count }))?,
        false => print(format_args!("{count} changes undone"))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn show(preparation: &Preparation, refusals: &[String], is_json: bool) -> Result<(), Exit> {
    let Preparation { plan, visits, steps, .. } = preparation;
    let steps: Vec<String> = steps.iter().map(ToString::to_string).collect();
    if is_json {
        let report = json!({
            "schema": "pagewise.launch-plan/1", "plan": plan.name, "visits": visits.len(),
            "steps": steps, "refusals": refusals,
        });
        return print(report);
    }
    let applications = plan.applications.len();
    let visits = visits.len();
    print(format_args!("{}: {visits} visits to {applications} applications", plan.name))?;
    steps.iter().try_for_each(|step| print(format_args!("  {step}")))?;
    print("  visit each application, freeze it, and note how long it took to answer")?;
    print("  end every application; undo all of the above, last first")?;
    let refused = |refusal| print(format_args!("this machine refuses:  {refusal}"));
    refusals.iter().try_for_each(refused)
}

/// Prints the progress of the run on standard error.
struct Progress {
    began: Instant,
    rounds: u32,
    visits: usize,
}

impl Progress {
    fn of(preparation: &Preparation) -> Progress {
        let rounds = preparation.visits.last().map_or(0, |visit| visit.round + 1);
        Progress { began: Instant::now(), rounds, visits: preparation.visits.len() }
    }
}

impl Observer for Progress {
    fn note(&mut self, what: &str) {
        say(what);
    }

    fn visited(&mut self, visit: &Visited, why: Option<&str>, left: usize) {
        let made = self.visits - left;
        let state = if visit.is_cold { "cold" } else { "warm" };
        let answer = match (visit.launch, why) {
            (Some(launch), _) => format!("{:.2} s", launch.as_secs_f64()),
            (None, why) => format!("not answered: {}", why.unwrap_or("no reason given")),
        };
        let mut killed = match visit.killed.is_empty() {
            true => String::new(),
            false => format!(", killed {}", visit.killed.join(" ")),
        };
        if let Some(count @ 1..) = visit.oom_kills {
            killed += &format!(", the kernel's OOM killer killed {count}");
        }
        // Estimate the remaining visits by the mean of those so far.
        let rest = self.began.elapsed().mul_f64(left as f64 / made as f64);
        let rest = humantime::format_duration(Duration::from_secs(rest.as_secs()));
        let Visited { round, application, .. } = visit;
        say(format_args!(
            "round {}/{}, visit {made}/{}: {application} {state} {answer}{killed}; about {rest} \
             left",
            round + 1,
            self.rounds,
            self.visits,
        ));
    }
}

/// Counts and medians over the visits of a run.
struct Summary {
    answered: usize,
    cold: usize,
    kills: usize,
    oom_kills: Option<u64>,
    cold_median_s: Option<f64>,
    warm_median_s: Option<f64>,
}

impl Summary {
    fn of(visits: &[Visited]) -> Summary {
        Summary {
            answered: visits.iter().filter(|visit| visit.launch.is_some()).count(),
            cold: visits.iter().filter(|visit| visit.is_cold).count(),
            kills: visits.iter().map(|visit| visit.killed.len()).sum(),
            oom_kills: visits.iter().map(|visit| visit.oom_kills).sum(),
            cold_median_s: median_s(visits.iter().filter(|visit| visit.is_cold)),
            warm_median_s: median_s(visits.iter().filter(|visit| !visit.is_cold)),
        }
    }
}

/// The median launch time of the answered visits, in seconds.
fn median_s<'run>(visits: impl Iterator<Item = &'run Visited>) -> Option<f64> {
    let mut launches: Vec<Duration> = visits.filter_map(|visit| visit.launch).collect();
    launches.sort_unstable();
    let pair = launches.get((launches.len().max(1) - 1) / 2).zip(launches.get(launches.len() / 2));
    pair.map(|(low, high)| (*low + *high).as_secs_f64() / 2.0)
}

fn report(preparation: &Preparation, outcome: &RunOutcome) -> Value {
    let Summary { answered, cold, kills, oom_kills, cold_median_s, warm_median_s } =
        Summary::of(&outcome.visits);
    let recording = outcome.recording.as_ref().map_or(Value::Null, |recording| {
        json!({ "recorded": recording.recorded, "lost": recording.lost, "bytes": recording.bytes })
    });
    json!({
        "schema": "pagewise.launch/1", "plan": preparation.plan.name,
        "folder": preparation.folder, "finished": !outcome.is_interrupted,
        "visits": outcome.visits.len(), "answered": answered, "cold": cold, "kills": kills,
        "oom_kills": oom_kills,
        "launch_s_cold_median": cold_median_s, "launch_s_warm_median": warm_median_s,
        "duration_s": outcome.duration.as_secs_f64(), "recording": recording,
    })
}

fn print_summary(preparation: &Preparation, outcome: &RunOutcome) -> Result<(), Exit> {
    let summary = Summary::of(&outcome.visits);
    let visits = outcome.visits.len();
    let seconds =
        |median: Option<f64>| median.map_or("-".into(), |median| format!("{median:.2} s"));
    print(format_args!(
        "{}: {} of {visits} visits answered in {:.0} s{}, {} cold (median {}), {} warm (median {}), \
         {} kills",
        preparation.folder.display(),
        summary.answered,
        outcome.duration.as_secs_f64(),
        if outcome.is_interrupted { " until interrupted" } else { "" },
        summary.cold,
        seconds(summary.cold_median_s),
        visits - summary.cold,
        seconds(summary.warm_median_s),
        summary.kills,
    ))?;
    if let Some(count @ 1..) = summary.oom_kills {
        print(format_args!(
            "the kernel's OOM killer killed {count} processes: the budget was too small for an \
             application, or the launch lab's killer was too late"
        ))?;
    }
    match &outcome.recording {
        Some(recording) => print(format_args!(
            "recording.pgr: {} records, {} lost",
            recording.recorded, recording.lost
        )),
        None => Ok(()),
    }
}
