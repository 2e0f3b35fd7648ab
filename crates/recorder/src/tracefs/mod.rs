//! The recorder without BPF: text events of tracefs. A page that leaves memory has no owner here, only the swap
//! slot that the block layer writes; the places of the swap areas on their disks give the slot.

pub(crate) mod instance;
mod lines;
mod slots;

use std::collections::HashSet;

use linux::Root;
use trace::recording::{Missing, Record, kind};

use crate::batch::Batch;
use crate::notices::Notice;
use crate::sources::Source;
use crate::zeros::Zeros;
use crate::{Error, EventFilter};
use instance::Instance;
use lines::Lines;
use slots::Slots;

/// Enabled text events.
pub struct Text {
    root: Root,
    wanted: Wanted,
    instance: Instance,
    lines: Lines,
    /// Bytes of an incomplete line.
    pending: Vec<u8>,
    batch: Batch,
    /// Kills since the last call of `notices`.
    noticed: Vec<Notice>,
    /// Parts that the recording lacks because it uses text events.
    pub absent: Vec<Missing>,
}

impl Text {
    /// Enables the events of `sources`.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn attach(
        sources: &[&Source],
        filter: &EventFilter,
        buffer_bytes: u32,
    ) -> Result<Text, Error> {
        let root = Root::system();
        let mut instance =
            Instance::make(&root, u64::from(buffer_bytes)).map_err(Error::Tracefs)?;
        instance.listen(false).map_err(Error::Tracefs)?;
        let (slots, unknown) = Slots::now(&root)?;
        let missing = |what: &str, why: String| Missing { what: what.to_owned(), why };
        let why = "text events have neither the owner nor the address of a page that leaves memory: \
                   swapped pages are named by their swap slot, and readahead looks like a fault";
        let mut absent = vec![missing("owners of swapped pages", why.to_owned())];
        absent.extend(unknown.into_iter().map(|why| missing("transfers of a swap area", why)));
        absent.extend(Zeros::here(&root, "tracefs", sources)?.missing());
        if filter.group.is_some() || filter.process.is_some() {
            let why = "text events name the process that moves a page, not its owner: page-outs and \
                       transfers are those of the whole machine";
            absent.push(missing("page-outs by cgroup or process", why.to_owned()));
        }
        if linux::system::counts_pages_by_task(&root)? {
            let why = "this kernel reports swapped pages once in 64 faults; Linux 6.2 reports each";
            absent.push(missing("most faults", why.to_owned()));
        }
        for &(event, condition) in sources.iter().flat_map(|source| source.text_events) {
            if let Err(error) = instance.enable(event, condition) {
                absent.push(missing(event, format!("tracefs refuses the event: {error}")));
            }
        }
        let lines = Lines::new(slots);
        let (pending, batch) = (Vec::new(), Batch::default());
        let wanted = Wanted { filter: filter.clone(), processes: HashSet::new() };
        let noticed = Vec::new();
        Ok(Text { root, wanted, instance, lines, pending, batch, noticed, absent })
    }

    /// Names the transfers of a device by their page, although it is no swap area yet.
    pub fn add_area(&mut self, device: u32) {
        self.lines.add_area(device);
    }

    /// Passes the contents of the buffer to `take`, and empties it.
    ///
    /// # Errors
    /// The kernel refuses, or `take` fails.
    pub fn drain(
        &mut self,
        mut take: impl FnMut(&Batch) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let refused = |error: std::io::Error| Error::Tracefs(format!("trace_pipe: {error}"));
        self.instance.read(&mut self.pending).map_err(refused)?;
        let end = self.pending.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        self.wanted.look(&self.root);
        for line in String::from_utf8_lossy(&self.pending[..end]).lines() {
            let record = self.lines.record(line);
            self.batch.records.extend(record.filter(|record| self.wanted.has(record)));
        }
        self.pending.drain(..end);
        let kills = self.batch.records.iter().filter(|record| record.kind == kind::KILL);
        self.noticed.extend(kills.map(|record| Notice {
            time_ns: record.time_ns,
            process: record.process,
            ..Notice::default()
        }));
        let taken = take(&self.batch);
        self.batch.clear();
        taken
    }

    /// The kills since the last call, oldest first.
    pub fn notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.noticed)
    }

    /// Records that found the buffer full so far.
    pub fn lost(&self) -> u64 {
        self.instance.lost()
    }
}

/// The processes whose events count.
#[derive(Default)]
struct Wanted {
    filter: EventFilter,
    /// All processes that were in the group, including ended ones, whose last lines may still be unread.
    processes: HashSet<u32>,
}

impl Wanted {
    fn look(&mut self, root: &Root) {
        if let Some(group) = &self.filter.group {
            // A removed group has no processes.
            self.processes.extend(group.processes(root).unwrap_or_default());
        }
    }

    /// Whether the record counts. Records whose owner is unknown always count.
    fn has(&mut self, record: &Record) -> bool {
        let is_of_all = matches!(record.kind, kind::PAGE_OUT | kind::SWAP_WRITE | kind::SWAP_READ);
        if is_of_all || (self.filter.group.is_none() && self.filter.process.is_none()) {
            return true;
        }
        if let Some(process) = self.filter.process {
            return record.process == process;
        }
        if record.kind == kind::FORK && self.processes.contains(&record.auxiliary) {
            self.processes.insert(record.process);
        }
        self.processes.contains(&record.process)
    }
}

/// Checks whether text events can be used: creates an instance and removes it.
///
/// # Errors
/// The reason why they cannot.
pub fn probe() -> Result<(), Error> {
    Instance::make(&Root::system(), 1 << 16).map(drop).map_err(Error::Tracefs)
}
