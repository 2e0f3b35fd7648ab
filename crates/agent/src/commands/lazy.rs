//! `pagewise-agent lazy`: runs a program with a library that keeps its freed memory mapped.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use clap::{Args, ValueEnum};
use linux::{Root, passed_on, process, program};
use serde_json::{Map, Value, json};
use types::{LAZY_COUNTERS, LAZY_MAGIC, LAZY_SYMBOL, LazyCounter, PAGE_BYTES};

use crate::exit::{Exit, ExitOutcome};
use crate::output::{print, say};
use crate::preload;

const LIBRARY: &str = "libpagewise_lazy.so";
/// The most children that a message names.
const CHILDREN_MAX: usize = 8;
/// The width of the column of counter names.
const NAME_WIDTH: usize = 20;

/// Run a program so that the memory it frees stays mapped for its next allocation.
#[derive(Args)]
#[command(after_help = "\
The program gets its arguments, streams and signals as if run directly, and lazy exits with its \
status. If the library cannot serve the program (linked statically, with its own malloc, ...), the \
program runs without the library.

Examples:
  pagewise-agent lazy -- python3 work.py
  pagewise-agent lazy --mode guarded --verbose -- ./server
  pagewise-agent lazy --mode thp -- gcc -O2 -c big.c
  pagewise-agent lazy --stats 4711 --json")]
pub struct Arguments {
    /// How to keep freed memory [default: PAGEWISE_LAZY_MODE or the settings file, else fast].
    #[arg(long, value_enum)]
    mode: Option<Mode>,
    /// Extra rules for a kind of program or for a comparison [default: PAGEWISE_LAZY_PROFILE or the settings
    /// file, else none].
    #[arg(long, value_enum)]
    profile: Option<Profile>,
    /// If the library does not serve the program, print the reason.
    #[arg(long)]
    verbose: bool,
    /// Print the library's counters of this running process, and run nothing.
    #[arg(long, value_name = "PID", conflicts_with_all = ["mode", "profile", "verbose", "command"])]
    stats: Option<u32>,
    /// With --stats, print one JSON object.
    #[arg(long, requires = "stats")]
    json: bool,
    /// The program and its arguments.
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "stats")]
    command: Vec<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Mode {
    /// Freed memory stays accessible.
    Fast,
    /// Freed blocks of 256 KiB or more become inaccessible: use after free ends the program.
    Guarded,
    /// Freed memory stays accessible, in huge pages of 2 MiB where the program fills them.
    Thp,
}

#[derive(Clone, Copy, ValueEnum)]
enum Profile {
    /// No extra rules.
    None,
    /// Populate writable shared mappings of 256 KiB to 16 MiB before their first touch.
    Browser,
    /// The rules of paper S3, for comparison: freed memory is inaccessible, populated before its next
    /// use, and kept without limit except in small memory cgroups.
    Faithful,
}

pub fn run(arguments: &Arguments) -> ExitOutcome {
    match arguments.stats {
        Some(process) => print_counters(process, arguments.json),
        None => execute(arguments),
    }
}

fn execute(arguments: &Arguments) -> ExitOutcome {
    let Some((name, rest)) = arguments.command.split_first() else {
        return Err(Exit::Usage("no command to run".to_owned()));
    };
    let mut command = Command::new(name);
    command.args(rest);
    // If the program does not exist, exec reports the error.
    if let Some(program) = program::find(name) {
        match program::unreached(&program) {
            Ok(None) => load(&mut command, arguments)?,
            Ok(Some(unreached)) if arguments.verbose => {
                say(format_args!(
                    "pagewise-agent: {name} runs without the library: {}",
                    unreached.reason()
                ));
            }
            // A file that can be executed but not read runs without the library too.
            Ok(Some(_)) | Err(_) => {}
        }
    }
    passed_on::to(&mut command);
    Err(Exit::of_command(name, &command.exec()))
}

