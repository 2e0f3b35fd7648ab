//! Ways to hand out blocks from 64 KiB on: one file each, one row each.

mod decay;
mod glibc;
mod none;
mod pool;
mod scudo;

use types::Bytes;

use super::kernel::Kernel;

/// What a program asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub pages: u32,
    pub is_zeroed: bool,
    /// By mmap, past malloc.
    pub is_mapped: bool,
}

/// A block, or what is left of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub first: u32,
    pub pages: u32,
    pub is_mapped: bool,
}

/// Where a block lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placed {
    pub first: u32,
    /// Pages from its first on that the kernel fills before they are touched.
    pub populated_pages: u32,
}

/// Hands out the blocks of one process.
pub(super) trait Allocator: Send {
    fn allocate(&mut self, wanted: Wanted, kernel: &mut Kernel<'_>) -> Placed;

    fn free(&mut self, held: Held, kernel: &mut Kernel<'_>);

    /// Moves a block with its pages; none where only copying does.
    fn resize(&mut self, held: Held, wanted: Wanted, kernel: &mut Kernel<'_>) -> Option<u32>;

    /// What a thread of its own does when time passes.
    fn pass_time(&mut self, _kernel: &mut Kernel<'_>) {}

    /// Memory is short, and the allocator has heard of it in time.
    fn pressure(&mut self, _kernel: &mut Kernel<'_>) {}
}

/// One allocator.
#[derive(Clone, Copy)]
pub struct Row {
    /// Its name everywhere.
    pub name: &'static str,
    /// What it is, in one line.
    pub summary: &'static str,
    /// Makes one for a process, which may use so much memory.
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

/// The row of that name.
pub fn find(name: &str) -> Option<&'static Row> {
    ALLOCATORS.iter().find(|row| row.name == name)
}
