//! The moves on test memory, and the state after the kernel refuses one.

use std::sync::atomic::AtomicU64;

use super::*;
use crate::chunks::{CHUNK_PAGES, CHUNKS_MAX};

const LENGTH: usize = 512 * PAGE;

/// Readable memory of `LENGTH` bytes and its place in a vault.
fn memory() -> (usize, usize) {
    let address = system::map_anonymous(0, 2 * LENGTH, OPEN, 0).unwrap();
    (address, address + LENGTH)
}

/// The byte at `address`; none if it cannot be read.
fn read(address: usize) -> Option<u8> {
    let mut byte = 0_u8;
    let here = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let there = libc::iovec { iov_base: address as *mut _, iov_len: 1 };
    // SAFETY: the kernel checks the address and writes only to the byte.
    let count = unsafe { libc::process_vm_readv(libc::getpid(), &here, 1, &there, 1, 0) };
    (count == 1).then_some(byte)
}

fn write(address: usize, byte: u8) {
    // SAFETY: the test mapped this memory, and it is open.
    unsafe { std::ptr::write_volatile(address as *mut u8, byte) };
}

/// Moves aside and closes, like `close`.
fn put_away(address: usize, vault: usize, length: usize) {
    assert!(put_aside(address, vault, length));
    assert_eq!(system::protect(address, length, PROT_NONE), Ok(()));
}

#[test]
fn what_is_put_aside_cannot_be_read_and_comes_back() {
    let (address, vault) = memory();
    for page in 0..512 {
        write(address + page * PAGE, page as u8);
    }
    // In two parts that come back as one and then in three, so that the kernel has joined them.
    put_away(address, vault, 200 * PAGE);
    put_away(address + 200 * PAGE, vault + 200 * PAGE, 312 * PAGE);
    assert!((0..512).all(|page| read(address + page * PAGE).is_none()));
    assert_eq!(bring_back(vault, address, LENGTH), Opening::Open);
    put_away(address, vault, LENGTH);
    for (from, to) in [(100, 300), (300, 512), (0, 100)] {
        let (from, length) = (from * PAGE, (to - from) * PAGE);
        assert_eq!(bring_back(vault + from, address + from, length), Opening::Open);
    }
    assert!((0..512).all(|page| read(address + page * PAGE) == Some(page as u8)));
}

#[test]
fn a_refused_return_leaves_no_hole() {
    let (address, vault) = memory();
    write(address, 7);
    put_away(address, vault, LENGTH);
    system::unmap(vault, LENGTH).unwrap();
    // Kernels differ in whether they clear the target first.
    match bring_back(vault, address, LENGTH) {
        Opening::Open => assert!((0..512).all(|page| read(address + page * PAGE) == Some(0))),
        opening => assert_eq!(opening, Opening::Lost),
    }
    let is_mapped = |page: usize| !fill(address + page * PAGE, PAGE, PROT_NONE);
    assert!((0..512).all(is_mapped));
}

#[test]
fn a_refused_departure_leaves_memory_as_it_was() {
    let (address, vault) = memory();
    write(address, 7);
    // The target overlaps the source, which no kernel moves.
    assert!(!put_aside(address, address + PAGE, LENGTH));
    assert_eq!(read(address), Some(7));
    assert!(IS_REFUSED.swap(false, Relaxed), "the next one is protected in place");
    assert_eq!(read(vault), Some(0));
}

#[test]
fn a_hole_that_another_mapping_filled_is_not_touched() {
    let (address, _) = memory();
    write(address, 9);
    assert!(!fill(address, LENGTH, OPEN));
    system::unmap(address + PAGE, LENGTH - PAGE).unwrap();
    assert!(!fill(address, LENGTH, OPEN), "a part of it is mapped");
    assert_eq!(read(address), Some(9));
    assert!(fill(address + PAGE, LENGTH - PAGE, OPEN));
    assert_eq!(read(address + LENGTH - PAGE), Some(0));
}

#[test]
fn free_pages_lie_in_place_or_aside() {
    let chunk = (CHUNKS_MAX - 1) as u32 * CHUNK_PAGES;
    let words: Vec<AtomicU64> = (0..chunk / 64 + 4).map(|_| AtomicU64::new(0)).collect();
    let aside = Bits::new(words.leak());
    aside.set(chunk + 10, 20);
    aside.set(chunk + 60, 10);
    // A chunk that was never added has address 0.
    let at = |page: usize| page * PAGE;
    let found: Vec<_> = places(chunk + 5, 60, aside).collect();
    let expected =
        [(at(5), at(5)), (at(10) + CHUNK, at(20)), (at(30), at(30)), (at(60) + CHUNK, at(5))];
    assert_eq!(found, expected);
    assert_eq!(places(chunk + 5, 0, aside).next(), None);
}
