//! Curves of a trace of references. Requests are JSON text; counts by frames are
//! columns of 64-bit little-endian integers.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::Deserialize;
use sim::refs::{
    self, Answers, ByKind, Enabled, Limit, PolicyFaults, Questions, ReadAhead, SizeAnswer,
    TlbGeometry, TlbMisses, Tlbs,
};
use trace::references::{Reader, cut};
use types::{ReferenceKind, ReferenceTotals};

use crate::answers::{Answer, parsed};
use crate::errors::{Raise, detached};
use crate::results::{
    CountedReferences, CurveSummary, LimitedFaultCounts, NamedCounts, PolicyFaultCount,
    ReadAheadRun, SizeCounts, TlbCount,
};

/// A request from Python.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    page_bytes: Vec<u64>,
    /// Entries and ways.
    #[serde(default)]
    first_tlbs: Vec<(u32, u32)>,
    #[serde(default)]
    second_tlbs: Vec<(u32, u32)>,
    #[serde(default)]
    policies: Vec<String>,
    /// Bytes of a page, and numbers of frames.
    #[serde(default)]
    memories: Vec<(u64, Vec<u32>)>,
    #[serde(default)]
    read_aheads: Vec<WantedReadAhead>,
    #[serde(default)]
    huge_page_bytes: Vec<u64>,
    #[serde(default)]
    huge_pages_always: bool,
    #[serde(default)]
    from_reference: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WantedReadAhead {
    page_bytes: u64,
    frames: u32,
    window: u32,
}

impl Wanted {
    fn questions(self) -> Result<Questions, sim::Error> {
        let tlbs =
            Tlbs { first: geometries(self.first_tlbs)?, second: geometries(self.second_tlbs)? };
        let read_ahead = |WantedReadAhead { page_bytes, frames, window }| ReadAhead {
            page_bytes,
            frames,
            window,
        };
        Ok(Questions {
            page_bytes: self.page_bytes,
            tlbs,
            policies: self.policies,
            memories: self.memories,
            read_aheads: self.read_aheads.into_iter().map(read_ahead).collect(),
            huge_page_bytes: self.huge_page_bytes,
            huge_pages: if self.huge_pages_always { Enabled::Always } else { Enabled::Madvise },
            from_reference: self.from_reference,
        })
    }
}

fn geometries(tlbs: Vec<(u32, u32)>) -> Result<Vec<TlbGeometry>, sim::Error> {
    tlbs.into_iter().map(|(entries, ways)| TlbGeometry::new(entries, ways)).collect()
}

/// Reads a trace of references once. Returns totals and cold misses, and four columns for
/// each page size, indexed by the number of frames: misses of instructions, reads and writes, and
/// write-backs. The last value of a column holds for all larger numbers of frames.
#[pyfunction]
#[pyo3(signature = (path, question, *, progress=None))]
pub fn reference_curves<'py>(
    py: Python<'py>,
    path: PathBuf,
    question: &str,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Answer<CurveSummary>, Vec<Bound<'py, PyBytes>>)> {
    let wanted: Wanted = parsed(py, "question", question)?;
    let questions = wanted.questions().map_err(|error| error.raise(py))?;
    let (answer, columns) = detached(py, progress, |progress| {
        let mut reader = Reader::open(&path)?;
        let answers = refs::run(&mut reader, &questions, progress)?;
        let columns = answers.sizes.iter().flat_map(columns).collect();
        Ok::<_, sim::Error>((summary(&answers, &reader), columns))
    })?;
    let columns: Vec<Vec<u8>> = columns;
    Ok((Answer(answer), columns.iter().map(|column| PyBytes::new(py, column)).collect()))
}

/// A limited memory that Python asks for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WantedLimit {
    page_bytes: u64,
    pages: u64,
    shift_pages: u64,
}

/// Reads a trace of references once. Returns the faults in each limited memory of a question, in its
/// order; null for a trace without mappings.
#[pyfunction]
#[pyo3(signature = (path, question, *, progress=None))]
pub fn limited_faults(
    py: Python<'_>,
    path: PathBuf,
    question: &str,
    progress: Option<Py<PyAny>>,
) -> PyResult<Answer<LimitedFaultCounts>> {
    let wanted: Vec<WantedLimit> = parsed(py, "question", question)?;
    let limit =
        |WantedLimit { page_bytes, pages, shift_pages }| Limit { page_bytes, pages, shift_pages };
    let limits: Vec<Limit> = wanted.into_iter().map(limit).collect();
    let faults = detached(py, progress, |progress| {
        refs::limited_faults(&mut Reader::open(&path)?, &limits, progress)
    })?;
    Ok(Answer(LimitedFaultCounts { faults }))
}

/// What `reader`, at its end, says of the trace, and what was counted.
fn summary(answers: &Answers, reader: &Reader) -> CurveSummary {
    let sizes = answers.sizes.iter().map(|size| SizeCounts {
        page_bytes: size.page_bytes,
        pages: size.pages,
        cold: by_name(size.curve.cold()),
        first_tlb_misses: size.first_tlb_misses.iter().map(tlb_count).collect(),
        second_tlb_misses: size.second_tlb_misses.iter().map(|&misses| by_name(misses)).collect(),
        policy_faults: size.policy_faults.iter().map(fault_count).collect(),
    });
    let read_aheads = answers.read_aheads.iter().map(|&(question, counts)| {
        let ReadAhead { page_bytes, frames, window } = question;
        ReadAheadRun { page_bytes, frames, window, counts }
    });
    let ReferenceTotals { instructions, reads, writes } = answers.totals;
    CurveSummary {
        architecture: reader.origin().architecture.clone(),
        references: CountedReferences { cut: cut(reader.ending()), instructions, reads, writes },
        steps: by_name(answers.steps),
        sizes: sizes.collect(),
        read_aheads: read_aheads.collect(),
        filter_blocks: reader.origin().filter_blocks,
        minor_faults: answers.minor_faults.clone(),
        heat: answers.heat.clone(),
    }
}

fn tlb_count(tlb: &TlbMisses) -> TlbCount {
    TlbCount { misses: by_name(tlb.misses), is_exact: tlb.is_exact }
}

fn fault_count(faults: &PolicyFaults) -> PolicyFaultCount {
    PolicyFaultCount { policy: faults.policy.clone(), frames: faults.frames, faults: faults.faults }
}

fn by_name(counts: ByKind) -> NamedCounts {
    ReferenceKind::ALL.iter().map(|&kind| (kind.name(), counts[kind as usize])).collect()
}

fn columns(size: &SizeAnswer) -> impl Iterator<Item = Vec<u8>> {
    let misses = ReferenceKind::ALL.map(|kind| column(size.curve.misses_by_frames(kind)));
    let write_backs = column(size.curve.write_backs_by_frames().iter().copied());
    misses.into_iter().chain([write_backs])
}

fn column(counts: impl Iterator<Item = u64>) -> Vec<u8> {
    counts.flat_map(u64::to_le_bytes).collect()
}
