//! When each page was last placed in a list, as bits along a time axis: lists without links.
//!
//! A placement is stamped with the next tick of a clock and with its kind, which names the list. So a
//! list is the set of ticks of one kind whose bit is set: clearing a bit removes a page from the
//! middle, the next page of a list is the next bit, and a boundary within a list is a tick. Moving
//! a boundary past a page writes nothing, because comparing a page's stamp with the boundaries gives
//! its state. So an access costs one word of scattered memory, and bits of an array small
//! enough for the processor's cache. When the ring of bits is full, pages get new ticks in the same
//! order.

use types::{PageId, prefetch};

/// Tick and kind of a page's last placement, in one word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp(u32);

/// Accesses whose stamps should be fetched together.
pub(super) const CHUNK: usize = 128;
/// The first tick of a placement.
pub(super) const TICK_FIRST: u32 = 2;
/// Memories of up to this many frames can be counted with a timeline: their lists, of up to twice
/// as many pages, leave free most of the longest ring.
pub(super) const FRAMES_MAX: u32 = 1 << 26;

const KIND_BITS: u32 = 2;
const TICKS_MAX: u32 = 1 << (u32::BITS - KIND_BITS);
const RING_MAX: usize = 1 << 29;
/// Ticks of the ring per page: a renewal visits all pages, so this makes it rare.
const TICKS_PER_PAGE: usize = 4;
const BLOCK_TICKS: u32 = u64::BITS;
const BLOCKS_MIN: usize = 16;

impl Stamp {
    /// Stamp of a page that was never placed.
    const NEVER: Stamp = Stamp::new(0, 1);
    /// Stamp of a page whose last placement is forgotten.
    const LONG_AGO: Stamp = Stamp::new(1, 1);

    #[inline(always)]
    const fn new(tick: u32, kind: usize) -> Stamp {
        Stamp(tick << KIND_BITS | kind as u32)
    }

    #[inline(always)]
    pub(super) fn tick(self) -> u32 {
        self.0 >> KIND_BITS
    }

    #[inline(always)]
    pub(super) fn kind(self) -> usize {
        (self.0 & ((1 << KIND_BITS) - 1)) as usize
    }
}

/// The last placement of every page. Kind 0 is the frequent one: placing it writes no bit.
///
/// Invariant: of the ticks before `now`, a bit that the user of its kind still needs (see `firsts`)
/// is set exactly if a page has that stamp. From `now` on, the bits of kind 0 are set.
pub(super) struct Timeline<const KINDS: usize> {
    stamps: Vec<Stamp>,
    /// A ring of blocks of 64 ticks, with a word for each kind.
    blocks: Box<[[u64; KINDS]]>,
    now: u32,
    /// The end of the last block that is ready for placements.
    ready: u32,
    /// Ticks restart when they reach this.
    ticks_max: u32,
}

impl<const KINDS: usize> Timeline<KINDS> {
    pub(super) fn new() -> Timeline<KINDS> {
        const { assert!(KINDS >= 2 && KINDS <= 1 << KIND_BITS) };
        Timeline {
            stamps: Vec::new(),
            blocks: Self::empty(BLOCKS_MIN),
            now: TICK_FIRST,
            ready: BLOCKS_MIN as u32 * BLOCK_TICKS,
            ticks_max: TICKS_MAX,
        }
    }

    #[cfg(test)]
    pub(super) fn with_ticks_max(self, ticks_max: u32) -> Timeline<KINDS> {
        Timeline { ticks_max, ..self }
    }

    fn empty(blocks: usize) -> Box<[[u64; KINDS]]> {
        vec![Self::EMPTY; blocks].into_boxed_slice()
    }

    const EMPTY: [u64; KINDS] = {
        let mut words = [0; KINDS];
        words[0] = !0;
        words
    };

    /// Makes room for pages numbered below `pages`.
    pub(super) fn grow(&mut self, pages: usize) {
        if self.stamps.len() < pages {
            self.stamps.resize(pages, Stamp::NEVER);
        }
    }

    /// Distinct pages placed so far.
    pub(super) fn pages_placed(&self) -> u64 {
        self.stamps.iter().map(|&stamp| u64::from(stamp != Stamp::NEVER)).sum()
    }

    /// Length of the ring in ticks: the needed ticks of different pages differ modulo this.
    pub(super) fn ring(&self) -> usize {
        self.blocks.len() * BLOCK_TICKS as usize
    }

    /// The tick that the next placement gets.
    #[inline(always)]
    pub(super) fn now(&self) -> u32 {
        self.now
    }

