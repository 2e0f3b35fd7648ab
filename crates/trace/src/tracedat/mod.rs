//! Files of `trace-cmd record`, versions 6 and 7, of either byte order: the events of all CPUs in the order
//! of their times, in bounded memory. Times, lost events and the layout of each kind of event come
//! from the file. Symbols of the kernel and the formats of trace_printk are passed over.

mod chunk;
mod contents;
mod cpu;
mod cursor;
mod format;
mod order;
mod v6;
mod v7;

pub use contents::MAGIC;
pub use cpu::Lost;
pub use format::{EventFormat, Field, FieldKind, Place, Value};

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use contents::Contents;
use cpu::Cpu;
use cursor::Cursor;
use order::ByteOrder;

use crate::Error;
use crate::input::Input;
use crate::whole::Whole;

/// Memory for the chunks of all CPUs. A chunk is 64 KiB, or as long as trace-cmd packed it.
const HELD_BYTES_MAX: usize = 256 << 20;

/// A trace.dat file that is being read.
pub struct TraceDat {
    whole: Whole,
    contents: Contents,
    cpus: Vec<Cpu>,
    /// The next event of each CPU: its time, and the index of the CPU.
    next: BinaryHeap<Reverse<(u64, u32)>>,
    /// The CPU whose event was returned last.
    current: Option<u32>,
    held_bytes: usize,
    unknown: u64,
}

/// An event.
#[derive(Clone, Copy)]
pub struct Event<'file> {
    /// Nanoseconds on the clock of the recording.
    pub time_ns: i64,
    /// Number of the CPU.
    pub cpu: u32,
    /// Thread that ran on the CPU.
    pub pid: i32,
    /// Name of the instance that recorded it; empty for the first buffer.
    pub instance: &'file str,
    /// The kind of event.
    pub format: &'file EventFormat,
    data: &'file [u8],
    order: ByteOrder,
}

