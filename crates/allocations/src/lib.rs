//! Preload library: passes the malloc family and anonymous mappings through to glibc and the kernel, and
//! records the requests in a log ([`log`]) that survives any end of the process.
//!
//! To keep the touched pages of blocks apart, it makes glibc map each block from 64 KiB separately
//! (`M_MMAP_THRESHOLD`), which is also the paper's allocator, and disables huge pages in the process. A
//! block that glibc still places in the heap is marked.
//! Without `PAGEWISE_ALLOCATIONS` in the environment it records nothing.
//!
//! It runs inside malloc: it allocates nothing, takes only bounded locks, and never panics.

#![allow(unsafe_code, reason = "a C interface: every function of it is unsafe by nature")]

mod ending;
mod log;
mod malloc_front;
mod mmap_front;
mod real_mmap;
mod sizes;
mod touched;

#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

extern "C" fn begin() {
    log::begin();
}

extern "C" fn end() {
    ending::record();
}
