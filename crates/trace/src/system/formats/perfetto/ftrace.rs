//! A bundle of kernel events of a CPU (protos/perfetto/trace/ftrace/ftrace_event_bundle.proto): events with
//! their fields, and the compact form of sched_switch and sched_waking, in which each field is an array.

use super::clocks::{BOOTTIME, MONOTONIC_RAW};
use super::fields::{EventRow, TABLES};
use super::generic::GenericEvents;
use super::out::Out;
use super::wire::{Message, Value, take_number};
use crate::system::kernel::{Context, Fields, state_of_number};
use crate::system::{Event, Kind, Name, Names, Switch, Tally, Wake};

/// Largest number of a CPU whose running thread is remembered.
const CPUS_MAX: usize = 4096;

/// The name of a compact switch or waking, and the number of its message in `FtraceEvent`.
const SWITCH_NUMBER: usize = 4;
const WAKING_NUMBER: usize = 20;

/// The most events that a step appends.
const EVENTS_PER_STEP: usize = 256;

/// Fields of `FtraceEvent` that are no event.
const TIMESTAMP: u32 = 1;
const PID: u32 = 2;
const COMMON_FLAGS: u32 = 5;

/// Counts of events by the number of their message, and the thread that runs on each CPU.
#[derive(Debug)]
pub struct Ftrace {
    counts: Vec<u64>,
    running: Vec<Option<u32>>,
    pub generic: GenericEvents,
    /// Fields of the current event, kept to save an allocation.
    values: Vec<(u32, Raw)>,
}

/// The value of a field, with bytes as a range of the event.
#[derive(Clone, Copy, Debug)]
enum Raw {
    Number(u64),
    Bytes(u32, u32),
}

impl Default for Ftrace {
    fn default() -> Ftrace {
        let counts = vec![0; TABLES.events.len()];
        Ftrace {
            counts,
            running: Vec::new(),
            generic: GenericEvents::default(),
            values: Vec::new(),
        }
    }
}

/// A bundle whose events are passed on a few at a time.
#[derive(Debug, Default)]
pub struct Bundle {
    cpu: u32,
    clock: u32,
    /// Added to every time, for clocks whose difference the bundle states.
    offset_ns: i64,
    compact: Compact,
    is_of_events: bool,
}

/// The arrays of the compact form, as packed numbers; `place` is how far each is read.
#[derive(Debug, Default)]
struct Compact {
    names: Vec<Name>,
    columns: [Column; 10],
    switch: Option<SwitchRow>,
    waking: Option<WakingRow>,
    switch_ns: i64,
    waking_ns: i64,
    is_started: bool,
}

#[derive(Debug, Default)]
struct Column {
    packed: Vec<u8>,
    place: usize,
}

impl Column {
    fn push(&mut self, value: Value<'_>) {
        match value {
            Value::Bytes(bytes) => self.packed.extend_from_slice(bytes),
            Value::Number(number) => crate::varint::put_varint(number, &mut self.packed),
        }
    }

    fn next(&mut self) -> Option<u64> {
        let mut rest = self.packed.get(self.place..)?;
        let number = take_number(&mut rest)?;
        self.place = self.packed.len() - rest.len();
        Some(number)
    }

    fn clear(&mut self) {
        self.packed.clear();
        self.place = 0;
    }
}

/// Columns of the compact form by field number; the table of names and the flags of a waking have none.
const fn column_of(field: u32) -> Option<usize> {
    match field {
        1 => Some(0),
        2 => Some(1),
        3 => Some(2),
        4 => Some(3),
        6 => Some(4),
        7 => Some(5),
        8 => Some(6),
        9 => Some(7),
        10 => Some(8),
        11 => Some(9),
        _ => None,
    }
}

#[derive(Clone, Copy, Debug)]
struct SwitchRow {
    time: i64,
    prev_state: i64,
    next_tid: u32,
    next_priority: i32,
    next_comm: Name,
}

#[derive(Clone, Copy, Debug)]
struct WakingRow {
    time: i64,
    tid: u32,
    target_cpu: u32,
    priority: i32,
    comm: Name,
}

