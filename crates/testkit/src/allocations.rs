//! The naive model of pools of freed spans, with lists searched from their beginning, a single process
//! and a byte per page: the paper's pool in the kernel (S3.4), pagewise's pool in the program, and no
//! pool.

/// A step of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The program allocates a block and touches some of its pages.
    Allocate {
        /// Number of pages.
        pages: u32,
        /// Whether the pages must read as zero.
        is_zeroed: bool,
        /// The touched pages, ascending.
        touched: Vec<u32>,
    },
    /// The program frees a block.
    Free {
        /// Index of the step that allocated the block.
        allocated_at: usize,
    },
}

/// A pool of freed spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// Freed blocks are unmapped.
    None,
    /// The paper's pool.
    Paper,
    /// The pool of the preload library.
    Lazy {
        /// Largest number of hot pages.
        hot_pages: u64,
    },
}

/// Counts of a replay, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Touches of pages without a frame.
    pub faults: u64,
    /// Pages filled before their touch.
    pub populated: u64,
    /// Pages cleared at reuse.
    pub zeroed: u64,
    /// Pages touched while lazily freed.
    pub lazy_touches: u64,
    /// Pages that the kernel reclaimed.
    pub reclaimed: u64,
    /// Most frames in use at a time.
    pub resident_max: u64,
    /// Whether the program was killed.
    pub is_killed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    Absent,
    Zero,
    Dirty,
    Lazy,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    first: u32,
    pages: u32,
    since: u64,
}

struct Model {
    pool: Pool,
    budget: Option<u64>,
    pages: Vec<Page>,
    hot: Vec<Span>,
    lazy: Vec<Span>,
    clean: Vec<Span>,
    became_lazy: Vec<u32>,
    foresight: Foresight,
    counts: Counts,
}

/// History of fresh pages: how many of them the program touched.
#[derive(Default)]
struct Foresight {
    /// Fresh pages, and how many of them were touched; the latest last.
    seen: Vec<(u64, u64)>,
    /// First page and number of the remaining pages that were filled ahead last.
    awaited: Option<(u32, u32)>,
    /// Fresh pages of live blocks.
    fresh: Vec<u32>,
}

/// Foresight needs a history of at least `SEEN_PAGES_MIN` pages, and halves it at `REMEMBERED_PAGES`. One
/// page in `LEFT_ONE_IN` may stay untouched and is left to the program. Estimates use the last
/// `LOOKED_AT_MAX` pages.
const SEEN_PAGES_MIN: u64 = 256;
const REMEMBERED_PAGES: u64 = 4096;
const LEFT_ONE_IN: u32 = 16;
const LOOKED_AT_MAX: u32 = 512;

const SECOND_NS: u64 = 1_000_000_000;
const ZERO_PAGES_MAX: u32 = 2048;
/// Hot pages above the limit are freed in parts of 1 MiB.
const PART_PAGES: u64 = 256;
/// Largest number of hot and lazily freed pages together: 32 MiB.
const HELD_PAGES_MAX: u64 = 8192;

/// Replays timed steps; `budget` is the number of frames.
pub fn replay(steps: &[(u64, Step)], pool: Pool, budget: Option<u64>) -> Counts {
    let mut model = Model {
        pool,
        budget,
        pages: Vec::new(),
        hot: Vec::new(),
        lazy: Vec::new(),
        clean: Vec::new(),
        became_lazy: Vec::new(),
        foresight: Foresight::default(),
        counts: Counts::default(),
    };
    let mut blocks: Vec<Option<(u32, u32)>> = Vec::new();
    for &(now, ref step) in steps {
        model.act(now);
        let block = match step {
            Step::Allocate { pages, is_zeroed, touched } => {
                let first = model.allocate(*pages, *is_zeroed);
                touched.iter().for_each(|page| model.touch(first + page));
                Some((first, *pages))
            }
            Step::Free { allocated_at } => {
                if let Some((first, pages)) = blocks[*allocated_at].take() {
                    model.free(first, pages, now);
                }
                None
            }
        };
        if model.counts.is_killed {
            break;
        }
        blocks.push(block);
        model.counts.resident_max = model.counts.resident_max.max(model.resident());
    }
    model.counts
}

impl Model {
    fn resident(&self) -> u64 {
        self.pages.iter().filter(|page| **page != Page::Absent).count() as u64
    }

    fn set(&mut self, page: u32, to: Page) {
        self.pages[page as usize] = to;
        self.became_lazy.retain(|&other| other != page);
        if to == Page::Lazy {
            self.became_lazy.push(page);
        }
    }

