//! The file of `pagewise-agent record`: 8 bytes of `MAGIC`, then independent blocks (crate::framing). The
//! first block is the `About`. docs/recording.md describes the layout for other readers.

mod blocks;
mod counters;
mod cut;
pub mod decisions;
mod moment;
pub mod moments;
mod packing;
mod parts;
mod ring;
mod ring_names;
mod served;
mod system;
mod writer;

pub use blocks::{Reader, RecordingBlock, read_about};
pub use counters::Counters;
pub use cut::{Pages, cut};
pub use packing::RECORDS_MAX;
pub use parts::{About, Area, Ending, FileName, KeptPart, Missing, PressureTotals, Sample};
pub use ring::{Mark, Ring};
pub use served::{ServedLatencies, ServedTiers};
pub use system::{Disk, Features, SwapArea, System, Zram};
pub use writer::Writer;

use crate::framing::Magic;

/// The first bytes of a recording, with its version in the last byte.
pub(crate) const MAGIC: Magic =
    Magic { checked: *b"pgwrec\x00\x03", unchecked: *b"pgwrec\x00\x02" };

/// The kinds of blocks, by their number in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum BlockKind {
    About = 1,
    Records = 2,
    Sample = 3,
    Ending = 4,
    Files = 5,
    Moment = 6,
}

/// An event as the kernel reported it, without interpretation. crates/recorder/bpf/record.h is its
/// counterpart and documents the fields of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// CLOCK_MONOTONIC, in nanoseconds.
    pub time_ns: u64,
    /// Virtual page number, page offset in a file, sector, or 8 bytes of a name.
    pub address: u64,
    /// Swap entry, inode, bytes, or the next 8 bytes of a name.
    pub object: u64,
    /// Process of the event.
    pub process: u32,
    /// Acting process or thread, nanoseconds, or the parent.
    pub auxiliary: u32,
    /// The kernel's device number, or another number of the kind.
    pub device: u32,
    /// Number of 4 KiB pages.
    pub pages: u16,
    /// One of `kind`.
    pub kind: u8,
    /// Bits whose meaning depends on the kind.
    pub flags: u8,
}

impl Record {
    /// The `EXEC` record of a process that executes the program `name`, which is cut to 16 bytes.
    #[must_use]
    pub fn of_program(self, name: &str) -> Record {
        let mut bytes = [0; 16];
        let length = name.len().min(bytes.len());
        bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
        let value = u128::from_le_bytes(bytes);
        Record { kind: kind::EXEC, address: value as u64, object: (value >> 64) as u64, ..self }
    }

    /// The name in an `EXEC` record, cut to 16 bytes.
    pub fn program(&self) -> Vec<u8> {
        let mut name = [self.address.to_le_bytes(), self.object.to_le_bytes()].concat();
        name.truncate(name.iter().position(|&byte| byte == 0).unwrap_or(name.len()));
        name
    }

    /// Decodes the words of a record from the BPF program.
    pub fn from_kernel([time_ns, address, object, processes, end]: [u64; 5]) -> Record {
        let [p0, p1, p2, p3, a0, a1, a2, a3] = processes.to_ne_bytes();
        let [d0, d1, d2, d3, s0, s1, kind, flags] = end.to_ne_bytes();
        Record {
            time_ns,
            address,
            object,
            process: u32::from_ne_bytes([p0, p1, p2, p3]),
            auxiliary: u32::from_ne_bytes([a0, a1, a2, a3]),
            device: u32::from_ne_bytes([d0, d1, d2, d3]),
            pages: u16::from_ne_bytes([s0, s1]),
            kind,
            flags,
        }
    }
}