impl Bundle {
    /// Reads what the bundle says of all its events, and its compact arrays.
    pub fn start(
        &mut self,
        bundle: &[u8],
        ftrace: &mut Ftrace,
        names: &mut Names,
        tally: &mut Tally,
    ) {
        let (mut clock, mut ftrace_ns, mut boot_ns) = (0, None, None);
        (self.cpu, self.offset_ns, self.is_of_events) = (0, 0, true);
        self.compact.clear();
        let mut has_lost = false;
        let mut fields = Message::new(bundle);
        for (field, value) in fields.by_ref() {
            match field {
                1 => self.cpu = value.number() as u32,
                2 => {}
                3 => has_lost |= value.number() != 0,
                4 => self.compact.add(value.bytes(), names, tally),
                5 => clock = value.number(),
                6 => ftrace_ns = Some(value.number() as i64),
                7 => boot_ns = Some(value.number() as i64),
                8 => tally.lose("errors of reading a CPU's ring buffer", 1),
                // When the CPU's buffer was read last, and the bundle before was.
                9 | 10 => {}
                11 => ftrace.generic.describe(value.bytes()),
                512 => tally.lose("pages of a ring buffer that Perfetto could not decode", 1),
                other => tally.unknown_field("FtraceEventBundle", other),
            }
        }
        if fields.is_damaged() {
            tally.lose("bundles of events that are damaged", 1);
        }
        if has_lost {
            tally.lose("times that a CPU's ring buffer lost events", 1);
            ftrace.set_running(self.cpu, None);
        }
        self.clock = match clock {
            0 => BOOTTIME,
            4 => MONOTONIC_RAW,
            _ => {
                match boot_ns.zip(ftrace_ns) {
                    Some((boot_ns, ftrace_ns)) => {
                        self.offset_ns = boot_ns.saturating_sub(ftrace_ns)
                    }
                    None => {
                        tally.clock_problem("bundles on a clock that the trace does not relate", 1)
                    }
                }
                BOOTTIME
            }
        };
    }

    /// The clock of the event times, after [`Self::offset_ns`] is added.
    pub fn clock(&self) -> u32 {
        self.clock
    }

    /// Appends the next events of the bundle, of which `place` is the first unread byte, and after its last field
    /// the compact ones; a bounded number in each call. False when all are read.
    pub fn step(
        &mut self,
        bundle: &[u8],
        place: &mut usize,
        ftrace: &mut Ftrace,
        out: &mut Out<'_>,
    ) -> bool {
        if self.is_of_events {
            let mut fields = Message::new(&bundle[*place..]);
            let events = fields.by_ref().filter(|&(field, _)| field == 2);
            for (_, event) in events.take(EVENTS_PER_STEP) {
                ftrace.event(event.bytes(), self.cpu, self.offset_ns, out);
            }
            *place = bundle.len() - fields.rest().len();
            self.is_of_events = !fields.rest().is_empty();
            return true;
        }
        self.compact.step(self.cpu, self.offset_ns, ftrace, out)
    }
}

impl Compact {
    fn clear(&mut self) {
        self.names.clear();
        self.columns.iter_mut().for_each(Column::clear);
        (self.switch, self.waking) = (None, None);
        (self.switch_ns, self.waking_ns) = (0, 0);
        self.is_started = false;
    }

    fn add(&mut self, compact: &[u8], names: &mut Names, tally: &mut Tally) {
        let mut fields = Message::new(compact);
        for (field, value) in fields.by_ref() {
            match (field, column_of(field)) {
                (_, Some(column)) => self.columns[column].push(value),
                (5, None) => self.names.push(names.intern_needed(value.bytes())),
                // Flags of a waking: not needed.
                (12, None) => {}
                (other, None) => tally.unknown_field("FtraceEventBundle.CompactSched", other),
            }
        }
        if fields.is_damaged() {
            tally.lose("bundles of events that are damaged", 1);
        }
    }

    fn name(&self, index: Option<u64>) -> Name {
        let index = index.and_then(|index| usize::try_from(index).ok());
        index.and_then(|index| self.names.get(index).copied()).unwrap_or(Name::NONE)
    }

