//! The changes to the memory of the process's arena: the only place where decisions become system
//! calls. The rules of the lock are at [`Arena`].

use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};

use libc::{MADV_DONTNEED, MADV_FREE, MADV_POPULATE_WRITE};
use policy::retention::{Foresight, Rules, Stretch};
use types::{Bytes, LazyCounter};

use crate::arena::{Arena, Grant, Owner, Work};
use crate::bits::{Bits, PageBits};
use crate::chunks::{PAGE, address_of};
use crate::huge_pages::{self, HUGE_PAGE};
use crate::knobs::{CROWDED_HELD_MAX, Profile, knobs};
use crate::limits::Reach;
use crate::lock::Guard;
use crate::locking::{self, lock, lock_at_rest, lock_briefly, lock_for};
use crate::reserve::next_chunk;
use crate::spans::Free;
use crate::system::{KeepErrno, OPEN, Signals};
use crate::tables::page_bits;
use crate::vault::{self, Closing, Opening};
use crate::{core_files, deferred, huge, premap, retired, statistics, system, waking};

/// Required content of memory that is handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    Any,
    Zeros,
    /// Zeros from this page of the memory on.
    ZerosFrom(u32),
}

/// Memory of `length` bytes at a multiple of `alignment` bytes, a power of two. None if the pool
/// has none: the caller then calls libc or the kernel.
pub fn obtain(length: usize, alignment: usize, owner: Owner, content: Content) -> Option<Grant> {
    let _errno = KeepErrno::new();
    let pages = u32::try_from(length.div_ceil(PAGE)).ok()?;
    let alignment = u32::try_from(alignment.div_ceil(PAGE)).ok()?.max(1);
    let mut arena = lock_for(owner)?;
    if arena.is_pressed() {
        // In the child of a fork, each of its pages would be copied at its next write.
        work(arena);
        arena = lock_for(owner)?;
    }
    let grant = match arena.allocate(pages, alignment, owner) {
        Some(grant) => grant,
        None => {
            grow(&mut arena)?;
            arena.allocate(pages, alignment, owner)?
        }
    };
    count_grant(&arena, grant);
    let known = Known::of(&arena);
    let tables = arena.wanted_tables();
    core_files::include_ahead(&mut arena);
    drop(arena);
    tables.into_iter().flatten().for_each(populate_table);
    match prepare(grant, known, content) {
        Opening::Open => Some(grant),
        refused => {
            refuse(grant, owner, refused);
            obtain_open(pages, alignment, owner)
        }
    }
}

/// Memory that needs no opening, for a process that has no mapping left to open any with.
#[cold]
fn obtain_open(pages: u32, alignment: u32, owner: Owner) -> Option<Grant> {
    let mut arena = lock_for(owner)?;
    let grant = arena.allocate_open(pages, alignment, owner)?;
    count_grant(&arena, grant);
    core_files::include_ahead(&mut arena);
    core_files::include(grant, arena.bits.undumped);
    Some(grant)
}

/// Extends the memory at `first` by `pages` pages behind it, if they are free. A mapping that may not move
/// must not fail to grow because the helper is making a system call on these pages.
pub fn extend(owned: Grant, pages: u32, owner: Owner, content: Content) -> bool {
    let _errno = KeepErrno::new();
    let end = owned.first + owned.pages;
    let arena = match owner {
        Owner::Block => lock(),
        Owner::Map => lock_at_rest(),
    };
    let Some(mut arena) = arena else { return false };
    let Some(grant) = arena.extend(end, pages) else { return false };
    arena.own(owned.first, owned.pages + pages, owner);
    statistics::add(LazyCounter::OwnedPages, u64::from(pages));
    core_files::include_ahead(&mut arena);
    let known = Known::of(&arena);
    drop(arena);
    let opening = prepare(grant, known, content);
    if opening == Opening::Open {
        return true;
    }
    if owner == Owner::Block
        && let Some(mut arena) = lock()
    {
        arena.own(owned.first, owned.pages, owner);
    }
    refuse(grant, owner, opening);
    false
}

/// What unowned pages that are given back hold, and how they are mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freed {
    /// Memory as the owner left it; it may be tainted.
    Used,
    /// Memory that the library has closed, or left open because the kernel refused.
    Closed(Closing),
    /// Anything, in a mapping that differs from the arena's: the pages are mapped again, and stay
    /// unowned if the kernel refuses.
    Tainted,
    /// No memory, in a mapping like the arena's.
    Clean,
}

