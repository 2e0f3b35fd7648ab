//! The records of a system trace, for every format of these: block requests, or pages of files. All events are
//! counted.

use std::collections::HashMap;

use types::{EventFlags, ProcessId};

use super::ReadOptions;
use super::requests::{believed, device_name, sectors_to_bytes};
use crate::input::Input;
use crate::ledger::Ledger;
use crate::record::{Mapping, Operation, Record, RecordReader, Stage, Traits};
use crate::system::{
    BlockRequest, BlockStage, Contents, Event, Facts, Kind, Name, Names, Sorted, SystemReader,
    Tally,
};
use crate::{Error, ErrorKind, Position, Reject};

/// Records per call of `read`, and one event's more.
const RECORDS_PER_READ: usize = 1 << 14;

/// Bytes of the file that are read ahead to learn what it has.
const LOOKED_AT_BYTES: u64 = 16 << 20;

/// Threads whose process is remembered.
const THREADS_MAX: usize = 1 << 20;

type Open = fn(Input) -> Result<Box<dyn SystemReader>, Error>;

/// Opens the records of a system trace; `open_ahead` opens a reader to look at the beginning. Without a mapping,
/// the file's events decide: requests make it a block trace, and otherwise pages of files a swap trace.
pub(super) fn open(
    mut input: Input,
    options: &ReadOptions,
    open: Open,
    open_ahead: Open,
) -> Result<Box<dyn RecordReader>, Error> {
    let is_of_pages = is_of_pages(&mut input, options, open_ahead)?;
    Ok(Box::new(SystemRecords::new(open(input)?, is_of_pages)))
}

/// Opens the pages of files of a system trace.
pub(super) fn of_pages(input: Input, open: Open) -> Result<Box<dyn RecordReader>, Error> {
    Ok(Box::new(SystemRecords::new(open(input)?, true)))
}

/// Whether the mapping, or else the beginning of the file, asks for pages of files, not for requests.
///
/// # Errors
/// If the input cannot be read twice.
pub(super) fn is_of_pages(
    input: &mut Input,
    options: &ReadOptions,
    open_ahead: Open,
) -> Result<bool, Error> {
    let mapping = match options.mapping {
        Some(Mapping::Block | Mapping::Objects) => return Ok(false),
        mapping => mapping,
    };
    let ahead = input.again()?;
    let found = look_ahead(ahead, open_ahead, mapping == Some(Mapping::Swap));
    Ok(found.has_pages && (mapping.is_some() || !found.has_requests))
}

/// What the beginning of a file has.
#[derive(Default)]
struct Found {
    has_requests: bool,
    has_pages: bool,
}

/// Reads the beginning of a file until the answer is certain. An error ends it, and comes again when the file
/// is read.
fn look_ahead(input: Input, open: Open, wants_pages: bool) -> Found {
    let mut found = Found::default();
    let meter = input.meter();
    let Ok(mut reader) = open(input) else { return found };
    let (mut events, mut tally) = (Vec::new(), Tally::default());
    while reader.read(&mut events, &mut tally).unwrap_or(false) || !events.is_empty() {
        for event in events.drain(..) {
            match event.kind {
                Kind::Block(_) => found.has_requests = true,
                Kind::PageAdded { .. } | Kind::PageDeleted { .. } => found.has_pages = true,
                _ => {}
            }
        }
        let is_certain = if wants_pages { found.has_pages } else { found.has_requests };
        if is_certain || meter.bytes() > LOOKED_AT_BYTES {
            break;
        }
    }
    found
}

/// Counts what all events say, and passes on those that become records or name processes. The others, most of
/// a trace, need not be sorted.
struct Needed {
    reader: Box<dyn SystemReader>,
    is_of_pages: bool,
    events: Vec<Event>,
    events_read: u64,
    facts: Facts,
}

impl Needed {
    fn is_needed(&self, kind: &Kind) -> bool {
        match kind {
            Kind::Thread { .. } | Kind::Process { .. } => true,
            Kind::Block(_) => !self.is_of_pages,
            Kind::PageAdded { .. } | Kind::PageDeleted { .. } => self.is_of_pages,
            _ => false,
        }
    }
}

impl SystemReader for Needed {
    fn read(&mut self, events: &mut Vec<Event>, tally: &mut Tally) -> Result<bool, Error> {
        self.events.clear();
        let is_more = self.reader.read(&mut self.events, tally)?;
        self.events_read += self.events.len() as u64;
        let names = self.reader.names();
        for event in &self.events {
            self.facts.add(event, names);
        }
        events.extend(self.events.iter().filter(|event| self.is_needed(&event.kind)));
        Ok(is_more)
    }

    fn names(&self) -> &Names {
        self.reader.names()
    }

    fn events_read(&self) -> Option<u64> {
        Some(self.events_read)
    }

    fn rejects(&self) -> (u64, &[Reject]) {
        self.reader.rejects()
    }
}

struct SystemRecords {
    reader: Sorted<Needed>,
    /// Events that are read; `taken` of them have become records.
    events: Vec<Event>,
    taken: usize,
    is_read: bool,
    tally: Tally,
    /// Process of each thread, and name of each process under its own number.
    threads: HashMap<u32, (u32, Name)>,
}

