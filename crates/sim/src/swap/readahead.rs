//! The kernel's readahead of swap by slot: rewrites a trace as a recording with this readahead would have it.
//!
//! A fault that finds its page read ahead loses the flag `MAJOR`, every other swap-in gets it, and each page that it
//! reads along follows as a `DeviceRead`. So the tiers see it like recorded readahead. The rules are those of
//! `swap_cluster_readahead` in mm/swap_state.c (Linux 4.14 to 6.18). Where the model departs from the kernel:
//!
//! - Slots are handed out in the order of the page-outs, as the kernel does while it has free clusters, and
//!   never again.
//! - Memory is not modelled. By LRU, a page that was read ahead and not used is gone as soon as a page leaves
//!   memory that was swapped in later.

use types::{Event, EventFlags, EventKind, Events, PageId, ProcessId};

/// Pages of the largest window: 2^3, the kernel's default of /proc/sys/vm/page-cluster.
const WINDOW_PAGES_MAX: u64 = 1 << 3;
/// Hits that the kernel assumes before the first fault.
const HITS_AT_START: u64 = 4;
/// In `page_at`: the slot holds no page that can be read. In `KnownPage::slot`: no slot; the kernel keeps its header there.
const NONE: u32 = 0;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Memory,
    Swap,
    /// On swap, and read ahead into memory.
    Ahead,
}

/// What is known of a page; nothing of it holds if its process ended after `since`.
#[derive(Clone, Copy, Debug, Default)]
struct KnownPage {
    place: Place,
    slot: u32,
    owner: ProcessId,
    /// Number of the event that brought the page to its place; 0 before the first.
    since: u64,
}

/// The state of the readahead.
pub(super) struct KernelReadahead {
    pages: Vec<KnownPage>,
    /// One more than the page that each slot holds, or `NONE`.
    page_at: Vec<u32>,
    /// Number of the event with which each process last ended.
    ended: Vec<u64>,
    window: Window,
    /// Number of the event.
    now: u64,
    /// The latest swap-in of the pages that have left memory again.
    reclaimed: u64,
}

impl KernelReadahead {
    pub(super) fn new() -> KernelReadahead {
        KernelReadahead {
            pages: Vec::new(),
            page_at: vec![NONE],
            ended: Vec::new(),
            window: Window { hits: HITS_AT_START, previous_slot: 0, pages: 0 },
            now: 0,
            reclaimed: 0,
        }
    }

    /// The next events of the trace as they would have been recorded.
    pub(super) fn rewrite(&mut self, events: &Events) -> Events {
        let mut rewritten = Events::default();
        for (index, event) in events.iter().enumerate() {
            self.now += 1;
            let from = rewritten.len();
            self.rewrite_event(event, &mut rewritten);
            if let Some(&time_ns) = events.time_ns.get(index) {
                rewritten.time_ns.extend((from..rewritten.len()).map(|_| time_ns));
            }
        }
        rewritten
    }

    fn rewrite_event(&mut self, event: Event, rewritten: &mut Events) {
        let Event { kind, flags, page, process } = event;
        match kind {
            EventKind::SwapOut => self.page_out(event),
            EventKind::SwapIn if event.is_of_zeros() => self.enter(page, process),
            EventKind::SwapIn => {
                let is_hit = self.is_ahead(page);
                self.enter(page, process);
                if is_hit {
                    self.window.hits += 1;
                    rewritten.push(Event { flags: flags.without(EventFlags::MAJOR), ..event });
                } else {
                    rewritten.push(Event { flags: flags.with(EventFlags::MAJOR), ..event });
                    self.read_along(page, process, rewritten);
                }
                return;
            }
            EventKind::Void => {
                let slot = std::mem::take(self.page(page)).slot;
                self.free(slot);
            }
            EventKind::Exit => {
                let count = self.ended.len().max(process.index() + 1);
                self.ended.resize(count, 0);
                self.ended[process.index()] = self.now;
            }
            // What another kernel read ahead.
            EventKind::DeviceRead => return,
            _ => {}
        }
        rewritten.push(event);
    }

