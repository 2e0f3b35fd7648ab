//! `mmap`, `munmap` and `mremap` for the program. Private anonymous memory that is
//! readable and writable comes from the pool; all else goes to the kernel, after the arena was changed
//! if it is affected. None of them waits for a thread that a signal may have suspended.

use libc::{
    EFAULT, ENOMEM, MAP_ANONYMOUS, MAP_FAILED, MAP_FIXED, MAP_FIXED_NOREPLACE, MAP_GROWSDOWN,
    MAP_POPULATE, MAP_PRIVATE, MAP_SHARED, MREMAP_DONTUNMAP, MREMAP_FIXED, MREMAP_MAYMOVE,
    PROT_NONE, PROT_WRITE, c_int, c_void, off64_t, size_t,
};
use types::LazyCounter;

use crate::arena::{Grant, Owner};
use crate::chunks::{self, CHUNK, PAGE, address_of, page_of};
use crate::knobs::{Profile, knobs};
use crate::locking::{lock_at_rest, lock_briefly};
use crate::pool::{Content, Freed, extend, give_back, obtain};
use crate::relocate::move_pages;
use crate::spans::Free;
use crate::stand_aside::served_from;
use crate::system::{self, Errno, KeepErrno, Mapping, OPEN};
use crate::tables::page_bits;
use crate::{deferred, holes, onward, pieces, retired, statistics};

/// Sizes of shared mappings that profile `browser` populates: bitmaps have such sizes.
const POPULATED: std::ops::RangeInclusive<usize> = 256 << 10..=16 << 20;

/// # Safety
/// As for the kernel's `mmap`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn mmap(
    address: *mut c_void,
    length: size_t,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: off64_t,
) -> *mut c_void {
    let address = address as usize;
    pointer(map(Mapping { address, length, protection, flags, file, offset }))
}

/// # Safety
/// As for the kernel's `mmap`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn mmap64(
    address: *mut c_void,
    length: size_t,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: off64_t,
) -> *mut c_void {
    // SAFETY: upheld by the caller.
    unsafe { mmap(address, length, protection, flags, file, offset) }
}

/// # Safety
/// As for the kernel's `munmap`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn munmap(address: *mut c_void, length: size_t) -> c_int {
    status(unmap(address as usize, length))
}

/// # Safety
/// As for the kernel's `mremap`; the last argument counts only with `MREMAP_FIXED` or
/// `MREMAP_DONTUNMAP`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn mremap(
    address: *mut c_void,
    length: size_t,
    new_length: size_t,
    flags: c_int,
    new_address: *mut c_void,
) -> *mut c_void {
    let request =
        Remap { address: address as usize, length, new_length, flags, new: new_address as usize };
    pointer(remap(request))
}

fn map(mapping: Mapping) -> Result<usize, Errno> {
    if is_plain(&mapping)
        && let Some(grant) = obtain(mapping.length, PAGE, Owner::Map, Content::Zeros)
    {
        return Ok(address_of(grant.first));
    }
    let flags = mapping.flags | if is_populated(&mapping) { MAP_POPULATE } else { 0 };
    let mapping = Mapping { flags, ..mapping };
    if mapping.address == 0 || chunks::count() == 0 {
        return onward::map(mapping);
    }
    let address = match mapping.flags & (MAP_FIXED | MAP_FIXED_NOREPLACE) {
        MAP_FIXED => {
            claim(mapping.address, mapping.length);
            onward::map(mapping)
        }
        _ => holes::map(mapping),
    }?;
    if mapping.flags & MAP_GROWSDOWN != 0 {
        holes::open_below(address);
    }
    Ok(address)
}

/// Whether the pool's memory will do: the call demands nothing of the address or of the backing.
fn is_plain(mapping: &Mapping) -> bool {
    mapping.length >= served_from()
        && mapping.length <= knobs().block_max
        && mapping.address == 0
        && mapping.protection == OPEN
        && mapping.flags == MAP_PRIVATE | MAP_ANONYMOUS
        && mapping.offset % PAGE as off64_t == 0
}

fn is_populated(mapping: &Mapping) -> bool {
    let is_populated = knobs().profile == Profile::Browser
        && served_from() != usize::MAX
        && POPULATED.contains(&mapping.length)
        && mapping.flags & (MAP_SHARED | MAP_ANONYMOUS) == MAP_SHARED
        && mapping.protection & PROT_WRITE != 0
        && is_memory(mapping.file);
    if is_populated {
        statistics::add(LazyCounter::PopulatedPages, (mapping.length / PAGE) as u64);
    }
    is_populated
}

/// Whether the file is in memory: only such files can be sealed.
fn is_memory(file: c_int) -> bool {
    let _errno = KeepErrno::new();
    // SAFETY: only returns a number.
    unsafe { libc::fcntl(file, libc::F_GET_SEALS) != -1 }
}

