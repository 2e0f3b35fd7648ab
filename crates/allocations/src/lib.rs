//! Preload library: passes the malloc family and anonymous mappings through to glibc and the kernel,
//! and writes what was asked for into a log ([`log`]) that survives whatever ends the process.
//!
//! So that a block's touched pages are its own, glibc is told to map each block from 64 KiB by itself
//! (`M_MMAP_THRESHOLD`), which is also the paper's allocator, and huge pages are off in the process. A
//! block that finds room in the heap all the same is marked.
//! Without `PAGEWISE_ALLOCATIONS` in the environment it only passes through.
//!
//! It runs inside malloc: it allocates nothing, takes no lock but a bounded one, and never panics.

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