    fn page_out(&mut self, event: Event) {
        let (page, now) = (event.page, self.now);
        let is_alive = self.is_alive(page);
        let KnownPage { place, slot, since, .. } = *self.page(page);
        if place == Place::Memory && is_alive {
            self.reclaimed = self.reclaimed.max(since);
        }
        let is_dirty = event.flags.contains(EventFlags::DIRTY);
        let keeps_slot = is_alive && slot != NONE && !is_dirty;
        let slot = if keeps_slot { slot } else { self.allocate(page, slot, event.is_of_zeros()) };
        *self.page(page) = KnownPage { place: Place::Swap, slot, owner: event.process, since: now };
    }

    /// Hands out the next slot to a page, whose `old` one is free. A slot of zeros is never read.
    fn allocate(&mut self, page: PageId, old: u32, is_of_zeros: bool) -> u32 {
        self.free(old);
        self.page_at.push(if is_of_zeros { NONE } else { page.0 + 1 });
        (self.page_at.len() - 1) as u32
    }

    fn free(&mut self, slot: u32) {
        self.page_at[slot as usize] = NONE;
    }

    /// A page comes into memory, and keeps the slot of its last page-out.
    fn enter(&mut self, page: PageId, process: ProcessId) {
        let mut slot = self.page(page).slot;
        if !self.is_alive(page) {
            self.free(slot);
            slot = NONE;
        }
        *self.page(page) =
            KnownPage { place: Place::Memory, slot, owner: process, since: self.now };
    }

    /// Reads the other pages of the window around the slot of a page.
    fn read_along(&mut self, page: PageId, process: ProcessId, rewritten: &mut Events) {
        let slot = self.page(page).slot;
        if slot == NONE {
            return;
        }
        let mask = (self.window.next(u64::from(slot)) - 1) as u32;
        let end = (slot | mask).min((self.page_at.len() - 1) as u32);
        for slot in slot & !mask..=end {
            let Some(number) = self.page_at[slot as usize].checked_sub(1) else { continue };
            let page = PageId(number);
            let on_swap = self.page(page).place != Place::Memory;
            if on_swap && self.is_alive(page) && !self.is_ahead(page) {
                let now = self.now;
                let read = self.page(page);
                *read = KnownPage { place: Place::Ahead, since: now, ..*read };
                let (kind, flags) = (EventKind::DeviceRead, EventFlags::default());
                rewritten.push(Event { kind, flags, page, process });
            }
        }
    }

    /// Whether the page was read ahead and is still in memory.
    fn is_ahead(&mut self, page: PageId) -> bool {
        let KnownPage { place, since, .. } = *self.page(page);
        place == Place::Ahead && since >= self.reclaimed && self.is_alive(page)
    }

    fn is_alive(&mut self, page: PageId) -> bool {
        let KnownPage { since, owner, .. } = *self.page(page);
        since > self.ended.get(owner.index()).copied().unwrap_or(0)
    }

    fn page(&mut self, page: PageId) -> &mut KnownPage {
        if self.pages.len() <= page.index() {
            self.pages.resize(page.index() + 1, KnownPage::default());
        }
        &mut self.pages[page.index()]
    }
}

/// The window of the readahead, which grows with hits (`swapin_nr_pages`).
struct Window {
    /// Hits since the last fault that read the device.
    hits: u64,
    /// The last faulting slot without a hit before it.
    previous_slot: u64,
    /// Pages of the last window.
    pages: u64,
}