/// Prepares for another mapping of the program's over these addresses: their free pages in the
/// arena become the program's, and all of them are mapped again when they are freed.
pub fn claim(address: usize, length: usize) {
    let Some(length) = length.checked_next_multiple_of(PAGE) else { return };
    if retired::is_retired() {
        return;
    }
    let bits = page_bits();
    for (first, pages) in chunks::overlaps(address, length) {
        bits.taint(first, pages);
        let end = first + pages;
        if bits.mapped.next(first, end, false) == end {
            continue;
        }
        match lock_at_rest() {
            Some(mut arena) => deferred::own_free(&mut arena, first, pages),
            None => deferred::claim(first, pages),
        }
    }
}

fn unmap(address: usize, length: usize) -> Result<(), Errno> {
    let whole = length.checked_next_multiple_of(PAGE).unwrap_or(0);
    // A range beyond the program's addresses is refused as a whole.
    let is_range = address.is_multiple_of(PAGE)
        && address.checked_add(whole).is_some_and(|end| end <= chunks::USER_END);
    if !is_range || chunks::overlaps(address, whole).next().is_none() {
        return onward::unmap(address, length);
    }
    let _errno = KeepErrno::new();
    let (mut from, end) = (address, address.saturating_add(whole));
    while from < end {
        let to = end.min((from / CHUNK + 1) * CHUNK);
        match page_of(from) {
            Some(first) => unmap_in_chunk(first, ((to - from) / PAGE) as u32)?,
            None => onward::unmap(from, to - from)?,
        }
        from = to;
    }
    Ok(())
}

/// Unmaps pages in one chunk. Runs that are the kernel's again are unmapped by the kernel.
fn unmap_in_chunk(first: u32, pages: u32) -> Result<(), Errno> {
    let (released, end) = (page_bits().released, first + pages);
    if !retired::is_shared() || !released.any(first, pages) {
        unmap_ours(first, pages);
        return Ok(());
    }
    let mut from = first;
    while from < end {
        let is_released = released.any(from, 1);
        let to = released.next(from, end, !is_released);
        match is_released {
            true => onward::unmap(address_of(from), (to - from) as usize * PAGE)?,
            false => unmap_ours(from, to - from),
        }
        from = to;
    }
    Ok(())
}

/// Frees the mapped ones of these pages. Pages of blocks and free pages stay as they are.
fn unmap_ours(first: u32, pages: u32) {
    let (address, length) = (address_of(first), pages as usize * PAGE);
    if retired::is_retired() {
        page_bits().mapped.clear(first, pages);
        let _ = system::unmap(address, length);
        return;
    }
    let (mut page, end) = (first, first + pages);
    while page < end {
        let Some(mut arena) = lock_briefly() else {
            return deferred::unmap(page, end - page);
        };
        let Some((from, count)) = arena.disown_mapped(page, end - page) else { return };
        give_back(Some(arena), from, count, Freed::Used, Owner::Map);
        // The pages before may already belong to others.
        page = from + count;
    }
}

/// The arguments of `mremap`.
#[derive(Clone, Copy)]
struct Remap {
    address: usize,
    length: usize,
    new_length: usize,
    flags: c_int,
    new: usize,
}

impl Remap {
    /// Does by hand what the kernel refuses because the range is several mappings.
    fn by_hand(self, is_plain: bool) -> Result<usize, Errno> {
        let errno = KeepErrno::new();
        let answer = pieces::move_by_hand(pieces::Move {
            is_plain,
            from: self.address,
            length: self.length.next_multiple_of(PAGE),
            new_length: self.new_length.next_multiple_of(PAGE),
            to: (self.flags & MREMAP_FIXED != 0).then_some(self.new),
            flags: self.flags,
        });
        drop(errno);
        answer.inspect_err(|&errno| system::set_errno(errno))
    }

    fn call(self) -> Result<usize, Errno> {
        onward::remap(self.address, self.length, self.new_length, self.flags, self.new)
    }
}

fn remap(request: Remap) -> Result<usize, Errno> {
    if request.flags & MREMAP_FIXED != 0 {
        claim(request.new, request.new_length);
    }
    let is_ours = |page: &u32| !page_bits().released.any(*page, 1);
    let Some(first) = page_of(request.address).filter(is_ours) else { return request.call() };
    if retired::is_retired() {
        return remap_retired(request);
    }
    if holes::first_unmapped(request.address, request.length).is_some() {
        system::set_errno(EFAULT);
        return Err(EFAULT);
    }
    let lengths = [request.length, request.new_length].map(|length| length.div_ceil(PAGE));
    let [Ok(old), Ok(new)] = lengths.map(u32::try_from) else { return request.call() };
    let is_simple = request.address.is_multiple_of(PAGE)
        && old > 0
        && new > 0
        && request.flags & !MREMAP_MAYMOVE == 0
        && is_wholly_ours(first, old);
    if is_simple { resize(request, first, old, new) } else { remap_tainted(request, first, old) }
}

