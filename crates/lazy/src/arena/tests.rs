//! The arena against a list of the owners of pages, under random histories.

use std::sync::atomic::AtomicU64;

use super::*;
use proptest::prelude::*;
use types::Bytes;

const CHUNKS: u32 = 2;
const PAGES: u32 = CHUNKS * CHUNK_PAGES;

/// A number that picks one of several spans.
#[derive(Clone, Copy, Debug)]
struct Choice(usize);

impl Choice {
    fn among(self, count: usize) -> usize {
        self.0 % count
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Allocate {
        pages: u32,
        alignment_bits: u32,
        owner: Owner,
    },
    Free(Choice),
    FreeClean(Choice),
    Unmap {
        choice: Choice,
        skip: u32,
        pages: u32,
    },
    Extend {
        choice: Choice,
        pages: u32,
    },
    /// Takes the free pages of a stretch that begins at a 64th of the region.
    Carve {
        sixty_fourth: u32,
        pages: u32,
    },
    /// Asks for huge pages in the region.
    Advise(u32),
    Wait(i64),
    Pressure,
    Drain,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Lengths with a bin of their own and lengths in shared bins, some that fill a chunk, and few that
    // recur: a program repeats the same lengths, and spans of equal length must not be confused.
    let pages = prop_oneof![
        6 => 1..200_u32,
        3 => 1..1500_u32,
        1 => 1..CHUNK_PAGES + 5,
        8 => (1..5_u32).prop_map(|pages| 2 * pages),
    ];
    let owner = prop_oneof![Just(Owner::Block), Just(Owner::Map)];
    let alignment = prop_oneof![3 => Just(0), 1 => 0..10_u32];
    let choice = (0..64_usize).prop_map(Choice);
    let sixty_fourth = 0..64_u32;
    let step = prop_oneof![
        8 => (pages.clone(), alignment, owner)
            .prop_map(|(pages, alignment_bits, owner)| Step::Allocate { pages, alignment_bits, owner }),
        6 => choice.clone().prop_map(Step::Free),
        1 => choice.clone().prop_map(Step::FreeClean),
        3 => (choice.clone(), 0..100_u32, pages.clone())
            .prop_map(|(choice, skip, pages)| Step::Unmap { choice, skip, pages }),
        2 => (choice, 1..100_u32).prop_map(|(choice, pages)| Step::Extend { choice, pages }),
        1 => (sixty_fourth, pages)
            .prop_map(|(sixty_fourth, pages)| Step::Carve { sixty_fourth, pages }),
        2 => (0..16_u32).prop_map(Step::Advise),
        3 => (0..2_000_000_000_i64).prop_map(Step::Wait),
        1 => Just(Step::Pressure),
        1 => Just(Step::Drain),
    ];
    prop::collection::vec(step, 1..150)
}

fn words() -> &'static [AtomicU64] {
    let words: Vec<AtomicU64> =
        (0..PAGES as usize / 64 * PageBits::COUNT).map(|_| AtomicU64::new(0)).collect();
    words.leak()
}

fn tables() -> Tables {
    Tables {
        tags: vec![Tag::default(); PAGES as usize].leak(),
        entries: vec![Entry::default(); PAGES as usize].leak(),
        bits: PageBits::new(words()),
    }
}

/// Owned pages: first page, number, owner.
type Owned = (u32, u32, Owner);

struct Checked {
    arena: Arena,
    owned: Vec<Owned>,
    now: Nanos,
}

impl Checked {
    fn new(hot_pages: u64) -> Checked {
        let mut arena = Arena::new(Rules::decay(Bytes(hot_pages * types::PAGE_BYTES)));
        let tables = tables();
        let address = tables.tags.as_mut_ptr();
        arena.grow(0, tables);
        let mut tables = self::tables();
        // The tables of the first chunk stay in use; only their bits are new, and those are zero still.
        // SAFETY: the tags were leaked, and the arena gives up its slice of them in `grow`.
        tables.tags = unsafe { std::slice::from_raw_parts_mut(address, PAGES as usize) };
        arena.grow(CHUNK_PAGES, tables);
        Checked { arena, owned: Vec::new(), now: Nanos(0) }
    }

