//! What the driver knows about each page, and the note that a policy keeps beside it.

use types::PageId;

/// Which pages a memory of fixed size holds: the driver's own map, not the policy's.
///
/// One byte per page: two bits of the driver's, and six that are the policy's [`Notes`]. A policy
/// that needs no more costs one read of scattered memory per request, where a map and a record
/// of its own would cost two.
pub struct Residency {
    bytes: Vec<u8>,
    resident: u32,
    frames: u32,
}

/// Bit of a page in memory.
const RESIDENT: u8 = 1 << 7;
/// Bit of a page that was requested before.
const SEEN: u8 = 1 << 6;

/// Six bits per page that a policy may use freely; all start at zero.
pub struct Notes<'a> {
    bytes: &'a mut [u8],
}

/// The bits of a note.
const NOTE: u8 = SEEN - 1;

impl Residency {
    /// An empty memory of `frames`. With 0 frames it stays empty.
    pub fn new(frames: u32) -> Residency {
        Residency { bytes: Vec::new(), resident: 0, frames }
    }

    /// Frames, used or not.
    pub fn frames(&self) -> u32 {
        self.frames
    }

    /// Makes room for pages numbered below `pages`.
    pub fn grow(&mut self, pages: usize) {
        if self.bytes.len() < pages {
            self.bytes.resize(pages, 0);
        }
    }

    /// Distinct pages requested so far.
    pub fn pages_seen(&self) -> u64 {
        self.bytes.iter().filter(|&byte| byte & SEEN != 0).count() as u64
    }

    /// Whether `page` is in memory.
    #[inline(always)]
    pub fn contains(&self, page: PageId) -> bool {
        self.bytes[page.index()] & RESIDENT != 0
    }

    /// The bits that belong to the policy.
    #[inline(always)]
    pub(super) fn notes(&mut self) -> Notes<'_> {
        Notes { bytes: &mut self.bytes }
    }

    /// Records a request for `page`, which stays out of memory.
    #[inline(always)]
    pub(super) fn pass_by(&mut self, page: PageId) {
        self.bytes[page.index()] |= SEEN;
    }

    /// Records a request for `page`, which enters memory.
    #[inline(always)]
    pub(super) fn fill(&mut self, page: PageId) {
        assert!(self.resident < self.frames, "the policy makes room before a page enters");
        self.resident += 1;
        self.bytes[page.index()] |= RESIDENT | SEEN;
    }

    /// Removes `page` from memory.
    #[inline(always)]
    pub(super) fn free(&mut self, page: PageId) {
        assert!(self.contains(page), "a victim is resident");
        self.resident -= 1;
        self.bytes[page.index()] &= !RESIDENT;
    }
}

impl Notes<'_> {
    /// The note of `page`.
    #[inline(always)]
    pub fn get(&self, page: PageId) -> u8 {
        self.bytes[page.index()] & NOTE
    }

    /// Replaces the note of `page`.
    #[inline(always)]
    pub fn set(&mut self, page: PageId, note: u8) {
        debug_assert!(note <= NOTE, "a note has six bits");
        let byte = &mut self.bytes[page.index()];
        *byte = *byte & !NOTE | note;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_and_residency_leave_each_other_alone() {
        let mut memory = Residency::new(1);
        memory.grow(2);
        let (page, other) = (PageId(0), PageId(1));
        memory.notes().set(page, NOTE);
        assert!(!memory.contains(page));
        assert_eq!((memory.pages_seen(), memory.notes().get(other)), (0, 0));
        memory.pass_by(other);
        assert_eq!((memory.pages_seen(), memory.contains(other)), (1, false));
        memory.fill(page);
        memory.notes().set(page, 5);
        assert!(memory.contains(page) && !memory.contains(other));
        memory.free(page);
        assert_eq!((memory.pages_seen(), memory.notes().get(page)), (2, 5));
        assert!(!memory.contains(page));
    }
}