    /// Reads the stamps of pages that are used next, so that the waits for scattered memory
    /// overlap.
    #[inline(always)]
    pub(super) fn read_ahead(&self, pages: &[PageId]) {
        let read = pages.iter().fold(0, |all, page| all | self.stamps[page.index()].0);
        std::hint::black_box(read);
    }

    /// Prefetches the stamps of pages that are used soon.
    #[inline(always)]
    pub(super) fn fetch_stamps(&self, pages: &[PageId]) {
        for page in pages {
            prefetch(&self.stamps, page.index());
        }
    }

    /// Prefetches the blocks of the ring that these pages leave when they are used.
    #[inline(always)]
    pub(super) fn fetch_blocks(&self, pages: &[PageId]) {
        let blocks = &self.blocks[..];
        for &page in pages {
            let block = self.stamp(page).tick() / BLOCK_TICKS;
            prefetch(blocks, block as usize & (blocks.len() - 1));
        }
    }

    #[inline(always)]
    pub(super) fn stamp(&self, page: PageId) -> Stamp {
        self.stamps[page.index()]
    }

    /// Page and stamp of all placements that are not forgotten, in page order.
    pub(super) fn placements(&self) -> impl Iterator<Item = (PageId, Stamp)> {
        let pages = (0..).map(PageId).zip(self.stamps.iter().copied());
        pages.filter(|(_, stamp)| stamp.tick() >= TICK_FIRST)
    }

    /// Makes `page`, which has already left its list, the newest of `kind`.
    #[inline(always)]
    pub(super) fn place(&mut self, page: PageId, kind: usize) {
        self.place_at(self.now, page, kind);
        self.now += 1;
    }

    /// `place` at a tick for which `make_room` made room and which `advance` will pass.
    #[inline(always)]
    pub(super) fn place_at(&mut self, tick: u32, page: PageId, kind: usize) {
        let stamp = Stamp::new(tick, kind);
        self.stamps[page.index()] = stamp;
        self.mark(stamp);
    }

    /// Advances the clock by `ticks`; `place_at` has made the placements in between.
    #[inline(always)]
    pub(super) fn advance(&mut self, ticks: u32) {
        self.now += ticks;
    }

    /// Moves the page with `stamp` from its list to kind 0, at `tick`, if `is_moved`; without
    /// a branch.
    #[inline(always)]
    pub(super) fn move_if(&mut self, is_moved: bool, page: PageId, stamp: Stamp, tick: u32) {
        self.stamps[page.index()] = if is_moved { Stamp::new(tick, 0) } else { stamp };
        let bit = u64::from(is_moved) << (stamp.tick() % BLOCK_TICKS);
        self.block_mut(stamp.tick() / BLOCK_TICKS)[stamp.kind()] &= !bit;
    }

    #[inline(always)]
    fn mark(&mut self, stamp: Stamp) {
        if stamp.kind() != 0 {
            let bit = 1 << (stamp.tick() % BLOCK_TICKS);
            let block = self.block_mut(stamp.tick() / BLOCK_TICKS);
            block[0] &= !bit;
            block[stamp.kind()] |= bit;
        }
    }

    /// Removes the page with `stamp` from its list.
    #[inline(always)]
    pub(super) fn take(&mut self, stamp: Stamp) {
        let bit = 1 << (stamp.tick() % BLOCK_TICKS);
        self.block_mut(stamp.tick() / BLOCK_TICKS)[stamp.kind()] &= !bit;
    }

    /// The first placement of any of `kinds` from tick `from` on. There must be one.
    #[inline(always)]
    pub(super) fn next<const N: usize>(&self, kinds: [usize; N], from: u32) -> u32 {
        let word = |block| kinds.iter().fold(0, |all, &kind| all | self.block(block)[kind]);
        let mut block = from / BLOCK_TICKS;
        let mut bits = word(block) & bits_from(from);
        while bits == 0 {
            block += 1;
            bits = word(block);
        }
        block * BLOCK_TICKS + bits.trailing_zeros()
    }

    /// The first tick of a block with `count` placements of `kind` between tick `from` and it.
    /// There must be that many.
    pub(super) fn end(&self, kind: usize, from: u32, count: u32) -> u32 {
        let mut block = from / BLOCK_TICKS;
        let mut found = (self.block(block)[kind] & bits_from(from)).count_ones();
        while found < count {
            block += 1;
            found += self.block(block)[kind].count_ones();
        }
        (block + 1) * BLOCK_TICKS
    }

