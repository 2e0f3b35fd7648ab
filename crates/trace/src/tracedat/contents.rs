//! What a trace.dat file holds besides events: the formats of events, the names of tasks, and where the
//! events of each CPU lie.

use std::collections::HashMap;
use std::sync::Arc;

use super::cursor::Cursor;
use super::format::EventFormat;
use super::order::ByteOrder;
use crate::Error;

/// The first bytes of every trace.dat file.
pub const MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// The most CPUs of all instances. The kernel's own limit is 8192 (NR_CPUS on x86-64).
pub(super) const CPUS_MAX: u64 = 1 << 16;

/// The largest page of a ring buffer; the kernel's limit is lower.
const PAGE_BYTES_MAX: u64 = 1 << 20;

/// How the data of a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    None,
    Zlib,
    Zstd,
}

/// The events of one CPU in one instance.
#[derive(Clone, Copy, Debug)]
pub(super) struct CpuPart {
    pub(super) cpu: u32,
    /// Index of the instance.
    pub(super) instance: u32,
    /// Size of the pages of the ring buffer.
    pub(super) page_bytes: usize,
    /// Offset in the file.
    pub(super) offset: u64,
    /// Length in the file, compressed.
    pub(super) length: u64,
    pub(super) compression: Compression,
}

/// How the numbers that the kernel recorded become nanoseconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    /// The name of the clock, such as `local`; empty if the file does not say it.
    pub(super) name: String,
    /// Factor and shift for the counter of the processor.
    pub(super) scale: Option<(u32, u32)>,
    /// Nanoseconds to add.
    pub(super) offset_ns: i64,
}

impl Clock {
    /// Nanoseconds of the time that the kernel recorded.
    #[inline]
    pub(super) fn time_ns(&self, time: u64) -> i64 {
        let scaled = match self.scale {
            None => time,
            Some((factor, shift)) => {
                ((u128::from(time) * u128::from(factor)) >> shift.min(127)) as u64
            }
        };
        (scaled as i64).wrapping_add(self.offset_ns)
    }

    /// Whether times are nanoseconds.
    pub(super) fn has_nanoseconds(&self) -> bool {
        self.scale.is_some() || !matches!(&*self.name, "counter" | "uptime" | "x86-tsc" | "ppc-tb")
    }
}

/// The layout of the pages of the ring buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageLayout {
    /// Length of the number of bytes that follow, which is a `long` of the kernel.
    pub(super) commit_bytes: usize,
    /// Offset of the first event.
    pub(super) data_offset: usize,
}

/// The kinds of events in a file, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Formats {
    by_id: HashMap<u16, Arc<EventFormat>>,
    /// Format files that could not be read.
    pub(super) unreadable: u64,
}

impl Formats {
    #[inline]
    pub(super) fn get(&self, id: u16) -> Option<&Arc<EventFormat>> {
        self.by_id.get(&id)
    }

    /// Every kind of event, in the order of the numbers.
    pub(super) fn all(&self) -> Vec<&EventFormat> {
        let mut all: Vec<_> = self.by_id.values().map(|format| &**format).collect();
        all.sort_by_key(|format| format.id);
        all
    }

    /// Reads `count` format files of a subsystem.
    fn read(&mut self, cursor: &mut Cursor, system: &str, count: u32) -> Result<(), Error> {
        for _ in 0..count {
            let length = cursor.number(8)?;
            let text = cursor.block(length, "a format file")?;
            match EventFormat::parse(system, &String::from_utf8_lossy(&text)) {
                Some(format) => {
                    self.by_id.entry(format.id).or_insert_with(|| Arc::new(format));
                }
                None => self.unreadable += 1,
            }
        }
        Ok(())
    }

    /// Reads the formats of the tracers' own events.
    pub(super) fn read_tracers(&mut self, cursor: &mut Cursor) -> Result<(), Error> {
        let count = cursor.u32()?;
        self.read(cursor, "ftrace", count)
    }

    /// Reads the formats of the events of every subsystem.
    pub(super) fn read_systems(&mut self, cursor: &mut Cursor) -> Result<(), Error> {
        for _ in 0..cursor.u32()? {
            let system = String::from_utf8_lossy(&cursor.string()?).into_owned();
            let count = cursor.u32()?;
            self.read(cursor, &system, count)?;
        }
        Ok(())
    }
}

