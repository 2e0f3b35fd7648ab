//! Interned texts of a system trace: names of tasks, processes and slices, log messages.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;

/// The longest text that is kept; the rest of a longer text is cut.
pub const NAME_BYTES_MAX: usize = 4096;

/// Bytes of names that are kept by default, with [`ENTRY_BYTES`] for each.
const NAMES_BYTES: usize = 48 << 20;

/// Bytes that only names which an analysis needs may take beyond the limit.
const RESERVE_BYTES: usize = 16 << 20;

/// Estimated memory of a name besides its text: in the table and in the list, and the reference counts.
const ENTRY_BYTES: usize = 96;

/// The number of a text in [`Names`]; 0 is the empty text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(pub u32);

impl Name {
    /// The empty text, for a name that the trace does not have.
    pub const NONE: Name = Name(0);
}

/// Distinct texts by number, in bounded memory. When it is full, further texts become [`Names::OTHERS`], and
/// `refused` counts them.
#[derive(Debug)]
pub struct Names {
    texts: Vec<Arc<[u8]>>,
    numbers: HashMap<Arc<[u8]>, u32, RandomState>,
    bytes: usize,
    bytes_max: usize,
    refused: u64,
}

impl Default for Names {
    fn default() -> Names {
        Names::with_limit(NAMES_BYTES)
    }
}

impl Names {
    /// The text that stands for all others when the table is full.
    pub const OTHERS: Name = Name(1);

    /// An empty table of at most about `bytes_max` bytes, and a reserve for [`Self::intern_needed`].
    pub fn with_limit(bytes_max: usize) -> Names {
        let (texts, numbers) = (Vec::new(), HashMap::default());
        let mut names = Names { texts, numbers, bytes: 0, bytes_max, refused: 0 };
        names.insert(b"");
        names.insert(b"(further names)");
        names
    }

    /// The number of a text, cut to [`NAME_BYTES_MAX`] bytes.
    pub fn intern(&mut self, text: &[u8]) -> Name {
        self.intern_within(text, self.bytes_max)
    }

    /// The number of a text that an analysis needs, such as a kill: the table keeps a reserve for these.
    pub fn intern_needed(&mut self, text: &[u8]) -> Name {
        self.intern_within(text, self.bytes_max + RESERVE_BYTES)
    }

    fn intern_within(&mut self, text: &[u8], bytes_max: usize) -> Name {
        let text = text.get(..NAME_BYTES_MAX).unwrap_or(text);
        if let Some(&number) = self.numbers.get(text) {
            return Name(number);
        }
        if self.bytes + text.len() + ENTRY_BYTES > bytes_max {
            self.refused += 1;
            return Names::OTHERS;
        }
        self.insert(text)
    }

    fn insert(&mut self, text: &[u8]) -> Name {
        let number = self.texts.len() as u32;
        let text: Arc<[u8]> = text.into();
        self.bytes += text.len() + ENTRY_BYTES;
        self.texts.push(Arc::clone(&text));
        self.numbers.insert(text, number);
        Name(number)
    }

    /// The bytes of a name; empty if the name is not of this table.
    pub fn bytes_of(&self, name: Name) -> &[u8] {
        self.texts.get(name.0 as usize).map_or(b"", |text| text)
    }

    /// The text of a name, with U+FFFD in place of invalid UTF-8.
    pub fn text(&self, name: Name) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(self.bytes_of(name))
    }

    /// Number of distinct texts.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Whether the table holds no text but the two that every table has.
    pub fn is_empty(&self) -> bool {
        self.texts.len() <= 2
    }

    /// How often a text did not fit and became [`Names::OTHERS`].
    pub fn refused(&self) -> u64 {
        self.refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_have_one_number_and_hostile_ones_are_kept() {
        let mut names = Names::default();
        let hostile = names.intern(b"\") Z (\"\n\xff");
        assert_eq!(names.intern(b"\") Z (\"\n\xff"), hostile);
        assert_eq!(names.text(hostile), "\") Z (\"\n\u{fffd}");
        assert_eq!(names.intern(b""), Name::NONE);
        assert_eq!(names.bytes_of(Name(99)), b"");
    }

    #[test]
    fn a_full_table_counts_further_names_and_keeps_those_that_are_needed() {
        let mut names = Names::with_limit(1000);
        let first = names.intern(b"first");
        for number in 0..100 {
            names.intern(format!("name{number}").as_bytes());
        }
        assert!(names.len() < 12);
        assert_eq!(names.refused(), 100 - (names.len() as u64 - 3));
        assert_eq!(names.intern(b"late"), Names::OTHERS);
        assert_eq!(names.intern(b"first"), first);
        let needed = names.intern_needed(b"lmk,1,2,3");
        assert_eq!(names.bytes_of(needed), b"lmk,1,2,3");
        let long = names.intern_needed(&[b'x'; 2 * NAME_BYTES_MAX]);
        assert_eq!(names.bytes_of(long).len(), NAME_BYTES_MAX);
    }
}
