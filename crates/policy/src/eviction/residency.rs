//! What the driver knows about each page, and beside it what a policy asked it to remember.

use types::PageId;

/// Which pages a memory of fixed size holds: the driver's own map, not the policy's.
///
/// One byte per page: two bits of the driver's, and six that are the policy's [`Notes`]. A policy
/// to which they suffice costs one read of scattered memory per request, where a map and a record
/// of its own would cost two.
pub struct Residency {
    bytes: Vec<u8>,
    resident: u32,
    frames: u32,
}

/// In memory.
const RESIDENT: u8 = 1 << 7;
/// Requested before.
const SEEN: u8 = 1 << 6;

/// Six bits per page that a policy may use as it likes; all zero until it does.
pub struct Notes<'a> {
    bytes: &'a mut [u8],
}

/// The bits of a note.
const NOTE: u8 = SEEN - 1;

impl Residency {
    /// An empty memory. Without frames it stays empty.
    pub fn new(frames: u32) -> Residency {
        Residency { bytes: Vec::new(), resident: 0, frames }
    }

    /// Frames, used or not.
    pub fn frames(&self) -> u32 {
        self.frames
    }

    /// Pages numbered below `pages` may be named from now on.
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

    /// The policy's part.
    #[inline(always)]
    pub(super) fn notes(&mut self) -> Notes<'_> {
        Notes { bytes: &mut self.bytes }
    }

    /// `page` was requested and stays out of memory.
    #[inline(always)]
    pub(super) fn pass_by(&mut self, page: PageId) {
        self.bytes[page.index()] |= SEEN;
    }

    /// `page` was requested and is in memory from now on.
    #[inline(always)]
    pub(super) fn fill(&mut self, page: PageId) {
        assert!(self.resident < self.frames, "the policy makes room before a page enters");
        self.resident += 1;
        self.bytes[page.index()] |= RESIDENT | SEEN;
    }

    /// `page` is in memory no longer.
    #[inline(always)]
    pub(super) fn free(&mut self, page: PageId) {
        assert!(self.contains(page), "a victim is resident");
        self.resident -= 1;
        self.bytes[page.index()] &= !RESIDENT;
    }
}

impl Notes<'_> {
    /// What is noted about `page`.
    #[inline(always)]
    pub fn get(&self, page: PageId) -> u8 {
        self.bytes[page.index()] & NOTE
    }

    /// Notes something else about `page`.
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
        let (one, other) = (PageId(0), PageId(1));
        memory.notes().set(one, NOTE);
        assert!(!memory.contains(one));
        assert_eq!((memory.pages_seen(), memory.notes().get(other)), (0, 0));
        memory.pass_by(other);
        assert_eq!((memory.pages_seen(), memory.contains(other)), (1, false));
        memory.fill(one);
        memory.notes().set(one, 5);
        assert!(memory.contains(one) && !memory.contains(other));
        memory.free(one);
        assert_eq!((memory.pages_seen(), memory.notes().get(one)), (2, 5));
        assert!(!memory.contains(one));
    }
}