    /// Every free span, in order. Checks that they and the owned pages fill the arena without overlap.
    fn free_spans(&self) -> Vec<FreeSpan> {
        let mut owned = self.owned.clone();
        owned.sort_by_key(|owned| owned.0);
        let (mut page, mut free, mut owned) = (0, Vec::new(), owned.into_iter().peekable());
        while page < PAGES {
            if let Some((_, pages, _)) = owned.next_if(|owned| owned.0 == page) {
                page += pages;
                continue;
            }
            let span = self.arena.spans.at(page).unwrap_or_else(|| panic!("page {page} is lost"));
            free.push(span);
            page = span.end();
        }
        assert_eq!((page, owned.next()), (PAGES, None), "spans overlap");
        free
    }

    fn check(&self) {
        let free = self.free_spans();
        for pair in free.windows(2) {
            let is_joined = pair[0].end() == pair[1].first && pair[0].state == pair[1].state;
            assert!(!is_joined || pair[1].first.is_multiple_of(CHUNK_PAGES), "{pair:?} are two");
        }
        let pages_of = |state: Free| -> u64 {
            free.iter().filter(|span| span.state == state).map(|span| u64::from(span.pages)).sum()
        };
        assert_eq!(self.arena.free_spans() as usize, free.len());
        assert_eq!(self.arena.hot_pages(), pages_of(Free::Hot));
        assert_eq!(self.arena.lazy_pages(), pages_of(Free::Lazy));
        for span in &free {
            let is_dirty =
                self.arena.bits.dirty.next(span.first, span.end(), span.state == Free::Clean);
            assert_eq!(is_dirty, span.end(), "{span:?}");
            assert!(!self.arena.bits.mapped.any(span.first, span.pages), "{span:?} is mapped");
        }
        for &(first, pages, owner) in &self.owned {
            let unmapped = self.arena.bits.mapped.next(first, first + pages, owner == Owner::Block);
            assert_eq!(unmapped, first + pages);
            assert_eq!(self.arena.block(first), (owner == Owner::Block).then_some(pages));
        }
    }

    fn allocate(&mut self, pages: u32, alignment_bits: u32, owner: Owner) {
        let wanted = pages + (1 << alignment_bits) - 1;
        let free = self.free_spans();
        let Some(grant) = self.arena.allocate(pages, 1 << alignment_bits, owner) else {
            return assert!(free.iter().all(|span| span.pages < wanted), "there was a fit");
        };
        check_grant(&free, grant);
        if alignment_bits == 0 && free.iter().filter(|span| span.state != Free::Clean).count() < 16
        {
            check_place(&free, grant);
        }
        assert_eq!(grant.pages, pages);
        assert_eq!(grant.first % (1 << alignment_bits), 0);
        self.owned.push((grant.first, pages, owner));
    }

    fn free(&mut self, choice: Choice, is_clean: bool) {
        if self.owned.is_empty() {
            return;
        }
        let (first, pages, owner) = self.owned.swap_remove(choice.among(self.owned.len()));
        let disowned = match owner {
            Owner::Block => self.arena.disown_block(first).map(|pages| (first, pages)),
            Owner::Map => self.arena.disown_mapped(first, pages),
        };
        assert_eq!(disowned, Some((first, pages)));
        self.deposit(first, pages, is_clean);
    }

    fn deposit(&mut self, first: u32, pages: u32, is_clean: bool) {
        match is_clean {
            true => self.arena.deposit_clean(first, pages),
            false => self.arena.deposit(first, pages, self.now),
        }
    }