fn load(command: &mut Command, arguments: &Arguments) -> Result<(), Exit> {
    command.env(preload::VARIABLE, preload::value(&preload::library(LIBRARY)?)?);
    set(command, "PAGEWISE_LAZY_MODE", arguments.mode);
    set(command, "PAGEWISE_LAZY_PROFILE", arguments.profile);
    if arguments.verbose {
        command.env("PAGEWISE_LAZY_VERBOSE", "on");
    }
    Ok(())
}

/// Sets the variable if the user gave the option; else the environment and the settings file decide.
fn set(command: &mut Command, variable: &str, value: Option<impl ValueEnum>) {
    if let Some(value) = value.and_then(|value| value.to_possible_value()) {
        command.env(variable, value.get_name());
    }
}

fn print_counters(process: u32, is_json: bool) -> ExitOutcome {
    let root = Root::system();
    let counters = counters(&root, process)?;
    if counters[LazyCounter::Allocations as usize] == 0 {
        say(format_args!(
            "note: the library is loaded in process {process}, but has served none of its allocations{}; \
              `pagewise-agent lazy --verbose` prints the reason",
            served_children(&root, process)
        ));
    }
    if is_json {
        let rows = LAZY_COUNTERS.iter().zip(&counters);
        let mut report = Map::from_iter([
            ("schema".to_owned(), json!("pagewise.lazy/1")),
            ("pid".to_owned(), json!(process)),
            ("page_bytes".to_owned(), json!(PAGE_BYTES)),
        ]);
        report.extend(rows.map(|(row, number)| (row.name.to_owned(), json!(number))));
        print(Value::Object(report))?;
        return Ok(ExitCode::SUCCESS);
    }
    for (row, number) in LAZY_COUNTERS.iter().zip(&counters) {
        let size = size_text(row.counter, *number);
        print(format_args!("{:<NAME_WIDTH$} {number:>14}  {}{size}", row.name, row.summary))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The counters of a running process, in the order of [`LAZY_COUNTERS`].
fn counters(root: &Root, process: u32) -> Result<Vec<u64>, Exit> {
    let missing = |what: &str| Exit::Refused(format!("process {process}: {what}"));
    if process::name(root, process).is_none() {
        return Err(missing("there is no such process"));
    }
    let library = process::mapped_file(root, process, LIBRARY)?.ok_or_else(|| {
        let start =
            "the library is not loaded; start the program with pagewise-agent lazy -- PROGRAM";
        missing(&format!("{start}{}", served_children(root, process)))
    })?;
    let offset = program::symbol_offset(&library.path, LAZY_SYMBOL)?.ok_or_else(|| {
        missing("its library has no counters: restart the program with this pagewise-agent lazy")
    })?;
    let [magic, counters @ ..]: [u64; 1 + LAZY_COUNTERS.len()] =
        process::numbers(root, process, library.address + offset)?;
    if magic != LAZY_MAGIC {
        return Err(missing("its library and this pagewise-agent differ in version"));
    }
    Ok(counters.to_vec())
}

/// Names the descendants of `process` that have the library loaded; empty if none has.
fn served_children(root: &Root, process: u32) -> String {
    let has_library = |child: &u32| {
        process::mapped_file(root, *child, LIBRARY).is_ok_and(|library| library.is_some())
    };
    let served = process::descendants(root, process).into_iter().filter(has_library);
    let served: Vec<String> = served.take(CHILDREN_MAX).map(|child| child.to_string()).collect();
    match served.is_empty() {
        true => String::new(),
        false => format!("; children that have it loaded: {}", served.join(", ")),
    }
}

/// The size in MiB to print after the summary if the counter counts held pages; else empty.
fn size_text(counter: LazyCounter, number: u64) -> String {
    let is_size = matches!(
        counter,
        LazyCounter::HotPages
            | LazyCounter::LazyPages
            | LazyCounter::OwnedPages
            | LazyCounter::ReservedPages
            | LazyCounter::HotMaxPages
    );
    match is_size {
        true => format!(": {:.1} MiB", (number * PAGE_BYTES) as f64 / f64::from(1 << 20)),
        false => String::new(),
    }
}
