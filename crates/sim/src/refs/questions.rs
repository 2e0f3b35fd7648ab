//! Questions and answers of one pass over a trace of references.

use super::curve::less;
use super::faults::{Enabled, Faults, MinorFaults};
use super::policies::{Policies, PolicyFaults};
use super::read_ahead::{ReadAhead, ReadAheadCounts, ReadAheads};
use super::{ByKind, Curve, Curves, TlbMisses, Tlbs};
use crate::Error;
use crate::heat::{AccessHeat, HeatCounts};
use trace::references::Reader;
use types::{BLOCK_BYTES, FILTER_BLOCKS, Progress, ReferenceStep, ReferenceTotals};

/// Questions about a trace.
#[derive(Clone, Debug, Default)]
pub struct Questions {
    /// Page sizes in bytes, of [`page_sizes`](super::page_sizes).
    pub page_bytes: Vec<u64>,
    /// TLBs of these geometries.
    pub tlbs: Tlbs,
    /// Policies other than LRU, by their names in the catalog of evictions.
    pub policies: Vec<String>,
    /// Memories for the policies: page sizes in bytes, and numbers of frames of each.
    pub memories: Vec<(u64, Vec<u32>)>,
    /// Memories that read ahead.
    pub read_aheads: Vec<ReadAhead>,
    /// Sizes of transparent huge pages in bytes for which to count minor faults.
    pub huge_page_bytes: Vec<u64>,
    /// The memory that gets them.
    pub huge_pages: Enabled,
    /// References before this one fill the TLBs and memories but are not counted, except
    /// their minor faults.
    pub from_reference: u64,
}

/// Answers for a trace.
#[derive(Clone, Debug)]
pub struct Answers {
    /// All references of the trace.
    pub totals: ReferenceTotals,
    /// References that missed a filter of [`FILTER_BLOCKS`].
    pub steps: ByKind,
    /// One answer for each page size, in the order of the question.
    pub sizes: Vec<SizeAnswer>,
    /// Counts of each memory that reads ahead, in the order of the question.
    pub read_aheads: Vec<(ReadAhead, ReadAheadCounts)>,
    /// Minor faults of the whole trace for each size of huge pages, in the order of the question; none for a trace
    /// without mappings.
    pub minor_faults: Option<Vec<MinorFaults>>,
    /// References of the whole trace that missed its filter, by place in the trace and address.
    pub heat: AccessHeat,
}

/// The answers for one page size.
#[derive(Clone, Debug)]
pub struct SizeAnswer {
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Distinct pages of the whole trace.
    pub pages: u64,
    /// Misses of every TLB and memory.
    pub curve: Curve,
    /// Misses of each first TLB, in the order of the question.
    pub first_tlb_misses: Vec<TlbMisses>,
    /// Misses of each second TLB, in the order of the question.
    pub second_tlb_misses: Vec<ByKind>,
    /// Faults of each memory with pages of this size, policy by policy.
    pub policy_faults: Vec<PolicyFaults>,
}

/// Reads the trace to its end and answers.
///
/// # Errors
/// An unknown page size or policy, no page size, a trace that cannot be read or has no reference to count, or a
/// caller that stops.
pub fn run(
    reader: &mut Reader,
    questions: &Questions,
    progress: &dyn Progress,
) -> Result<Answers, Error> {
    let mut counters = Counters::new(questions)?;
    let mut faults = Faults::new(&questions.huge_page_bytes, questions.huge_pages)?;
    let mut heat = HeatCounts::new(false);
    let mut steps = Vec::new();
    let (mut references, mut before, mut references_read) = (0, None, 0u64);
    while reader.next_steps(&mut steps)? {
        for step in &steps {
            references_read = references_read.saturating_add(step.references);
            heat.add(0, step.block, references_read);
        }
        if !questions.huge_page_bytes.is_empty() {
            faults.add_changes(reader.changes());
            faults.push(&steps);
        }
        let mut rest = &steps[..];
        if before.is_none() {
            let skipped = skipped(rest, &mut references, questions.from_reference);
            counters.push(&rest[..skipped])?;
            rest = &rest[skipped..];
            if !rest.is_empty() {
                before = Some(counters.counted(questions)?);
            }
        }
        counters.push(rest)?;
        let (done, total) = reader.progress();
        progress.advance(done, total)?;
    }
    let totals = reader.totals();
    let all = totals.all().unwrap_or(u64::MAX);
    if questions.from_reference > 0 && all <= questions.from_reference {
        let why = format!(
            "the trace has {all} references, so none is left from {}",
            questions.from_reference
        );
        return Err(Error::usage(why));
    }
    let counted = counters.counted(questions)?;
    let before = match before {
        Some(before) => before,
        None => counters.counted(questions)?,
    };
    let heat = heat.finish(BLOCK_BYTES, |_| reader.origin().program().to_owned());
    Ok(counted.since(&before).answers(totals, faults.counts(), heat))
}

