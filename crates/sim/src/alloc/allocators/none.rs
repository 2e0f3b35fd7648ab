//! Every block is a mapping of its own that ends when it is freed: the allocator of S3's phones above
//! their threshold of 64 KiB, and the one under which histories are recorded.

use super::{Allocator, Held, Placed, Row, Wanted};
use crate::alloc::kernel::Kernel;

pub const ROW: Row = Row {
    name: "no-pool",
    summary: "each block mapped when given, unmapped when freed: S3's baseline",
    build: |_| Box::new(NoPool),
};

pub struct NoPool;

impl Allocator for NoPool {
    fn allocate(&mut self, wanted: Wanted, kernel: &mut Kernel<'_>) -> Placed {
        Placed { first: kernel.map(wanted.pages), populated_pages: 0 }
    }

    fn free(&mut self, held: Held, kernel: &mut Kernel<'_>) {
        kernel.unmap(held.first, held.pages);
    }

    fn resize(&mut self, held: Held, wanted: Wanted, kernel: &mut Kernel<'_>) -> Option<u32> {
        Some(kernel.remap(held.first, held.pages, wanted.pages))
    }
}