    fn touch(&mut self, page: u32) {
        if self.counts.is_killed {
            return;
        }
        let state = self.pages[page as usize];
        match state {
            Page::Absent if !self.has_room() => {
                self.counts.is_killed = true;
                return;
            }
            Page::Absent => self.counts.faults += 1,
            Page::Lazy => self.counts.lazy_touches += 1,
            Page::Zero | Page::Dirty => {}
        }
        self.set(page, Page::Dirty);
    }

    fn has_room(&mut self) -> bool {
        let Some(budget) = self.budget else { return true };
        if self.resident() < budget {
            return true;
        }
        for _ in 0..32 {
            let oldest =
                self.became_lazy.iter().position(|&page| self.pages[page as usize] == Page::Lazy);
            let Some(oldest) = oldest else { break };
            let page = self.became_lazy.remove(oldest);
            self.set(page, Page::Absent);
            self.counts.reclaimed += 1;
        }
        self.resident() < budget
    }

    fn allocate(&mut self, pages: u32, is_zeroed: bool) -> u32 {
        let (first, is_clean) = self.take(pages);
        let range = first..first + pages;
        match self.pool {
            Pool::None => {}
            Pool::Paper => {
                range.clone().for_each(|page| self.clear(page));
                for page in range {
                    if self.pages[page as usize] == Page::Absent && self.has_room() {
                        self.counts.populated += 1;
                        self.set(page, Page::Zero);
                    }
                }
            }
            Pool::Lazy { .. } if is_zeroed && !is_clean => {
                for page in range {
                    match page < first + ZERO_PAGES_MAX {
                        true => self.clear(page),
                        false => self.set(page, Page::Absent),
                    }
                }
            }
            Pool::Lazy { hot_pages } if is_clean => {
                self.foresight.fresh.extend(range);
                if u64::from(pages) <= hot_pages {
                    self.fill_ahead(first, pages);
                }
            }
            Pool::Lazy { .. } => {}
        }
        first
    }

    /// Fills fresh pages that the program is likely to touch, unless the use of the last ones is still
    /// unknown.
    fn fill_ahead(&mut self, first: u32, pages: u32) {
        if let Some((left, count)) = self.foresight.awaited {
            let touched = self.touched_of(left, count);
            if (count - touched) * LEFT_ONE_IN > count {
                return;
            }
            self.foresight.seen.push((count.into(), touched.into()));
            self.foresight.awaited = None;
        }
        let (mut given, mut touched) = (0, 0);
        for &(more, of_them) in &self.foresight.seen {
            (given, touched) = (given + more, touched + of_them);
            if given >= REMEMBERED_PAGES {
                (given, touched) = (given / 2, touched / 2);
            }
        }
        let left = pages.div_ceil(LEFT_ONE_IN);
        let is_rare = (given - touched) * u64::from(LEFT_ONE_IN) > given;
        if given < SEEN_PAGES_MIN || is_rare || left == pages {
            return;
        }
        let end = first + pages - left;
        self.foresight.fresh.retain(|page| !(first..end).contains(page));
        for page in first..end {
            if self.pages[page as usize] == Page::Absent && self.has_room() {
                self.counts.populated += 1;
                self.set(page, Page::Zero);
            }
        }
        self.foresight.awaited = Some((end, left));
    }

    /// Estimate of the touched pages in a range, from its last pages.
    fn touched_of(&self, first: u32, pages: u32) -> u32 {
        let looked_at = pages.min(LOOKED_AT_MAX);
        let is_there = |page: &u32| self.pages[*page as usize] != Page::Absent;
        let there = (first + pages - looked_at..first + pages).filter(is_there).count() as u32;
        there * pages / looked_at
    }

    /// Learns from the last fresh pages of a block that is freed.
    fn look_back(&mut self, first: u32, pages: u32) {
        let is_fresh = |page: &u32| self.foresight.fresh.contains(page);
        let Some(last) = (first..first + pages).rev().find(is_fresh) else { return };
        let start = (first..=last).rev().take_while(is_fresh).last().unwrap_or(last);
        let count = last + 1 - start;
        let touched = self.touched_of(start, count);
        self.foresight.seen.push((count.into(), touched.into()));
        if self.foresight.awaited == Some((start, count)) {
            self.foresight.awaited = None;
        }
        self.foresight.fresh.retain(|page| !(first..first + pages).contains(page));
    }

