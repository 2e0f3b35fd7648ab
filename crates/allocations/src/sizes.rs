//! The sizes that decide what is recorded.

/// Blocks from this many bytes on are recorded one by one; smaller ones are summed up.
pub const LARGE_BYTES: usize = 64 << 10;

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;