/// Makes unowned pages free. `arena` is the lock if the caller holds it: it is kept until the pages are free, or
/// released for the system calls that must come before.
pub fn give_back(
    mut arena: Option<Guard<'static, Arena>>,
    first: u32,
    pages: u32,
    mut freed: Freed,
    owner: Owner,
) {
    let mut seen = None;
    if freed == Freed::Used {
        match arena.take().or_else(|| lock_for(owner)) {
            Some(mut arena) if !arena.bits.tainted.any(first, pages) => {
                let fresh = fresh_to_examine(&mut arena, first, pages);
                vault::note_spans(arena.free_spans());
                let is_closed = knobs().closes(pages as usize * PAGE) && !vault::is_scattered();
                if fresh.is_none() && !is_closed {
                    return deposit(arena, first, pages, owner);
                }
                drop(arena);
                seen = fresh.and_then(|fresh| Some((fresh, count_touched(fresh)?)));
                freed = Freed::Closed(match is_closed {
                    true => close(first, pages, owner),
                    false => Closing::Refused,
                });
            }
            _ => freed = Freed::Tainted,
        }
    }
    if freed == Freed::Tainted {
        drop(arena.take());
        if !deferred::map_again(first, pages) {
            return;
        }
    }
    let bits = page_bits();
    let Freed::Closed(closing) = freed else {
        bits.untaint(first, pages);
        return match arena.or_else(lock_briefly) {
            Some(mut arena) => deferred::deposit_clean_locked(&mut arena, first, pages),
            None => deferred::return_clean(first, pages),
        };
    };
    if closing != Closing::Refused {
        bits.closed.set(first, pages);
    }
    if closing == Closing::Aside {
        bits.aside.set(first, pages);
    }
    let Some(mut arena) = arena.or_else(|| lock_for(owner)) else {
        for (address, length) in vault::places(first, pages, bits.aside) {
            discard(address, length);
        }
        bits.aside.clear(first, pages);
        return deferred::return_clean(first, pages);
    };
    if let Some((fresh, touched)) = seen {
        arena.foresight.observe(fresh, touched);
    }
    if retired::is_retired() {
        drop(arena);
        vault::drop_aside(first, pages, bits.aside);
        let _ = system::unmap(address_of(first), pages as usize * PAGE);
        return;
    }
    deposit(arena, first, pages, owner);
}

/// The last fresh pages among those being freed, if how much of them was touched matters now.
fn fresh_to_examine(arena: &mut Arena, first: u32, pages: u32) -> Option<Stretch> {
    if !knobs().foresees() && !huge_pages::are_used() {
        return None;
    }
    let fresh = premap::last_fresh(first, pages, arena.bits.dirty)?;
    arena.foresight.looks_back().then_some(fresh)
}

/// How many of the fresh pages being freed the program touched; none if that is unknown.
fn count_touched(fresh: Stretch) -> Option<u32> {
    match huge_pages::are_used() {
        true => huge::count_touched(fresh),
        false => premap::count_touched(fresh),
    }
}

/// Closes unowned pages, unless too many threads do so already.
fn close(first: u32, pages: u32, owner: Owner) -> Closing {
    match knobs().profile {
        Profile::Faithful => vault::close(first, pages),
        _ => close_unless_many_do(first, pages, owner),
    }
}

/// Closes unowned pages. Once too many threads close at the same time, less memory is retained from then on.
fn close_unless_many_do(first: u32, pages: u32, owner: Owner) -> Closing {
    let was_crowded = vault::is_crowded();
    let closing = vault::close_unless_many_do(first, pages);
    if !was_crowded
        && vault::is_crowded()
        && let Some(mut arena) = lock_for(owner)
    {
        let rules = arena.rules();
        let hot_bytes = rules.hot_bytes.min(CROWDED_HELD_MAX);
        set_rules(&mut arena, Rules { hot_bytes, held_bytes: Some(CROWDED_HELD_MAX), ..rules });
    }
    closing
}

/// Performs the actions that retention requests now.
pub fn work(mut arena: Guard<'static, Arena>) {
    let mut signals = None;
    while let Some(work) = arena.next_work(system::now()) {
        signals.get_or_insert_with(Signals::block);
        locking::note_work(true);
        let aside = arena.bits.aside;
        drop(arena);
        perform(work, aside);
        locking::note_work(false);
        let Some(locked) = lock_briefly() else { return deferred::finish() };
        arena = locked;
        arena.finish();
    }
    publish(&arena);
    drop(arena);
}

