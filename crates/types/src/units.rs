//! Numbers that carry their unit in their type.

/// Size of a page in bytes, in every recording and simulator.
pub const PAGE_BYTES: u64 = 4096;

/// A page, numbered densely from 0 in order of first appearance in its trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct PageId(pub u32);

impl PageId {
    /// Index of the page in an array with an entry per page.
    #[inline(always)]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A process, numbered densely from 0; the trace header holds its pid and name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct ProcessId(pub u32);

impl ProcessId {
    /// Index of the process in an array with an entry per process.
    #[inline(always)]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Bytes(pub u64);

impl Bytes {
    /// Whole pages that fit into this many bytes.
    pub const fn pages(self) -> u64 {
        self.0 / PAGE_BYTES
    }
}

/// A time or duration in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Nanos(pub i64);
