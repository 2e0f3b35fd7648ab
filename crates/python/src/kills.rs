//! Replays of recorded memory and processes with kill policies. Requests are JSON text.

use std::path::PathBuf;

use policy::kill;
use pyo3::prelude::*;
use serde::Deserialize;
use sim::kills::{Replayer, Settings};
use trace::recording::moments;
use types::Nanos;

use crate::answers::{Answer, parsed, with_options};
use crate::errors::{detached, usage};
use crate::results::{self, PolicyRow, ReplayKills};

/// A replay request from Python.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    policies: Vec<Policy>,
    freeze_share: f64,
    freeze_ns: i64,
    window_ns: i64,
    is_batch: bool,
}

/// A policy with its options.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Policy {
    name: String,
    options: Vec<(String, String)>,
}

/// Replays a recording with each policy; returns the outcome.
#[pyfunction]
#[pyo3(signature = (path, request, *, progress=None))]
pub fn replay_kills(
    py: Python<'_>,
    path: PathBuf,
    request: &str,
    progress: Option<Py<PyAny>>,
) -> PyResult<Answer<ReplayKills>> {
    let wanted: Wanted = parsed(py, "request", request)?;
    let mut policies = Vec::new();
    for Policy { name, options } in wanted.policies {
        let row = kill::find(&name).map_err(|message| usage(py, &message))?;
        let options: Vec<(&str, &str)> =
            options.iter().map(|(name, value)| (&name[..], &value[..])).collect();
        let policy = row.build(&options).map_err(|message| usage(py, &message))?;
        policies.push((name, policy));
    }
    let settings = Settings {
        freeze_share: wanted.freeze_share,
        freeze_time: Nanos(wanted.freeze_ns),
        window: Nanos(wanted.window_ns),
        is_batch: wanted.is_batch,
    };
    let (outcome, about, is_cut) = detached(py, progress, |progress| {
        let mut replayer = Replayer::new(policies, settings);
        let (about, is_cut) = moments::walk(&path, progress, &mut |found| replayer.take(found))?;
        Ok::<_, trace::Error>((replayer.finish(), about, is_cut))
    })?;
    Ok(Answer(ReplayKills {
        schema: "pagewise.replay-kills/1",
        recording: results::named(&path),
        freeze_share: wanted.freeze_share,
        freeze_s: wanted.freeze_ns as f64 / 1e9,
        window_s: wanted.window_ns as f64 / 1e9,
        outcome,
        cgroup: about.cgroup,
        command: about.command,
        kernel: about.kernel,
        is_cut,
    }))
}

/// The kill policies and their options.
#[pyfunction]
pub fn kill_policies() -> Answer<Vec<PolicyRow>> {
    with_options(kill::CATALOG.iter().map(|row| (row.name, row.summary, row.options)))
}