/// Moves or resizes a mapping of the program that lies in the retired arena. Its pages may still be in
/// several mappings of the kernel.
fn remap_retired(request: Remap) -> Result<usize, Errno> {
    let Some(length) = request.length.checked_next_multiple_of(PAGE) else { return request.call() };
    let is_one_mapping = is_mapped_by_program(request.address, length);
    let address = match request.call() {
        Err(EFAULT) if is_one_mapping && request.new_length > 0 => request.by_hand(false),
        answer => answer,
    }?;
    if request.flags & MREMAP_DONTUNMAP == 0 {
        let kept = if address == request.address { request.new_length } else { 0 };
        let kept = kept.next_multiple_of(PAGE).min(length);
        let left = chunks::overlaps(request.address + kept, length - kept);
        left.for_each(|(first, pages)| page_bits().mapped.clear(first, pages));
    }
    Ok(address)
}

/// Whether `mmap` handed out all of these pages, and `munmap` took none of them back. Both numbers are
/// multiples of a page.
fn is_mapped_by_program(address: usize, length: usize) -> bool {
    let mapped = page_bits().mapped;
    let mut found = 0;
    for (first, pages) in chunks::overlaps(address, length) {
        if mapped.next(first, first + pages, false) != first + pages {
            return false;
        }
        found += pages as usize;
    }
    found > 0 && found * PAGE == length
}

/// Whether the pages are mapped and have the attributes of the arena.
fn is_wholly_ours(first: u32, pages: u32) -> bool {
    let (bits, end) = (page_bits(), first.saturating_add(pages));
    bits.mapped.next(first, end, false) == end && bits.are_plain(first, pages)
}

fn resize(request: Remap, first: u32, old: u32, new: u32) -> Result<usize, Errno> {
    if new <= old {
        unmap_ours(first + new, old - new);
        return Ok(request.address);
    }
    let owned = Grant::of(first, old, Free::Hot);
    if extend(owned, new - old, Owner::Map, Content::Zeros) {
        return Ok(request.address);
    }
    let refused = || {
        system::set_errno(ENOMEM);
        ENOMEM
    };
    if request.flags & MREMAP_MAYMOVE == 0 {
        return Err(refused());
    }
    let length = new as usize * PAGE;
    let target = (length <= knobs().block_max)
        .then(|| obtain(length, PAGE, Owner::Map, Content::ZerosFrom(old)))
        .flatten();
    let Some(target) = target else { return remap_tainted(request, first, old) };
    if move_pages(first, target, old) {
        page_bits().mapped.clear(first, old);
        give_back(None, first, old, Freed::Clean, Owner::Map);
    } else {
        unmap_ours(first, old);
    }
    Ok(address_of(target.first))
}

/// Lets the kernel move the pages with all their attributes, out of the arena or within it. The place
/// that they leave is the arena's again, unless another thread has mapped something there.
fn remap_tainted(request: Remap, first: u32, old: u32) -> Result<usize, Errno> {
    let bits = page_bits();
    let is_all_mapped = bits.mapped.next(first, first + old, false) == first + old;
    let address = match request.call() {
        Err(EFAULT) if is_all_mapped && request.new_length > 0 => {
            request.by_hand(bits.are_plain(first, old))
        }
        answer => answer,
    }?;
    if request.flags & MREMAP_DONTUNMAP != 0 {
        return Ok(address);
    }
    let new = request.new_length.div_ceil(PAGE) as u32;
    let kept = if address == request.address { new.min(old) } else { 0 };
    let _errno = KeepErrno::new();
    take_back(first + kept, old - kept);
    Ok(address)
}

fn take_back(first: u32, pages: u32) {
    let (address, length) = (address_of(first), pages as usize * PAGE);
    if pages == 0 {
        return;
    }
    let (mapped, end) = (page_bits().mapped, first + pages);
    let is_mapped = mapped.next(first, end, false) == end;
    mapped.clear(first, pages);
    let is_back = system::map_anonymous(address, length, PROT_NONE, MAP_FIXED_NOREPLACE);
    if is_mapped && is_back == Ok(address) {
        give_back(None, first, pages, Freed::Tainted, Owner::Map);
    }
}

fn pointer(result: Result<usize, Errno>) -> *mut c_void {
    result.map_or(MAP_FAILED, |address| address as *mut c_void)
}

fn status(result: Result<(), Errno>) -> c_int {
    if result.is_ok() { 0 } else { -1 }
}
