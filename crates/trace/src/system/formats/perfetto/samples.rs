//! Samples in packets: process trees, memory of processes, counters of the system, log lines. Each call reads
//! one field of a message, so that a packet with very many gives its events a few at a time.

use super::fields::TABLES;
use super::out::Out;
use super::wire::{Message, Value};
use crate::system::{CounterSource, Event, Kind, MemoryPart, Name, Resource};

/// A message whose fields are samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Samples {
    /// `ProcessTree`.
    Tree,
    /// `ProcessStats`.
    Processes,
    /// `SysStats`.
    System,
    /// `AndroidLogPacket`.
    Log,
}

impl Samples {
    /// The message in a field of `TracePacket`.
    pub fn of_field(field: u32) -> Option<Samples> {
        match field {
            2 => Some(Samples::Tree),
            9 => Some(Samples::Processes),
            7 => Some(Samples::System),
            39 => Some(Samples::Log),
            _ => None,
        }
    }

    /// Appends the events of one field, at `time_ns`. A log line has its own time on the wall clock, which this
    /// returns.
    pub fn read(
        self,
        field: u32,
        value: Value<'_>,
        time_ns: i64,
        out: &mut Out<'_>,
    ) -> Option<i64> {
        let mut push = |kind, tid| {
            out.events.push(Event { time_ns, cpu: None, tid, kind });
        };
        match (self, field) {
            (Samples::Tree, 1) => push(process(value.bytes(), out.names), 0),
            (Samples::Tree, 2) => push(thread(value.bytes(), out.names), 0),
            (Samples::Processes, 1) => memory(value.bytes(), &mut push),
            (Samples::System, 1 | 2) => {
                if let Some(kind) = counter(field, value.bytes(), out.names) {
                    push(kind, 0);
                }
            }
            (Samples::System, 14) => {
                if let Some(kind) = pressure(value.bytes()) {
                    push(kind, 0);
                }
            }
            (Samples::Log, 1) => {
                let (kind, tid, wall_ns) = log_line(value.bytes(), out.names);
                push(kind, tid);
                return Some(wall_ns);
            }
            (Samples::Tree, 3)
            | (Samples::Processes, 2)
            | (Samples::System, 3..=18)
            | (Samples::Log, 2) => {}
            (Samples::Tree, other) => out.tally.unknown_field("ProcessTree", other),
            (Samples::Processes, other) => out.tally.unknown_field("ProcessStats", other),
            (Samples::System, other) => out.tally.unknown_field("SysStats", other),
            (Samples::Log, other) => out.tally.unknown_field("AndroidLogPacket", other),
        }
        None
    }
}

fn process(message: &[u8], names: &mut crate::system::Names) -> Kind {
    let (mut pid, mut parent, mut name, mut uid) = (0, 0, None, None);
    for (field, value) in Message::new(message) {
        match field {
            1 => pid = value.number() as u32,
            2 => parent = value.number() as u32,
            // The command line is one string per argument.
            3 => name = name.or(Some(value.bytes())),
            5 => uid = Some(value.number() as u32),
            _ => {}
        }
    }
    let name = name.map_or(Name::NONE, |name| names.intern_needed(name));
    Kind::Process { pid, parent, name, uid }
}

fn thread(message: &[u8], names: &mut crate::system::Names) -> Kind {
    let (mut tid, mut pid, mut comm) = (0, 0, Name::NONE);
    for (field, value) in Message::new(message) {
        match field {
            1 => tid = value.number() as u32,
            2 => comm = names.intern_needed(value.bytes()),
            3 => pid = value.number() as u32,
            _ => {}
        }
    }
    Kind::Thread { tid, pid, comm }
}

fn memory(message: &[u8], push: &mut impl FnMut(Kind, u32)) {
    let pid = super::wire::last_of(message, 1).map_or(0, Value::number) as u32;
    // Each counter once, as its last value.
    let mut parts: [Option<u64>; 11] = [None; 11];
    for (field, value) in Message::new(message) {
        if let Some(part) = parts.get_mut(field as usize) {
            *part = Some(value.number());
        }
    }
    for (field, part) in [
        (3, MemoryPart::Rss),
        (4, MemoryPart::Anonymous),
        (5, MemoryPart::File),
        (6, MemoryPart::Shared),
        (7, MemoryPart::Swap),
        (9, MemoryPart::RssPeak),
    ] {
        if let Some(kib) = parts[field] {
            push(Kind::ProcessMemory { pid, part, bytes: kib.saturating_mul(1024) }, 0);
        }
    }
    if let Some(adj) = parts[10] {
        push(Kind::OomScoreAdj { pid, comm: Name::NONE, adj: adj as i32 }, 0);
    }
}

