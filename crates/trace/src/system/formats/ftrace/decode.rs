//! Events from lines, for the reader of system traces and for the import of block requests, which counts them.

use std::collections::HashMap;

use super::fields::TextFields;
use super::header::LineHeader;
use crate::system::kernel::{Context, Decoder, decoder, may_have_no_kind};
use crate::system::{Event, Kind, Name, Names};
use crate::text::skip_blanks;

/// Threads whose process is remembered.
const THREADS_MAX: usize = 1 << 20;

/// Names of events whose decoder is remembered.
const EVENTS_MAX: usize = 4096;

/// Turns lines into events.
#[derive(Default)]
pub(crate) struct LineDecoder {
    names: Names,
    decoders: HashMap<Box<[u8]>, Option<Decoder>>,
    /// The process of each thread that a line stated last.
    threads: HashMap<u32, u32>,
}

/// What became of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decoded {
    /// The line is an event.
    Event,
    /// The event of the line is not typed.
    Other,
    /// The line lacks a field of its event, or has an impossible one.
    Incomplete,
}

impl LineDecoder {
    /// The texts that events name.
    pub(crate) fn names(&self) -> &Names {
        &self.names
    }

    /// The texts that events name, to add to.
    pub(super) fn names_mut(&mut self) -> &mut Names {
        &mut self.names
    }

    /// Appends the event of a line, and before it that of the line's thread if the line states a new process.
    pub(crate) fn decode(&mut self, line: &LineHeader<'_>, events: &mut Vec<Event>) -> Decoded {
        self.thread(line, events);
        let Some(decode) = self.decoder(line.event) else { return Decoded::Other };
        let fields = TextFields::of(line.event, line.arguments);
        let kind = decode(&fields, Context { tid: line.pid }, &mut self.names);
        match kind {
            Some(kind) => {
                events.push(at(line, kind));
                Decoded::Event
            }
            None if may_have_no_kind(line.event, &fields) => Decoded::Other,
            None => Decoded::Incomplete,
        }
    }

    fn decoder(&mut self, event: &[u8]) -> Option<Decoder> {
        if let Some(&known) = self.decoders.get(event) {
            return known;
        }
        let found = std::str::from_utf8(event).ok().and_then(decoder);
        if self.decoders.len() < EVENTS_MAX {
            self.decoders.insert(event.into(), found);
        }
        found
    }

    fn thread(&mut self, line: &LineHeader<'_>, events: &mut Vec<Event>) {
        let Some(pid) = line.tgid.filter(|_| line.pid != 0) else { return };
        if self.threads.get(&line.pid) == Some(&pid) || self.threads.len() >= THREADS_MAX {
            return;
        }
        self.threads.insert(line.pid, pid);
        let comm = match skip_blanks(line.comm) {
            b"<...>" => Name::NONE,
            comm => self.names.intern(comm),
        };
        events.push(at(line, Kind::Thread { tid: line.pid, pid, comm }));
    }
}

fn at(line: &LineHeader<'_>, kind: Kind) -> Event {
    Event { time_ns: line.time_ns, cpu: Some(line.cpu), tid: line.pid, kind }
}
