//! The last records of a process: the blocks that it still holds with their touched pages, and its usage.

use core::ptr::null_mut;
use core::slice;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::log::{self, Record, flag, kind};
use crate::real_mmap::real_mmap;
use crate::touched;

/// A block by its address; `bytes` is 0 after it is freed, and in empty entries.
#[derive(Clone, Copy)]
struct Held {
    address: u64,
    bytes: u64,
}

/// Writes the last records of this process. Only the first call has an effect.
pub fn record() {
    static IS_DONE: AtomicBool = AtomicBool::new(false);
    if !log::is_own() || IS_DONE.swap(true, Ordering::Relaxed) {
        return;
    }
    record_held();
    log::note_small(log::now_ns(), true);
    record_usage();
    log::append(Record { kind: kind::EXIT, ..Record::default() });
}

/// Writes the held blocks, which it reconstructs from the log itself.
fn record_held() {
    let count = log::count();
    let places = (2 * count as usize).next_power_of_two();
    let bytes = places * size_of::<Held>();
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let how = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a fresh mapping overlaps nothing.
    let table = unsafe { real_mmap(null_mut(), bytes, access, how, -1, 0) };
    if table == libc::MAP_FAILED {
        return;
    }
    // SAFETY: an unshared, page-aligned mapping of `places` zeroed entries, which lives until the process
    // ends.
    let table = unsafe { slice::from_raw_parts_mut(table.cast::<Held>(), places) };
    for record in (0..count).filter_map(log::at) {
        match record.kind {
            kind::ALLOCATE => set(table, record.address, record.object),
            kind::FREE => set(table, record.address, 0),
            _ => {}
        }
    }
    for held in table.iter().filter(|held| held.bytes > 0) {
        touched::record(kind::FREE, held.address as usize, held.bytes as usize, flag::AT_END);
    }
}

/// Sets the bytes of an address by linear probing. The table has at least two entries per address.
fn set(table: &mut [Held], address: u64, bytes: u64) {
    let mask = table.len() - 1;
    let start = (address >> 12).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    for step in 0..table.len() {
        let place = (start as usize).wrapping_add(step) & mask;
        let Some(held) = table.get_mut(place) else { return };
        if held.address == address || held.address == 0 {
            *held = Held { address, bytes };
            return;
        }
    }
}

fn record_usage() {
    // SAFETY: the kernel fills a structure of numbers, for which zeros are valid.
    let usage = unsafe {
        let mut usage: libc::rusage = core::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let nanoseconds =
        |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    log::append(Record {
        kind: kind::USAGE,
        address: nanoseconds(usage.ru_utime),
        object: nanoseconds(usage.ru_stime),
        device: usage.ru_minflt as u32,
        auxiliary: usage.ru_majflt as u32,
        ..Record::default()
    });
}
