//! `pagewise-agent relaunchd`: brings back what a thawed application used before.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use linux::Root;
use relaunch::{Config, DEFAULT_CONTROL, Drained, Error, Order, Output, Relauncher, Request};
use relaunch::{SwapIn, Take};

use crate::exit::{Exit, ExitOutcome};
use crate::interrupt;
use crate::output::{print, say};

/// The folder of settings if the user names none.
const SETTINGS: &str = "/etc/pagewise.d/relaunchd";

/// Learn which pages applications use after a thaw, and read them from swap before the next one.
#[derive(Args)]
#[command(after_help = "\
relaunchd logs each event as a line of key=value pairs on standard output. On SIGHUP it reads its \
settings again; if they are invalid, the old ones stay in force. It needs root.

Examples:
  pagewise-agent relaunchd --config relaunchd.toml
  pagewise-agent relaunchd freeze notes
  pagewise-agent relaunchd thaw notes")]
#[command(args_conflicts_with_subcommands = true)]
pub struct Arguments {
    #[command(subcommand)]
    question: Option<Question>,
    /// A file of settings, or a folder of files named *.toml; may be given several times [default:
    /// /etc/pagewise.d/relaunchd, if it exists].
    #[arg(long, value_name = "PATH")]
    config: Vec<PathBuf>,
    /// Learn and log, but neither prefetch nor reclaim.
    #[arg(long)]
    dry_run: bool,
    /// Print the counters as JSON at the end, and log to standard error.
    #[arg(long)]
    json: bool,
}

#[derive(Subcommand)]
enum Question {
    /// Check the settings as relaunchd does before it starts, and print those in force.
    #[command(after_help = "\
If relaunchd would refuse to start with these settings on this machine, check exits with the same \
status and message. It accepts sockets and cgroups that a running relaunchd uses.

Example: pagewise-agent relaunchd check relaunchd.toml")]
    Check {
        /// Files of settings, or folders of files named *.toml.
        /// [default: /etc/pagewise.d/relaunchd]
        #[arg(value_name = "PATH")]
        config: Vec<PathBuf>,
    },
    /// Have the running relaunchd freeze an application.
    #[command(after_help = "Example: pagewise-agent relaunchd freeze notes")]
    Freeze(Asking),
    /// Have the running relaunchd prefetch for an application and thaw it.
    #[command(after_help = "Example: pagewise-agent relaunchd thaw notes")]
    Thaw(Asking),
}