    /// Unmaps the middle of a mapping; the rests become mappings of their own.
    fn unmap(&mut self, choice: Choice, skip: u32, pages: u32) {
        let maps = |owned: &&Owned| owned.2 == Owner::Map;
        let Some(&map) = self.owned.iter().filter(maps).nth(choice.among(8)) else { return };
        let (first, whole, _) = map;
        let skip = skip % whole;
        let pages = pages.min(whole - skip);
        self.owned.retain(|owned| *owned != map);
        let rests = [(first, skip), (first + skip + pages, whole - skip - pages)];
        let rests = rests.into_iter().filter(|rest| rest.1 > 0);
        self.owned.extend(rests.map(|(first, pages)| (first, pages, Owner::Map)));
        let disowned = self.arena.disown_mapped(first + skip, pages);
        assert_eq!(disowned, Some((first + skip, pages)));
        self.deposit(first + skip, pages, false);
    }

    fn extend(&mut self, choice: Choice, pages: u32) {
        if self.owned.is_empty() {
            return;
        }
        let index = choice.among(self.owned.len());
        let (first, whole, owner) = self.owned[index];
        let end = first + whole;
        let free = self.free_spans();
        let is_inside = |page: u32| page / CHUNK_PAGES == (end - 1) / CHUNK_PAGES;
        let is_free = |page: u32| {
            is_inside(page) && free.iter().any(|span| (span.first..span.end()).contains(&page))
        };
        let is_expected = (end..end + pages).all(is_free);
        let grant = self.arena.extend(end, pages);
        assert_eq!(
            grant.map(|grant| (grant.first, grant.pages)),
            is_expected.then_some((end, pages))
        );
        if is_expected {
            self.arena.own(first, whole + pages, owner);
            self.owned[index].1 += pages;
        }
    }

    fn carve(&mut self, sixty_fourth: u32, pages: u32) {
        let first = sixty_fourth * (PAGES / 64);
        let pages = pages.min(PAGES - first);
        while let Some(grant) = self.arena.carve(first, pages) {
            assert!(first <= grant.first && grant.first + grant.pages <= first + pages);
            self.arena.own(grant.first, grant.pages, Owner::Map);
            self.owned.push((grant.first, grant.pages, Owner::Map));
        }
        let is_free = |span: &FreeSpan| span.first < first + pages && first < span.end();
        assert!(!self.free_spans().iter().any(is_free), "carved, yet free");
    }

    fn work(&mut self) {
        let mut is_first = true;
        while let Some(work) = self.arena.next_work(self.now) {
            assert!(self.arena.is_working() && self.arena.next_work(self.now).is_none());
            let (Work::LazilyFree(span) | Work::Discard(span)) = work;
            if std::mem::take(&mut is_first) {
                self.go_on_beside(span);
            }
            self.arena.finish();
        }
    }

    /// Discards all retained spans, oldest first.
    fn drain(&mut self) {
        while self.arena.oldest().is_some() {
            self.arena.finish();
        }
    }

    /// Zeroes the tables that the arena reports as empty, as the kernel does. There are none while the
    /// arena retains anything.
    fn empty_tables(&mut self) {
        let is_held = self.arena.hot_pages() + self.arena.lazy_pages() > 0;
        for (address, length) in self.arena.empty_tables() {
            assert!(!is_held || length == 0);
            // SAFETY: the tables were leaked; zeros are values of theirs.
            unsafe { std::ptr::write_bytes(address as *mut u8, 0, length) };
        }
    }

    /// Acts as another thread while `span` is detached: frees memory that may be adjacent to it.
    fn go_on_beside(&mut self, span: FreeSpan) {
        self.owned.push((span.first, span.pages, Owner::Map));
        self.arena.own(span.first, span.pages, Owner::Map);
        self.allocate(3, 0, Owner::Block);
        self.free(Choice(self.owned.len() - 1), false);
        self.owned.retain(|owned| owned.0 != span.first);
        self.arena.bits.mapped.clear(span.first, span.pages);
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Allocate { pages, alignment_bits, owner } => {
                self.allocate(pages, alignment_bits, owner);
            }
            Step::Free(choice) => self.free(choice, false),
            Step::FreeClean(choice) => self.free(choice, true),
            Step::Unmap { choice, skip, pages } => self.unmap(choice, skip, pages),
            Step::Extend { choice, pages } => self.extend(choice, pages),
            Step::Carve { sixty_fourth, pages } => self.carve(sixty_fourth, pages),
            Step::Advise(region) => self.arena.bits.huge.set(region * HUGE_PAGES, HUGE_PAGES),
            Step::Wait(time) => self.now.0 += time,
            Step::Pressure => self.arena.pressure(self.now),
            Step::Drain => self.drain(),
        }
    }
}

