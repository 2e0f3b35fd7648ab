//! Writes the results of a run: `visits.parquet`, `processes.parquet`, `kills.parquet`, `run.toml`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime};

use linux::delays::Delays;
use linux::groups::Usage;
use linux::{Root, counters, system};
use serde::Serialize;
use trace::store::write_whole;
use trace::table::{self, Column, Table, Values};

use crate::Error;
use crate::plan::Plan;
use crate::steps::{ChangeStep, Situation};
use crate::storage::FileReads;
use crate::tiers::Counters;
use crate::validity::{Around, Checks};
use crate::waits::Waits;
use crate::watch::{Kill, Process};

/// A completed visit.
#[derive(Clone, Debug)]
pub struct Visited {
    /// The round of the visit, from 0.
    pub round: u32,
    /// The application.
    pub application: String,
    /// Whether the program of the application had to be started.
    pub is_cold: bool,
    /// From the request to the answer; None if there was no answer in time.
    pub launch: Option<Duration>,
    /// The start of the visit, since the start of the run.
    pub start: Duration,
    /// The end of the visit, since the start of the run.
    pub end: Duration,
    /// Applications that the killer killed meanwhile.
    pub killed: Vec<String>,
    /// The number of processes of the applications that the OOM killer has killed since the last visit; None if the
    /// kernel does not count them.
    pub oom_kills: Option<u64>,
    /// The kernel's counters of I/O and faults during the visit.
    pub io: Io,
    /// The usage of the group at the end.
    pub usage: Usage,
    /// Free memory of the machine before and right after the launch; the difference is the memory need of paper S2.
    pub free_bytes: (u64, u64),
    /// The times that the launch spent running and waiting.
    pub waits: Waits,
    /// Pages that relaunchd read before the application ran; None in a plan without prefetch.
    pub prefetched_pages: Option<u64>,
    /// What the tiers read and wrote; None except in mode tiers.
    pub tiers: Option<Counters>,
}

/// Counters of the whole machine: totals, or a difference.
#[derive(Clone, Copy, Debug, Default)]
pub struct Io {
    in_bytes: u64,
    out_bytes: u64,
    swap_in_bytes: u64,
    swap_out_bytes: u64,
    major_faults: u64,
    file_refaults: u64,
}

impl Io {
    /// The totals since boot.
    ///
    /// # Errors
    /// The operating system refuses.
    pub(crate) fn now(root: &Root, page_bytes: u64) -> Result<Io, Error> {
        /// The unit of `pgpgin` and `pgpgout`.
        const KIBIBYTE: u64 = 1024;
        let counters = counters::vmstat(root)?;
        let count = |name: &str| counters.get(name).copied().unwrap_or(0);
        Ok(Io {
            in_bytes: count("pgpgin") * KIBIBYTE,
            out_bytes: count("pgpgout") * KIBIBYTE,
            swap_in_bytes: count("pswpin") * page_bytes,
            swap_out_bytes: count("pswpout") * page_bytes,
            major_faults: count("pgmajfault"),
            file_refaults: count("workingset_refault_file"),
        })
    }

    /// The difference to the earlier totals `before`.
    pub(crate) fn since(self, before: Io) -> Io {
        Io {
            in_bytes: self.in_bytes.saturating_sub(before.in_bytes),
            out_bytes: self.out_bytes.saturating_sub(before.out_bytes),
            swap_in_bytes: self.swap_in_bytes.saturating_sub(before.swap_in_bytes),
            swap_out_bytes: self.swap_out_bytes.saturating_sub(before.swap_out_bytes),
            major_faults: self.major_faults.saturating_sub(before.major_faults),
            file_refaults: self.file_refaults.saturating_sub(before.file_refaults),
        }
    }
}

/// Free memory of the machine.
///
/// # Errors
/// The operating system refuses.
pub(crate) fn free_bytes(root: &Root) -> Result<u64, Error> {
    Ok(counters::meminfo(root)?.get("MemFree").copied().unwrap_or(0))
}

/// Writes `visits.parquet` and `processes.parquet`, and replaces earlier ones.
///
/// # Errors
/// The operating system refuses.
pub(crate) fn write_tables(
    folder: &Path,
    plan: &Plan,
    visits: &[Visited],
    processes: &[Process],
) -> Result<(), Error> {
    write_table(folder, "visits.parquet", visit_columns(plan, visits))?;
    write_table(folder, "processes.parquet", process_columns(processes))
}

