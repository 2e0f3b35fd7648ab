//! Replays of recorded memory and processes with kill policies. Requests and results are JSON text.

use std::path::PathBuf;

use policy::kill;
use pyo3::prelude::*;
use serde::Deserialize;
use serde_json::json;
use sim::kills::{Replayer, Settings};
use trace::recording::moments;
use types::Nanos;

use crate::errors::{detached, usage};
use crate::texts::{answered, parsed, with_options};

/// A replay request from Python.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    policies: Vec<Policy>,
    freeze_share: f64,
    freeze_ns: i64,
    window_ns: i64,
}

/// A policy with its options.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Policy {
    name: String,
    options: Vec<(String, String)>,
}

/// Replays a recording with each policy; returns the outcome as JSON text.
#[pyfunction]
#[pyo3(signature = (path, request, *, progress=None))]
pub fn replay_kills(
    py: Python<'_>,
    path: PathBuf,
    request: &str,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
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
    };
    let (outcome, about, is_cut) = detached(py, progress, |progress| {
        let mut replayer = Replayer::new(policies, settings);
        let (about, is_cut) = moments::walk(&path, progress, &mut |found| replayer.take(found))?;
        Ok::<_, trace::Error>((replayer.finish(), about, is_cut))
    })?;
    let mut answer = json!(outcome);
    answer["cgroup"] = json!(about.cgroup);
    answer["command"] = json!(about.command);
    answer["kernel"] = json!(about.kernel);
    answer["is_cut"] = json!(is_cut);
    Ok(answered(answer))
}

/// The kill policies and their options, as JSON text.
#[pyfunction]
pub fn kill_policies() -> String {
    with_options(kill::CATALOG.iter().map(|row| (row.name, row.summary, row.options)))
}
