//! `perfetto`: traces of Perfetto as protocol buffers (protos/perfetto/trace/trace.proto), plain or packed, and
//! files that were joined. Kernel events, samples of processes and of the system, and log lines become events;
//! other packets are counted. Memory is bounded by the largest packet ([`packets::PACKET_BYTES_MAX`]).
//!
//! A trace from a ring buffer has all kernel events before the first sample, or all samples before them. So the
//! reader goes through the file twice: first for samples, which are few, then for the rest.

mod clocks;
mod config;
mod copies;
mod fields;
mod ftrace;
mod generic;
mod losses;
mod out;
mod packets;
mod samples;
mod wire;

use std::collections::HashMap;

use super::Format;
use crate::Error;
use crate::input::Input;
use crate::sniff::Confidence;
use crate::system::{Event, Names, SORTED_EVENTS, SystemReader, Tally};
use crate::unpacked::UnpackedCopy;
use clocks::{BOOTTIME, Clocks, REALTIME};
use copies::Copies;
use fields::TABLES;
use ftrace::{Bundle, Ftrace};
use losses::Losses;
use out::Out;
use packets::Packets;
use samples::Samples;
use wire::{Message, Value, last_of, take_number};

/// The row of this format.
pub const FORMAT: Format =
    Format { name: "perfetto", summary: "traces of Perfetto (protocol buffers)", sniff, open };

/// Events of a call of `read`, and one step's more.
const EVENTS_PER_READ: usize = 4096;

/// Packets of a call of `read`, which may hold no event.
const PACKETS_PER_READ: usize = 1024;

/// Samples that are read before the rest: a quarter of what is sorted at a time.
const SAMPLES_AHEAD: usize = SORTED_EVENTS / 4;

/// The longest message whose samples are read before the rest; a bound on what one message adds.
const SAMPLES_BYTES_AHEAD: usize = 1 << 20;

/// Sequences of packets that are remembered; a bound on hostile files.
const SEQUENCES_MAX: usize = 1 << 16;

/// Packets of the beginning that must have the structure of a packet.
const SNIFFED_PACKETS: usize = 4;

/// Recognises a file by its first packets: each has only fields of `TracePacket`, of the right wire type.
pub fn sniff(head: &[u8]) -> Confidence {
    let mut rest = head;
    let mut found = 0;
    while found < SNIFFED_PACKETS && !rest.is_empty() {
        if take_number(&mut rest) != Some(1 << 3 | 2) {
            return Confidence::No;
        }
        let Some(length) = take_number(&mut rest) else { break };
        let is_cut = length > rest.len() as u64;
        let packet = if is_cut { rest } else { &rest[..length as usize] };
        let mut fields = Message::new(packet);
        let mut known = 0;
        for (number, value) in fields.by_ref() {
            if TABLES.packets.get(number as usize).is_some_and(Option::is_some) {
                let is_number = matches!(number, 3 | 8 | 10 | 13 | 41 | 42 | 58 | 79 | 87);
                if is_number != matches!(value, Value::Number(_)) {
                    return Confidence::No;
                }
                known += 1;
            }
        }
        if is_cut {
            // The packet is longer than the head of the file.
            let is_long = head.len() > 16 * 1024 && length < 1 << 32;
            return Confidence::Likely.when(found > 0 || known > 0 || is_long);
        }
        if fields.is_damaged() || known == 0 {
            return Confidence::No;
        }
        found += 1;
        rest = &rest[length as usize..];
    }
    Confidence::Likely.when(found > 0)
}

/// Opens a reader, whose events are in the file's order, except that the first samples come before the others.
///
/// # Errors
/// If the input cannot be read twice; other errors come when it reads.
fn open(mut input: Input) -> Result<Box<dyn SystemReader>, Error> {
    let ahead = input.again_copied()?;
    Ok(Box::new(Perfetto { samples_ahead: Some(ahead), ..Perfetto::new(input) }))
}

/// Opens a reader, whose events are in the file's order, to look at the beginning of a file.
///
/// # Errors
/// None: errors come when it reads.
pub fn open_once(input: Input) -> Result<Box<dyn SystemReader>, Error> {
    Ok(Box::new(Perfetto::new(input)))
}