/// All of a file that is not an event.
pub(super) struct Contents {
    pub(super) version: u32,
    pub(super) order: ByteOrder,
    pub(super) page: PageLayout,
    pub(super) formats: Formats,
    /// Names of tasks by pid.
    pub(super) comms: HashMap<i32, Box<[u8]>>,
    /// Names of the instances; the first buffer has an empty name.
    pub(super) instances: Vec<Box<str>>,
    pub(super) parts: Vec<CpuPart>,
    pub(super) clock: Clock,
    /// Options that this reader does not know, and whether times of a guest need its host's file.
    pub(super) options_skipped: u64,
    pub(super) is_guest: bool,
}

impl Contents {
    pub(super) fn new(version: u32, order: ByteOrder) -> Contents {
        Contents {
            version,
            order,
            page: PageLayout { commit_bytes: 8, data_offset: 16 },
            formats: Formats::default(),
            comms: HashMap::new(),
            instances: Vec::new(),
            parts: Vec::new(),
            clock: Clock::default(),
            options_skipped: 0,
            is_guest: false,
        }
    }

    /// Adds an instance and returns its index.
    pub(super) fn add_instance(&mut self, name: &[u8]) -> u32 {
        self.instances.push(String::from_utf8_lossy(name).into());
        self.instances.len() as u32 - 1
    }

    /// Reads `header_page` and `header_event`, each a name, a length and a text.
    pub(super) fn read_header_info(&mut self, cursor: &mut Cursor) -> Result<(), Error> {
        for wanted in ["header_page", "header_event"] {
            let name = cursor.string()?;
            if name != wanted.as_bytes() {
                return Err(cursor.corrupt(format!("expected {wanted}")));
            }
            let length = cursor.number(8)?;
            let text = cursor.block(length, wanted)?;
            if wanted == "header_page" {
                let layout = PageLayout::parse(&String::from_utf8_lossy(&text));
                let expected = "expected the fields `commit`, of 4 or 8 bytes, and `data`";
                self.page = layout.ok_or_else(|| cursor.corrupt(expected))?;
            }
        }
        Ok(())
    }

    /// Reads a text of lines `PID NAME`, which begins with its length.
    pub(super) fn read_comms(&mut self, cursor: &mut Cursor) -> Result<(), Error> {
        let length = cursor.number(8)?;
        let text = cursor.block(length, "the names of tasks")?;
        for line in text.split(|&byte| byte == b'\n') {
            let Some(blank) = memchr::memchr(b' ', line) else { continue };
            let pid = std::str::from_utf8(&line[..blank]).ok().and_then(|pid| pid.parse().ok());
            if let Some(pid) = pid {
                self.comms.insert(pid, line[blank + 1..].into());
            }
        }
        Ok(())
    }

    /// Takes an option that both versions have.
    pub(super) fn take_option(&mut self, id: u64, data: &[u8]) {
        let text = || {
            let end = memchr::memchr(0, data).unwrap_or(data.len());
            String::from_utf8_lossy(&data[..end]).trim().to_owned()
        };
        match id {
            option::DATE => {
                // Microseconds, in hexadecimal after 0x.
                let offset = integer(&text()).unwrap_or(0).wrapping_mul(1000);
                self.clock.offset_ns = self.clock.offset_ns.wrapping_add(offset);
            }
            option::OFFSET => {
                let offset = integer(&text()).unwrap_or(0);
                self.clock.offset_ns = self.clock.offset_ns.wrapping_add(offset);
            }
            option::TRACECLOCK => self.clock.name = chosen_clock(&text()),
            option::TSC2NSEC if data.len() >= 8 => {
                let factor = self.order.word(data, 0).unwrap_or(0);
                let shift = self.order.word(data, 4).unwrap_or(0);
                self.clock.scale = (factor > 0).then_some((factor, shift));
            }
            option::TIME_SHIFT => self.is_guest = true,
            option::CPUSTAT
            | option::UNAME
            | option::HOOK
            | option::CPUCOUNT
            | option::VERSION
            | option::PROCMAPS
            | option::TRACEID
            | option::GUEST
            | option::STRINGS => {}
            _ => self.options_skipped += 1,
        }
    }