impl Window {
    /// The pages of the aligned window around a faulting slot: a power of two.
    fn next(&mut self, slot: u64) -> u64 {
        let hits = std::mem::take(&mut self.hits);
        let wanted = match hits {
            0 if slot.abs_diff(self.previous_slot) == 1 => 2,
            0 => 1,
            _ => (hits + 2).next_power_of_two(),
        };
        if hits == 0 {
            self.previous_slot = slot;
        }
        // A window never shrinks to less than half of the last one.
        self.pages = wanted.min(WINDOW_PAGES_MAX).max(self.pages / 2);
        self.pages
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use testkit::swap::with_kernel_readahead;

    fn an_event() -> impl Strategy<Value = Event> {
        let kinds = [
            (8, EventKind::SwapOut),
            (8, EventKind::SwapIn),
            (1, EventKind::Void),
            (1, EventKind::Exit),
            (1, EventKind::DeviceRead),
            (1, EventKind::Request),
        ];
        let kind = prop::strategy::Union::new_weighted(
            kinds.into_iter().map(|(weight, kind)| (weight, Just(kind))).collect(),
        );
        (kind, 0..24u32, 0..12u8).prop_map(|(kind, page, choice)| {
            let dirty = if choice < 8 { EventFlags::DIRTY } else { EventFlags::default() };
            let flags = if choice % 8 == 0 { dirty.with(EventFlags::ZERO) } else { dirty };
            Event { kind, flags, page: PageId(page), process: ProcessId(page % 3) }
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn a_trace_is_rewritten_like_by_the_naive_kernel(
            events in prop::collection::vec(an_event(), 0..300),
            batch in 1usize..40,
        ) {
            let mut kernel = KernelReadahead::new();
            let mut rewritten = Vec::new();
            for part in events.chunks(batch) {
                let mut columns = Events::default();
                part.iter().for_each(|event| columns.push(*event));
                rewritten.extend(kernel.rewrite(&columns).iter());
            }
            prop_assert_eq!(rewritten, with_kernel_readahead(&events));
        }
    }

    /// Which faults read the device, and the pages that each reads along.
    fn read(events: &[(EventKind, u32)]) -> Vec<(u32, Vec<u32>)> {
        let mut columns = Events::default();
        for (number, &(kind, page)) in events.iter().enumerate() {
            let (flags, process) = (EventFlags::DIRTY, ProcessId(0));
            columns.push(Event { kind, flags, page: PageId(page), process });
            columns.time_ns.push(number as i64);
        }
        let rewritten = KernelReadahead::new().rewrite(&columns);
        assert_eq!(rewritten.time_ns.len(), rewritten.len());
        let mut faults: Vec<(u32, Vec<u32>)> = Vec::new();
        for event in rewritten.iter() {
            match event.kind {
                EventKind::SwapIn if event.flags.contains(EventFlags::MAJOR) => {
                    faults.push((event.page.0, Vec::new()));
                }
                EventKind::DeviceRead => {
                    faults.last_mut().expect("a fault").1.push(event.page.0);
                }
                _ => {}
            }
        }
        faults
    }

    /// Page-outs of pages 0 to 31, which take slots 1 to 32.
    fn outs() -> Vec<(EventKind, u32)> {
        (0..32).map(|page| (EventKind::SwapOut, page)).collect()
    }

    #[test]
    fn the_first_fault_reads_its_aligned_cluster_of_eight_slots() {
        let events = [outs(), vec![(EventKind::SwapIn, 9)]].concat();
        // Slot 10 lies in the cluster of slots 8 to 15.
        assert_eq!(read(&events), [(9, vec![7, 8, 10, 11, 12, 13, 14])]);
    }

    #[test]
    fn the_window_shrinks_without_hits_and_grows_with_them() {
        let ins = |pages: &[u32]| pages.iter().map(|&page| (EventKind::SwapIn, page)).collect();
        let faults: Vec<(EventKind, u32)> = ins(&[7, 15, 27, 23]);
        let windows: Vec<usize> =
            read(&[outs(), faults].concat()).iter().map(|(_, along)| along.len() + 1).collect();
        assert_eq!(windows, [8, 4, 2, 1]);
        // Pages 8 and 9 are found, so that the next window has four pages.
        let faults: Vec<(EventKind, u32)> = ins(&[7, 8, 9, 15]);
        let windows: Vec<usize> =
            read(&[outs(), faults].concat()).iter().map(|(_, along)| along.len() + 1).collect();
        assert_eq!(windows, [8, 4]);
    }

    #[test]
    fn a_page_read_ahead_is_gone_when_a_page_leaves_that_came_later() {
        let (out, back) = (EventKind::SwapOut, EventKind::SwapIn);
        let before = [outs(), vec![(back, 7), (out, 7), (back, 8)]].concat();
        assert_eq!(read(&before).len(), 1, "page 7 came with page 8");
        let after = [outs(), vec![(back, 7), (back, 20), (out, 20), (back, 8)]].concat();
        assert_eq!(read(&after).len(), 3, "page 20 came after page 8");
    }
}