/// Number of pages of `span` from `first` to `end`.
fn common(span: &FreeSpan, first: u32, end: u32) -> u32 {
    span.end().min(end).saturating_sub(span.first.max(first))
}

fn pages_of(free: &[FreeSpan], first: u32, end: u32, states: &[Free]) -> u32 {
    let spans = free.iter().filter(|span| states.contains(&span.state));
    spans.map(|span| common(span, first, end)).sum()
}

/// Checks that the granted pages were all free, in one chunk, and in the reported state.
fn check_grant(free: &[FreeSpan], grant: Grant) {
    let (first, end) = (grant.first, grant.first + grant.pages);
    assert_eq!(first / CHUNK_PAGES, (end - 1) / CHUNK_PAGES, "over two chunks");
    let pages = |states: &[Free]| pages_of(free, first, end, states);
    assert_eq!(pages(&[Free::Hot, Free::Lazy, Free::Clean]), grant.pages);
    assert_eq!(pages(&Free::KEPT), grant.kept);
    let held = match (pages(&[Free::Hot]), pages(&[Free::Lazy])) {
        (0, 0) => Free::Clean,
        (_, 0) => Free::Hot,
        _ => Free::Lazy,
    };
    assert_eq!(grant.held, held);
}

/// Checks that the pages are at the best place, by a full search of the free spans.
fn check_place(free: &[FreeSpan], grant: Grant) {
    let first = grant.first;
    let inside = |span: &&FreeSpan| {
        span.state == Free::Hot && span.pages >= grant.pages && !is_before_rest(free, span.end())
    };
    if let Some(best) = free.iter().filter(inside).map(|span| span.pages).min() {
        let chosen = free.iter().find(|span| span.first == first).map(|span| span.pages);
        return assert_eq!(chosen, Some(best), "not the best fit");
    }
    let kept = |first: u32| pages_of(free, first, first + grant.pages, &Free::KEPT);
    let hot = |first: u32| pages_of(free, first, first + grant.pages, &[Free::Hot]);
    let is_one = |&first: &u32| {
        kept(first) == grant.pages && first / CHUNK_PAGES == (first + grant.pages - 1) / CHUNK_PAGES
    };
    let rank = |first: u32| (ends_before_rest(free, first + grant.pages), u32::MAX - hot(first));
    let spans = free.iter().filter(|span| span.state != Free::Clean);
    let places = spans.flat_map(|span| [Some(span.first), span.end().checked_sub(grant.pages)]);
    match places.flatten().filter(is_one).map(rank).min() {
        Some(best) => {
            assert_eq!((kept(first), rank(first)), (grant.pages, best), "not the hottest")
        }
        None if grant.kept == 0 => {
            let mut spans = free.iter().filter(|span| span.state != Free::Clean);
            assert!(spans.all(|span| reach(free, span) < grant.pages), "what lies around fits");
        }
        None => {}
    }
}

/// Adjacent free pages from the span before `span` on, or from `span` itself, to the next page in use.
fn reach(free: &[FreeSpan], span: &FreeSpan) -> u32 {
    let is_border = |page: u32| page.is_multiple_of(CHUNK_PAGES);
    let before = free.iter().find(|before| before.end() == span.first && !is_border(span.first));
    let mut end = span.end();
    while !is_border(end)
        && let Some(next) = free.iter().find(|next| next.first == end)
    {
        end = next.end();
    }
    end - before.unwrap_or(span).first
}