    fn next_switch(&mut self) -> Option<SwitchRow> {
        self.switch_ns = self.switch_ns.wrapping_add(self.columns[0].next()? as i64);
        let mut next = |column: usize| self.columns[column].next();
        let [state, tid, priority, comm] = [next(1), next(2), next(3), next(4)];
        Some(SwitchRow {
            time: self.switch_ns,
            prev_state: state.unwrap_or(0) as i64,
            next_tid: tid.unwrap_or(0) as u32,
            next_priority: priority.unwrap_or(0) as i32,
            next_comm: self.name(comm),
        })
    }

    fn next_waking(&mut self) -> Option<WakingRow> {
        self.waking_ns = self.waking_ns.wrapping_add(self.columns[5].next()? as i64);
        let mut next = |column: usize| self.columns[column].next();
        let [tid, target_cpu, priority, comm] = [next(6), next(7), next(8), next(9)];
        Some(WakingRow {
            time: self.waking_ns,
            tid: tid.unwrap_or(0) as u32,
            target_cpu: target_cpu.unwrap_or(0) as u32,
            priority: priority.unwrap_or(0) as i32,
            comm: self.name(comm),
        })
    }

    /// Appends the next switches and wakings in the order of time, a bounded number; false if there is none.
    fn step(&mut self, cpu: u32, offset_ns: i64, ftrace: &mut Ftrace, out: &mut Out<'_>) -> bool {
        if !std::mem::replace(&mut self.is_started, true) {
            self.switch = self.next_switch();
            self.waking = self.next_waking();
        }
        let mut running = ftrace.running(cpu);
        let (mut switches, mut wakings) = (0, 0);
        let full = out.events.len() + EVENTS_PER_STEP;
        while out.events.len() < full {
            let (time, kind) = match (self.switch, self.waking) {
                (None, None) => break,
                (Some(row), waking) if waking.is_none_or(|waking| row.time <= waking.time) => {
                    self.switch = self.next_switch();
                    switches += 1;
                    let kind = Kind::Switch(Switch {
                        prev_tid: running,
                        prev_comm: Name::NONE,
                        prev_priority: 0,
                        prev_state: state_of_number(row.prev_state),
                        next_tid: row.next_tid,
                        next_comm: row.next_comm,
                        next_priority: row.next_priority,
                    });
                    (row.time, kind)
                }
                (_, Some(row)) => {
                    self.waking = self.next_waking();
                    wakings += 1;
                    let WakingRow { tid, comm, priority, .. } = row;
                    let target_cpu = Some(row.target_cpu);
                    (row.time, Kind::Wake { wake: Wake::Waking, tid, comm, priority, target_cpu })
                }
                (Some(_), None) => unreachable!("a switch without a waking is handled above"),
            };
            let time_ns = time.saturating_add(offset_ns);
            out.events.push(Event { time_ns, cpu: Some(cpu), tid: running.unwrap_or(0), kind });
            if let Kind::Switch(switch) = kind {
                running = Some(switch.next_tid).filter(|_| (cpu as usize) < CPUS_MAX);
            }
        }
        ftrace.set_running(cpu, running);
        ftrace.count(SWITCH_NUMBER, switches);
        ftrace.count(WAKING_NUMBER, wakings);
        switches + wakings > 0
    }
}

impl Ftrace {
    fn running(&self, cpu: u32) -> Option<u32> {
        self.running.get(cpu as usize).copied().flatten()
    }

    fn set_running(&mut self, cpu: u32, tid: Option<u32>) {
        let cpu = cpu as usize;
        if cpu >= self.running.len() && cpu < CPUS_MAX {
            self.running.resize(cpu + 1, None);
        }
        if let Some(running) = self.running.get_mut(cpu) {
            *running = tid;
        }
    }

    /// Forgets which threads run, at the beginning of another session.
    pub fn forget_running(&mut self) {
        self.running.clear();
    }

    fn count(&mut self, number: usize, events: u64) {
        if let Some(count) = self.counts.get_mut(number) {
            *count += events;
        }
    }

    /// Moves the counts so far into `tally`.
    pub fn flush(&mut self, tally: &mut Tally) {
        for (count, row) in self.counts.iter_mut().zip(&TABLES.events) {
            if let Some(row) = row {
                tally.count(row.name.as_bytes(), std::mem::take(count));
            }
        }
    }

