//! Questions and answers of one pass over a trace of references.

use super::policies::{Policies, PolicyFaults};
use super::read_ahead::{ReadAhead, ReadAheadCounts, ReadAheads};
use super::{ByKind, Curve, Curves, TlbGeometry};
use crate::Error;
use trace::references::Reader;
use types::{Progress, ReferenceTotals};

/// Questions about a trace.
#[derive(Clone, Debug, Default)]
pub struct Questions {
    /// Page sizes in bytes, of [`page_sizes`](super::page_sizes).
    pub page_bytes: Vec<u64>,
    /// Second TLBs behind the first one.
    pub second_tlbs: Vec<TlbGeometry>,
    /// Policies other than LRU, by their names in the catalog of evictions.
    pub policies: Vec<String>,
    /// Memories for the policies: page sizes in bytes, and numbers of frames of each.
    pub memories: Vec<(u64, Vec<u32>)>,
    /// Memories that read ahead.
    pub read_aheads: Vec<ReadAhead>,
}

/// Answers for a trace.
#[derive(Clone, Debug)]
pub struct Answers {
    /// All references of the trace.
    pub totals: ReferenceTotals,
    /// References that missed the filter.
    pub steps: ByKind,
    /// One answer for each page size, in the order of the question.
    pub sizes: Vec<SizeAnswer>,
    /// Counts of each memory that reads ahead, in the order of the question.
    pub read_aheads: Vec<(ReadAhead, ReadAheadCounts)>,
}

/// The answers for one page size.
#[derive(Clone, Debug)]
pub struct SizeAnswer {
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Misses of every TLB and memory.
    pub curve: Curve,
    /// Misses of each second TLB, in the order of the question.
    pub second_tlb_misses: Vec<ByKind>,
    /// Faults of each memory with pages of this size, policy by policy.
    pub policy_faults: Vec<PolicyFaults>,
}

/// Reads the trace to its end and answers.
///
/// # Errors
/// An unknown page size or policy, no page size, a trace that cannot be read, or a caller that stops.
pub fn run(
    reader: &mut Reader,
    questions: &Questions,
    progress: &dyn Progress,
) -> Result<Answers, Error> {
    let largest = questions.page_bytes.iter().max();
    let largest = *largest.ok_or_else(|| Error::usage("curves need at least one page size"))?;
    let mut curves = Curves::new(largest, &questions.second_tlbs)?;
    let mut policies = Policies::new(&questions.policies, &questions.memories)?;
    let mut read_aheads = ReadAheads::new(&questions.read_aheads)?;
    let mut steps = Vec::new();
    while reader.next_steps(&mut steps)? {
        curves.push(&steps)?;
        policies.push(&steps);
        read_aheads.push(&steps);
        let (done, total) = reader.progress();
        progress.advance(done, total)?;
    }
    let answer = |&page_bytes: &u64| {
        Ok(SizeAnswer {
            page_bytes,
            curve: curves.curve(page_bytes)?,
            second_tlb_misses: curves.second_tlb_misses(page_bytes)?,
            policy_faults: policies.faults(page_bytes)?,
        })
    };
    let sizes = questions.page_bytes.iter().map(answer).collect::<Result<_, Error>>()?;
    let read_aheads = read_aheads.counts().collect();
    Ok(Answers { totals: reader.totals(), steps: curves.steps(), sizes, read_aheads })
}