/// How many of the steps are of references before `from`; `references` counts those up to the last of them.
fn skipped(steps: &[ReferenceStep], references: &mut u64, from: u64) -> usize {
    steps
        .iter()
        .take_while(|step| {
            let reference = references.saturating_add(step.references);
            let is_before = reference <= from;
            if is_before {
                *references = reference;
            }
            is_before
        })
        .count()
}

/// What counts while the trace is read.
struct Counters {
    curves: Curves,
    policies: Policies,
    read_aheads: ReadAheads,
}

impl Counters {
    fn new(questions: &Questions) -> Result<Counters, Error> {
        let largest = questions.page_bytes.iter().max();
        let largest = *largest.ok_or_else(|| Error::usage("curves need at least one page size"))?;
        Ok(Counters {
            curves: Curves::new(largest, &questions.tlbs)?,
            policies: Policies::new(&questions.policies, &questions.memories)?,
            read_aheads: ReadAheads::new(&questions.read_aheads)?,
        })
    }

    fn push(&mut self, steps: &[ReferenceStep]) -> Result<(), Error> {
        self.curves.push(steps)?;
        self.policies.push(steps);
        self.read_aheads.push(steps);
        Ok(())
    }

    fn counted(&self, questions: &Questions) -> Result<Counted, Error> {
        let answer = |&page_bytes: &u64| {
            let curve = self.curves.curve(page_bytes)?;
            Ok(SizeAnswer {
                page_bytes,
                pages: curve.cold().iter().sum(),
                curve,
                first_tlb_misses: self.curves.first_tlb_misses(page_bytes)?,
                second_tlb_misses: self.curves.second_tlb_misses(page_bytes)?,
                policy_faults: self.policies.faults(page_bytes)?,
            })
        };
        Ok(Counted {
            blocks: self.curves.curve(BLOCK_BYTES)?,
            sizes: questions.page_bytes.iter().map(answer).collect::<Result<_, Error>>()?,
            read_aheads: self.read_aheads.counts().collect(),
        })
    }
}

/// What was counted up to some step.
struct Counted {
    /// The curve of blocks as pages.
    blocks: Curve,
    sizes: Vec<SizeAnswer>,
    read_aheads: Vec<(ReadAhead, ReadAheadCounts)>,
}

impl Counted {
    fn answers(
        self,
        totals: ReferenceTotals,
        minor_faults: Option<Vec<MinorFaults>>,
        heat: AccessHeat,
    ) -> Answers {
        let Counted { blocks, sizes, read_aheads } = self;
        let steps = blocks.misses(FILTER_BLOCKS as u64);
        Answers { totals, steps, sizes, read_aheads, minor_faults, heat }
    }

    fn since(mut self, before: &Counted) -> Counted {
        self.blocks = self.blocks.since(&before.blocks);
        for (size, before) in self.sizes.iter_mut().zip(&before.sizes) {
            size.curve = size.curve.since(&before.curve);
            for (tlb, before) in size.first_tlb_misses.iter_mut().zip(&before.first_tlb_misses) {
                tlb.misses = less(tlb.misses, before.misses);
            }
            for (misses, before) in size.second_tlb_misses.iter_mut().zip(&before.second_tlb_misses)
            {
                *misses = less(*misses, *before);
            }
            for (faults, before) in size.policy_faults.iter_mut().zip(&before.policy_faults) {
                faults.faults -= before.faults;
            }
        }
        for ((_, counts), (_, before)) in self.read_aheads.iter_mut().zip(&before.read_aheads) {
            *counts = counts.since(*before);
        }
        self
    }
}