impl RecordReader for SystemRecords {
    fn read(&mut self, records: &mut Vec<Record>, ledger: &mut Ledger) -> Result<bool, Error> {
        if self.taken == self.events.len() {
            if self.is_read {
                self.finish(ledger);
                return Ok(false);
            }
            self.events.clear();
            self.taken = 0;
            self.is_read = !self.reader.read(&mut self.events, &mut self.tally)?;
            self.refuse_rejects(ledger)?;
        }
        let full = records.len() + RECORDS_PER_READ;
        while let Some(&event) = self.events.get(self.taken)
            && records.len() < full
        {
            self.taken += 1;
            self.take(&event, records, ledger);
        }
        Ok(true)
    }

    fn traits(&self) -> Traits {
        if self.reader.inner().is_of_pages { Traits::PAGE_EVENTS } else { Traits::BLOCK_EVENTS }
    }
}

impl SystemRecords {
    fn new(reader: Box<dyn SystemReader>, is_of_pages: bool) -> SystemRecords {
        let needed = Needed {
            reader,
            is_of_pages,
            events: Vec::new(),
            events_read: 0,
            facts: Facts::default(),
        };
        SystemRecords {
            reader: Sorted::new(needed),
            events: Vec::new(),
            taken: 0,
            is_read: false,
            tally: Tally::default(),
            threads: HashMap::new(),
        }
    }

    fn take(&mut self, event: &Event, records: &mut Vec<Record>, ledger: &mut Ledger) {
        match event.kind {
            Kind::Thread { tid, pid, .. } => self.know(tid, pid, Name::NONE),
            Kind::Process { pid, name, .. } => self.know(pid, pid, name),
            Kind::Block(block) => self.request(event, block, records, ledger),
            Kind::PageAdded { device, inode, page, order } => {
                self.pages(
                    Operation::Request,
                    event,
                    (device, inode, page, order),
                    records,
                    ledger,
                );
            }
            Kind::PageDeleted { device, inode, page, order } => {
                self.pages(Operation::Evict, event, (device, inode, page, order), records, ledger);
            }
            _ => unreachable!("`Needed` passes on no other kind"),
        }
    }

    fn know(&mut self, tid: u32, pid: u32, name: Name) {
        if self.threads.len() < THREADS_MAX || self.threads.contains_key(&tid) {
            self.threads.insert(tid, (pid, name));
        }
    }

    /// The process of a thread, under its own name if the trace has it, and else that of the thread.
    fn process(&self, tid: u32, comm: Name, ledger: &mut Ledger) -> ProcessId {
        let pid = self.threads.get(&tid).map_or(tid, |&(pid, _)| pid);
        let name = match self.threads.get(&pid) {
            Some(&(_, name)) if name != Name::NONE => name,
            _ if pid == tid => comm,
            _ => Name::NONE,
        };
        ledger.named_process(pid, self.reader.names().bytes_of(name))
    }

    fn request(
        &self,
        event: &Event,
        block: BlockRequest,
        records: &mut Vec<Record>,
        ledger: &mut Ledger,
    ) {
        let sectors = u64::from(block.sectors);
        let bytes = sectors_to_bytes(sectors, block.operation).unwrap_or(u64::MAX);
        let stage = match block.stage {
            BlockStage::Queue => Stage::Queue,
            BlockStage::Issue => Stage::Issue,
            BlockStage::Complete => Stage::Complete,
        };
        records.push(Record {
            time_ns: event.time_ns,
            bytes,
            process: self.process(event.tid, block.comm, ledger),
            device: ledger.device(device_name(block.device).as_bytes()),
            stage,
            ..Record::new(believed(block.operation, bytes, ledger), block.sector)
        });
    }

    /// Appends the pages of a page-cache event.
    fn pages(
        &self,
        operation: Operation,
        event: &Event,
        (device, inode, first, order): (u32, u64, u64, u8),
        records: &mut Vec<Record>,
        ledger: &mut Ledger,
    ) {
        let process = self.process(event.tid, Name::NONE, ledger);
        for place in 0..1u64 << order {
            match ledger.files.page(device, inode, first.wrapping_add(place)) {
                Some((address, class)) => records.push(Record {
                    time_ns: event.time_ns,
                    process,
                    flags: EventFlags::FILE.with_class(class),
                    ..Record::new(operation, address)
                }),
                None => ledger.lose("pages of files beyond the first million", 1),
            }
        }
    }

    /// Returns the first line that could not be read as an error if the ledger is strict.
    fn refuse_rejects(&self, ledger: &Ledger) -> Result<(), Error> {
        let (_, [first, ..]) = self.reader.rejects() else { return Ok(()) };
        if !ledger.is_strict() {
            return Ok(());
        }
        let message = format!("expected {}, found `{}`", first.expected, first.found);
        Err(Error::new(ErrorKind::Corrupt, &first.file, message).at(Position::Line(first.line)))
    }

    /// Moves the counts into the ledger, at the end of the file.
    fn finish(&mut self, ledger: &mut Ledger) {
        let tally = std::mem::take(&mut self.tally);
        let (rejected, rejects) = self.reader.rejects();
        ledger.add_rejects(rejected, rejects);
        for (event, count) in tally.events() {
            ledger.see(event.as_bytes(), count);
        }
        for (what, count) in tally.losses() {
            ledger.lose(what, count);
        }
        let mut facts = std::mem::take(&mut self.reader.inner_mut().facts);
        for time_ns in facts.times_ns().into_iter().flatten() {
            ledger.note_time(u64::try_from(time_ns).unwrap_or(0));
        }
        let contents = Contents::new(&tally, facts.take_counts());
        match &mut ledger.system {
            Some(known) => known.join(contents),
            none => *none = Some(contents),
        }
    }
}
