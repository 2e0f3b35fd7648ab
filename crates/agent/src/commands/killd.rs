//! `pagewise-agent killd`: ends programs before memory runs out, and says why.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use killer::{Config, Error, Killer, Output, Scope};
use linux::Root;
use policy::kill;

use crate::exit::{Exit, ExitOutcome};
use crate::interrupt;
use crate::output::{print, say};

/// The folder of settings if the user names none.
const SETTINGS: &str = "/etc/pagewise.d";
/// The `oom_score_adj` of this program: the kernel never kills it.
const OWN_ADJ: &str = "-1000";
/// The nice value of the thread that watches memory: ahead of ordinary threads, behind the kernel's.
const OWN_NICE: i32 = -10;

/// Kill programs before memory runs out, reclaim their memory at once, and log the reason.
#[derive(Args)]
#[command(after_help = "\
killd logs each event as a line of key=value pairs on standard output. On SIGHUP it reads its \
settings again; if they are invalid, the old ones stay in force. Without --cgroup, run it as root: \
other users cannot kill most processes.

Examples:
  pagewise-agent killd --dry-run
  pagewise-agent killd --policy largest --cgroup /sys/fs/cgroup/apps
  pagewise-agent killd check /etc/pagewise.d")]
#[command(args_conflicts_with_subcommands = true)]
pub struct Arguments {
    #[command(subcommand)]
    question: Option<Question>,
    /// A file of settings, or a folder of files named *.toml; may be given several times [default:
    /// /etc/pagewise.d, if it exists].
    #[arg(long, value_name = "PATH")]
    config: Vec<PathBuf>,
    /// The policy, instead of the one in the settings: minfree, lmkd, largest, pressure or restart-cost.
    #[arg(long, value_name = "NAME", value_parser = parse_policy)]
    policy: Option<String>,
    /// Watch only this memory cgroup and those below it, and kill only their processes.
    #[arg(long, value_name = "PATH")]
    cgroup: Option<PathBuf>,
    /// Log each victim but do not kill it.
    #[arg(long)]
    dry_run: bool,
}

#[derive(Subcommand)]
enum Question {
    /// Check the settings as killd does before it starts, and print those in force.
    #[command(after_help = "\
If killd would refuse to start with these settings on this machine, check exits with the same status \
and message. It accepts sockets that a running killd uses.

Examples:
  pagewise-agent killd check /etc/pagewise.d
  pagewise-agent killd check --cgroup /sys/fs/cgroup/apps --policy largest")]
    Check {
        /// Files of settings, or folders of files named *.toml.
        /// [default: /etc/pagewise.d]
        #[arg(value_name = "PATH")]
        config: Vec<PathBuf>,
        /// The --policy that you will pass to killd.
        #[arg(long, value_name = "NAME", value_parser = parse_policy)]
        policy: Option<String>,
        /// The --cgroup that you will pass to killd.
        #[arg(long, value_name = "PATH")]
        cgroup: Option<PathBuf>,
    },
}

pub fn run(arguments: &Arguments) -> ExitOutcome {
    match &arguments.question {
        Some(Question::Check { config, policy, cgroup }) => {
            check(config, policy.as_deref(), cgroup.as_deref())
        }
        None => serve(arguments),
    }
}

fn serve(arguments: &Arguments) -> ExitOutcome {
    let root = Root::system();
    let control = interrupt::control()?;
    let config = settings(&root, arguments)?;
    let scope = scope(arguments.cgroup.as_deref());
    let output =
        Output::standard().map_err(|error| Exit::Refused(format!("standard output: {error}")))?;
    let mut killer = Killer::start(&root, &scope, config, output)?;
    // The other threads have started by now, so they keep the ordinary priority.
    rank_before_others(&root);
    killer.run(&control, || settings(&root, arguments));
    Ok(ExitCode::SUCCESS)
}

fn settings(root: &Root, arguments: &Arguments) -> Result<Config, Error> {
    let mut config = load(root, &arguments.config, arguments.policy.as_deref())?;
    config.is_dry_run |= arguments.dry_run;
    Ok(config)
}

fn load(root: &Root, paths: &[PathBuf], policy: Option<&str>) -> Result<Config, Error> {
    let mut config = Config::load(root, &named(paths))?;
    if let Some(policy) = policy.filter(|policy| **policy != config.policy) {
        // The options in the settings belong to the policy that they name.
        config.options.clear();
        policy.clone_into(&mut config.policy);
    }
    Ok(config)
}

fn scope(cgroup: Option<&Path>) -> Scope {
    cgroup.map_or(Scope::Machine, |path| Scope::Group(path.to_owned()))
}