#[derive(Args)]
struct Asking {
    /// The name of the application in the settings.
    name: String,
    /// The control socket of relaunchd.
    #[arg(long, value_name = "PATH", default_value = DEFAULT_CONTROL)]
    socket: PathBuf,
    /// Print the answer as JSON.
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> ExitOutcome {
    match &arguments.question {
        Some(Question::Check { config }) => check(config),
        Some(Question::Freeze(asking)) => ask(asking, &Request::Freeze(asking.name.clone())),
        Some(Question::Thaw(asking)) => ask(asking, &Request::Thaw(asking.name.clone())),
        None => serve(arguments),
    }
}

fn serve(arguments: &Arguments) -> ExitOutcome {
    let root = Root::system();
    let control = interrupt::control()?;
    let config = settings(arguments)?;
    if config.apps.is_empty() {
        return Err(no_application(&arguments.config));
    }
    let output = output(arguments.json)
        .map_err(|error| Exit::Refused(format!("the log cannot be written: {error}")))?;
    let mut relauncher = Relauncher::start(&root, config, output, follow)?;
    if let Err(error) = linux::own_memory::lock_touched(&root) {
        let advice = "raise the limit (ulimit -l, or LimitMEMLOCK= of the unit)";
        say(format_args!("relaunchd may itself be swapped out: {error}: {advice}"));
    }
    relauncher.run(&control, || settings(arguments));
    let statistics = std::sync::Arc::clone(relauncher.statistics());
    drop(relauncher);
    if arguments.json {
        let mut text = String::new();
        let _ = statistics.json(&mut text);
        print(text.trim_end())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Where the log goes.
fn output(is_json: bool) -> std::io::Result<Output> {
    match is_json {
        true => Ok(Output::to(File::from(std::io::stderr().as_fd().try_clone_to_owned()?))),
        false => Output::standard(),
    }
}

fn settings(arguments: &Arguments) -> Result<Config, Error> {
    let mut config = Config::load(&named(&arguments.config))?;
    config.is_dry_run |= arguments.dry_run;
    Ok(config)
}

/// The files and folders that the user named, or the default folder if it exists.
fn named(paths: &[PathBuf]) -> Vec<PathBuf> {
    match paths.is_empty() {
        true => Some(PathBuf::from(SETTINGS)).filter(|path| path.is_dir()).into_iter().collect(),
        false => paths.to_owned(),
    }
}

fn no_application(paths: &[PathBuf]) -> Exit {
    let path = paths.first().map_or(Path::new(SETTINGS), PathBuf::as_path).display();
    Exit::Usage(format!(
        "{path}: no application: add [[app]] with name and cgroup, such as name = \"notes\" and \
         cgroup = \"/apps/notes\""
    ))
}

fn check(paths: &[PathBuf]) -> ExitOutcome {
    let config = Config::load(&named(paths))?;
    if config.apps.is_empty() {
        return Err(no_application(paths));
    }
    let examined = relaunch::examine(&Root::system(), &config)?;
    for file in Config::files(&named(paths))? {
        print(format_args!("settings {}", file.display()))?;
    }
    for group in &examined.groups {
        print(format_args!("application {group}"))?;
    }
    for (name, value) in config.entries() {
        print(format_args!("  {name} = {value}"))?;
    }
    let sockets = &config.sockets;
    for (what, path) in [
        ("control", Some(&sockets.control)),
        ("statistics", sockets.statistics.as_ref()),
        ("metrics", sockets.metrics.as_ref()),
    ] {
        if let Some(path) = path {
            print(format_args!("{what} at {}", path.display()))?;
        }
    }
    match order_source(&config) {
        Some(Ok(source)) => print(format_args!("pages are read in the order of use, by {source}"))?,
        Some(Err(why)) => {
            let what = "the order of use: pages are read by address";
            print(format_args!("not available here: {what}: {why}"))?;
        }
        None => print("pages are read by address")?,
    }
    for what in &examined.absent {
        print(format_args!("not available here: {what}"))?;
    }
    if examined.is_running {
        print(format_args!("a program already listens at {}", sockets.control.display()))?;
    }
    print("the settings are valid")?;
    Ok(ExitCode::SUCCESS)
}

/// Passes the faults of all processes on to relaunchd, which notes the order of use.
fn follow(take: &mut Take<'_>) -> Result<(), String> {
    let mut swap_ins: Vec<SwapIn> = Vec::new();
    let followed = recorder::follow_swap_ins(&mut |found| {
        swap_ins.clear();
        swap_ins.extend(found.records.iter().map(|record| SwapIn {
            time_ns: record.time_ns,
            process: record.process,
            page: record.address,
        }));
        take(Drained { swap_ins: &swap_ins, lost: found.lost, source: found.backend })
    });
    followed.map_err(|error| error.to_string())
}

/// Where the order of use would come from; None if the settings do not have it.
fn order_source(config: &Config) -> Option<Result<&'static str, String>> {
    if config.order != Order::Use || !config.prefetch {
        return None;
    }
    let mut source = "";
    let followed = recorder::follow_swap_ins(&mut |found| {
        source = found.backend;
        false
    });
    Some(followed.map(|()| source).map_err(|error| error.to_string()))
}

fn ask(asking: &Asking, request: &Request) -> ExitOutcome {
    let answer = relaunch::ask(&asking.socket, request)?;
    if asking.json {
        let text =
            serde_json::to_string(&answer).map_err(|error| Exit::Refused(error.to_string()))?;
        print(text)?;
    }
    let why = answer.why.unwrap_or_default();
    if !answer.ok {
        return Err(Exit::Refused(why));
    }
    if !asking.json {
        let name = &asking.name;
        match request {
            Request::Freeze(_) => print(format_args!("{name} is frozen"))?,
            Request::Thaw(_) => print(format_args!(
                "{name} runs: {} of {} predicted pages read in {:.3} s",
                answer.prefetched_pages, answer.predicted_pages, answer.prefetch_s
            ))?,
        }
        if !why.is_empty() {
            say(format_args!("pagewise-agent: {name}: {why}"));
        }
    }
    Ok(ExitCode::SUCCESS)
}
