//! The recent history of a page, as one of a few classes.

/// Distinguished counts of reads since the last page-out: 0, 1, 2, and 3 or more.
pub(super) const READS: usize = 4;
/// Number of distinguished pasts; see `past`.
pub(super) const PASTS: usize = 5;
/// Classes: reads since the last page-out, and what went before it.
pub(super) const CLASSES: usize = READS * PASTS;
/// What preceded a page's last page-out: the page was never written while it was known, or that was
/// its first page-out, or it was read 0, 1, or 2 and more times between its last two page-outs.
mod past {
    pub(super) const NEVER_WRITTEN: u8 = 0;
    pub(super) const FIRST: u8 = 1;
    pub(super) const RETURNED_0: u8 = 2;
    pub(super) const RETURNED_MOST: u8 = 2;
}

/// The recent history of a page, as a number below `CLASSES`: reads * PASTS + past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Class(u8);

impl Class {
    /// Class of a page without known history.
    pub const UNKNOWN: Class = Class(u8::MAX);

    /// The class of this number.
    pub fn of(number: usize) -> Class {
        Class(number as u8)
    }

    #[inline(always)]
    pub fn index(self) -> usize {
        self.0 as usize
    }

    fn reads(self) -> u8 {
        self.0 / PASTS as u8
    }

    fn past(self) -> u8 {
        self.0 % PASTS as u8
    }

    /// The class after a read.
    #[inline]
    pub fn after_read(self) -> Class {
        if self == Class::UNKNOWN {
            return Class(PASTS as u8 + past::NEVER_WRITTEN);
        }
        let is_last = usize::from(self.0) >= (READS - 1) * PASTS;
        if is_last { self } else { Class(self.0 + PASTS as u8) }
    }

    /// The class after a page-out that writes.
    #[inline]
    pub fn after_write(self) -> Class {
        if self == Class::UNKNOWN || self.past() == past::NEVER_WRITTEN {
            return Class(past::FIRST);
        }
        Class(past::RETURNED_0 + self.reads().min(past::RETURNED_MOST))
    }

    /// Whether pages of the class were read between their last two page-outs.
    pub fn has_returned(self) -> bool {
        self.past() > past::RETURNED_0
    }

    /// Whether pages of the class are in memory: their last event was a read. Page-outs that write
    /// nothing are not observed, so some of these pages have left memory.
    pub fn is_in_memory(self) -> bool {
        self.reads() > 0
    }

    /// Whether pages of the class were never written while they were known.
    pub fn is_never_written(self) -> bool {
        self.past() == past::NEVER_WRITTEN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_past_remembers_how_often_the_page_came_back() {
        let unknown = Class::UNKNOWN;
        assert!(unknown.after_read().is_never_written());
        let first = unknown.after_read().after_write();
        assert_eq!(first, Class(past::FIRST));
        assert_eq!(unknown.after_write(), first);
        let mut class = first;
        for reads in 0..4 {
            for read in 1..=reads {
                class = class.after_read();
                assert_eq!(class.reads(), read);
                assert!(class.is_in_memory());
            }
            class = class.after_write();
            assert_eq!(class, Class(past::RETURNED_0 + reads.min(2)));
            assert_eq!(class.has_returned(), reads > 0);
        }
    }
}