/// Writes `kills.parquet`, and replaces an earlier one; `began_ns` is the start of the run.
///
/// # Errors
/// The operating system refuses.
pub(crate) fn write_kills(folder: &Path, kills: &[Kill], began_ns: u64) -> Result<(), Error> {
    let each = || kills.iter();
    let integer = |number: u64| i64::try_from(number).ok();
    let at_s =
        |kill: &Kill| Duration::from_nanos(kill.at_ns.saturating_sub(began_ns)).as_secs_f64();
    let columns = [
        ("visit", Values::Integer(each().map(|kill| integer(kill.visit)).collect())),
        ("app", Values::Text(each().map(|kill| kill.application.clone()).collect())),
        ("process", Values::Integer(each().map(|kill| Some(i64::from(kill.process))).collect())),
        ("at_s", Values::Number(each().map(|kill| Some(at_s(kill))).collect())),
        (
            "freed_bytes",
            Values::Integer(
                each().map(|kill| kill.back.and_then(|(bytes, _)| integer(bytes))).collect(),
            ),
        ),
        (
            "back_s",
            Values::Number(
                each().map(|kill| kill.back.map(|(_, time)| time.as_secs_f64())).collect(),
            ),
        ),
    ];
    write_table(folder, "kills.parquet", columns.map(column).into())
}

fn visit_columns(plan: &Plan, visits: &[Visited]) -> Vec<Column> {
    let counts = |value: &dyn Fn(&Visited) -> Option<u64>| {
        let integer = |visit| value(visit).and_then(|count| i64::try_from(count).ok());
        Values::Integer(visits.iter().map(integer).collect())
    };
    let integers = |value: &dyn Fn(&Visited) -> u64| counts(&|visit| Some(value(visit)));
    let texts = |value: &dyn Fn(&Visited) -> String| {
        Values::Text(visits.iter().map(|visit| Some(value(visit))).collect())
    };
    let flags = |value: &dyn Fn(&Visited) -> bool| {
        Values::Flag(visits.iter().map(|visit| Some(value(visit))).collect())
    };
    let seconds = |value: &dyn Fn(&Visited) -> Option<Duration>| {
        Values::Number(
            visits.iter().map(|visit| value(visit).map(|time| time.as_secs_f64())).collect(),
        )
    };
    let delays = |value: &dyn Fn(&Delays) -> Duration| {
        seconds(&|visit| visit.launch.and_then(|launch| visit.waits.delay(launch, value)))
    };
    let numbers = Values::Integer((0..visits.len() as i64).map(Some).collect());
    [
        ("visit", numbers),
        ("round", integers(&|visit| u64::from(visit.round))),
        ("app", texts(&|visit| visit.application.clone())),
        ("program", texts(&|visit| plan.program(&visit.application))),
        ("cold", flags(&|visit| visit.is_cold)),
        ("answered", flags(&|visit| visit.launch.is_some())),
        ("launch_s", seconds(&|visit| visit.launch)),
        ("start_s", seconds(&|visit| Some(visit.start))),
        ("end_s", seconds(&|visit| Some(visit.end))),
        ("kills", integers(&|visit| visit.killed.len() as u64)),
        ("killed", texts(&|visit| visit.killed.join(" "))),
        ("oom_kills", counts(&|visit| visit.oom_kills)),
        ("bytes_in", integers(&|visit| visit.io.in_bytes)),
        ("bytes_out", integers(&|visit| visit.io.out_bytes)),
        ("swap_in_bytes", integers(&|visit| visit.io.swap_in_bytes)),
        ("swap_out_bytes", integers(&|visit| visit.io.swap_out_bytes)),
        ("major_faults", integers(&|visit| visit.io.major_faults)),
        ("file_refaults", integers(&|visit| visit.io.file_refaults)),
        ("prefetched_pages", counts(&|visit| visit.prefetched_pages)),
        ("fast_reads", counts(&|visit| visit.tiers.map(|tiers| tiers.fast_reads))),
        ("slow_reads", counts(&|visit| visit.tiers.map(|tiers| tiers.slow_reads))),
        ("slow_writes", counts(&|visit| visit.tiers.map(|tiers| tiers.slow_writes))),
        ("memory_bytes", integers(&|visit| visit.usage.memory_bytes)),
        ("anonymous_bytes", integers(&|visit| visit.usage.anonymous_bytes)),
        ("free_bytes_before", integers(&|visit| visit.free_bytes.0)),
        ("free_bytes_after", integers(&|visit| visit.free_bytes.1)),
        ("processor_s", seconds(&|visit| Some(visit.waits.processor))),
        ("ready_s", seconds(&|visit| Some(visit.waits.ready))),
        ("kill_s", seconds(&|visit| Some(visit.waits.kills))),
        ("kswapd_s", seconds(&|visit| Some(visit.waits.kswapd))),
        ("reclaim_s", delays(&|delays| delays.reclaim)),
        ("refault_s", delays(&|delays| delays.refault)),
        ("swap_in_s", delays(&|delays| delays.swap_in)),
        ("storage_s", delays(&|delays| delays.storage)),
        ("memory_stall_s", seconds(&|visit| visit.waits.memory_stall)),
        ("io_stall_s", seconds(&|visit| visit.waits.io_stall)),
        ("cpu_stall_s", seconds(&|visit| visit.waits.cpu_stall)),
    ]
    .map(column)
    .into()
}

