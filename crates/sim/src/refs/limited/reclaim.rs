//! Room for pages: charges, and what they take out of memory.

use super::{CHUNK_PAGES, Folio, LimitedMemory, NONE};
use crate::refs::lru_generations::{BATCH_PAGES, Kind, Next};
use std::ops::Range;

/// Reclaim frees at least this many pages.
const RECLAIMED_PAGES: u64 = 32;
/// The priority that reclaim starts with.
const PRIORITY_MAX: u32 = 12;
/// How often a charge reclaims.
const ATTEMPTS_MAX: u32 = 16;

impl LimitedMemory {
    /// Makes room for pages.
    pub(super) fn charge(&mut self, pages: u64) {
        for _ in 0..ATTEMPTS_MAX {
            if self.used_pages + pages <= self.limit.pages {
                return;
            }
            self.reclaim();
        }
    }

    fn reclaim(&mut self) {
        let mut reclaimed = 0;
        for priority in (0..=PRIORITY_MAX).rev() {
            self.shrink(priority, &mut reclaimed);
            self.end_writes();
            if reclaimed >= RECLAIMED_PAGES {
                break;
            }
        }
    }

    /// The writes to swap end, and what they wrote is the next to go.
    fn end_writes(&mut self) {
        for number in std::mem::take(&mut self.written) {
            let Folio { kind, generation, left, .. } = self.folios[number as usize];
            self.folios[number as usize].is_being_written = false;
            // Meanwhile the program may have unmapped it.
            if left > 0 {
                let oldest = self.generations.oldest(kind);
                self.generations.unlist(kind, generation, number);
                self.promote(number, oldest);
                self.generations.sort_first(kind, oldest, number);
            }
        }
    }

    fn shrink(&mut self, priority: u32, reclaimed: &mut u64) {
        let mut scanned = 0;
        loop {
            match self.generations.next(priority, PRIORITY_MAX) {
                Next::Walk => return self.walk(),
                Next::Scan(pages) if scanned >= pages => return,
                Next::Scan(_) => {}
            }
            let found = self.evict(reclaimed);
            if found == 0 {
                return;
            }
            scanned += found;
        }
    }

    /// Moves what was used into the youngest generation, and starts another.
    fn walk(&mut self) {
        let newest = self.generations.newest();
        for number in 0..self.chunks.len() {
            for at in 0..CHUNK_PAGES as usize {
                let page = &mut self.chunks[number][at];
                if page.is_present && (page.is_young || page.held > 0) {
                    page.is_young = false;
                    let folio = if page.folio == NONE { page.cached } else { page.folio };
                    self.promote(folio, newest);
                }
            }
        }
        for (kind, number) in self.generations.start() {
            let folio = &mut self.folios[number as usize];
            if folio.generation < self.generations.oldest(kind) {
                folio.generation += 1;
                self.generations.promote(kind, folio.generation - 1, folio.generation, folio.pages);
            }
            self.generations.sort_first(kind, folio.generation, number);
        }
    }

    fn promote(&mut self, number: u32, generation: u64) {
        if number == NONE {
            return;
        }
        let folio = &mut self.folios[number as usize];
        folio.is_protected = false;
        if folio.generation != generation {
            self.generations.promote(folio.kind, folio.generation, generation, folio.pages);
            folio.generation = generation;
        }
    }

    /// Takes pages of the oldest generation; returns how many were scanned.
    fn evict(&mut self, reclaimed: &mut u64) -> u64 {
        let mut kind = self.generations.kind_to_take();
        let mut taken = Vec::new();
        let mut scanned = self.scan(kind, &mut taken);
        if scanned == 0 {
            kind = kind.other();
            scanned = self.scan(kind, &mut taken);
        }
        scanned += u64::from(self.generations.skip_empty());
        if !self.generations.is_open(Kind::Anonymous) {
            scanned = 0;
        }
        for number in taken {
            if self.is_used(number) {
                self.keep(number);
            } else if self.can_free(number) {
                *reclaimed += self.folios[number as usize].pages;
                self.evict_folio(number);
            } else {
                self.write_out(number);
            }
        }
        scanned
    }

