//! Samples in packets: process trees, memory of processes, counters of the system, log lines. Each call reads
//! one field of a message, so that a packet with very many gives its events a few at a time.

use super::fields::TABLES;
use super::out::Out;
use super::wire::{Message, Value};
use crate::system::{CounterSource, Event, Kind, MemoryPart, Name, Names, Resource, Tally};

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

    /// The name of the message.
    fn name(self) -> &'static str {
        match self {
            Samples::Tree => "ProcessTree",
            Samples::Processes => "ProcessStats",
            Samples::System => "SysStats",
            Samples::Log => "AndroidLogPacket",
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
        let Out { events, names, tally } = out;
        let mut push = |kind, tid| events.push(Event { time_ns, cpu: None, tid, kind });
        let kind = match (self, field) {
            (Samples::Tree, 1) => process(value.bytes(), names, tally),
            (Samples::Tree, 2) => thread(value.bytes(), names, tally),
            (Samples::Processes, 1) => {
                memory(value.bytes(), tally, &mut push);
                None
            }
            (Samples::System, 1 | 2) => counter(field, value.bytes(), names, tally),
            (Samples::System, 14) => pressure(value.bytes(), tally),
            (Samples::Log, 1) => {
                let (kind, tid, wall_ns) = log_line(value.bytes(), names, tally)?;
                push(kind, tid);
                return Some(wall_ns);
            }
            (Samples::Tree, 3)
            | (Samples::Processes, 2)
            | (Samples::System, 3..=18)
            | (Samples::Log, 2) => None,
            (_, other) => {
                tally.unknown_field(self.name(), other);
                None
            }
        };
        if let Some(kind) = kind {
            push(kind, 0);
        }
        None
    }
}

/// Hands each field of a message to `take`, and counts those above `known`, which this version of Perfetto does not
/// have. A damaged message is a loss, and the result is `None`.
fn read_fields<'bytes>(
    name: &'static str,
    known: u32,
    message: &'bytes [u8],
    tally: &mut Tally,
    mut take: impl FnMut(u32, Value<'bytes>, &mut Tally),
) -> Option<()> {
    let mut fields = Message::new(message);
    for (field, value) in fields.by_ref() {
        if field <= known {
            take(field, value, tally);
        } else {
            tally.unknown_field(name, field);
        }
    }
    if fields.is_damaged() {
        tally.lose("samples that are damaged", 1);
        return None;
    }
    Some(())
}

fn process(message: &[u8], names: &mut Names, tally: &mut Tally) -> Option<Kind> {
    let (mut pid, mut parent, mut name, mut uid) = (0, 0, None, None);
    // Field 4 held threads in the first versions.
    read_fields("ProcessTree.Process", 9, message, tally, |field, value, _| match field {
        1 => pid = value.number() as u32,
        2 => parent = value.number() as u32,
        // The command line is one string per argument.
        3 => name = name.or(Some(value.bytes())),
        5 => uid = Some(value.number() as u32),
        _ => {}
    })?;
    let name = name.map_or(Name::NONE, |name| names.intern_needed(name));
    Some(Kind::Process { pid, parent, name, uid })
}

fn thread(message: &[u8], names: &mut Names, tally: &mut Tally) -> Option<Kind> {
    let (mut tid, mut pid, mut comm) = (0, 0, None);
    read_fields("ProcessTree.Thread", 4, message, tally, |field, value, _| match field {
        1 => tid = value.number() as u32,
        2 => comm = Some(value.bytes()),
        3 => pid = value.number() as u32,
        _ => {}
    })?;
    let comm = comm.map_or(Name::NONE, |comm| names.intern_needed(comm));
    Some(Kind::Thread { tid, pid, comm })
}

fn memory(message: &[u8], tally: &mut Tally, push: &mut impl FnMut(Kind, u32)) -> Option<()> {
    // Each counter once, as its last value.
    let mut parts: [Option<u64>; 11] = [None; 11];
    read_fields("ProcessStats.Process", 24, message, tally, |field, value, _| {
        if let Some(part) = parts.get_mut(field as usize) {
            *part = Some(value.number());
        }
    })?;
    let pid = parts[1].unwrap_or(0) as u32;
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
    Some(())
}

fn counter(field: u32, message: &[u8], names: &mut Names, tally: &mut Tally) -> Option<Kind> {
    let is_meminfo = field == 1;
    let message_name = if is_meminfo { "SysStats.MeminfoValue" } else { "SysStats.VmstatValue" };
    let (mut key, mut value) = (0, 0);
    read_fields(message_name, 2, message, tally, |field, number, _| match field {
        1 => key = number.number() as usize,
        _ => value = number.number(),
    })?;
    let lines = if is_meminfo { &TABLES.meminfo } else { &TABLES.vmstat };
    let name = names.intern_needed(lines.get(key).copied().flatten()?.as_bytes());
    Some(if is_meminfo {
        let value = value.saturating_mul(1024);
        Kind::SystemCounter { source: CounterSource::Meminfo, name, value }
    } else {
        Kind::SystemCounter { source: CounterSource::Vmstat, name, value }
    })
}

fn pressure(message: &[u8], tally: &mut Tally) -> Option<Kind> {
    let (mut resource, mut total_ns) = (0, 0);
    read_fields("SysStats.PsiSample", 2, message, tally, |field, number, _| match field {
        1 => resource = number.number(),
        _ => total_ns = number.number(),
    })?;
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
fn log_line(message: &[u8], names: &mut Names, tally: &mut Tally) -> Option<(Kind, u32, i64)> {
    let (mut pid, mut tid, mut wall_ns, mut tag, mut priority) = (0, 0, 0, &b""[..], 0);
    let (mut text, mut arguments) = (&b""[..], Vec::new());
    let line = "AndroidLogPacket.LogEvent";
    read_fields(line, 9, message, tally, |field, value, tally| match field {
        2 => pid = value.number() as u32,
        3 => tid = value.number() as u32,
        5 => wall_ns = value.number() as i64,
        6 => tag = value.bytes(),
        7 => priority = u8::try_from(value.number()).unwrap_or(0),
        8 => text = value.bytes(),
        9 => argument(value.bytes(), &mut arguments, tally),
        _ => {}
    })?;
    let text = if text.is_empty() { &arguments } else { text };
    let is_needed = NEEDED_TAGS.contains(&tag);
    let tag = names.intern_needed(tag);
    let message = if is_needed { names.intern_needed(text) } else { names.intern(text) };
    Some((Kind::Log { pid, priority, tag, message }, tid, wall_ns))
}

/// Appends an argument of an entry of the event log: 1 is its name, 2 a number, 3 a float, 4 a text. Of a damaged
/// argument, what comes before the damage stays.
fn argument(message: &[u8], text: &mut Vec<u8>, tally: &mut Tally) {
    let name = "AndroidLogPacket.LogEvent.Arg";
    let is_full = text.len() > crate::system::NAME_BYTES_MAX;
    read_fields(name, 4, message, tally, |field, value, _| {
        if is_full || field == 1 {
            return;
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
    });
}
