//! Maps fresh pages before their first touch: one call, with less work per page, instead of a
//! fault per page, if `policy::retention` foresees that the program touches them. The pages left unmapped
//! are examined when they are freed.
//!
//! A fresh page of a block or mapping is a page whose dirty bit is clear: it was clean when it was handed
//! out, and was not mapped here.

use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};

use libc::MADV_POPULATE_WRITE;
use policy::retention::{Foresight, Stretch};
use types::LazyCounter;

use crate::arena::Grant;
use crate::bits::Bits;
use crate::chunks::{PAGE, address_of};
use crate::confined::is_confined;
use crate::flag::take;
use crate::locking::lock_briefly;
use crate::{statistics, system};

/// Pages examined at the end of freed memory.
const LOOKED_AT_MAX: u32 = 512;

/// Maps the absent pages of `grant`.
pub fn map_whole(grant: Grant) {
    let (address, length) = (address_of(grant.first), grant.pages as usize * PAGE);
    if system::advise(address, length, MADV_POPULATE_WRITE).is_ok() {
        let absent = grant.pages - grant.kept;
        statistics::add(LazyCounter::PopulatedPages, u64::from(absent));
    }
}

/// Maps the fresh pages of `grant` that are expected to be touched.
pub fn map_ahead(grant: Grant, dirty: Bits, mut foresight: Foresight) {
    if let Some(left) = foresight.awaited() {
        let touched = count_present(left).unwrap_or(0);
        if !Foresight::is_touched(left, touched) {
            return;
        }
        foresight.observe(left, touched);
        observe(left, touched);
    }
    for (from, to) in dirty.runs(grant.first, grant.first + grant.pages, false) {
        let fresh = Stretch { first: from, pages: to - from };
        let pages = foresight.mapped_ahead(fresh);
        let (address, length) = (address_of(from), pages as usize * PAGE);
        // Kernels before 5.14 do not have this call.
        if length > 0
            && system::advise(address, length, MADV_POPULATE_WRITE).is_ok()
            && let Some(mut arena) = lock_briefly()
        {
            dirty.set(from, pages);
            arena.foresight.mapped(fresh, pages);
            statistics::add(LazyCounter::PopulatedPages, u64::from(pages));
        }
    }
}

/// The last fresh pages among `pages` from `first` on.
pub fn last_fresh(first: u32, pages: u32, dirty: Bits) -> Option<Stretch> {
    let (from, to) = dirty.runs(first, first + pages, false).last()?;
    Some(Stretch { first: from, pages: to - from })
}

/// Whether a thread examines memory that is being freed. Other threads do not wait for it: until then no
/// thread could be given that memory.
#[cfg_attr(not(test), unsafe(link_section = ".data.pagewise_lazy"))]
static IS_LOOKING: AtomicBool = AtomicBool::new(false);

/// Estimates how many pages of those left unmapped, which are freed now, the program touched; none if that is
/// unknown.
pub fn count_touched(left: Stretch) -> Option<u32> {
    if IS_LOOKING.swap(true, Acquire) {
        return None;
    }
    let touched = count_present(left);
    IS_LOOKING.store(false, Release);
    touched
}

/// For the child of a fork: the thread that examined is not in this process.
pub fn forget_look() {
    take(&IS_LOOKING);
}

/// Records how many pages of a stretch were touched, if the lock is free.
pub fn observe(left: Stretch, touched: u32) {
    if let Some(mut arena) = lock_briefly() {
        arena.foresight.observe(left, touched);
    }
}

/// Estimates how many of the pages are resident, from those at their end; none if the kernel refuses.
pub fn count_present(left: Stretch) -> Option<u32> {
    if is_confined() {
        return None;
    }
    let mut room = [0_u8; LOOKED_AT_MAX as usize];
    let looked_at = left.pages.min(LOOKED_AT_MAX);
    let present = room.get_mut(..looked_at as usize)?;
    system::look(address_of(left.first + left.pages - looked_at), present).ok()?;
    let there = present.iter().filter(|&&byte| byte & 1 == 1).count() as u64;
    Some((there * u64::from(left.pages) / u64::from(looked_at.max(1))) as u32)
}
