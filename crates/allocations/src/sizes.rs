//! The sizes that decide what is recorded.

/// Smallest block that is recorded separately; smaller blocks are summed up.
pub const LARGE_BYTES: usize = 64 << 10;

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;
