//! Splits pages of the kernel's ring buffer into events with their times. The layout is that of
//! include/linux/ring_buffer.h; the kernel reports the offsets of a page's time and length.

use super::format::Layout;

/// Bits of a page's length field that hold the length; the other bits mark losses.
const LENGTH_MASK: u64 = (1 << 27) - 1;

/// Number of low bits that an absolute time carries.
const ABSOLUTE_TIME_BITS: u32 = 59;

/// Values of `type_len` for entries without an event.
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

/// The layout of a page.
#[derive(Clone, Debug)]
pub struct PageForm {
    header: Layout,
    data: usize,
}

impl PageForm {
    /// Parses the text of `events/header_page`; `None` if the text is no page format.
    pub fn parse(text: &str) -> Option<PageForm> {
        let header = Layout::parse(text)?;
        let data = header.offset("data")?;
        (header.has("timestamp") && header.has("commit")).then_some(PageForm { header, data })
    }

    /// Calls `take` for each event of a page, with its time in nanoseconds.
    ///
    /// # Errors
    /// Names what it expected of the page.
    pub fn events(
        &self,
        page: &[u8],
        mut take: impl FnMut(u64, &[u8]),
    ) -> Result<(), &'static str> {
        let word = |field| self.header.number(page, field).map(|value| value as u64);
        let (Some(begin_ns), Some(commit)) = (word("timestamp"), word("commit")) else {
            return Err("expected a page of events with its time and length");
        };
        let length = usize::try_from(commit & LENGTH_MASK).unwrap_or(usize::MAX);
        let mut rest = page
            .get(self.data..)
            .and_then(|data| data.get(..length))
            .ok_or("expected a page of events with a valid length")?;
        let mut time_ns = begin_ns;
        while rest.len() >= size_of::<u32>() {
            let Some(entry) = Entry::first(rest)? else { return Ok(()) };
            time_ns = match entry.kind {
                Kind::Absolute => {
                    begin_ns >> ABSOLUTE_TIME_BITS << ABSOLUTE_TIME_BITS | entry.delta
                }
                Kind::Event | Kind::Nothing => time_ns.wrapping_add(entry.delta),
            };
            if entry.kind == Kind::Event {
                take(time_ns, entry.data);
            }
            rest = &rest[entry.bytes..];
        }
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Event,
    /// No event: a time extension or a discarded event.
    Nothing,
    /// The delta is an absolute time.
    Absolute,
}

struct Entry<'page> {
    kind: Kind,
    delta: u64,
    data: &'page [u8],
    /// Length of the entry, including its head.
    bytes: usize,
}

impl<'page> Entry<'page> {
    /// The entry at the beginning of `page`, which holds at least a word; `None` at the end of the page.
    fn first(page: &'page [u8]) -> Result<Option<Entry<'page>>, &'static str> {
        const CUT: &str = "expected an event that ends within its page";
        let word = |at: usize| -> Result<u32, &'static str> {
            let bytes = page.get(at..at + 4).ok_or(CUT)?;
            Ok(u32::from_le_bytes(bytes.try_into().expect("the range has 4 bytes")))
        };
        let head = word(0)?;
        let (kind, delta) = (head & 31, u64::from(head >> 5));
        let whole = |kind, begin: usize, bytes: usize| {
            let data = page.get(begin..bytes).ok_or(CUT)?;
            Ok(Some(Entry { kind, delta, data, bytes }))
        };
        match kind {
            0 => {
                let bytes = (word(4)? as usize).next_multiple_of(4);
                whole(Kind::Event, 8, bytes.max(4) + 4)
            }
            PADDING if delta == 0 => Ok(None),
            PADDING => whole(Kind::Nothing, 4, word(4)? as usize + 4),
            TIME_EXTEND | TIME_STAMP => {
                let kind = if kind == TIME_EXTEND { Kind::Nothing } else { Kind::Absolute };
                let delta = delta + (u64::from(word(4)?) << 27);
                Ok(Some(Entry { kind, delta, data: &[], bytes: 8 }))
            }
            words => whole(Kind::Event, 4, 4 + 4 * words as usize),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
        \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
        \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
        \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

    fn page(words: &[u32]) -> Vec<u8> {
        let mut page = 1_000u64.to_le_bytes().to_vec();
        page.extend((words.len() as u64 * 4 + (1 << 31)).to_le_bytes());
        page.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        page
    }

    fn events(page: &[u8]) -> Result<Vec<(u64, Vec<u8>)>, &'static str> {
        let mut events = Vec::new();
        let form = PageForm::parse(HEADER).unwrap();
        form.events(page, |time_ns, data| events.push((time_ns, data.to_vec()))).map(|()| events)
    }

    #[test]
    fn every_kind_of_entry_is_read() {
        let page = page(&[
            5 << 5 | 1,  // 5 ns later, one word
            7,           //
            1 << 5 | 30, // time extend: 1 + 2 << 27
            2,           //
            3 << 5,      // a length of its own: 8 bytes with this word
            8,           //
            9,           //
            4 << 5 | 29, // discarded: 8 bytes follow the head
            8,           //
            0,           //
            6 << 5 | 31, // absolute: 6 + 1 << 27
            1,           //
            2 << 5 | 1,  //
            11,          //
            29,          // the end; the rest is ignored
            77,          //
        ]);
        let word = |value: u32| value.to_le_bytes().to_vec();
        let extended = 1_005 + 1 + (2 << 27) + 3;
        assert_eq!(
            events(&page).unwrap(),
            [(1_005, word(7)), (extended, word(9)), (6 + (1 << 27) + 2, word(11))]
        );
    }

    #[test]
    fn a_page_with_wrong_lengths_is_refused() {
        assert!(events(&[0; 12]).is_err());
        assert!(events(&page(&[28, 1])).is_err());
        assert!(events(&page(&[0, u32::MAX - 8])).is_err());
        assert!(events(&page(&[0, u32::MAX])).is_err());
        assert!(events(&page(&[1 << 5 | 29, u32::MAX])).is_err());
        let mut long = page(&[]);
        long[8] = 200;
        assert!(events(&long).is_err());
        assert!(events(&page(&[])).unwrap().is_empty());
    }
}