    /// Appends an event, if it has a `Kind`, and counts it.
    fn event(&mut self, event: &[u8], cpu: u32, offset_ns: i64, out: &mut Out<'_>) {
        let (mut time, mut tid, mut payload) = (0i64, 0, None);
        let mut fields = Message::new(event);
        for (field, value) in fields.by_ref() {
            match field {
                TIMESTAMP => time = value.number() as i64,
                PID => tid = value.number() as u32,
                COMMON_FLAGS => {}
                number => payload = Some((number, value.bytes())),
            }
        }
        if fields.is_damaged() {
            return out.tally.lose("events that are damaged", 1);
        }
        let Some((number, payload)) = payload else {
            return out.tally.lose("events without a kind", 1);
        };
        let kind = match TABLES.events.get(number as usize) {
            Some(Some(row)) => {
                self.count(number as usize, 1);
                if row.name == "generic" {
                    self.generic.event(payload, tid, out)
                } else {
                    self.typed(row, payload, tid, out)
                }
            }
            _ if self.generic.is_described(number) => {
                self.generic.described_event(number, payload, tid, out)
            }
            _ => return out.tally.unknown_field("FtraceEvent", number),
        };
        let Some(kind) = kind else { return };
        if let Kind::Switch(switch) = kind {
            self.set_running(cpu, Some(switch.next_tid));
        }
        let time_ns = time.saturating_add(offset_ns);
        out.events.push(Event { time_ns, cpu: Some(cpu), tid, kind });
    }

    fn typed(
        &mut self,
        row: &'static EventRow,
        payload: &[u8],
        tid: u32,
        out: &mut Out<'_>,
    ) -> Option<Kind> {
        let decoder = row.decoder?;
        self.values.clear();
        let base = payload.as_ptr() as usize;
        let mut message = Message::new(payload);
        for (field, value) in message.by_ref() {
            let raw = match value {
                Value::Number(number) => Raw::Number(number),
                Value::Bytes(bytes) => {
                    let start = bytes.as_ptr() as usize - base;
                    Raw::Bytes(start as u32, (start + bytes.len()) as u32)
                }
            };
            if self.values.len() < 64 {
                self.values.push((field, raw));
            }
            if row.fields.iter().all(|&(number, _)| number != field) {
                out.tally.unknown_field(row.name, field);
            }
        }
        if message.is_damaged() {
            out.tally.lose("events that are damaged", 1);
            return None;
        }
        let fields = TypedFields { row, payload, values: &self.values };
        decoder(&fields, Context { tid }, out.names)
    }
}

/// The fields of an event with its own message. A number that is absent is 0, as for Google's readers.
struct TypedFields<'event> {
    row: &'static EventRow,
    payload: &'event [u8],
    values: &'event [(u32, Raw)],
}

impl TypedFields<'_> {
    /// The value of a field of this name; `Some(None)` if it is absent, `None` if the message has no such field.
    fn value(&self, name: &str) -> Option<Option<Raw>> {
        let (field, _) = self.row.fields.iter().find(|(_, known)| *known == name)?;
        Some(self.values.iter().rev().find(|(number, _)| number == field).map(|&(_, raw)| raw))
    }
}

impl Fields for TypedFields<'_> {
    fn number(&self, name: &str) -> Option<i64> {
        match self.value(name)?.unwrap_or(Raw::Number(0)) {
            Raw::Number(number) if matches!(name, "dev" | "s_dev") => {
                Some(i64::from(kernel_device(number)))
            }
            Raw::Number(number) => Some(number as i64),
            Raw::Bytes(..) => None,
        }
    }

    fn text(&self, name: &str) -> Option<&[u8]> {
        match self.value(name)?? {
            Raw::Bytes(start, end) => self.payload.get(start as usize..end as usize),
            Raw::Number(_) => None,
        }
    }
}

/// The kernel's number of a device (major number << 20 | minor number). Perfetto stores devices as userspace
/// has them: the lower 12 bits of the major number above the lowest 8 bits of the minor number (makedev(3)).
pub fn kernel_device(device: u64) -> u32 {
    let major = (device >> 8) & 0xfff;
    let minor = (device & 0xff) | ((device >> 12) & 0xf_ff00);
    (major << 20 | minor) as u32
}
