//! The events of one CPU, in the kernel's ring-buffer format (kernel/trace/ring_buffer.c and
//! include/linux/ring_buffer.h of Linux 6.12; the same since 2.6.30 but for absolute times).

use std::ops::Range;

use super::chunk::Chunks;
use super::contents::{CpuPart, PageLayout};
use super::order::ByteOrder;
use crate::Error;
use crate::whole::Whole;

/// Bits of the length in the header of a page; the higher ones are flags (struct buffer_data_page).
const COMMIT_MASK: u64 = (1 << 27) - 1;
/// Flag of a page before which events were lost.
const MISSED: u64 = 1 << 31;
/// Flag of a page that has the number of lost events behind its last event.
const MISSED_STORED: u64 = 1 << 30;

/// Kinds of entries, in the five bits of the length (enum ring_buffer_type).
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

/// Bits of the time since the entry before.
const DELTA_BITS: u32 = 27;
/// The five high bits of a time, which absolute times lack.
const TIME_HIGH: u64 = 0xf8 << 56;

/// Events that the kernel lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Events, by the kernel's count.
    pub events: u64,
    /// Places where events were lost that the kernel did not count.
    pub uncounted: u64,
}

/// The events of one CPU in their order, one at a time.
pub(super) struct Cpu {
    pub(super) part: CpuPart,
    chunks: Chunks,
    layout: PageLayout,
    order: ByteOrder,
    chunk: Vec<u8>,
    /// Offset in the file of the chunk.
    chunk_at: u64,
    /// Start of the next page in the chunk.
    page_next: usize,
    /// Offset in the chunk of the next entry, and the end of the entries of this page.
    at: usize,
    end: usize,
    /// Time of the last entry.
    time: u64,
    /// Time of the event, and its bytes in the chunk.
    pub(super) event_time: u64,
    event: Range<usize>,
    pub(super) lost: Lost,
}

impl Cpu {
    pub(super) fn new(part: CpuPart, layout: PageLayout, order: ByteOrder) -> Cpu {
        Cpu {
            part,
            chunks: Chunks::new(part, order),
            layout,
            order,
            chunk: Vec::new(),
            chunk_at: part.offset,
            page_next: 0,
            at: 0,
            end: 0,
            time: 0,
            event_time: 0,
            event: 0..0,
            lost: Lost::default(),
        }
    }

    /// Bytes of memory that this CPU holds.
    pub(super) fn held_bytes(&self) -> usize {
        self.chunk.capacity()
    }

    /// Bytes in the file that were read.
    pub(super) fn bytes_read(&self) -> u64 {
        self.chunks.bytes_read()
    }

    /// The bytes of the event.
    #[inline]
    pub(super) fn event(&self) -> &[u8] {
        self.chunk.get(self.event.clone()).unwrap_or_default()
    }

    /// Goes to the next event; false at the end.
    pub(super) fn advance(&mut self, whole: &Whole) -> Result<bool, Error> {
        loop {
            // A page may end in less than an entry.
            if self.at + 4 > self.end {
                if !self.next_page(whole)? {
                    self.chunk = Vec::new();
                    self.event = 0..0;
                    return Ok(false);
                }
                continue;
            }
            if self.entry(whole)? {
                return Ok(true);
            }
        }
    }

    /// Reads the next entry of the page; true if it is an event.
    #[inline]
    fn entry(&mut self, whole: &Whole) -> Result<bool, Error> {
        let (at, order) = (self.at, self.order);
        let page = &self.chunk[..self.end];
        let word = order.word(page, at).unwrap_or(0);
        let (kind, delta) = match order {
            ByteOrder::Little => (word & 31, word >> 5),
            ByteOrder::Big => (word >> DELTA_BITS, word & ((1 << DELTA_BITS) - 1)),
        };
        let delta = u64::from(delta);
        let (data, length) = match kind {
            PADDING if delta == 0 => {
                self.at = self.end;
                return Ok(false);
            }
            1..PADDING => (at + 4, 4 * kind as usize),
            _ => {
                let Some(number) = order.word(page, at + 4) else {
                    return Err(self.damage(whole, "ends within an entry of the ring buffer"));
                };
                let high = u64::from(number) << DELTA_BITS;
                match kind {
                    PADDING => {
                        // An event that was discarded: its length follows, and its time counts.
                        self.time = self.time.wrapping_add(delta);
                        self.at = at + 4 + number as usize;
                        return self.within(whole, number >= 4);
                    }
                    TIME_EXTEND => {
                        self.time = self.time.wrapping_add(high | delta);
                        self.at = at + 8;
                        return Ok(false);
                    }
                    TIME_STAMP => {
                        self.time = self.time & TIME_HIGH | high | delta;
                        self.at = at + 8;
                        return Ok(false);
                    }
                    // The length counts its own four bytes.
                    _ if number >= 4 => (at + 8, number as usize - 4),
                    _ => return Err(self.damage(whole, "has an event without length")),
                }
            }
        };
        self.time = self.time.wrapping_add(delta);
        self.at = data + length.next_multiple_of(4);
        self.within(whole, true)?;
        (self.event_time, self.event) = (self.time, data..data + length);
        Ok(true)
    }

    /// False if the entry that was read is valid and lies within its page.
    fn within(&self, whole: &Whole, is_valid: bool) -> Result<bool, Error> {
        if is_valid && self.at <= self.end {
            return Ok(false);
        }
        Err(self.damage(whole, "has an entry that is longer than its page"))
    }

    /// Goes to the next page; false at the end.
    fn next_page(&mut self, whole: &Whole) -> Result<bool, Error> {
        if self.page_next >= self.chunk.len() {
            let Some(at) = self.chunks.read(whole, &mut self.chunk)? else {
                return Ok(false);
            };
            (self.chunk_at, self.page_next) = (at, 0);
        }
        let page_end = self.page_next + self.part.page_bytes;
        let data = self.page_next + self.layout.data_offset;
        (self.at, self.end) = (data, data);
        let Some(page) = self.chunk.get(self.page_next..page_end) else {
            return Err(self.damage(whole, "ends within a page of the ring buffer"));
        };
        self.time = self.order.number(&page[..8]);
        let commit = self.order.number(&page[8..8 + self.layout.commit_bytes]);
        let length = (commit & COMMIT_MASK) as usize;
        self.page_next = page_end;
        if data + length > page_end {
            return Err(self.damage(whole, "has a page with more bytes than it holds"));
        }
        self.end = data + length;
        if commit & MISSED != 0 {
            let count = self.chunk.get(self.end..self.end + self.layout.commit_bytes);
            match count {
                Some(count) if commit & MISSED_STORED != 0 && self.end < page_end => {
                    let count = self.order.number(count);
                    self.lost.events = self.lost.events.saturating_add(count);
                }
                _ => self.lost.uncounted += 1,
            }
        }
        Ok(true)
    }

    /// The error for damage at the current place.
    fn damage(&self, whole: &Whole, what: &str) -> Error {
        let is_plain = self.part.compression == super::contents::Compression::None;
        let place = if is_plain { self.chunk_at + self.at as u64 } else { self.chunk_at };
        whole.corrupt(place, format!("the data of CPU {} {what}", self.part.cpu))
    }
}