/// What is known of a sequence of packets by one writer.
#[derive(Clone, Copy, Debug, Default)]
struct Sequence {
    /// The clock of packets that name none.
    clock: Option<u32>,
    /// Whether packets that refer to earlier ones can be understood.
    is_whole: bool,
}

/// The message that is being read, field by field, of the current packet.
#[derive(Clone, Copy, Debug)]
enum Work {
    None,
    Bundle { start: usize, end: usize, place: usize },
    Samples { samples: Samples, place: usize, end: usize, time_ns: i64 },
}

/// Reads a Perfetto trace.
struct Perfetto {
    /// The file a second time, until the samples are read, and the copy of a compressed file.
    samples_ahead: Option<(Input, Option<UnpackedCopy>)>,
    /// The samples that were read, and how many of these are passed on.
    samples: Vec<Event>,
    samples_taken: usize,
    /// Number of the last packet whose samples are read ahead.
    samples_until: u64,
    /// Whether this reader reads samples ahead, and nothing else.
    is_ahead: bool,
    packets_begun: u64,
    packets: Packets,
    packet: Vec<u8>,
    work: Work,
    /// Messages of the current packet that follow, with their place; nearly always one in all.
    waiting: Vec<(u32, usize, usize)>,
    sequence: u32,
    time_ns: i64,
    sequences: HashMap<u32, Sequence>,
    clocks: Clocks,
    ftrace: Ftrace,
    bundle: Bundle,
    losses: Losses,
    copies: Copies,
    names: Names,
    names_refused: u64,
    has_config: bool,
    has_packet: bool,
}

impl Perfetto {
    fn new(input: Input) -> Perfetto {
        Perfetto {
            samples_ahead: None,
            samples: Vec::new(),
            samples_taken: 0,
            samples_until: 0,
            is_ahead: false,
            packets_begun: 0,
            packets: Packets::new(input),
            packet: Vec::new(),
            work: Work::None,
            waiting: Vec::new(),
            sequence: 0,
            time_ns: 0,
            sequences: HashMap::new(),
            clocks: Clocks::default(),
            ftrace: Ftrace::default(),
            bundle: Bundle::default(),
            losses: Losses::default(),
            copies: Copies::default(),
            names: Names::default(),
            names_refused: 0,
            has_config: false,
            has_packet: false,
        }
    }

