//! Messages of `/dev/fuse`, as in include/uapi/linux/fuse.h: the part that a file system of one file needs. Numbers
//! have the processor's byte order.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The version of the protocol that this program speaks; kernels from 4.20 know all that it uses.
pub const MAJOR: u32 = 7;
/// The minor version: the first with `max_pages`.
pub const MINOR: u32 = 28;

/// Find a file in a folder.
pub const LOOKUP: u32 = 1;
/// Forget a file; has no answer.
pub const FORGET: u32 = 2;
/// The attributes of a file.
pub const GETATTR: u32 = 3;
/// Open a file.
pub const OPEN: u32 = 14;
/// Read from a file.
pub const READ: u32 = 15;
/// Write to a file.
pub const WRITE: u32 = 16;
/// The size of the file system.
pub const STATFS: u32 = 17;
/// The last handle of an open file is closed.
pub const RELEASE: u32 = 18;
/// Make a file durable.
pub const FSYNC: u32 = 20;
/// A handle of an open file is closed.
pub const FLUSH: u32 = 25;
/// The first message.
pub const INIT: u32 = 26;
/// Stop working on a message; has no answer.
pub const INTERRUPT: u32 = 36;
/// The last message.
pub const DESTROY: u32 = 38;
/// Forget several files; has no answer.
pub const BATCH_FORGET: u32 = 42;
/// Allocate or free a part of a file.
pub const FALLOCATE: u32 = 43;

/// INIT: reads without a cache may be in progress at the same time.
pub const ASYNC_READ: u32 = 1 << 0;
/// INIT: a write may have more than a page.
pub const BIG_WRITES: u32 = 1 << 5;
/// INIT: direct I/O may be asynchronous.
pub const ASYNC_DIO: u32 = 1 << 15;
/// INIT: the answer has the largest number of pages of a message.
pub const MAX_PAGES: u32 = 1 << 22;

/// OPEN: no page cache.
pub const OPEN_DIRECT_IO: u32 = 1 << 0;
/// OPEN: the kernel sends no FLUSH (Linux 5.16).
pub const OPEN_NO_FLUSH: u32 = 1 << 5;
/// OPEN: writes of direct I/O may be in progress at the same time (Linux 6.2).
pub const OPEN_PARALLEL_DIRECT_WRITES: u32 = 1 << 6;

/// The code that asks for all unanswered messages again (Linux 6.9).
pub const NOTIFY_RESEND: i32 = 7;
/// The bit in the number of a message that the kernel sent before.
pub const UNIQUE_RESEND: u64 = 1 << 63;

/// The node of the root folder.
pub const ROOT_NODE: u64 = 1;

/// The beginning of each message of the kernel.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
#[expect(missing_docs, reason = "the names are those of the kernel's header")]
pub struct InHeader {
    pub len: u32,
    pub opcode: u32,
    pub unique: u64,
    pub nodeid: u64,
    pub uid: u32,
    pub gid: u32,
    pub pid: u32,
    pub total_extlen: u16,
    pub padding: u16,
}

/// The beginning of each answer.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
#[expect(missing_docs, reason = "the names are those of the kernel's header")]
pub struct OutHeader {
    pub len: u32,
    pub error: i32,
    pub unique: u64,
}

/// The operands of READ and of WRITE.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
#[expect(missing_docs, reason = "the names are those of the kernel's header")]
pub struct WriteIn {
    pub fh: u64,
    pub offset: u64,
    pub size: u32,
    pub write_flags: u32,
    pub lock_owner: u64,
    pub flags: u32,
    pub padding: u32,
}

/// The answer to WRITE.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
#[expect(missing_docs, reason = "the names are those of the kernel's header")]
pub struct WriteOut {
    pub size: u32,
    pub padding: u32,
}

/// The operands of FALLOCATE.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
#[expect(missing_docs, reason = "the names are those of the kernel's header")]
pub struct FallocateIn {
    pub fh: u64,
    pub offset: u64,
    pub length: u64,
    pub mode: u32,
    pub padding: u32,
}

/// The operands of INIT that every kernel sends.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
#[expect(missing_docs, reason = "the names are those of the kernel's header")]
pub struct InitIn {
    pub major: u32,
    pub minor: u32,
    pub max_readahead: u32,
    pub flags: u32,
}

/// The answer to INIT.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
#[expect(missing_docs, reason = "the names are those of the kernel's header")]
pub struct InitOut {
    pub major: u32,
    pub minor: u32,
    pub max_readahead: u32,
    pub flags: u32,
    pub max_background: u16,
    pub congestion_threshold: u16,
    pub max_write: u32,
    pub time_gran: u32,
    pub max_pages: u16,
    pub map_alignment: u16,
    pub flags2: u32,
    pub unused: [u32; 7],
}

/// The attributes of a file.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
#[expect(missing_docs, reason = "the names are those of the kernel's header")]
pub struct Attr {
    pub ino: u64,
    pub size: u64,
    pub blocks: u64,
    pub atime: u64,
    pub mtime: u64,
    pub ctime: u64,
    pub atimensec: u32,
    pub mtimensec: u32,
    pub ctimensec: u32,
    pub mode: u32,
    pub nlink: u32,
    pub uid: u32,
    pub gid: u32,
    pub rdev: u32,
    pub blksize: u32,
    pub flags: u32,
}

/// The answer to LOOKUP.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
#[expect(missing_docs, reason = "the names are those of the kernel's header")]
pub struct EntryOut {
    pub nodeid: u64,
    pub generation: u64,
    pub entry_valid: u64,
    pub attr_valid: u64,
    pub entry_valid_nsec: u32,
    pub attr_valid_nsec: u32,
    pub attr: Attr,
}

/// The answer to GETATTR.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
#[expect(missing_docs, reason = "the names are those of the kernel's header")]
pub struct AttrOut {
    pub attr_valid: u64,
    pub attr_valid_nsec: u32,
    pub dummy: u32,
    pub attr: Attr,
}

/// The answer to OPEN.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
#[expect(missing_docs, reason = "the names are those of the kernel's header")]
pub struct OpenOut {
    pub fh: u64,
    pub open_flags: u32,
    pub padding: u32,
}

/// The answer to STATFS.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
#[expect(missing_docs, reason = "the names are those of the kernel's header")]
pub struct StatfsOut {
    pub blocks: u64,
    pub bfree: u64,
    pub bavail: u64,
    pub files: u64,
    pub ffree: u64,
    pub bsize: u32,
    pub namelen: u32,
    pub frsize: u32,
    pub padding: u32,
    pub spare: [u32; 6],
}