/// Whether all pages from `page` to the end of its chunk are clean.
fn is_before_rest(free: &[FreeSpan], page: u32) -> bool {
    let is_rest = |span: &FreeSpan| span.first == page && span.end().is_multiple_of(CHUNK_PAGES);
    !page.is_multiple_of(CHUNK_PAGES)
        && free.iter().any(|span| is_rest(span) && span.state == Free::Clean)
}

/// `is_before_rest` for the first page from `page` on that is clean or not free.
fn ends_before_rest(free: &[FreeSpan], page: u32) -> bool {
    let mut page = page;
    while !page.is_multiple_of(CHUNK_PAGES)
        && let Some(span) = free.iter().find(|span| span.first <= page && page < span.end())
        && span.state != Free::Clean
    {
        page = span.end();
    }
    is_before_rest(free, page)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn pages_have_one_owner_and_free_ones_are_found(steps in steps(), hot_pages in 0..5_000_u64) {
        let mut checked = Checked::new(hot_pages);
        for step in steps {
            checked.step(step);
            checked.work();
            checked.empty_tables();
            checked.check();
            prop_assert!(checked.arena.hot_pages() <= hot_pages);
        }
        while !checked.owned.is_empty() {
            checked.free(Choice(0), false);
        }
        checked.drain();
        let clean = |first| FreeSpan { first, pages: CHUNK_PAGES, state: Free::Clean };
        prop_assert_eq!(checked.free_spans(), vec![clean(0), clean(CHUNK_PAGES)]);
    }

    #[test]
    fn a_fork_during_work_loses_no_page(steps in steps()) {
        let mut checked = Checked::new(100);
        for step in steps {
            checked.step(step);
            if checked.arena.next_work(checked.now).is_some() {
                checked.arena.recover(checked.now);
            }
            checked.check();
        }
        checked.drain();
        prop_assert_eq!(checked.arena.hot_pages() + checked.arena.lazy_pages(), 0);
    }
}

/// A freed span from the middle of one huge page to the middle of another, beside memory in use.
fn freed_within_huge_pages(regions: u32) -> (Arena, FreeSpan) {
    let mut arena = Arena::new(Rules::decay(Bytes(0)));
    arena.set_rules(Rules { held_bytes: Some(Bytes(1)), ..Rules::decay(Bytes(0)) });
    arena.grow(0, tables());
    arena.allocate(HUGE_PAGES / 2, 1, Owner::Block).unwrap();
    let grant = arena.allocate(regions * HUGE_PAGES, 1, Owner::Block).unwrap();
    arena.allocate(HUGE_PAGES / 2, 1, Owner::Block).unwrap();
    arena.bits.huge.set(0, (regions + 1) * HUGE_PAGES);
    arena.disown_block(grant.first);
    arena.deposit(grant.first, grant.pages, Nanos(0));
    (arena, FreeSpan { first: grant.first, pages: grant.pages, state: Free::Hot })
}

#[test]
fn a_span_above_the_limit_leaves_huge_pages_in_part_in_use_whole() {
    let (mut arena, span) = freed_within_huge_pages(3);
    let Some(Work::Discard(whole)) = arena.next_work(Nanos(0)) else { panic!("nothing goes") };
    assert_eq!((whole.first, whole.pages), (HUGE_PAGES, 2 * HUGE_PAGES));
    assert_eq!(arena.hot_pages(), u64::from(span.pages - whole.pages));
    arena.finish();
    // The rest is still above the limit, and the arena retains nothing else.
    let mut discarded = whole.pages;
    while let Some(Work::Discard(part)) = arena.next_work(Nanos(0)) {
        discarded += part.pages;
        arena.finish();
    }
    assert_eq!((discarded, arena.hot_pages()), (span.pages, 0));
}

