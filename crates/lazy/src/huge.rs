//! Where huge pages are worthwhile. A huge page makes 2 MiB resident at its first touch, so a program that
//! touches little of what it asks for would pay for all of it: for blocks of 64 KiB with one page touched
//! each, huge pages took 15 times the memory of base pages. So the arena requests huge pages in regions of
//! 2 MiB, as they are handed out, and only while the program touches most of what it is given.
//!
//! The kernel reports which base pages were touched, but not which parts of a huge page. So the content
//! of its pages is examined when they are freed and, for the region before, when another region is
//! requested: a program that changes its behaviour is detected after some regions.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use libc::{MADV_HUGEPAGE, MADV_NOHUGEPAGE};
use policy::retention::{Foresight, Stretch};

use crate::arena::Grant;
use crate::bits::PageBits;
use crate::chunks::{CHUNK, CHUNK_PAGES, PAGE, address_of};
use crate::confined::is_confined;
use crate::huge_pages::{HUGE_PAGE, HUGE_PAGES, are_used, set_used};
use crate::knobs::{Mode, knobs};
use crate::locking::lock_briefly;
use crate::premap::{count_present, observe};
use crate::system;
use crate::tables::page_bits;
use crate::text::{Text, read};

/// Pages of a stretch that are examined.
const SAMPLES: u32 = 16;

/// The region requested last, if its pages were not examined since; `NONE` without one.
#[cfg_attr(not(test), unsafe(link_section = ".data.pagewise_lazy"))]
static LAST: AtomicU32 = AtomicU32::new(NONE);
const NONE: u32 = u32::MAX;

/// Decides whether huge pages are used, before the first chunk.
pub fn decide() {
    let mut room = [0; 64];
    let setting = read(&Text::of(&[b"/sys/kernel/mm/transparent_hugepage/enabled"]), &mut room);
    let is_always = setting.is_some_and(|text| text.starts_with(b"[always]"));
    set_used(knobs().mode == Mode::Thp || is_always);
}

/// Prepares a new chunk, which begins in base pages.
pub fn prepare_chunk(address: usize) {
    if are_used() {
        let _ = system::advise(address, CHUNK, MADV_NOHUGEPAGE);
    }
}

/// Requests huge pages for memory that was handed out and is not resident, or stops doing so.
pub fn advise(grant: Grant, bits: PageBits, mut foresight: Foresight) {
    if let Some(left) = foresight.awaited() {
        let touched = count_present(left).unwrap_or(0);
        foresight.observe(left, touched);
        observe(left, touched);
    }
    let chunk_end = (grant.first / CHUNK_PAGES + 1) * CHUNK_PAGES;
    let end = (grant.first + grant.pages).next_multiple_of(HUGE_PAGES).min(chunk_end);
    let regions = (grant.first / HUGE_PAGES * HUGE_PAGES..end).step_by(HUGE_PAGES as usize);
    let is_new = |region| !bits.huge.any(region, 1);
    let is_first = LAST.load(Relaxed) == NONE;
    if !foresight.leaves_much() && regions.clone().any(is_new) {
        // By the next request the owner of this grant has touched its middle, if anything.
        let middle = (grant.first + grant.pages / 2) / HUGE_PAGES * HUGE_PAGES;
        let next = if grant.pages >= 2 * HUGE_PAGES { middle } else { end - HUGE_PAGES };
        look_back_at_last(next, grant.first, &mut foresight);
    }
    // The first regions, and those that one request fills, count as touched until others were not.
    let is_filled =
        |region| region >= grant.first && region + HUGE_PAGES <= grant.first + grant.pages;
    let is_wanted = |region| match is_first || is_filled(region) || !is_new(region) {
        true => !foresight.leaves_much(),
        false => foresight.touches_most(),
    };
    for region in regions {
        if is_new(region) == is_wanted(region) {
            change(region, is_wanted(region), bits);
        }
    }
    // The first stretch in base pages shows whether the program still touches what it is given.
    let fresh = bits.dirty.runs(grant.first, grant.first + grant.pages, false).next();
    if let Some((from, to)) = fresh.filter(|&(from, to)| !bits.huge.any(from, to - from))
        && let Some(mut arena) = lock_briefly()
    {
        arena.foresight.mapped(Stretch { first: from, pages: to - from }, 0);
    }
}

fn change(region: u32, is_huge: bool, bits: PageBits) {
    let advice = if is_huge { MADV_HUGEPAGE } else { MADV_NOHUGEPAGE };
    if system::advise(address_of(region), HUGE_PAGE, advice).is_ok() {
        match is_huge {
            true => bits.huge.set(region, HUGE_PAGES),
            false => bits.huge.clear(region, HUGE_PAGES),
        }
    }
}

/// Before another region, `next`, is requested: learns how much of the last region was touched, up to the
/// page `handed_out` if that is in it.
fn look_back_at_last(next: u32, handed_out: u32, foresight: &mut Foresight) {
    let last = LAST.swap(next, Relaxed);
    if last == NONE || last == next || is_confined() {
        return;
    }
    let is_inside = handed_out > last && handed_out < last + HUGE_PAGES;
    let pages = if is_inside { handed_out - last } else { HUGE_PAGES };
    let left = Stretch { first: last, pages };
    if let Some(touched) = count_filled(left) {
        foresight.observe(left, touched);
        observe(left, touched);
    }
}

/// Estimates how many pages of a freed stretch the program touched; none if that is unknown.
pub fn count_touched(left: Stretch) -> Option<u32> {
    match page_bits().huge.any(left.first, left.pages) {
        true if is_confined() => None,
        true => count_filled(left),
        false => count_present(left),
    }
}

/// Estimates how many of the pages contain anything but zeros, from a sample. The kernel reads them, since
/// they may belong to a thread that unmaps them meanwhile; none if it cannot.
fn count_filled(left: Stretch) -> Option<u32> {
    let samples = left.pages.min(SAMPLES);
    let step = left.pages / samples.max(1);
    let mut filled = 0;
    for sample in 0..samples {
        let mut page = [0; PAGE];
        // Not at equal distances: first pages of blocks may have exactly that distance.
        let at = sample * step + sample * 11 % step.max(1);
        system::peek(address_of(left.first + at), &mut page).ok()?;
        filled += u32::from(page.iter().any(|&byte| byte != 0));
    }
    Some(filled * left.pages / samples.max(1))
}