    /// Reads the head of the current packet, and notes its messages.
    fn begin_packet(&mut self, tally: &mut Tally) {
        self.packets_begun += 1;
        if !std::mem::replace(&mut self.has_packet, true) {
            tally.begin_session();
        }
        let (mut time, mut clock, mut flags, mut has_dropped, mut is_cleared) =
            (None, None, 0, false, false);
        let mut defaults = None;
        self.sequence = 0;
        self.waiting.clear();
        let base = self.packet.as_ptr() as usize;
        let mut fields = Message::new(&self.packet);
        for (field, value) in fields.by_ref() {
            match (field, value) {
                (8, _) => time = Some(value.number() as i64),
                (10, _) => self.sequence = value.number() as u32,
                (13, _) => flags |= value.number(),
                (41, _) => is_cleared = value.number() != 0,
                (42, _) => has_dropped = value.number() != 0,
                (58, _) => clock = Some(value.number() as u32),
                (59, _) => defaults = last_of(value.bytes(), 58).map(|value| value.number() as u32),
                // Who wrote the packet, what it interns, and whether it is the writer's first.
                (3, Value::Number(_)) | (12 | 79 | 87, _) => {}
                (number, value) => {
                    let Some(name) = TABLES.packets.get(number as usize).copied().flatten() else {
                        tally.unknown_field("TracePacket", number);
                        continue;
                    };
                    tally.count_packet(name.as_bytes(), 1);
                    let start = value.bytes().as_ptr() as usize;
                    if let Value::Bytes(bytes) = value {
                        let start = start - base;
                        self.waiting.push((number, start, start + bytes.len()));
                    }
                }
            }
        }
        if fields.is_damaged() {
            tally.lose("packets that are damaged", 1);
        }
        let has_events = self.waiting.iter().any(|&(field, ..)| field == FTRACE);
        if !self.is_ahead
            && (time.is_some() || has_events)
            && self.copies.is_copy(&self.packet, time.is_some())
        {
            tally.repeat_packet();
        }
        const CLEARED: u64 = 1;
        const NEEDED: u64 = 2;
        let known = self.sequences.get(&self.sequence).copied();
        // The first packet of a sequence has the mark, too: nothing is known of what came before.
        let is_gap = has_dropped && known.is_some();
        tally.lose("gaps in the packets of a writer", u64::from(is_gap));
        let mut sequence = known.unwrap_or_default();
        sequence.is_whole &= !has_dropped;
        if is_cleared || flags & CLEARED != 0 {
            sequence = Sequence { clock: None, is_whole: true };
        }
        sequence.clock = defaults.or(sequence.clock);
        if self.sequences.len() < SEQUENCES_MAX || self.sequences.contains_key(&self.sequence) {
            self.sequences.insert(self.sequence, sequence);
        }
        if flags & NEEDED != 0 && !sequence.is_whole {
            tally.lose("packets that refer to lost packets", 1);
            self.waiting.retain(|&(field, ..)| field == FTRACE);
        }
        // The snapshot of a packet holds for its own time.
        for &(field, start, end) in &self.waiting {
            if field == CLOCK_SNAPSHOT {
                self.clocks.add(&self.packet[start..end], self.sequence, tally);
            }
        }
        let clock = clock.or(sequence.clock).unwrap_or(BOOTTIME);
        self.time_ns = match time {
            None => 0,
            Some(time) => self.clocks.boot_ns(clock, self.sequence, time).unwrap_or_else(|| {
                tally.clock_problem(
                    "packets on a clock that no snapshot has, taken as boot time",
                    1,
                );
                time
            }),
        };
        self.waiting.reverse();
    }

    /// Begins the next message of the packet; false if there is none.
    fn begin_message(&mut self, tally: &mut Tally) -> bool {
        let Some((field, start, end)) = self.waiting.pop() else { return false };
        let message = &self.packet[start..end];
        match field {
            FTRACE if self.is_ahead => {}
            FTRACE => {
                self.bundle.start(message, &mut self.ftrace, &mut self.names, tally);
                self.work = Work::Bundle { start, end, place: 0 };
            }
            FTRACE_STATS => self.losses.ftrace(message),
            TRACE_STATS => self.losses.trace(message),
            TRACE_CONFIG => {
                if config::records_kills(message) {
                    tally.expect_kills();
                }
                if std::mem::replace(&mut self.has_config, true) {
                    self.begin_session(tally);
                }
            }
            _ => {
                let is_short = message.len() <= SAMPLES_BYTES_AHEAD;
                let is_of_ahead = is_short && self.packets_begun <= self.samples_until;
                if is_of_ahead == self.is_ahead
                    && let Some(samples) = Samples::of_field(field)
                {
                    let time_ns = self.time_ns;
                    self.work = Work::Samples { samples, place: start, end, time_ns };
                }
            }
        }
        true
    }

    /// Begins another session of a joined file: earlier state says nothing of it.
    fn begin_session(&mut self, tally: &mut Tally) {
        tally.begin_session();
        self.losses.flush(tally);
        self.ftrace.forget_running();
        self.sequences.clear();
    }