#[test]
fn idle_spans_and_those_of_a_program_short_of_memory_go_whole() {
    for is_short in [false, true] {
        let (mut arena, span) = freed_within_huge_pages(3);
        if is_short {
            arena.pressure(Nanos(1));
        }
        let later = Nanos(if is_short { 2 } else { 60_000_000_000 });
        let Some(Work::Discard(whole)) = arena.next_work(later) else { panic!("nothing goes") };
        assert_eq!((whole.first, whole.pages), (span.first, span.pages));
    }
}

#[test]
fn tables_of_a_free_arena_go_but_for_its_ends() {
    let mut arena = Arena::new(Rules::paper());
    arena.grow(0, tables());
    let grant = arena.allocate(CHUNK_PAGES, 1, Owner::Block).unwrap();
    assert_eq!(arena.disown_block(grant.first), Some(CHUNK_PAGES));
    arena.deposit(grant.first, grant.pages, Nanos(0));
    assert_eq!(arena.empty_tables().map(|table| table.1).sum::<usize>(), 0);
    while arena.oldest().is_some() {
        arena.finish();
    }
    let (pages, ends) = (CHUNK_PAGES as usize, 2 * crate::chunks::PAGE);
    let expected = pages * (size_of::<Entry>() + size_of::<Tag>()) - ends;
    assert_eq!(arena.empty_tables().map(|table| table.1).sum::<usize>(), expected);
}

#[test]
fn tables_are_wanted_once_and_again_after_they_went() {
    let mut arena = Arena::new(Rules::paper());
    arena.grow(0, tables());
    let bytes = |arena: &mut Arena| {
        arena.wanted_tables().map(|tables| tables.iter().map(|table| table.1).sum::<usize>())
    };
    let of = |pages: usize| Some(pages * (size_of::<Entry>() + size_of::<Tag>()));
    assert_eq!(bytes(&mut arena), None);
    let block = arena.allocate(400, 1, Owner::Block).unwrap();
    assert_eq!((bytes(&mut arena), bytes(&mut arena)), (of(500), None));
    arena.allocate(100, 1, Owner::Block).unwrap();
    assert_eq!(bytes(&mut arena), None, "they reach that far");
    // Of a long block, only the part at its end; and no more than the arena has.
    arena.allocate(3000, 1, Owner::Block).unwrap();
    assert_eq!(bytes(&mut arena), of(875 + 1024));
    arena.allocate(596, 1, Owner::Block).unwrap();
    assert_eq!(bytes(&mut arena), None);
    assert_eq!(arena.disown_block(block.first), Some(400));
    arena.deposit_clean(block.first, 400);
    assert!(arena.empty_tables().count() > 1);
    arena.allocate(400, 1, Owner::Block).unwrap();
    assert!(bytes(&mut arena).is_some());
}

#[test]
fn what_lies_beside_a_span_makes_up_for_what_it_lacks() {
    let mut arena = Arena::new(Rules::decay(Bytes(1 << 30)));
    arena.grow(0, tables());
    let pages = [30, 40, 1].map(|pages| arena.allocate(pages, 1, Owner::Block).unwrap().pages);
    assert_eq!(arena.disown_block(30), Some(pages[1]));
    arena.deposit(30, 40, Nanos(0));
    assert_eq!(arena.disown_block(70), Some(pages[2]));
    arena.deposit_clean(70, 1);
    let grant = arena.allocate(50, 1, Owner::Block).unwrap();
    let expected = Grant { first: 30, pages: 50, held: Free::Hot, kept: 40 };
    assert_eq!(grant, expected);
    // The hot span is used up, so the next pages are clean.
    let clean = arena.allocate(50, 1, Owner::Block).unwrap();
    assert_eq!((clean.first, clean.held, clean.kept), (80, Free::Clean, 0));
}

#[test]
fn what_lies_before_the_clean_rest_is_cut_last() {
    let mut arena = Arena::new(Rules::decay(Bytes(1 << 30)));
    arena.grow(0, tables());
    let pages = [90, 1, 40, 1, 50];
    let firsts = pages.map(|pages| arena.allocate(pages, 1, Owner::Block).unwrap().first);
    for block in [0, 2, 4] {
        assert_eq!(arena.disown_block(firsts[block]), Some(pages[block]));
        arena.deposit(firsts[block], pages[block], Nanos(0));
    }
    let mut take = |pages| arena.allocate(pages, 1, Owner::Block).unwrap().first;
    assert_eq!(take(30), firsts[2], "the best fit");
    assert_eq!(take(45), firsts[0], "50 pages fit better, but lie before the rest");
    assert_eq!([take(45), take(45)], [45, firsts[4]]);
}

