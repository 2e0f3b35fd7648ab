//! Lives of phones. Requests are JSON text.

use pyo3::prelude::*;
use serde::Deserialize;
use sim::lifecycle::{LifeOutcome, Phone};

use crate::answers::{Answer, parsed};
use crate::errors::detached;
use crate::simulations::Wanted;

/// A life request from Python.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LifeRequest {
    phone: Phone,
    below: Wanted,
}

/// Simulates lives, a JSON list of `{"phone": ..., "below": ...}`, on all cores, with at most
/// `room_bytes` of memory at a time. Returns the outcomes in order. `below` is a
/// request of `simulate`.
#[pyfunction]
#[pyo3(signature = (lives, *, room_bytes, progress=None))]
pub fn lifecycle(
    py: Python<'_>,
    lives: &str,
    room_bytes: u64,
    progress: Option<Py<PyAny>>,
) -> PyResult<Answer<Vec<LifeOutcome>>> {
    let lives: Vec<LifeRequest> = parsed(py, "lives", lives)?;
    let outcomes = detached(py, progress, |progress| {
        let lives = lives.into_iter().map(|life| Ok((life.phone, life.below.request()?)));
        let lives = lives.collect::<Result<Vec<_>, sim::Error>>()?;
        sim::lifecycle::live_all(&lives, room_bytes, progress)
    })?;
    Ok(Answer(outcomes))
}