    /// Number of placements of `kind` at ticks from `from` to before `to`, which is not earlier.
    #[inline(always)]
    pub(super) fn count(&self, kind: usize, from: u32, to: u32) -> u32 {
        let up_to = |tick| (self.block(tick / BLOCK_TICKS)[kind] & !bits_from(tick)).count_ones();
        let between: u32 = (from / BLOCK_TICKS..to / BLOCK_TICKS)
            .map(|block| self.block(block)[kind].count_ones())
            .sum();
        between + up_to(to) - up_to(from)
    }

    /// Makes room for `ticks` more placements. Placements of each kind before its tick in `firsts` are
    /// no longer needed. If this assigned new ticks, it returns how to translate the old ones.
    #[inline(always)]
    pub(super) fn make_room(&mut self, ticks: u32, firsts: [u32; KINDS]) -> Option<NewTicks> {
        let oldest = firsts.into_iter().fold(self.now, u32::min) / BLOCK_TICKS;
        while self.ready < self.now + ticks {
            let ready = self.ready / BLOCK_TICKS;
            if (ready - oldest) as usize == self.blocks.len() || self.ready >= self.ticks_max {
                return Some(self.renew(firsts));
            }
            *self.block_mut(ready) = Self::EMPTY;
            self.ready += BLOCK_TICKS;
        }
        None
    }

    /// Gives the needed placements the ticks from the first on, and the ring its size.
    #[cold]
    #[inline(never)]
    fn renew(&mut self, firsts: [u32; KINDS]) -> NewTicks {
        let new = NewTicks::new(self, firsts);
        let ticks = (self.stamps.len() * TICKS_PER_PAGE).min(RING_MAX);
        let blocks = (ticks / BLOCK_TICKS as usize).next_power_of_two().max(BLOCKS_MIN);
        self.blocks = Self::empty(blocks);
        self.now = new.end;
        self.ready = blocks as u32 * BLOCK_TICKS;
        assert!(self.now <= self.ready / 2, "a timeline serves up to {FRAMES_MAX} frames");
        for index in 0..self.stamps.len() {
            let stamp = self.stamps[index];
            if stamp == Stamp::NEVER {
                continue;
            }
            self.stamps[index] = Stamp::LONG_AGO;
            if stamp.tick() >= firsts[stamp.kind()] {
                self.stamps[index] = Stamp::new(new.of(stamp.tick()), stamp.kind());
                self.mark(self.stamps[index]);
            }
        }
        new
    }

    #[inline(always)]
    fn block(&self, block: u32) -> &[u64; KINDS] {
        &self.blocks[block as usize & (self.blocks.len() - 1)]
    }

    #[inline(always)]
    fn block_mut(&mut self, block: u32) -> &mut [u64; KINDS] {
        &mut self.blocks[block as usize & (self.blocks.len() - 1)]
    }
}

/// Mask of the bits of a block's word from this tick on.
#[inline(always)]
fn bits_from(tick: u32) -> u64 {
    !0 << (tick % BLOCK_TICKS)
}

/// Translation of old ticks to the ticks that a renewal assigned.
pub(super) struct NewTicks {
    first_block: u32,
    /// For each old block the new tick of its first needed bit, and its needed bits.
    blocks: Vec<(u32, u64)>,
    end: u32,
}

impl NewTicks {
    fn new<const KINDS: usize>(line: &Timeline<KINDS>, firsts: [u32; KINDS]) -> NewTicks {
        let first_block = firsts.into_iter().fold(line.now, u32::min) / BLOCK_TICKS;
        let last_block = line.now / BLOCK_TICKS;
        let mut new = NewTicks { first_block, blocks: Vec::new(), end: TICK_FIRST };
        for block in first_block..=last_block {
            let mut asked = 0;
            for (word, first) in line.block(block).iter().zip(firsts) {
                asked |= match first / BLOCK_TICKS {
                    first_block if first_block > block => 0,
                    first_block if first_block == block => word & bits_from(first),
                    _ => *word,
                };
            }
            if block == last_block {
                asked &= !bits_from(line.now);
            }
            new.blocks.push((new.end, asked));
            new.end += asked.count_ones();
        }
        new
    }

    /// The new tick of the first needed placement at or after `tick`.
    #[inline(always)]
    pub(super) fn of(&self, tick: u32) -> u32 {
        let (first, asked) = self.blocks[(tick / BLOCK_TICKS - self.first_block) as usize];
        first + (asked & !bits_from(tick)).count_ones()
    }
}
