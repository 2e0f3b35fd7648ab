//! Page faults under policies other than LRU, for memories of given sizes.
//!
//! Only LRU can be followed exactly behind a filter. For each step, other policies see a use of the
//! page of the block that leaves, if they still hold it, and then a use of the page of the
//! block that enters. Pages in the filter look unused in between, so counts are close, not
//! exact; docs/page-size.md has the error.

use super::level;
use crate::Error;
use policy::eviction::{Build, Choice, Replay, Residency};
use rayon::prelude::*;
use trace::renumber::Renumber;
use types::{PageId, ReferenceStep};

/// Faults of one memory under one policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyFaults {
    /// Name in the catalog, with the options that were set.
    pub policy: String,
    /// Number of frames.
    pub frames: u32,
    /// Page faults, cold ones included.
    pub faults: u64,
}

/// Every memory of every page size under every policy.
pub struct Policies(Vec<PageSizeMemories>);

/// Memories with pages of one size, which share the numbers of their pages.
struct PageSizeMemories {
    level: usize,
    numbers: Renumber,
    memories: Vec<Memory>,
    /// Scratch: pages by address, and by number, in pairs: the page that leaves and the one that enters.
    keys: Vec<u64>,
    found: Vec<u32>,
}

struct Memory {
    counted: PolicyFaults,
    replay: Box<dyn Replay>,
    residency: Residency,
}

impl Policies {
    /// Empty memories with these numbers of frames for each page size in bytes, under each policy.
    ///
    /// # Errors
    /// An unknown policy, a policy that knows the future, LRU, or an unknown page size.
    pub fn new(policies: &[String], memories: &[(u64, Vec<u32>)]) -> Result<Policies, Error> {
        let policies: Vec<_> =
            policies.iter().map(|text| chosen(text)).collect::<Result<_, _>>()?;
        let sizes = memories.iter().map(|(page_bytes, frames)| {
            let of_policy = |(policy, build): &(String, Online)| {
                frames.iter().map(|&frames| Memory::new(policy, build, frames)).collect::<Vec<_>>()
            };
            Ok(PageSizeMemories {
                level: level(*page_bytes)?,
                numbers: Renumber::unlimited(),
                memories: policies.iter().flat_map(of_policy).collect(),
                keys: Vec::new(),
                found: Vec::new(),
            })
        });
        Ok(Policies(sizes.collect::<Result<_, Error>>()?))
    }

    /// Counts the next steps.
    pub fn push(&mut self, steps: &[ReferenceStep]) {
        self.0.par_iter_mut().for_each(|size| size.push(steps));
    }

    /// Faults of each memory with pages of this size, policy by policy.
    ///
    /// # Errors
    /// An unknown page size.
    pub fn faults(&self, page_bytes: u64) -> Result<Vec<PolicyFaults>, Error> {
        let level = level(page_bytes)?;
        let sizes = self.0.iter().filter(|size| size.level == level);
        Ok(sizes.flat_map(|size| &size.memories).map(|memory| memory.counted.clone()).collect())
    }
}

impl PageSizeMemories {
    fn push(&mut self, steps: &[ReferenceStep]) {
        if self.memories.is_empty() {
            return;
        }
        let left = |step: &ReferenceStep| step.left.map_or(step.block, |left| left.block);
        let blocks = steps.iter().flat_map(|step| [left(step), step.block]);
        self.keys.clear();
        self.keys.extend(blocks.map(|block| block >> self.level));
        self.found.clear();
        let numbered = self.numbers.number_batch(&self.keys, &mut self.found);
        numbered.expect("memory ends before 2^31 pages");
        for memory in &mut self.memories {
            memory.push(&self.found, self.numbers.len());
        }
    }
}

impl Memory {
    fn new(policy: &str, build: &Online, frames: u32) -> Memory {
        let counted = PolicyFaults { policy: policy.to_owned(), frames, faults: 0 };
        Memory { counted, replay: build(frames.max(1)), residency: Residency::new(frames) }
    }

    /// Adds pairs of a page whose block leaves and one whose block enters; while the filter fills, both
    /// are the latter. All are numbered below `bound`.
    fn push(&mut self, pages: &[u32], bound: usize) {
        self.residency.grow(bound);
        for pair in pages.chunks_exact(2) {
            let (left, entered) = (PageId(pair[0]), PageId(pair[1]));
            if self.residency.contains(left) {
                self.replay.replay(&[left], bound, &mut self.residency);
            }
            self.counted.faults += self.replay.replay(&[entered], bound, &mut self.residency);
        }
    }
}

/// Constructor of a policy that needs no future.
type Online = Box<dyn Fn(u32) -> Box<dyn Replay> + Send + Sync>;

/// Name in results and constructor of the policy that the text names.
fn chosen(text: &str) -> Result<(String, Online), Error> {
    let choice = Choice::parse(text).map_err(Error::usage)?;
    match (choice.row.name, choice.build) {
        ("lru", _) => Err(Error::usage("lru need not be asked for: page faults are those of LRU")),
        (_, Build::Online(build)) => Ok((choice.label, build)),
        (name, Build::Offline(_)) => {
            let why = format!(
                "{name} needs to know every reference beforehand, so it counts no page faults"
            );
            Err(Error::usage(why))
        }
    }
}
