//! The preload library: freed memory stays mapped for its next allocation (lazy unmapping, S3).
//!
//! Loaded into an unmodified program by LD_PRELOAD, it replaces the `malloc` family and
//! `mmap` and its relatives. Requests from 64 KiB to 64 MiB are served from an arena of its own
//! ([`pool`]); freed memory stays there until `policy::retention` ends its retention. Everything else
//! goes to what was loaded next: libc, or the allocator that the program brings.
//!
//! It runs inside `malloc`: it allocates nothing, and has no path that panics. No indexing, no
//! checked arithmetic, no `expect`; a table that is too short means a request that is not served.
#![deny(clippy::indexing_slicing, clippy::expect_used, clippy::panic, clippy::unreachable)]
#![cfg_attr(
    test,
    allow(clippy::indexing_slicing, clippy::panic, clippy::expect_used, reason = "tests")
)]
#![allow(unsafe_code, reason = "it is the program's allocator")]
#![cfg_attr(test, allow(dead_code, reason = "unit tests are not served by the library"))]

mod arena;
mod bins;
mod bits;
mod chunks;
mod confined;
mod core_files;
mod deferred;
mod definitions;
mod flag;
mod fork;
mod front_attributes;
mod front_dlopen;
mod front_malloc;
mod front_mmap;
mod front_process;
mod function;
mod helper;
mod holes;
mod huge;
mod huge_pages;
mod knobs;
mod limits;
mod loaded;
mod lock;
mod locking;
mod next;
mod objects;
mod onward;
mod pieces;
mod placement;
mod pool;
mod premap;
mod pressure;
mod relocate;
mod reserve;
mod retire;
mod retired;
mod sanitizers;
mod spans;
mod stand_aside;
mod start;
mod statistics;
mod streams;
mod system;
mod tables;
mod text;
mod vault;
mod waking;