    /// Takes folios from the list of the oldest generation; returns the pages scanned if any can be
    /// evicted.
    fn scan(&mut self, kind: Kind, taken: &mut Vec<u32>) -> u64 {
        if !self.generations.is_open(kind) {
            return 0;
        }
        let oldest = self.generations.oldest(kind);
        let (mut scanned, mut isolated) = (0, 0);
        while isolated < BATCH_PAGES {
            let Some(number) = self.generations.take(kind) else { break };
            let folio = self.folios[number as usize];
            scanned += folio.pages;
            if folio.is_being_written && folio.generation == oldest {
                self.promote(number, oldest + 1);
            }
            let generation = self.folios[number as usize].generation;
            if generation != oldest {
                self.generations.sort(kind, generation, number);
            } else if folio.is_protected {
                self.promote(number, oldest + 1);
                self.generations.sort_first(kind, oldest + 1, number);
            } else {
                isolated += folio.pages;
                taken.push(number);
            }
        }
        if isolated > 0 { scanned } else { 0 }
    }

    fn pages_of(&self, number: u32) -> Range<u64> {
        let Folio { first, pages, is_orphan, .. } = self.folios[number as usize];
        if is_orphan { first..first } else { first..first + pages }
    }

    /// Whether a page of a folio is mapped and was used; with the neighbours of one that was, as the
    /// kernel finds them.
    fn is_used(&mut self, number: u32) -> bool {
        let mut is_used = false;
        for page in self.pages_of(number) {
            let found = self.page(page);
            let holder = if found.folio == NONE { found.cached } else { found.folio };
            if holder == number && found.is_present && (found.is_young || found.held > 0) {
                is_used = true;
                self.look_around(page);
            }
        }
        is_used
    }

    fn look_around(&mut self, page: u64) {
        let newest = self.generations.newest();
        let Some((start, end, _)) = self.mappings.range_of(page) else { return };
        let chunk = page / CHUNK_PAGES * CHUNK_PAGES;
        let (start, end) = (start.max(chunk), end.min(chunk + CHUNK_PAGES));
        let half = BATCH_PAGES / 2;
        let (start, end) = if end - start <= BATCH_PAGES {
            (start, end)
        } else if page - start < half {
            (start, start + BATCH_PAGES)
        } else if end - page < half {
            (end - BATCH_PAGES, end)
        } else {
            (page - half, page + half)
        };
        for near in start..end {
            let found = self.page(near);
            if found.is_present && (found.is_young || found.held > 0) {
                found.is_young = false;
                let folio = if found.folio == NONE { found.cached } else { found.folio };
                self.promote(folio, newest);
            }
        }
    }

    /// Puts a folio that was taken into the youngest generation.
    fn keep(&mut self, number: u32) {
        let newest = self.generations.newest();
        self.promote(number, newest);
        self.generations.sort(self.folios[number as usize].kind, newest, number);
    }

    /// Whether the content of a folio is also on a disk.
    fn can_free(&mut self, number: u32) -> bool {
        let folio = self.folios[number as usize];
        folio.kind == Kind::File
            || folio.is_clean
                && !self.pages_of(number).any(|page| {
                    let found = *self.page(page);
                    found.folio == number && found.is_dirty && found.is_present
                })
    }

    fn evict_folio(&mut self, number: u32) {
        let folio = self.folios[number as usize];
        let token = self.generations.evict(folio.kind, folio.pages);
        for page in self.pages_of(number) {
            let found = self.page(page);
            if found.cached == number {
                found.cached = NONE;
                found.is_marked = false;
                if found.folio == NONE {
                    found.is_present = false;
                }
                if !found.is_swapped {
                    found.has_left = true;
                    found.token = token;
                }
            } else if found.folio == number {
                found.folio = NONE;
                found.is_present = false;
                found.is_writable = false;
                found.is_swapped = true;
                found.has_left = true;
                found.token = token;
            }
        }
        self.folios[number as usize].left = 0;
        self.generations.shrink(folio.kind, folio.generation, folio.pages);
        self.used_pages -= folio.pages;
    }

    /// Writes a folio to swap. It stays in memory until the write ends.
    fn write_out(&mut self, number: u32) {
        for page in self.pages_of(number) {
            let found = self.page(page);
            if found.folio == number {
                found.is_present = false;
                found.is_writable = false;
                found.is_swapped = true;
                found.is_dirty = false;
            }
        }
        let generation = self.generations.newest() - 1;
        self.promote(number, generation);
        self.generations.sort(Kind::Anonymous, generation, number);
        let folio = &mut self.folios[number as usize];
        folio.is_being_written = true;
        folio.is_clean = true;
        self.written.push(number);
    }
}
