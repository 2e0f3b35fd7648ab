//! What a system trace answers: launches, kills and pressure.

use std::path::{Path, PathBuf};

use pyo3::prelude::*;
use sim::system::{Analyzer, Answers};
use trace::system::{self, OpenedSystem, SystemReader, Tally};
use trace::{Error, Loss};
use types::Progress;

use crate::answers::Answer;
use crate::errors::detached;
use crate::results::{self, TraceKills, TraceLaunches, TracePressure, TraceReading};

/// Reads a system trace once, and returns what it answers and what could not be read.
fn answers(path: &Path, progress: &dyn Progress) -> Result<(Answers, TraceReading), Error> {
    let OpenedSystem { mut reader, meter, file_bytes } = system::open(path)?;
    let (mut analyzer, mut tally, mut events) = (Analyzer::default(), Tally::default(), Vec::new());
    loop {
        let is_more = reader.read(&mut events, &mut tally)?;
        for event in events.drain(..) {
            analyzer.take(&event, reader.names());
        }
        progress.advance(meter.bytes(), file_bytes).map_err(|_| Error::cancelled(path))?;
        if !is_more {
            break;
        }
    }
    if tally.expects_kills() {
        analyzer.expect_kills();
    }
    let losses = tally
        .losses()
        .chain(tally.clock_problems())
        .map(|(what, count)| Loss { what: what.to_owned(), count });
    let (rejected, rejects) = reader.rejects();
    let reading = TraceReading {
        losses: losses.collect(),
        repeated_packets: tally.repeated_packets(),
        rejected,
        rejects: rejects.to_vec(),
    };
    Ok((analyzer.finish(reader.names()), reading))
}

/// The launches of apps in a system trace.
#[pyfunction]
#[pyo3(signature = (path, *, progress=None))]
pub fn launches(
    py: Python<'_>,
    path: PathBuf,
    progress: Option<Py<PyAny>>,
) -> PyResult<Answer<TraceLaunches>> {
    let (answers, reading) = detached(py, progress, |progress| answers(&path, progress))?;
    Ok(Answer(TraceLaunches {
        schema: "pagewise.launches/1",
        trace: results::named(&path),
        about: answers.about,
        reading,
        launches: answers.launches,
    }))
}

/// The kills in a system trace.
#[pyfunction]
#[pyo3(signature = (path, *, progress=None))]
pub fn trace_kills(
    py: Python<'_>,
    path: PathBuf,
    progress: Option<Py<PyAny>>,
) -> PyResult<Answer<TraceKills>> {
    let (answers, reading) = detached(py, progress, |progress| answers(&path, progress))?;
    Ok(Answer(TraceKills {
        schema: "pagewise.trace-kills/1",
        trace: results::named(&path),
        about: answers.about,
        reading,
        kills: answers.kills,
    }))
}

/// The pressure on memory in a system trace.
#[pyfunction]
#[pyo3(signature = (path, *, progress=None))]
pub fn pressure(
    py: Python<'_>,
    path: PathBuf,
    progress: Option<Py<PyAny>>,
) -> PyResult<Answer<TracePressure>> {
    let (answers, reading) = detached(py, progress, |progress| answers(&path, progress))?;
    Ok(Answer(TracePressure {
        schema: "pagewise.pressure/1",
        trace: results::named(&path),
        about: answers.about,
        reading,
        pressure: answers.pressure,
    }))
}
