//! `pagewise-agent`: all parts of pagewise that run on the device.

mod arguments;
mod commands;
mod ending;
mod exit;
mod interrupt;
mod output;
mod pages;
mod preload;
mod unbroken;

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Error, FromArgMatches, Parser, Subcommand};

use crate::exit::Exit;

/// Record what a machine swaps, measure the phases of a kill, launch applications under a memory budget,
/// keep a program's freed memory mapped, kill programs before memory runs out, bring back the memory of thawed
/// applications, serve a swap area of two tiers, and measure how far memory compresses.
#[derive(Parser)]
#[command(name = "pagewise-agent", version, arg_required_else_help = true)]
#[command(after_help = "Example: pagewise-agent record -o work.pgr --for 60s")]
struct Arguments {
    /// Print the licences of pagewise-agent and of all that it contains.
    // The field is for the help only: `main` answers before a subcommand is required.
    #[arg(long)]
    licenses: bool,

    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Balloon(commands::balloon::Arguments),
    Doctor(commands::doctor::Arguments),
    Killd(commands::killd::Arguments),
    Killtrace(commands::killtrace::Arguments),
    Launch(commands::launch::Arguments),
    Lazy(commands::lazy::Arguments),
    Pages(commands::pages::Arguments),
    Record(commands::record::Arguments),
    Relaunchd(commands::relaunchd::Arguments),
    Swapd(Box<commands::swapd::Arguments>),
    Manual(commands::manual::Arguments),
    Completions(commands::completions::Arguments),
}

/// The licences of everything in this program; `tools/licenses.py` writes the file.
const LICENSES: &str = include_str!("../licenses.txt");

fn main() -> ExitCode {
    let words: Vec<OsString> = env::args_os().collect();
    if words.get(1).is_some_and(|word| word == "--licenses") {
        return output::print(LICENSES.trim_end()).map_or_else(ended, |()| ExitCode::SUCCESS);
    }
    let program = unbroken::examples(Arguments::command());
    let arguments = program.try_get_matches_from(&words).and_then(|matches| {
        Arguments::from_arg_matches(&matches)
            .map_err(|error| error.format(&mut Arguments::command()))
    });
    let arguments = arguments.unwrap_or_else(|error| unbroken::exit(with_tip(error, &words)));
    let exit = match arguments.command {
        Command::Balloon(arguments) => commands::balloon::run(&arguments),
        Command::Doctor(arguments) => commands::doctor::run(&arguments),
        Command::Killd(arguments) => commands::killd::run(&arguments),
        Command::Killtrace(arguments) => commands::killtrace::run(&arguments),
        Command::Launch(arguments) => commands::launch::run(&arguments),
        Command::Lazy(arguments) => commands::lazy::run(&arguments),
        Command::Pages(arguments) => commands::pages::run(&arguments),
        Command::Record(arguments) => commands::record::run(arguments),
        Command::Relaunchd(arguments) => commands::relaunchd::run(&arguments),
        Command::Swapd(arguments) => commands::swapd::run(&arguments),
        Command::Manual(arguments) => commands::manual::run(&arguments, Arguments::command()),
        Command::Completions(arguments) => {
            commands::completions::run(&arguments, Arguments::command())
        }
    };
    exit.unwrap_or_else(ended)
}

/// Says why the program ends, and returns its status.
fn ended(exit: Exit) -> ExitCode {
    output::say(format_args!("pagewise-agent: {exit}"));
    exit.status()
}

/// Adds a tip to the error if the user named a program to run without `--` before it.
fn with_tip(mut error: Error, words: &[OsString]) -> Error {
    let example = match words.get(1).and_then(|word| word.to_str()) {
        Some("lazy") => "pagewise-agent lazy -- PROGRAM",
        Some("record") => "pagewise-agent record -o FILE -- PROGRAM",
        Some("swapd") => "pagewise-agent swapd --size SIZE ... -- PROGRAM",
        _ => return error,
    };
    let unexpected = error.get(ContextKind::InvalidArg).map(ToString::to_string);
    let is_program = unexpected.is_some_and(|word| !word.starts_with('-'));
    if error.kind() == ErrorKind::UnknownArgument && is_program {
        let tip = format!("put -- before the program: {example}");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}