fn counter(field: u32, message: &[u8], names: &mut crate::system::Names) -> Option<Kind> {
    let (mut key, mut value) = (0, 0);
    for (field, number) in Message::new(message) {
        match field {
            1 => key = number.number() as usize,
            2 => value = number.number(),
            _ => {}
        }
    }
    let is_meminfo = field == 1;
    let lines = if is_meminfo { &TABLES.meminfo } else { &TABLES.vmstat };
    let name = names.intern_needed(lines.get(key).copied().flatten()?.as_bytes());
    Some(if is_meminfo {
        let value = value.saturating_mul(1024);
        Kind::SystemCounter { source: CounterSource::Meminfo, name, value }
    } else {
        Kind::SystemCounter { source: CounterSource::Vmstat, name, value }
    })
}

fn pressure(message: &[u8]) -> Option<Kind> {
    let (mut resource, mut total_ns) = (0, 0);
    for (field, number) in Message::new(message) {
        match field {
            1 => resource = number.number(),
            2 => total_ns = number.number(),
            _ => {}
        }
    }
    let (resource, is_full) = match resource {
        1 => (Resource::Cpu, false),
        2 => (Resource::Cpu, true),
        3 => (Resource::Io, false),
        4 => (Resource::Io, true),
        5 => (Resource::Memory, false),
        6 => (Resource::Memory, true),
        _ => return None,
    };
    let total_us = Some(total_ns / 1000);
    Some(Kind::Pressure { resource, is_full, total_us, average10: None })
}

/// Tags of lines that report kills; `Names` keeps room for these.
const NEEDED_TAGS: [&[u8]; 10] = [
    b"lowmemorykiller",
    b"lmkd",
    b"killinfo",
    b"ActivityManager",
    b"am_kill",
    b"am_proc_died",
    b"am_proc_start",
    b"am_low_memory",
    b"am_proc_bound",
    b"ActivityTaskManager",
];

/// A log line, its thread, and its time on the wall clock.
fn log_line(message: &[u8], names: &mut crate::system::Names) -> (Kind, u32, i64) {
    let (mut pid, mut tid, mut wall_ns, mut tag, mut priority) = (0, 0, 0, &b""[..], 0);
    let (mut text, mut arguments) = (&b""[..], Vec::new());
    for (field, value) in Message::new(message) {
        match field {
            2 => pid = value.number() as u32,
            3 => tid = value.number() as u32,
            5 => wall_ns = value.number() as i64,
            6 => tag = value.bytes(),
            7 => priority = u8::try_from(value.number()).unwrap_or(0),
            8 => text = value.bytes(),
            9 => argument(value.bytes(), &mut arguments),
            _ => {}
        }
    }
    let text = if text.is_empty() { &arguments } else { text };
    let is_needed = NEEDED_TAGS.contains(&tag);
    let tag = names.intern_needed(tag);
    let message = if is_needed { names.intern_needed(text) } else { names.intern(text) };
    (Kind::Log { pid, priority, tag, message }, tid, wall_ns)
}

/// Appends an argument of an entry of the event log: 2 is a number, 3 a float, 4 a text.
fn argument(message: &[u8], text: &mut Vec<u8>) {
    if text.len() > crate::system::NAME_BYTES_MAX {
        return;
    }
    for (field, value) in Message::new(message) {
        if !matches!(field, 2..=4) {
            continue;
        }
        if !text.is_empty() {
            text.push(b',');
        }
        match (field, value) {
            (2, Value::Number(number)) => text.extend((number as i64).to_string().bytes()),
            (3, Value::Number(bits)) => {
                text.extend(f32::from_bits(bits as u32).to_string().bytes())
            }
            (_, value) => text.extend_from_slice(value.bytes()),
        }
    }
}