fn process_columns(processes: &[Process]) -> Vec<Column> {
    let each = || processes.iter();
    [
        ("app", Values::Text(each().map(|process| Some(process.application.clone())).collect())),
        (
            "process",
            Values::Integer(each().map(|process| Some(i64::from(process.number))).collect()),
        ),
        (
            "seen_s",
            Values::Number(each().map(|process| Some(process.seen.as_secs_f64())).collect()),
        ),
    ]
    .map(column)
    .into()
}

fn column((name, values): (&str, Values)) -> Column {
    Column { name: name.to_owned(), values }
}

fn write_table(folder: &Path, name: &str, columns: Vec<Column>) -> Result<(), Error> {
    table::write(&folder.join(name), &Table { metadata: Vec::new(), columns })
        .map_err(|error| Error::Refused(error.to_string()))
}

/// The contents of `run.toml`.
#[derive(Serialize)]
pub(crate) struct About<'run> {
    /// Whether the run can carry a verdict; None before its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) valid: Option<bool>,
    /// One reason for each check that failed.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(crate) invalid_because: &'run [String],
    pub(crate) plan: &'run Plan,
    pub(crate) machine: AboutMachine,
    pub(crate) versions: BTreeMap<&'static str, &'static str>,
    pub(crate) run: AboutRun,
    /// What the validity rests on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) checks: Option<&'run Checks>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) counters: Option<&'run Around>,
}

#[derive(Serialize)]
pub(crate) struct AboutMachine {
    kernel: String,
    distribution: String,
    cores: u32,
    memory_bytes: u64,
    available_bytes: u64,
    cgroup_version: u32,
    swap_areas_before: Vec<String>,
}

#[derive(Clone, Serialize)]
pub(crate) struct AboutRun {
    pub(crate) started: String,
    pub(crate) monotonic_start_ns: u64,
    pub(crate) duration_s: f64,
    pub(crate) visits: usize,
    pub(crate) answered: usize,
    pub(crate) finished: bool,
    pub(crate) reason: String,
    /// The changes for the run.
    pub(crate) steps: Vec<String>,
    /// Memory that was touched before the first visit, so that the host of a virtual machine has backed it.
    pub(crate) backed_bytes: u64,
    /// Reads of files from the storage of the plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) file_reads: Option<FileReads>,
}

impl AboutRun {
    /// The description of a run that begins now.
    pub(crate) fn begun_now(steps: &[ChangeStep]) -> AboutRun {
        AboutRun {
            started: humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
            monotonic_start_ns: system::monotonic_ns(),
            duration_s: 0.0,
            visits: 0,
            answered: 0,
            finished: false,
            reason: "running".to_owned(),
            steps: steps.iter().map(ToString::to_string).collect(),
            backed_bytes: 0,
            file_reads: None,
        }
    }
}

impl AboutMachine {
    pub(crate) fn of(
        root: &Root,
        situation: &Situation,
        cgroup_version: u32,
    ) -> Result<AboutMachine, Error> {
        let release = root.read("/etc/os-release")?.unwrap_or_default();
        let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
        let areas = situation.areas.iter().map(|area| area.path.display().to_string());
        Ok(AboutMachine {
            kernel: situation.machine.kernel.clone(),
            distribution: name.unwrap_or("unknown").trim_matches('"').to_owned(),
            cores: situation.machine.processors,
            memory_bytes: situation.machine.memory_bytes,
            available_bytes: situation.available_bytes,
            cgroup_version,
            swap_areas_before: areas.collect(),
        })
    }
}

/// Writes `run.toml`, and replaces an earlier one.
///
/// # Errors
/// The operating system refuses.
pub(crate) fn write_about(folder: &Path, about: &About) -> Result<(), Error> {
    let text = toml::to_string(about)
        .map_err(|error| Error::Refused(format!("run.toml cannot be written: {error}")))?;
    let path = folder.join("run.toml");
    write_whole(&path, text.as_bytes()).map_err(|error| Error::file("written", &path, &error))
}
