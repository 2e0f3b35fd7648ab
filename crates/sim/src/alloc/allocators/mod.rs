//! Allocators for blocks of 64 KiB and more: one file each, one row each.

mod decay;
mod glibc;
mod none;
mod pool;
mod scudo;

use types::Bytes;

use super::kernel::Kernel;

/// A program's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub pages: u32,
    pub is_zeroed: bool,
    /// Whether the request is an mmap, past malloc.
    pub is_mapped: bool,
}

/// A block, or the rest of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub first: u32,
    pub pages: u32,
    pub is_mapped: bool,
}

/// Place of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placed {
    pub first: u32,
    /// Pages from its first on that the kernel fills before their touch.
    pub populated_pages: u32,
}

/// Hands out the blocks of one process.
pub(super) trait Allocator: Send {
    fn allocate(&mut self, wanted: Wanted, kernel: &mut Kernel<'_>) -> Placed;

    fn free(&mut self, held: Held, kernel: &mut Kernel<'_>);

    /// Moves a block with its pages; none if only copying can.
    fn resize(&mut self, held: Held, wanted: Wanted, kernel: &mut Kernel<'_>) -> Option<u32>;

    /// Work of the allocator's own thread when time passes.
    fn pass_time(&mut self, _kernel: &mut Kernel<'_>) {}

    /// Reacts to memory pressure, reported in time.
    fn pressure(&mut self, _kernel: &mut Kernel<'_>) {}
}

/// One allocator.
#[derive(Clone, Copy)]
pub struct Row {
    /// Name on the command line, in Python and in results.
    pub name: &'static str,
    /// One line that describes it.
    pub summary: &'static str,
    /// Makes one for a process that may use this much memory.
    pub(super) build: fn(Bytes) -> Box<dyn Allocator>,
}

/// Every allocator.
pub const ALLOCATORS: &[Row] = &[
    none::ROW,
    pool::PAPER,
    pool::CAPPED,
    pool::DECAY,
    glibc::FIXED,
    glibc::DYNAMIC,
    scudo::ROW,
    decay::ROW,
];

/// The row with this name.
pub fn find(name: &str) -> Option<&'static Row> {
    ALLOCATORS.iter().find(|row| row.name == name)
}