/// Makes the system calls of `work`, one for each place of its span's memory.
pub fn perform(work: Work, aside: Bits) {
    let (counter, act, span) = match work {
        Work::Discard(span) => (LazyCounter::DiscardedPages, discard as fn(usize, usize), span),
        Work::LazilyFree(span) => (LazyCounter::LazilyFreedPages, lazily_free as _, span),
    };
    statistics::add(counter, u64::from(span.pages));
    for (address, length) in vault::places(span.first, span.pages, aside) {
        act(address, length);
    }
    if matches!(work, Work::Discard(_)) && !aside.any(span.first, span.pages) {
        core_files::leave_out(span);
    }
}

/// Measures the available memory again.
pub fn measure_memory() {
    let rules = knobs().rules(Reach::now(), huge_pages::are_used());
    IS_MEASURED.store(true, Release);
    if let Some(mut arena) = lock() {
        set_rules(&mut arena, rules);
    }
}

fn set_rules(arena: &mut Arena, rules: Rules) {
    arena.set_rules(rules);
    statistics::set(LazyCounter::HotMaxPages, rules.hot_bytes.pages());
}

/// Gives unneeded parts of the tables to the kernel, once nothing is retained.
pub fn give_back_tables(arena: &mut Arena) {
    for (address, length) in arena.empty_tables().filter(|&(_, length)| length > 0) {
        // The kernel refuses if the memory is locked: then it stays.
        let _ = system::advise(address, length, MADV_DONTNEED);
    }
}

/// Maps a part of a table before it is touched: one call instead of a fault per page. A kernel
/// without this call (before Linux 5.14) takes the faults.
fn populate_table((address, length): (usize, usize)) {
    let first = address / PAGE * PAGE;
    let end = (address + length).next_multiple_of(PAGE);
    let _ = system::advise(first, end - first, MADV_POPULATE_WRITE);
}

fn deposit(mut arena: Guard<'static, Arena>, first: u32, pages: u32, owner: Owner) {
    arena.deposit(first, pages, system::now());
    statistics::count_free(pages);
    if let Some(arena) = measure_if_much(arena, owner) {
        work(arena);
    }
}

/// Hot memory up to which the available memory is not read: reading it takes longer than the
/// whole life of some children.
const UNMEASURED: Bytes = Bytes(2 << 20);
static IS_MEASURED: AtomicBool = AtomicBool::new(false);

