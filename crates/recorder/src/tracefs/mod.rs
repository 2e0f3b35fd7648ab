//! The recorder without BPF: text events of tracefs. A page that leaves has no owner here, only the
//! swap slot that the block layer writes, found by where the swap areas lie on their disks.

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
use crate::{Error, Filter};
use instance::Instance;
use lines::Lines;
use slots::Slots;

/// Text events that are switched on, ready to be read.
pub struct Text {
    root: Root,
    wanted: Wanted,
    instance: Instance,
    lines: Lines,
    /// Bytes of a line whose end has not come.
    pending: Vec<u8>,
    batch: Batch,
    /// Kills since the last call of `notices`.
    noticed: Vec<Notice>,
    /// What this recording does not have because it is made of text events.
    pub absent: Vec<Missing>,
}

impl Text {
    /// Switches on the events of `sources`.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn attach(sources: &[&Source], filter: &Filter, buffer_bytes: u32) -> Result<Text, Error> {
        let root = Root::system();
        let mut instance =
            Instance::make(&root, u64::from(buffer_bytes)).map_err(Error::Tracefs)?;
        instance.listen(false).map_err(Error::Tracefs)?;
        let (slots, unknown) = Slots::now(&root)?;
        let missing = |what: &str, why: String| Missing { what: what.to_owned(), why };
        let why = "text events name neither owner nor address of a page that leaves: swapped \
                   pages are named by their swap slot, and readahead is not told from faults";
        let mut absent = vec![missing("owners of swapped pages", why.to_owned())];
        absent.extend(unknown.into_iter().map(|why| missing("transfers of a swap area", why)));
        absent.extend(Zeros::here(&root, "tracefs", sources)?.missing());
        if filter.group.is_some() || filter.process.is_some() {
            let why = "text events name who moves a page, not whose it is: page-outs and transfers \
                       are those of the whole machine";
            absent.push(missing("page-outs by cgroup or process", why.to_owned()));
        }
        if linux::system::counts_pages_by_task(&root)? {
            let why =
                "this kernel tells of swapped pages once in 64 faults; Linux 6.2 tells of each";
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

    /// Hands what the buffer holds to `take` and empties it.
    ///
    /// # Errors
    /// What the kernel refuses, or `take`.
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

/// Whose events count.
#[derive(Default)]
struct Wanted {
    filter: Filter,
    /// Every process that was in the group, the ended ones too: their last lines are still read.
    processes: HashSet<u32>,
}

impl Wanted {
    fn look(&mut self, root: &Root) {
        if let Some(group) = &self.filter.group {
            // A group that is gone has no more processes.
            self.processes.extend(group.processes(root).unwrap_or_default());
        }
    }

    /// Whether the record counts: what cannot be told by process always does.
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

/// Whether text events can be had: makes an instance for a moment.
///
/// # Errors
/// Why not.
pub fn probe() -> Result<(), Error> {
    Instance::make(&Root::system(), 1 << 16).map(drop).map_err(Error::Tracefs)
}