#[test]
fn pages_are_taken_where_most_are_hot() {
    let mut arena = Arena::new(Rules::decay(Bytes(30 * types::PAGE_BYTES)));
    arena.grow(0, tables());
    let pages = [48, 32, 20, 1];
    let firsts = pages.map(|pages| arena.allocate(pages, 1, Owner::Block).unwrap().first);
    for block in [0, 1, 2] {
        assert_eq!(arena.disown_block(firsts[block]), Some(pages[block]));
        arena.deposit(firsts[block], pages[block], Nanos(0));
        while arena.next_work(Nanos(0)).is_some() {
            arena.finish();
        }
    }
    // 100 adjacent pages are free; the last 20 of them and some before are hot.
    let grant = arena.allocate(60, 1, Owner::Block).unwrap();
    assert_eq!((grant.first, grant.held, grant.kept), (40, Free::Lazy, 60));
}

#[test]
fn accessible_pages_are_found_behind_closed_ones() {
    let mut arena = Arena::new(Rules::paper());
    arena.grow(0, tables());
    arena.bits.closed.set(0, 10);
    arena.bits.closed.set(30, 20);
    let first = |grant: Option<Grant>| grant.map(|grant| (grant.first, grant.pages, grant.held));
    let mut take = |pages, alignment| first(arena.allocate_open(pages, alignment, Owner::Block));
    assert_eq!(take(21, 1), Some((50, 21, Free::Clean)));
    assert_eq!(take(CHUNK_PAGES, 1), None);
    // The rest of the chunk behind is longer than the free pages before.
    assert_eq!(take(5, 64), Some((128, 5, Free::Clean)));
    assert_eq!(arena.block(50), Some(21));
}

#[test]
fn mapped_pages_come_back_stretch_by_stretch() {
    let mut arena = Arena::new(Rules::paper());
    arena.grow(0, tables());
    arena.allocate(10, 1, Owner::Map);
    arena.bits.tainted.set(4, 2);
    assert_eq!(arena.disown_mapped(2, 20), Some((2, 2)));
    assert_eq!(arena.disown_mapped(2, 20), Some((4, 2)));
    assert_eq!(arena.disown_mapped(2, 20), Some((6, 4)));
    assert_eq!(arena.disown_mapped(2, 20), None);
}

#[test]
fn spans_of_one_length_are_not_confused() {
    let mut arena = Arena::new(Rules::decay(Bytes(1 << 30)));
    arena.grow(0, tables());
    // Clean pages, hot ones, and clean ones as many as the rest of the first.
    let firsts = [12, 2, 8, 1].map(|pages| arena.allocate(pages, 1, Owner::Block).unwrap().first);
    assert_eq!(firsts, [0, 12, 14, 22]);
    for (first, is_clean) in firsts.into_iter().zip([true, false, true]) {
        let pages = arena.disown_block(first).unwrap();
        match is_clean {
            true => arena.deposit_clean(first, pages),
            false => arena.deposit(first, pages, Nanos(0)),
        }
    }
    let grant = arena.allocate(14, 1, Owner::Block).unwrap();
    assert_eq!((grant.first, grant.kept), (8, 2));
    let clean = |first, pages| Some(FreeSpan { first, pages, state: Free::Clean });
    assert_eq!((arena.block(8), arena.block(22)), (Some(14), Some(1)));
    assert_eq!((arena.spans.at(0), arena.spans.at(22)), (clean(0, 8), None));
    assert_eq!((arena.spans.before(8), arena.carve(8, 15)), (clean(0, 8), None));
}
