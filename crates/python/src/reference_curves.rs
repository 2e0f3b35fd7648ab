//! Curves of a trace of references: the question comes as JSON text, small answers leave as JSON
//! text, and counts by frames as columns of 64-bit little-endian integers.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::Deserialize;
use serde_json::{Value, json};
use sim::refs::{self, Answers, ByKind, Questions, SizeAnswer, TlbShape};
use trace::references::Reader;
use types::ReferenceKind;

use crate::errors::{Raise, detached, usage};

/// A question as Python writes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    page_bytes: Vec<u64>,
    #[serde(default)]
    second_tlbs: Vec<(u32, u32)>,
}

impl Wanted {
    fn questions(self) -> Result<Questions, sim::Error> {
        let shape = |(entries, ways)| TlbShape::new(entries, ways);
        let second_tlbs = self.second_tlbs.into_iter().map(shape).collect::<Result<_, _>>()?;
        Ok(Questions { page_bytes: self.page_bytes, second_tlbs })
    }
}

/// Reads a trace of references once. Returns totals and cold misses as JSON text, and for each page
/// size four columns, indexed by the number of frames: misses of instructions, reads and writes,
/// and write-backs. Beyond the end of a column its last value holds.
#[pyfunction]
#[pyo3(signature = (path, question, *, progress=None))]
pub fn reference_curves<'py>(
    py: Python<'py>,
    path: PathBuf,
    question: &str,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, Vec<Bound<'py, PyBytes>>)> {
    let wanted: Wanted =
        serde_json::from_str(question).map_err(|error| usage(py, &format!("question: {error}")))?;
    let questions = wanted.questions().map_err(|error| error.raise(py))?;
    let (answer, columns) = detached(py, progress, |progress| {
        let answers = refs::run(&mut Reader::open(&path)?, &questions, progress)?;
        Ok::<_, sim::Error>((told(&answers), answers.sizes.iter().flat_map(columns).collect()))
    })?;
    let columns: Vec<Vec<u8>> = columns;
    Ok((answer.to_string(), columns.iter().map(|column| PyBytes::new(py, column)).collect()))
}

fn told(answers: &Answers) -> Value {
    let sizes = answers.sizes.iter().map(|size| {
        json!({
            "page_bytes": size.page_bytes,
            "cold": by_name(size.curve.cold()),
            "second_tlb_misses": size.second_tlb_misses.iter().map(|&misses| by_name(misses))
                .collect::<Vec<_>>(),
        })
    });
    json!({
        "instructions": answers.totals.instructions,
        "reads": answers.totals.reads,
        "writes": answers.totals.writes,
        "steps": by_name(answers.steps),
        "sizes": sizes.collect::<Vec<_>>(),
    })
}

fn by_name(counts: ByKind) -> Value {
    ReferenceKind::ALL
        .iter()
        .map(|&kind| (kind.name().to_owned(), json!(counts[kind as usize])))
        .collect()
}

fn columns(size: &SizeAnswer) -> impl Iterator<Item = Vec<u8>> {
    let misses = ReferenceKind::ALL.map(|kind| column(size.curve.misses_by_frames(kind)));
    let write_backs = column(size.curve.write_backs_by_frames().iter().copied());
    misses.into_iter().chain([write_backs])
}

fn column(counts: impl Iterator<Item = u64>) -> Vec<u8> {
    counts.flat_map(u64::to_le_bytes).collect()
}
