//! The kernel's readahead by slot, naively: every slot, page and page read ahead in a list or a map.

use std::collections::{BTreeMap, BTreeSet};
use types::{Event, EventFlags, EventKind, PageId};

#[derive(Default)]
struct Kernel {
    /// Slots handed out so far; the first is 1.
    slots: u64,
    slot_of: BTreeMap<u32, u64>,
    /// The page in each slot that is neither free nor of zeros.
    readable: BTreeMap<u64, u32>,
    owner: BTreeMap<u32, u32>,
    /// Pages that left memory and were not swapped in since.
    swapped: BTreeSet<u32>,
    /// Pages read ahead that are still in memory, with the number of the event.
    ahead: Vec<(u32, usize)>,
    /// Number of the last swap-in of pages in memory.
    entered: BTreeMap<u32, usize>,
    hits: u64,
    previous_slot: u64,
    last_window: u64,
}

impl Kernel {
    fn free_slot(&mut self, page: u32) {
        if let Some(slot) = self.slot_of.remove(&page) {
            self.readable.remove(&slot);
        }
    }

    fn forget(&mut self, page: u32) {
        self.free_slot(page);
        self.owner.remove(&page);
        self.swapped.remove(&page);
        self.ahead.retain(|(other, _)| *other != page);
        self.entered.remove(&page);
    }

    /// `swapin_nr_pages` of mm/swap_state.c.
    fn window(&mut self, slot: u64) -> u64 {
        let hits = std::mem::take(&mut self.hits);
        let mut pages = hits + 2;
        if pages == 2 {
            if slot != self.previous_slot + 1 && slot + 1 != self.previous_slot {
                pages = 1;
            }
            self.previous_slot = slot;
        } else {
            let mut rounded = 4;
            while rounded < pages {
                rounded *= 2;
            }
            pages = rounded;
        }
        if pages > 8 {
            pages = 8;
        }
        if pages < self.last_window / 2 {
            pages = self.last_window / 2;
        }
        self.last_window = pages;
        pages
    }
}

/// The events as a recording would have them if the kernel had read ahead by its rules.
pub fn with_kernel_readahead(events: &[Event]) -> Vec<Event> {
    let mut kernel = Kernel { hits: 4, ..Kernel::default() };
    let mut rewritten = Vec::new();
    for (number, event) in events.iter().enumerate() {
        let (page, process) = (event.page.0, event.process.0);
        match event.kind {
            EventKind::SwapOut => {
                if let Some(entered) = kernel.entered.remove(&page) {
                    kernel.ahead.retain(|(_, read)| *read >= entered);
                }
                let is_dirty = event.flags.contains(EventFlags::DIRTY);
                if is_dirty || !kernel.slot_of.contains_key(&page) {
                    kernel.free_slot(page);
                    kernel.slots += 1;
                    kernel.slot_of.insert(page, kernel.slots);
                    if !event.is_of_zeros() {
                        kernel.readable.insert(kernel.slots, page);
                    }
                }
                kernel.ahead.retain(|(other, _)| *other != page);
                kernel.owner.insert(page, process);
                kernel.swapped.insert(page);
                rewritten.push(*event);
            }
            EventKind::SwapIn => {
                let is_hit = kernel.ahead.iter().any(|(other, _)| *other == page);
                kernel.ahead.retain(|(other, _)| *other != page);
                kernel.owner.insert(page, process);
                kernel.swapped.remove(&page);
                kernel.entered.insert(page, number);
                if event.is_of_zeros() {
                    rewritten.push(*event);
                } else if is_hit {
                    kernel.hits += 1;
                    rewritten
                        .push(Event { flags: event.flags.without(EventFlags::MAJOR), ..*event });
                } else {
                    rewritten.push(Event { flags: event.flags.with(EventFlags::MAJOR), ..*event });
                    let Some(&slot) = kernel.slot_of.get(&page) else { continue };
                    let window = kernel.window(slot);
                    let start = slot / window * window;
                    for neighbour in start..start + window {
                        let Some(&other) = kernel.readable.get(&neighbour) else { continue };
                        let is_read = kernel.ahead.iter().any(|(read, _)| *read == other);
                        if kernel.swapped.contains(&other) && !is_read {
                            kernel.ahead.push((other, number));
                            rewritten.push(Event {
                                kind: EventKind::DeviceRead,
                                flags: EventFlags::default(),
                                page: PageId(other),
                                process: event.process,
                            });
                        }
                    }
                }
            }
            EventKind::Void => {
                kernel.forget(page);
                rewritten.push(*event);
            }
            EventKind::Exit => {
                let owned = kernel.owner.iter().filter(|(_, owner)| **owner == process);
                let pages: Vec<u32> = owned.map(|(page, _)| *page).collect();
                pages.into_iter().for_each(|page| kernel.forget(page));
                rewritten.push(*event);
            }
            EventKind::DeviceRead => {}
            _ => rewritten.push(*event),
        }
    }
    rewritten
}
