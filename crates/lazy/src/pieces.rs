//! `mremap` of a range that is one mapping to the program and several here: neighbours that
//! were freed after a change of their attributes were mapped again, and moved pages join no other mapping. The
//! kernel refuses such a range (EFAULT). Memory with the arena's own attributes is copied into one mapping;
//! other memory is moved piece by piece, and keeps every attribute.

use libc::{
    EFAULT, ENOMEM, MADV_DONTNEED, MAP_ANONYMOUS, MAP_FIXED, MAP_PRIVATE, MREMAP_DONTUNMAP,
    MREMAP_FIXED, MREMAP_MAYMOVE, PROT_NONE, c_int,
};

use crate::chunks::PAGE;
use crate::system::{self, Errno, Mapping, OPEN};

/// The move of `length` bytes from `from` on, to `to` or anywhere, where they become `new_length`. Both
/// lengths are multiples of a page, and not 0.
#[derive(Clone, Copy, Debug)]
pub struct Move {
    pub from: usize,
    pub length: usize,
    pub new_length: usize,
    pub to: Option<usize>,
    pub flags: c_int,
    /// Whether the pages of the piece are mapped like the arena.
    pub is_plain: bool,
}

/// Performs the move. Returns the new address. Pages that `MREMAP_DONTUNMAP` does not keep leave a hole.
pub fn move_by_hand(request: Move) -> Result<usize, Errno> {
    if request.flags & MREMAP_MAYMOVE == 0 {
        system::set_errno(ENOMEM);
        return Err(ENOMEM);
    }
    if request.is_plain { move_by_copy(request) } else { move_in_pieces(request) }
}

fn move_by_copy(request: Move) -> Result<usize, Errno> {
    let Move { from, length, new_length, to, flags, .. } = request;
    let fixed = if to.is_some() { MAP_FIXED } else { 0 };
    let target = system::map(Mapping {
        address: to.unwrap_or(0),
        length: new_length,
        protection: OPEN,
        flags: MAP_PRIVATE | MAP_ANONYMOUS | fixed,
        file: -1,
        offset: 0,
    })?;
    for at in (0..length.min(new_length)).step_by(PAGE) {
        let mut page = [0_u8; PAGE];
        system::copy(from + at, page.as_mut_ptr().addr(), PAGE);
        fill(target + at, &page);
    }
    // Kept addresses read as zeros.
    let _ = match flags & MREMAP_DONTUNMAP {
        0 => system::unmap(from, length),
        _ => system::advise(from, length, MADV_DONTNEED),
    };
    Ok(target)
}

fn move_in_pieces(request: Move) -> Result<usize, Errno> {
    let Move { from, length, new_length, to, flags, .. } = request;
    let fixed = if to.is_some() { MAP_FIXED } else { 0 };
    let target = system::map_anonymous(to.unwrap_or(0), new_length, PROT_NONE, fixed)?;
    let kept = flags & MREMAP_DONTUNMAP;
    let moved = length.min(new_length);
    let last = moved - PAGE;
    move_piece(from, target, last, kept);
    // The kernel lets the last page grow with its own attributes.
    let flags = MREMAP_MAYMOVE | MREMAP_FIXED | kept;
    let grown = new_length - last;
    if system::remap(from + last, PAGE, grown, flags, target + last).is_err() {
        copy(from + last, target + last, PAGE, grown);
    }
    if kept == 0 && length > moved {
        let _ = system::unmap(from + moved, length - moved);
    }
    Ok(target)
}

/// Halves a range that the kernel refuses; copies a single page that it refuses.
fn move_piece(from: usize, to: usize, length: usize, kept: c_int) {
    let flags = MREMAP_MAYMOVE | MREMAP_FIXED | kept;
    if length == 0 || system::remap(from, length, length, flags, to).is_ok() {
        return;
    }
    if length == PAGE || system::errno() != EFAULT {
        return copy(from, to, length, length);
    }
    let half = (length / 2).next_multiple_of(PAGE);
    move_piece(from, to, half, kept);
    move_piece(from + half, to + half, length - half, kept);
}

/// The fallback if the kernel has no room for one more mapping.
#[cold]
fn copy(from: usize, to: usize, length: usize, new_length: usize) {
    if system::map_anonymous(to, new_length, OPEN, MAP_FIXED).is_ok() {
        for at in (0..length).step_by(PAGE) {
            let mut page = [0_u8; PAGE];
            if system::peek(from + at, &mut page).is_ok() {
                fill(to + at, &page);
            }
        }
    }
}

/// Writes a page that is not all zeros; others take no memory.
fn fill(address: usize, page: &[u8; PAGE]) {
    if page.iter().any(|&byte| byte != 0) {
        system::copy(page.as_ptr().addr(), address, PAGE);
    }
}
