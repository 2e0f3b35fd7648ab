//! What a fault maps, and what it reads.

use super::{CHUNK_PAGES, File, Folio, LimitedMemory, NONE};
use crate::refs::lru_generations::Kind;
use crate::refs::mappings::Memory;
use std::ops::Range;

/// Pages that the kernel maps around a read of a file (`fault_around_bytes`).
const AROUND_PAGES: u64 = 16;
/// Pages that the kernel reads of a file at once (`read_ahead_kb` of 128).
pub const READ_PAGES: u64 = 32;
/// Pages that the kernel reads when the first bytes of a file are read.
const HEADER_PAGES: u64 = 4;

impl LimitedMemory {
    pub(super) fn fault(&mut self, page: u64, is_write: bool) {
        let range = self.mappings.range_of(page);
        if self.page(page).is_swapped {
            self.faults.swap += 1;
            self.swap_in(page);
        } else if let Some((start, end, Memory::File)) = range {
            self.faults.file += 1;
            self.fault_in_file(page, start, end, is_write);
        } else {
            self.faults.anonymous += 1;
            self.fault_in_memory(page, is_write, range.map(|(.., memory)| memory));
        }
        let found = self.page(page);
        found.is_young = true;
        found.is_dirty |= is_write;
    }

    /// Maps a page that left memory, or all pages of its folio if that was not written yet.
    fn swap_in(&mut self, page: u64) {
        let number = self.page(page).folio;
        if number != NONE {
            let Folio { first, pages, .. } = self.folios[number as usize];
            for page in first..first + pages {
                let found = self.page(page);
                if found.folio == number && found.is_swapped {
                    found.is_swapped = false;
                    found.is_present = true;
                    found.is_writable = true;
                }
            }
            return;
        }
        self.charge(1);
        self.faults.swap_pages_read += 1;
        let folio = self.add_read(page, Kind::Anonymous);
        self.folios[folio as usize].is_clean = true;
        let found = self.page(page);
        found.is_swapped = false;
        found.is_present = true;
        found.is_writable = true;
        found.is_dirty = false;
        found.folio = folio;
    }

    /// A page is read, again if it has left. Returns its folio.
    fn add_read(&mut self, page: u64, kind: Kind) -> u32 {
        let found = self.page(page);
        let (has_left, token) = (found.has_left, found.token);
        found.has_left = false;
        let is_protected = has_left && self.generations.refault(kind, token);
        let folio = self.add_folio(page, 1, kind);
        self.folios[folio as usize].is_protected = is_protected;
        folio
    }

    fn fault_in_memory(&mut self, page: u64, is_write: bool, memory: Option<Memory>) {
        let first = page / self.block * self.block;
        let block = first..first + self.block;
        let before = self.page(page).is_present;
        let is_huge = self.block > 1
            && (is_write && !before || self.block == CHUNK_PAGES)
            && memory
                .is_some_and(|memory| self.mappings.is_covered(block.start, block.end, memory))
            && block.clone().all(|page| {
                let found = *self.page(page);
                found.is_present == before && !found.is_writable && !found.is_swapped
            });
        if !is_write {
            // The page of zeros takes no memory.
            for page in if is_huge { block } else { page..page + 1 } {
                self.page(page).is_present = true;
            }
            return;
        }
        if is_huge {
            if self.used_pages + self.block <= self.limit.pages {
                self.faults.huge_pages += 1;
                self.map_written(first, self.block);
                return;
            }
            self.faults.fallbacks += 1;
        }
        self.charge(1);
        self.map_written(page, 1);
    }

    /// Maps a new folio, which was charged.
    fn map_written(&mut self, first: u64, pages: u64) {
        let folio = self.add_folio(first, pages, Kind::Anonymous);
        for page in first..first + pages {
            let found = self.page(page);
            found.is_present = true;
            found.is_writable = true;
            found.is_dirty = true;
            found.is_young = true;
            found.folio = folio;
        }
    }

    fn fault_in_file(&mut self, page: u64, start: u64, end: u64, is_write: bool) {
        if !self.page(page).is_present {
            self.read_header(page);
            if self.page(page).cached == NONE {
                self.read_around(page);
            } else if self.page(page).is_marked {
                self.read_on(page);
            }
        }
        if is_write {
            self.charge(1);
            self.map_written(page, 1);
            return;
        }
        let around = page / AROUND_PAGES * AROUND_PAGES;
        for near in around.max(start)..(around + AROUND_PAGES).min(end) {
            let found = self.page(near);
            let is_free = !found.is_present && !found.is_swapped;
            if near == page || is_free && found.cached != NONE && !found.is_marked {
                found.is_present = true;
                found.is_young = true;
            }
        }
    }

    fn file_of(&self, page: u64) -> (u64, File) {
        let found = self.files.range(..=page).next_back();
        let found = found.filter(|(_, file)| page < file.end).map(|(&start, &file)| (start, file));
        found.unwrap_or((page, File::new(page + 1)))
    }

    fn read_around(&mut self, page: u64) {
        let (start, file) = self.file_of(page);
        let from = page.saturating_sub(READ_PAGES / 2).max(start);
        self.read(start, file, from..from + READ_PAGES, READ_PAGES / 4);
        if self.page(page).cached == NONE {
            // Reclaim took it again.
            self.read_page(page, false);
        }
    }

    /// Reads the window that the mark asks for.
    fn read_on(&mut self, page: u64) {
        self.page(page).is_marked = false;
        let (start, file) = self.file_of(page);
        let File { read_from, read_pages, next_pages, end, .. } = file;
        let (from, before) = if page == read_from + read_pages - next_pages {
            (read_from + read_pages, read_pages)
        } else {
            let mut ahead = page + 1..(page + 1 + READ_PAGES).min(end);
            let Some(missing) = ahead.find(|&page| self.page(page).cached == NONE) else { return };
            (missing, READ_PAGES)
        };
        let pages = if before <= READ_PAGES / 2 { 2 * before } else { READ_PAGES };
        self.read(start, file, from..from + pages, pages);
    }

    /// The start of a program or library is read for its header.
    fn read_header(&mut self, page: u64) {
        let (start, file) = self.file_of(page);
        if file.has_header && file.read_pages == 0 {
            self.read(start, file, start..start + HEADER_PAGES, HEADER_PAGES - 1);
        }
    }

    /// Reads a window, with a mark at the first of its last `next_pages`.
    fn read(&mut self, start: u64, file: File, window: Range<u64>, next_pages: u64) {
        let read_pages = window.end - window.start;
        let read = File { read_from: window.start, read_pages, next_pages, ..file };
        if self.files.contains_key(&start) {
            self.files.insert(start, read);
        }
        let mark = window.end - next_pages;
        for page in window.start..window.end.min(file.end) {
            if self.page(page).cached == NONE {
                self.read_page(page, page == mark);
            }
        }
    }

    fn read_page(&mut self, page: u64, is_marked: bool) {
        self.charge(1);
        self.faults.file_pages_read += 1;
        // The token of a page that was written is that of its private copy.
        let folio = if self.page(page).is_swapped {
            self.add_folio(page, 1, Kind::File)
        } else {
            self.add_read(page, Kind::File)
        };
        let found = self.page(page);
        found.cached = folio;
        found.is_marked = is_marked;
    }
}