    /// Reads the next events of the current message.
    fn step(&mut self, events: &mut Vec<Event>, tally: &mut Tally) {
        let first = events.len();
        let mut out = Out { events, names: &mut self.names, tally };
        let clock = match &mut self.work {
            Work::None => return,
            Work::Bundle { start, end, place } => {
                let bundle = &self.packet[*start..*end];
                let is_more = self.bundle.step(bundle, place, &mut self.ftrace, &mut out);
                if !is_more {
                    self.work = Work::None;
                }
                self.bundle.clock()
            }
            Work::Samples { samples, place, end, time_ns } => {
                let mut fields = Message::new(&self.packet[*place..*end]);
                let mut wall_ns = None;
                if let Some((field, value)) = fields.next() {
                    wall_ns = samples.read(field, value, *time_ns, &mut out);
                }
                *place = *end - fields.rest().len();
                if fields.is_damaged() {
                    out.tally.lose("packets that are damaged", 1);
                }
                if *place == *end {
                    self.work = Work::None;
                }
                let (Some(wall_ns), Some(line)) = (wall_ns, out.events.last_mut()) else { return };
                line.time_ns = wall_ns;
                REALTIME
            }
        };
        if clock == BOOTTIME {
            return;
        }
        for event in &mut out.events[first..] {
            match self.clocks.boot_ns(clock, self.sequence, event.time_ns) {
                Some(time_ns) => event.time_ns = time_ns,
                None => out.tally.clock_problem("events on a clock that no snapshot has", 1),
            }
        }
    }

    /// Moves counts that are held here into `tally`.
    fn flush(&mut self, tally: &mut Tally) {
        self.ftrace.flush(tally);
        let refused = self.names.refused();
        tally.lose("names beyond the limit of memory", refused - self.names_refused);
        self.names_refused = refused;
    }
}

/// Fields of `TracePacket` that the reader knows besides samples.
const FTRACE: u32 = 1;
const CLOCK_SNAPSHOT: u32 = 6;
const TRACE_CONFIG: u32 = 33;
const FTRACE_STATS: u32 = 34;
const TRACE_STATS: u32 = 35;

impl Perfetto {
    /// Reads the samples of the file, or the first of very many, and counts what is unknown or damaged in them.
    /// Errors and counts of packets come when the rest is read.
    fn read_ahead(&mut self, input: Input, tally: &mut Tally) {
        let mut ahead =
            Perfetto { is_ahead: true, samples_until: u64::MAX, ..Perfetto::new(input) };
        // What is counted here is counted again when the rest is read.
        let mut counted_later = Tally::default();
        let mut samples = Vec::new();
        self.samples_until = u64::MAX;
        while matches!(ahead.packets.next(&mut ahead.packet, &mut counted_later), Ok(true)) {
            ahead.begin_packet(&mut counted_later);
            while ahead.begin_message(&mut counted_later) {
                while !matches!(ahead.work, Work::None) {
                    ahead.step(&mut samples, tally);
                }
            }
            if samples.len() >= SAMPLES_AHEAD {
                self.samples_until = ahead.packets_begun;
                break;
            }
        }
        samples.sort_by_key(|event| event.time_ns);
        self.samples = samples;
        self.names = ahead.names;
        self.clocks = ahead.clocks;
        self.clocks.forget_sequences();
    }

    /// Passes on the next samples that were read ahead; false if there are none.
    fn pass_samples(&mut self, events: &mut Vec<Event>) -> bool {
        let end = self.samples.len().min(self.samples_taken + EVENTS_PER_READ);
        events.extend_from_slice(&self.samples[self.samples_taken..end]);
        let is_any = end > self.samples_taken;
        self.samples_taken = end;
        if !is_any {
            self.samples = Vec::new();
            self.samples_taken = 0;
        }
        is_any
    }
}

impl SystemReader for Perfetto {
    fn read(&mut self, events: &mut Vec<Event>, tally: &mut Tally) -> Result<bool, Error> {
        if let Some((input, copy)) = self.samples_ahead.take() {
            self.read_ahead(input, tally);
            if let Some(copy) = copy {
                self.packets.read_copy(&copy)?;
            }
        }
        if self.pass_samples(events) {
            return Ok(true);
        }
        let full = events.len() + EVENTS_PER_READ;
        let mut packets = 0;
        while events.len() < full && packets < PACKETS_PER_READ {
            if !matches!(self.work, Work::None) {
                self.step(events, tally);
            } else if !self.begin_message(tally) {
                if !self.packets.next(&mut self.packet, tally)? {
                    self.flush(tally);
                    self.losses.flush(tally);
                    return Ok(false);
                }
                self.begin_packet(tally);
                packets += 1;
            }
        }
        self.flush(tally);
        Ok(true)
    }

    fn names(&self) -> &Names {
        &self.names
    }
}

#[cfg(test)]
mod tests;