/// The numbers of the kinds of records.
pub mod kind {
    /// A page left memory: `address` of `process`, `object` = swap entry, `auxiliary` = who reclaimed.
    pub const PAGE_OUT: u8 = 1;
    /// A write of `object` to a swap device; `process` = who submitted it.
    pub const SWAP_WRITE: u8 = 2;
    /// A read of `object` from a swap device; in a fault, `address` is the faulting page.
    pub const SWAP_READ: u8 = 3;
    /// A fault of `process` brought `address` back in `auxiliary` nanoseconds.
    pub const SWAP_IN: u8 = 4;
    /// Page `address` of inode `object` entered the page cache.
    pub const FILE_ADDED: u8 = 5;
    /// `process` became the program named in `address` and `object`.
    pub const EXEC: u8 = 6;
    /// `process` ended.
    pub const EXIT: u8 = 7;
    /// `process` began as a child of `auxiliary`.
    pub const FORK: u8 = 8;
    /// Page `address` of inode `object` left the page cache.
    pub const FILE_DROPPED: u8 = 9;
    /// A request for `object` bytes at sector `address` went to the device.
    pub const BLOCK: u8 = 10;
    /// `auxiliary` sent SIGKILL to `process`.
    pub const KILL: u8 = 11;
    /// Thread `auxiliary` allocated `object` bytes at byte `address`.
    pub const ALLOCATE: u8 = 12;
    /// Thread `auxiliary` freed `object` bytes at `address`, of which `device` pages were touched.
    /// Touched pages without a `TOUCHED` record are the first pages of the block.
    pub const FREE: u8 = 13;
    /// Thread `auxiliary` discarded `object` bytes at `address`; touched pages as for `FREE`.
    pub const DISCARD: u8 = 14;
    /// `object` bytes at `address` were touched, of the block that the thread frees or discards next.
    pub const TOUCHED: u8 = 15;
    /// `device` allocations of less than 64 KiB, `object` bytes together, since the last `SMALL` record.
    pub const SMALL: u8 = 16;
    /// At its end the process had used `address` ns in user and `object` ns in kernel mode, and had
    /// `device` minor and `auxiliary` major faults.
    pub const USAGE: u8 = 17;
    /// A swap server's slots from `object` on were discarded.
    pub const SLOT_VOID: u8 = 18;
    /// A swap server moved the slot in `object`; `address` = number of the event that decided it, counted from 0,
    /// `auxiliary` = the step, by its place in `policy::tiers::Step::ALL`.
    pub const MOVE_DONE: u8 = 19;
    /// A move that failed, with the fields of `MOVE_DONE`.
    pub const MOVE_FAILED: u8 = 20;
    /// The fast tier of a swap server has `object` frames from the event with the number `address` on, which comes
    /// next: it is compressed, and its pages have another size in the mean.
    pub const CAPACITY: u8 = 21;
}

/// The bits of `Record::flags`, each for the named kinds.
pub mod flag {
    /// `PAGE_OUT`: the owner was not found.
    pub const NO_OWNER: u8 = 1;
    /// `PAGE_OUT`: mapped more than once; the record names the first owner found.
    pub const SHARED: u8 = 2;
    /// `PAGE_OUT`: the pages are all zeros, so nothing is written.
    pub const ZEROS: u8 = 4;
    /// `SWAP_READ`: issued inside a page fault.
    pub const IN_FAULT: u8 = 4;
    /// `SWAP_IN`: the fault happened in kernel mode.
    pub const IN_KERNEL: u8 = 1;
    /// `SWAP_IN`: the fault read the device.
    pub const MAJOR: u8 = 2;
    /// `BLOCK`: the request writes.
    pub const WRITES: u8 = 1;
    /// `BLOCK`: neither a read nor a write.
    pub const IS_OTHER: u8 = 2;
    /// `KILL`: the kernel's out-of-memory killer chose the process.
    pub const OOM_KILL: u8 = 1;
    /// `ALLOCATE`: the memory must read as zero.
    pub const ZEROED: u8 = 1;
    /// `ALLOCATE`, `FREE`: by mmap and munmap, not by malloc and free.
    pub const MAPPED: u8 = 2;
    /// `FREE`: the contents move to the thread's next block; `ALLOCATE`: this is that block.
    pub const RESIZED: u8 = 4;
    /// `FREE`, `DISCARD`: the touched pages are unknown.
    pub const UNKNOWN: u8 = 8;
    /// `DISCARD`: the kernel may take the pages when it needs them (MADV_FREE).
    pub const LAZY: u8 = 16;
    /// `FREE`: the process ends and still holds the block.
    pub const AT_END: u8 = 32;
    /// `ALLOCATE`: in the heap, on pages that other blocks may have touched.
    pub const IN_HEAP: u8 = 64;
}

#[cfg(test)]
mod tests;