/// The files and folders that the user named, or the default folder if it exists.
fn named(paths: &[PathBuf]) -> Vec<PathBuf> {
    match paths.is_empty() {
        true => Some(PathBuf::from(SETTINGS)).filter(|path| path.is_dir()).into_iter().collect(),
        false => paths.to_owned(),
    }
}

/// Protects killd from the OOM killer and raises its priority. If the kernel refuses, it says so once
/// and continues.
fn rank_before_others(root: &Root) {
    if let Err(error) = std::fs::write(root.path("/proc/self/oom_score_adj"), OWN_ADJ) {
        let missing = missing(Some(error.kind()), "CAP_SYS_RESOURCE");
        say(format_args!(
            "the kernel's own OOM killer may kill killd: oom_score_adj {OWN_ADJ}: {error}{missing}"
        ));
    }
    if let Err(error) = linux::process::rank_this_thread(OWN_NICE) {
        let missing = missing(error.io_kind(), "CAP_SYS_NICE");
        say(format_args!("killd runs at ordinary priority: {error}{missing}"));
    }
}

/// Names the missing capability if permission was denied: a container drops some even from root.
fn missing(refusal: Option<ErrorKind>, capability: &str) -> String {
    match refusal {
        Some(ErrorKind::PermissionDenied) => {
            format!("; {capability} is missing, which a container must grant even to root")
        }
        _ => String::new(),
    }
}

fn check(paths: &[PathBuf], policy: Option<&str>, cgroup: Option<&Path>) -> ExitOutcome {
    let root = Root::system();
    let config = load(&root, paths, policy)?;
    let examined = killer::examine(&root, &scope(cgroup), &config)?;
    let paths = named(paths);
    let files = Config::files(&paths)?;
    for file in &files {
        print(format_args!("settings {}", file.display()))?;
    }
    if files.is_empty() {
        let looked = paths.first().map_or(Path::new(SETTINGS), PathBuf::as_path).display();
        print(format_args!("no settings: {looked} has no file *.toml, so the defaults apply"))?;
    }
    let row = kill::find(&config.policy).map_err(Exit::Usage)?;
    print(format_args!("policy {}: {}", row.name, row.summary))?;
    for option in row.options {
        let set = config.options.iter().find(|(name, _)| name == option.name);
        let value = set.map_or(option.default, |(_, value)| value);
        let note = if set.is_some() { "" } else { " (default)" };
        print(format_args!("  {} = {value}{note}: {}", option.name, option.summary))?;
    }
    for (number, rule) in config.rules.iter().enumerate() {
        print(format_args!("rule {}: {}", number + 1, rule_text(rule)))?;
    }
    print_ways(&config)?;
    for what in &examined.absent {
        print(format_args!("not available here: {what}"))?;
    }
    for path in &examined.running_at {
        print(format_args!("a running killd already uses {}", path.display()))?;
    }
    print("the settings are valid")?;
    Ok(ExitCode::SUCCESS)
}

/// Prints how killd kills, its hooks and its sockets.
fn print_ways(config: &Config) -> Result<(), Exit> {
    let Config { victims, kills, reclaim, is_dry_run, hooks, sockets, .. } = config;
    let ways = format!("victims {victims:?}, kills {kills:?}, reclaim {reclaim:?}").to_lowercase();
    print(format_args!("{ways}, dry run {is_dry_run}"))?;
    for (when, hook) in [("before", &hooks.before), ("after", &hooks.after)] {
        if !hook.is_empty() {
            print(format_args!("hook {when} a kill: {}", hook.join(" ")))?;
        }
    }
    for (what, path) in [("statistics", &sockets.statistics), ("metrics", &sockets.metrics)] {
        if let Some(path) = path {
            print(format_args!("{what} at {}", path.display()))?;
        }
    }
    Ok(())
}

fn rule_text(rule: &killer::Rule) -> String {
    let mut parts = Vec::new();
    parts.extend(rule.name.as_ref().map(|name| format!("name {name}")));
    parts.extend(rule.user.map(|user| format!("user {user}")));
    parts.extend(rule.cgroup.as_ref().map(|path| format!("cgroup {path}")));
    parts.extend(rule.adj.map(|(low, high)| format!("adj {low} to {high}")));
    let standing = format!("{:?}", rule.standing).to_lowercase();
    format!("{}: {standing}", parts.join(", "))
}

fn parse_policy(name: &str) -> Result<String, String> {
    kill::find(name).map(|row| row.name.to_owned())
}
