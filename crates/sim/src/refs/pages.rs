//! The pages of every size while blocks enter and leave the filter.
//!
//! A page is in the filter while one of its halves is. So a block that enters changes the page of
//! a size only if the half that contains it was outside, and the walk up from the block ends at the
//! first page that was already inside; likewise when it leaves. Most walks are a few pages long.

use super::stack::PageStack;
use super::tlb::TlbMisses;
use super::trees::Trees;
use super::{ByKind, Curve, Tlbs};
use crate::{Error, ErrorKind};
use types::ReferenceStep;

/// Steps whose trees one batch finds.
const CHUNK: usize = 1024;

pub struct Pages {
    stacks: Vec<PageStack>,
    trees: Trees,
    /// Scratch: for each step the tree of the block that enters, then of the one that leaves.
    found: Vec<u32>,
}

impl Pages {
    /// No pages yet, for the `levels` smallest sizes, and empty TLBs for each.
    pub fn new(levels: usize, tlbs: &Tlbs) -> Pages {
        let stacks = (0..levels).map(|_| PageStack::new(tlbs)).collect();
        Pages { stacks, trees: Trees::new(), found: Vec::new() }
    }

    /// The counts so far for the page size at `level`, if it is counted.
    pub fn curve(&self, level: usize) -> Option<Curve> {
        self.stacks.get(level).map(|stack| stack.curve(self.trees.pages(level)))
    }

    /// Misses of each first TLB, for the page size at `level`.
    pub fn first_tlb_misses(&self, level: usize) -> Option<Vec<TlbMisses>> {
        self.stacks.get(level).map(|stack| stack.first_tlb_misses().collect())
    }

    /// Misses of the first of the first TLBs and of each second one, for the page size at `level`.
    pub fn second_tlb_misses(&self, level: usize) -> Option<Vec<ByKind>> {
        self.stacks.get(level).map(|stack| stack.second_tlb_misses().collect())
    }

    /// Counts the next steps.
    ///
    /// # Errors
    /// A block enters that the filter holds, or leaves that it does not.
    pub fn push(&mut self, steps: &[ReferenceStep]) -> Result<(), Error> {
        let mut rest = steps;
        while !rest.is_empty() {
            let room = self.make_room();
            let (now, later) = rest.split_at(room.min(rest.len()).min(CHUNK));
            self.push_chunk(now)?;
            rest = later;
        }
        Ok(())
    }

    /// Makes room in each stack, and returns for how many steps.
    fn make_room(&mut self) -> usize {
        let mut room = usize::MAX;
        for (level, stack) in self.stacks.iter_mut().enumerate() {
            if stack.room() == 0 {
                stack.pack(self.trees.pages_mut(level));
            }
            room = room.min(stack.room());
        }
        room
    }

    fn push_chunk(&mut self, steps: &[ReferenceStep]) -> Result<(), Error> {
        let left = |step: &ReferenceStep| step.left.map_or(step.block, |left| left.block);
        let blocks = steps.iter().flat_map(|step| [step.block, left(step)]);
        self.trees.find(blocks, &mut self.found);

        let Pages { stacks, trees, found, .. } = self;
        for (step, tree) in steps.iter().zip(found.chunks_exact(2)) {
            let entered = trees.walk(tree[0], step.block, |level, page| {
                stacks
                    .get_mut(level)
                    .is_some_and(|stack| stack.enter(page, step.block >> level, step.kind))
            });
            if entered == 0 {
                return Err(refused("a block enters the filter that it holds"));
            }
            if let Some(left) = step.left {
                let mut is_written = left.is_written;
                let left = trees.walk(tree[1], left.block, |level, page| {
                    stacks.get_mut(level).is_some_and(|stack| {
                        stack.leave(page, left.block >> level, &mut is_written)
                    })
                });
                if left == 0 {
                    return Err(refused("a block leaves the filter that it does not hold"));
                }
            }
            stacks.iter_mut().take(entered).for_each(PageStack::settle);
        }
        Ok(())
    }
}

fn refused(why: &str) -> Error {
    Error::new(ErrorKind::Trace, format!("not a filtered trace of references: {why}"))
}