    /// Adds the events of a CPU, if it has any.
    pub(super) fn add_part(&mut self, part: CpuPart, cursor: &Cursor) -> Result<(), Error> {
        let page_max = PAGE_BYTES_MAX as usize;
        if part.page_bytes <= self.page.data_offset || part.page_bytes > page_max {
            let page = part.page_bytes;
            return Err(cursor.corrupt(format!("a page of {page} bytes; at most {page_max}")));
        }
        if part.length > 0 {
            self.parts.push(part);
        }
        Ok(())
    }
}

/// Numbers of options (trace-cmd.dat.v7(5)).
pub(super) mod option {
    pub(in super::super) const DONE: u64 = 0;
    pub(super) const DATE: u64 = 1;
    pub(super) const CPUSTAT: u64 = 2;
    pub(in super::super) const BUFFER: u64 = 3;
    pub(super) const TRACECLOCK: u64 = 4;
    pub(super) const UNAME: u64 = 5;
    pub(super) const HOOK: u64 = 6;
    pub(super) const OFFSET: u64 = 7;
    pub(super) const CPUCOUNT: u64 = 8;
    pub(super) const VERSION: u64 = 9;
    pub(super) const PROCMAPS: u64 = 10;
    pub(super) const TRACEID: u64 = 11;
    pub(super) const TIME_SHIFT: u64 = 12;
    pub(super) const GUEST: u64 = 13;
    pub(super) const TSC2NSEC: u64 = 14;
    pub(super) const STRINGS: u64 = 15;
    pub(in super::super) const HEADER_INFO: u64 = 16;
    pub(in super::super) const FTRACE_EVENTS: u64 = 17;
    pub(in super::super) const EVENT_FORMATS: u64 = 18;
    pub(in super::super) const CMDLINES: u64 = 21;
    pub(in super::super) const BUFFER_TEXT: u64 = 22;
}

impl PageLayout {
    /// Reads the text of `events/header_page`.
    fn parse(text: &str) -> Option<PageLayout> {
        let field = |name: &str| {
            text.lines().find_map(|line| {
                let (declaration, rest) = line.split_once(';')?;
                let is_it = declaration.split_whitespace().next_back() == Some(name);
                is_it.then_some(rest)
            })
        };
        let number = |rest: &str, key: &str| {
            let part = rest.split(';').find_map(|part| part.trim().strip_prefix(key));
            part?.trim().parse::<usize>().ok()
        };
        let commit_bytes = number(field("commit")?, "size:")?;
        let data_offset = number(field("data")?, "offset:")?;
        let is_known = matches!(commit_bytes, 4 | 8) && data_offset == 8 + commit_bytes;
        is_known.then_some(PageLayout { commit_bytes, data_offset })
    }
}

/// A number in C's spelling, decimal or hexadecimal after `0x`.
fn integer(text: &str) -> Option<i64> {
    let (digits, is_negative) = match text.strip_prefix('-') {
        Some(digits) => (digits, true),
        None => (text, false),
    };
    let number = match digits.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()? as i64,
        None => digits.parse().ok()?,
    };
    Some(if is_negative { number.wrapping_neg() } else { number })
}

/// The clock in use: tracefs lists all clocks, with this one in brackets.
fn chosen_clock(text: &str) -> String {
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    chosen.map_or(text, |(clock, _)| clock).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_set_the_clock() {
        let mut contents = Contents::new(7, ByteOrder::Little);
        contents.take_option(option::TRACECLOCK, b"local [x86-tsc] mono\n\0");
        assert_eq!(contents.clock.name, "x86-tsc");
        assert!(!contents.clock.has_nanoseconds());
        contents.take_option(option::TSC2NSEC, &[3, 0, 0, 0, 1, 0, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9]);
        contents.take_option(option::OFFSET, b"-7\0");
        contents.take_option(option::DATE, b"0x2\0");
        assert!(contents.clock.has_nanoseconds());
        assert_eq!(contents.clock.time_ns(100), 150 + 2000 - 7);
        contents.take_option(99, b"");
        assert_eq!(contents.options_skipped, 1);
    }

    #[test]
    fn the_page_header_has_four_or_eight_bytes_of_length() {
        let text = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:4;\tsigned:1;
\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;
\tfield: char data;\toffset:12;\tsize:4084;\tsigned:0;\n";
        let layout = PageLayout::parse(text).unwrap();
        assert_eq!((layout.commit_bytes, layout.data_offset), (4, 12));
        assert!(PageLayout::parse(&text.replace("size:4;", "size:3;")).is_none());
        assert!(PageLayout::parse("").is_none());
    }
}