/// Measures the available memory once enough is retained for that to matter.
fn measure_if_much(arena: Guard<'static, Arena>, owner: Owner) -> Option<Guard<'static, Arena>> {
    if arena.hot_pages() <= UNMEASURED.pages() || IS_MEASURED.swap(true, Acquire) {
        return Some(arena);
    }
    drop(arena);
    let rules = knobs().rules(Reach::at_start(), huge_pages::are_used());
    let mut arena = lock_for(owner)?;
    set_rules(&mut arena, rules);
    Some(arena)
}

fn grow(arena: &mut Arena) -> Option<()> {
    let (first, tables) = next_chunk()?;
    if first == 0 {
        let reach = Reach { whole: None, left: None };
        let rules = knobs().rules(reach, huge_pages::are_used());
        set_rules(arena, Rules { hot_bytes: rules.hot_bytes.min(UNMEASURED), ..rules });
    }
    arena.grow(first, tables);
    statistics::add(LazyCounter::ReservedPages, u64::from(crate::chunks::CHUNK_PAGES));
    Some(())
}

/// State that the owner of pages uses without the lock.
#[derive(Clone, Copy)]
struct Known {
    bits: PageBits,
    foresight: Foresight,
    /// Pages mapped ahead at most: a wrong guess costs no more than may be held hot.
    ahead_max: u64,
}

impl Known {
    fn of(arena: &Arena) -> Known {
        Known { bits: arena.bits, foresight: arena.foresight, ahead_max: arena.hot_pages_max() }
    }
}

/// Prepares memory that was handed out for use, or reports why the kernel does not let it be opened.
fn prepare(grant: Grant, known: Known, content: Content) -> Opening {
    let bits = known.bits;
    let opening = open(grant, bits);
    if opening != Opening::Open {
        return opening;
    }
    core_files::include(grant, bits.undumped);
    let absent = grant.pages - grant.kept;
    if absent > 0 && huge_pages::are_used() {
        huge::advise(grant, bits, known.foresight);
    }
    if absent > 0 && knobs().populates() {
        premap::map_whole(grant);
    }
    if grant.held != Free::Clean {
        let skipped = match content {
            Content::Any => grant.pages,
            Content::Zeros => 0,
            Content::ZerosFrom(page) => page.min(grant.pages),
        };
        zero(grant.first + skipped, grant.first + grant.pages, bits.dirty);
    }
    // After the zeroing, which depends on the bits that are set for the pages mapped here.
    if absent > 0 && u64::from(absent) <= known.ahead_max && knobs().foresees() {
        premap::map_ahead(grant, bits.dirty, known.foresight);
    }
    Opening::Open
}

fn open(grant: Grant, PageBits { closed, aside, .. }: PageBits) -> Opening {
    if !closed.any(grant.first, grant.pages) && !aside.any(grant.first, grant.pages) {
        return Opening::Open;
    }
    let opening = vault::open(grant.first, grant.pages, closed, aside);
    if opening == Opening::Open {
        closed.clear(grant.first, grant.pages);
        aside.clear(grant.first, grant.pages);
    }
    opening
}

/// Zeroes the pages from `first` to `end` that may be dirty, by hand up to the limit; the
/// kernel discards the rest.
fn zero(first: u32, end: u32, dirty: Bits) {
    let mut left = (knobs().zero_max / PAGE) as u32;
    let mut page = first;
    loop {
        let from = dirty.next(page, end, true);
        let to = dirty.next(from, end, false);
        let by_hand = (to - from).min(left);
        system::zero(address_of(from), by_hand as usize * PAGE);
        statistics::add(LazyCounter::ZeroedPages, u64::from(by_hand));
        left -= by_hand;
        if from + by_hand < to {
            let rest = from + by_hand;
            return discard(address_of(rest), (end - rest) as usize * PAGE);
        }
        if to == end {
            return;
        }
        page = to;
    }
}

/// Closes and frees memory that could not be opened. If its addresses are lost, they count as if the
/// program had mapped something else over them.
#[cold]
fn refuse(grant: Grant, owner: Owner, opening: Opening) {
    let bits = page_bits();
    let arena = lock_for(owner);
    let is_lost = opening == Opening::Lost || arena.is_none();
    if let Some(mut arena) = arena {
        disown(&mut arena, grant, owner);
    }
    if is_lost {
        bits.mapped.set(grant.first, grant.pages);
        bits.tainted.set(grant.first, grant.pages);
        bits.closed.clear(grant.first, grant.pages);
        bits.aside.clear(grant.first, grant.pages);
        return;
    }
    let closing = vault::close(grant.first, grant.pages);
    give_back(None, grant.first, grant.pages, Freed::Closed(closing), owner);
}

fn disown(arena: &mut Arena, grant: Grant, owner: Owner) {
    match owner {
        Owner::Block => {
            arena.disown_block(grant.first);
        }
        Owner::Map => arena.bits.mapped.clear(grant.first, grant.pages),
    }
}

fn lazily_free(whole: usize, whole_length: usize) {
    let (mut address, mut length) = (whole, whole_length);
    if huge_pages::are_used() {
        // A huge page that is freed in part is split first, which costs more than it gives back.
        let end = (address + length) / HUGE_PAGE * HUGE_PAGE;
        address = address.next_multiple_of(HUGE_PAGE);
        length = end.saturating_sub(address);
    }
    if length > 0 && system::advise(address, length, MADV_FREE).is_err() {
        discard(whole, whole_length);
    }
}

fn discard(address: usize, length: usize) {
    if system::advise(address, length, MADV_DONTNEED).is_err() {
        // The kernel keeps locked memory; free memory must read as zero nevertheless.
        let flags = libc::MAP_FIXED;
        if system::map_anonymous(address, length, OPEN, flags).is_err() {
            system::zero(address, length);
        }
    }
}

fn count_grant(arena: &Arena, grant: Grant) {
    statistics::add(LazyCounter::Allocations, 1);
    statistics::add(LazyCounter::OwnedPages, u64::from(grant.pages));
    let hits = match grant.held {
        Free::Hot => LazyCounter::HotHits,
        Free::Lazy => LazyCounter::LazyHits,
        Free::Clean => return,
    };
    statistics::add(hits, 1);
    statistics::add(LazyCounter::FaultsSavedPages, u64::from(grant.kept));
    publish(arena);
}

fn publish(arena: &Arena) {
    statistics::set(LazyCounter::HotPages, arena.hot_pages());
    statistics::set(LazyCounter::LazyPages, arena.lazy_pages());
    waking::notice(arena.hot_pages() + arena.lazy_pages());
}