impl<'file> Event<'file> {
    /// The value of the field with this name; `None` if there is none, or it is cut off.
    pub fn field(&self, name: &str) -> Option<Value<'file>> {
        self.value(self.format.field(name)?)
    }

    /// The value of `field`, which belongs to the format of this event; `None` if it is cut off.
    #[inline]
    pub fn value(&self, field: &Field) -> Option<Value<'file>> {
        field.value(self.data, self.order)
    }

    /// The number in the field with this name; `None` if there is none. A signed number keeps its bits.
    pub fn number(&self, name: &str) -> Option<u64> {
        match self.field(name)? {
            Value::Unsigned(number) => Some(number),
            Value::Signed(number) => Some(number as u64),
            Value::Text(_) | Value::Bytes(_) => None,
        }
    }

    /// The text in the field with this name; `None` if there is none.
    pub fn text(&self, name: &str) -> Option<&'file [u8]> {
        match self.field(name)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl TraceDat {
    /// Opens a file at its beginning and reads everything but the events.
    ///
    /// # Errors
    /// `Corrupt` with the position if it is no trace.dat file, damaged, or holds text instead of events;
    /// errors of [`Input::fill`].
    pub fn open(input: &mut Input) -> Result<TraceDat, Error> {
        let whole = input.whole()?;
        let contents = read_contents(&whole)?;
        let (layout, order) = (contents.page, contents.order);
        let cpus = contents.parts.iter().map(|&part| Cpu::new(part, layout, order)).collect();
        let mut file = TraceDat {
            whole,
            contents,
            cpus,
            next: BinaryHeap::new(),
            current: None,
            held_bytes: 0,
            unknown: 0,
        };
        for index in 0..file.cpus.len() {
            file.advance(index as u32)?;
        }
        Ok(file)
    }

    /// The version of the file: 6 or 7.
    pub fn version(&self) -> u32 {
        self.contents.version
    }

    /// The clock of the times, such as `local` or `mono`; empty if the file does not name it.
    pub fn clock(&self) -> &str {
        &self.contents.clock.name
    }

    /// Whether times are nanoseconds, and not ticks of a counter.
    pub fn has_nanoseconds(&self) -> bool {
        self.contents.clock.has_nanoseconds()
    }

    /// Whether a virtual machine recorded the file. Its times are those of the guest.
    pub fn is_guest(&self) -> bool {
        self.contents.is_guest
    }

    /// Every kind of event that the file describes, in the order of the numbers.
    pub fn formats(&self) -> Vec<&EventFormat> {
        self.contents.formats.all()
    }

    /// Options and format files that could not be read.
    pub fn parts_skipped(&self) -> u64 {
        self.contents.options_skipped + self.contents.formats.unreadable
    }

    /// The name of a thread, as trace-cmd saved it; `None` if it did not.
    pub fn comm(&self, pid: i32) -> Option<&[u8]> {
        self.contents.comms.get(&pid).map(|name| &**name)
    }

    /// Events that the kernel lost, up to the event that was returned last.
    pub fn lost(&self) -> Lost {
        self.cpus.iter().fold(Lost::default(), |sum, cpu| Lost {
            events: sum.events.saturating_add(cpu.lost.events),
            uncounted: sum.uncounted + cpu.lost.uncounted,
        })
    }

    /// Events since the last call whose kind the file does not describe.
    pub fn take_unknown(&mut self) -> u64 {
        std::mem::take(&mut self.unknown)
    }

    /// Bytes of the events of all CPUs that were read so far, as they lie in the file.
    pub fn bytes_read(&self) -> u64 {
        self.cpus.iter().map(Cpu::bytes_read).sum()
    }

    /// The next event in the order of times; of equal times, the one of the lower CPU. `None` at the end.
    ///
    /// # Errors
    /// `Corrupt` with the position if the data of a CPU is damaged; `Io` if it cannot be read.
    pub fn next_event(&mut self) -> Result<Option<Event<'_>>, Error> {
        loop {
            if let Some(index) = self.current.take() {
                self.advance(index)?;
            }
            let Some(Reverse((_, index))) = self.next.pop() else {
                return Ok(None);
            };
            self.current = Some(index);
            if self.event(index).is_some() {
                return Ok(self.event(index));
            }
            self.unknown += 1;
        }
    }

    /// The event of a CPU; `None` if the file does not describe its kind.
    fn event(&self, index: u32) -> Option<Event<'_>> {
        let cpu = &self.cpus[index as usize];
        let (data, order) = (cpu.event(), self.contents.order);
        // The number of the kind is the first field of every kind (struct trace_entry).
        let id = order.number(data.get(..2)?) as u16;
        let format = self.contents.formats.get(id)?;
        let pid = format.common.iter().find(|field| &*field.name == "common_pid");
        let pid = match pid?.value(data, order)? {
            Value::Signed(pid) => pid as i32,
            Value::Unsigned(pid) => pid as i32,
            Value::Text(_) | Value::Bytes(_) => return None,
        };
        Some(Event {
            time_ns: self.contents.clock.time_ns(cpu.event_time),
            cpu: cpu.part.cpu,
            pid,
            instance: &self.contents.instances[cpu.part.instance as usize],
            format,
            data,
            order,
        })
    }

    /// Goes to the next event of a CPU.
    fn advance(&mut self, index: u32) -> Result<(), Error> {
        let cpu = &mut self.cpus[index as usize];
        let held_before = cpu.held_bytes();
        if cpu.advance(&self.whole)? {
            self.next.push(Reverse((cpu.event_time, index)));
        }
        self.held_bytes = self.held_bytes - held_before + cpu.held_bytes();
        if self.held_bytes > HELD_BYTES_MAX {
            let message = format!("the chunks of all CPUs need more than {HELD_BYTES_MAX} bytes");
            return Err(self.whole.corrupt(cpu.part.offset, message));
        }
        Ok(())
    }
}

/// Reads everything but the events.
fn read_contents(whole: &Whole) -> Result<Contents, Error> {
    let mut cursor = Cursor::new(whole, 0, ByteOrder::Little);
    let mut magic = [0; 10];
    cursor.fill(&mut magic)?;
    if magic != MAGIC {
        return Err(whole.corrupt(0, "expected the first bytes of a trace.dat file"));
    }
    let version = cursor.string()?;
    let version = match version.as_slice() {
        b"6" => 6,
        b"7" => 7,
        other => {
            let other = String::from_utf8_lossy(other);
            return Err(whole.corrupt(10, format!("expected version 6 or 7, found `{other}`")));
        }
    };
    cursor.order = match cursor.number(1)? {
        0 => ByteOrder::Little,
        1 => ByteOrder::Big,
        other => return Err(cursor.corrupt(format!("expected byte order 0 or 1, found {other}"))),
    };
    let _long_bytes = cursor.number(1)?;
    let page_bytes = cursor.u32()? as usize;
    let mut contents = Contents::new(version, cursor.order);
    match version {
        6 => v6::read(whole, &mut cursor, page_bytes, &mut contents)?,
        _ => v7::read(whole, &mut cursor, &mut contents)?,
    }
    Ok(contents)
}

#[cfg(test)]
pub(crate) mod sample;
#[cfg(test)]
mod tests;