    /// Forgets awaited pages that are free, because the program will not touch them as expected.
    fn forget_awaited(&mut self, first: u32, pages: u32) {
        let is_among = |&(left, count): &(u32, u32)| left < first + pages && first < left + count;
        self.foresight.awaited = self.foresight.awaited.filter(|left| !is_among(left));
    }

    fn clear(&mut self, page: u32) {
        if matches!(self.pages[page as usize], Page::Dirty | Page::Lazy) {
            self.counts.zeroed += 1;
            self.set(page, Page::Zero);
        }
    }

    /// Best fit among hot, then lazily freed, then clean spans; otherwise new address space.
    fn take(&mut self, pages: u32) -> (u32, bool) {
        for (list, is_clean) in
            [(&mut self.hot, false), (&mut self.lazy, false), (&mut self.clean, true)]
        {
            let fits = list.iter().enumerate().filter(|(_, span)| span.pages >= pages);
            let Some((place, _)) = fits.min_by_key(|(_, span)| (span.pages, span.first)) else {
                continue;
            };
            let first = list[place].first;
            list[place].first += pages;
            list[place].pages -= pages;
            if list[place].pages == 0 {
                list.remove(place);
            }
            return (first, is_clean);
        }
        let first = self.pages.len() as u32;
        self.pages.resize(self.pages.len() + pages as usize, Page::Absent);
        (first, true)
    }

    fn free(&mut self, first: u32, pages: u32, now: u64) {
        let span = Span { first, pages, since: now };
        match self.pool {
            Pool::None => {
                (first..first + pages).for_each(|page| self.set(page, Page::Absent));
                merge(&mut self.clean, span);
            }
            Pool::Paper => {
                (first..first + pages).for_each(|page| self.make_lazy(page));
                merge(&mut self.lazy, span);
            }
            Pool::Lazy { .. } => {
                self.look_back(first, pages);
                self.forget_awaited(first, pages);
                merge(&mut self.hot, span);
                self.act(now);
            }
        }
    }

    fn make_lazy(&mut self, page: u32) {
        if matches!(self.pages[page as usize], Page::Dirty | Page::Zero) {
            self.set(page, Page::Lazy);
        }
    }

    /// Applies the rules of the pool up to `now`, to the oldest spans first.
    fn act(&mut self, now: u64) {
        let Pool::Lazy { hot_pages } = self.pool else { return };
        loop {
            let is_old = |span: &Span, seconds: u64| now >= span.since + seconds * SECOND_NS;
            let is_too_much = pages_of(&self.hot) + pages_of(&self.lazy) > HELD_PAGES_MAX;
            if self.lazy.first().is_some_and(|span| is_too_much || is_old(span, 5)) {
                let span = self.lazy.remove(0);
                self.discard(span);
                continue;
            }
            let Some(oldest) = self.hot.first().copied() else { return };
            let held = pages_of(&self.hot);
            if is_old(&oldest, 5) {
                self.hot.remove(0);
                self.discard(oldest);
            } else if held > hot_pages || is_old(&oldest, 1) {
                let oldest = match is_old(&oldest, 1) {
                    true => self.hot.remove(0),
                    false => self.part_of_oldest(held - hot_pages),
                };
                if is_too_much {
                    self.discard(oldest);
                    continue;
                }
                (oldest.first..oldest.first + oldest.pages).for_each(|page| self.make_lazy(page));
                self.lazy.push(oldest);
            } else {
                return;
            }
        }
    }

    /// Takes the front of the oldest hot span: the excess pages, in multiples of a part.
    fn part_of_oldest(&mut self, over: u64) -> Span {
        let part = over.div_ceil(PART_PAGES) * PART_PAGES;
        let oldest = self.hot[0];
        if part >= oldest.pages.into() {
            return self.hot.remove(0);
        }
        let pages = part as u32;
        self.hot[0] = Span { first: oldest.first + pages, pages: oldest.pages - pages, ..oldest };
        Span { pages, ..oldest }
    }

    fn discard(&mut self, span: Span) {
        (span.first..span.first + span.pages).for_each(|page| self.set(page, Page::Absent));
        merge(&mut self.clean, span);
    }
}

fn pages_of(spans: &[Span]) -> u64 {
    spans.iter().map(|span| u64::from(span.pages)).sum()
}

/// Adds a span as the youngest, merged with adjacent spans.
fn merge(list: &mut Vec<Span>, mut span: Span) {
    while let Some(place) = list.iter().position(|other| {
        other.first + other.pages == span.first || span.first + span.pages == other.first
    }) {
        let other = list.remove(place);
        span.first = span.first.min(other.first);
        span.pages += other.pages;
    }
    list.push(span);
}
