//! The events of a trace, one per page.

use crate::{PageId, ProcessId};

/// What happened to a page (or, for `Exit`, to a process).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum EventKind {
    /// An anonymous page left memory for the swap area.
    SwapOut = 0,
    /// A page fault brought an anonymous page back.
    SwapIn = 1,
    /// A file page left the page cache.
    Evict = 2,
    /// A fault or read asked for a file page that was not in memory.
    Request = 3,
    /// A process ended; its anonymous pages and their copies are void.
    Exit = 4,
    /// The device read a page that was not the faulting one: readahead.
    DeviceRead = 5,
    /// The device wrote a page.
    DeviceWrite = 6,
    /// A block-layer or cache read.
    Read = 7,
    /// A block-layer or cache write.
    Write = 8,
    /// The slot of a page was discarded: its copy is void, while the process lives on.
    Void = 9,
}

impl EventKind {
    /// Every kind, ordered by number.
    pub const ALL: [EventKind; 10] = [
        EventKind::SwapOut,
        EventKind::SwapIn,
        EventKind::Evict,
        EventKind::Request,
        EventKind::Exit,
        EventKind::DeviceRead,
        EventKind::DeviceWrite,
        EventKind::Read,
        EventKind::Write,
        EventKind::Void,
    ];

    /// The kind with this number; `None` if there is no such kind.
    pub const fn from_u8(number: u8) -> Option<EventKind> {
        if (number as usize) < Self::ALL.len() { Some(Self::ALL[number as usize]) } else { None }
    }

    /// Name of the kind in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            EventKind::SwapOut => "swap_out",
            EventKind::SwapIn => "swap_in",
            EventKind::Evict => "evict",
            EventKind::Request => "request",
            EventKind::Exit => "exit",
            EventKind::DeviceRead => "device_read",
            EventKind::DeviceWrite => "device_write",
            EventKind::Read => "read",
            EventKind::Write => "write",
            EventKind::Void => "void",
        }
    }

    /// Whether the analyses count the event as an access: a page swapped in or out, or a block or
    /// object read or written. Device traffic, exits and discards are no accesses.
    pub const fn is_access(self) -> bool {
        !matches!(
            self,
            EventKind::Exit | EventKind::DeviceRead | EventKind::DeviceWrite | EventKind::Void
        )
    }

    /// Whether an event of this kind with these flags writes data to storage. A page that leaves
    /// memory is written only if it is dirty.
    pub const fn is_write(self, flags: EventFlags) -> bool {
        match self {
            EventKind::SwapOut | EventKind::Evict => flags.contains(EventFlags::DIRTY),
            EventKind::Write | EventKind::DeviceWrite => true,
            _ => false,
        }
    }
}

/// Facts about one event, as a set of bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct EventFlags(pub u8);

impl EventFlags {
    /// The page was modified after its last write to storage.
    pub const DIRTY: EventFlags = EventFlags(1);
    /// The page belongs to a file: its identity is (inode, offset), shared by all processes.
    pub const FILE: EventFlags = EventFlags(2);
    /// The fault read the device (a major fault).
    pub const MAJOR: EventFlags = EventFlags(4);
    /// Several processes map the page; the event names the first owner found.
    pub const SHARED: EventFlags = EventFlags(8);
    /// The page is all zeros: its SwapOut writes no device, and its SwapIn reads none.
    pub const ZERO: EventFlags = EventFlags(128);

    /// Whether every bit of `other` is set.
    #[inline(always)]
    pub const fn contains(self, other: EventFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// The bits of both sets.
    #[must_use]
    pub const fn with(self, other: EventFlags) -> EventFlags {
        EventFlags(self.0 | other.0)
    }

    /// The bits that are not in `other`.
    #[must_use]
    pub const fn without(self, other: EventFlags) -> EventFlags {
        EventFlags(self.0 & !other.0)
    }

    /// The class of the page, from bits 4 to 6.
    pub const fn class(self) -> PageClass {
        let number = (self.0 >> CLASS_SHIFT & CLASS_MASK) as usize;
        if number < PageClass::ALL.len() { PageClass::ALL[number] } else { PageClass::Unknown }
    }

    /// A copy of the flags with the class replaced by `class`.
    #[must_use]
    pub const fn with_class(self, class: PageClass) -> EventFlags {
        EventFlags(self.0 & !(CLASS_MASK << CLASS_SHIFT) | (class as u8) << CLASS_SHIFT)
    }
}

const CLASS_SHIFT: u8 = 4;
const CLASS_MASK: u8 = 7;

/// The class of an event's page, as far as the recording knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PageClass {
    /// The recording does not say.
    #[default]
    Unknown = 0,
    /// Memory of a process without a file behind it.
    Anonymous = 1,
    /// A shared library.
    SharedLibrary = 2,
    /// A program, library code or data file of an application.
    OwnFile = 3,
    /// A program or file of the system's services.
    Service = 4,
    /// A file without a known name.
    Other = 5,
}

impl PageClass {
    /// Every class, ordered by number.
    pub const ALL: [PageClass; 6] = [
        PageClass::Unknown,
        PageClass::Anonymous,
        PageClass::SharedLibrary,
        PageClass::OwnFile,
        PageClass::Service,
        PageClass::Other,
    ];

    /// Name of the class in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            PageClass::Unknown => "unknown",
            PageClass::Anonymous => "anonymous",
            PageClass::SharedLibrary => "shared_library",
            PageClass::OwnFile => "own_file",
            PageClass::Service => "service",
            PageClass::Other => "other",
        }
    }
}

/// One event of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// Facts about the event and its page.
    pub flags: EventFlags,
    /// The page; meaningless for `Exit`.
    pub page: PageId,
    /// The process that owns the page, or that issued the request.
    pub process: ProcessId,
}

impl Event {
    /// Whether the event swaps a page of zeros out or in, which moves no data between memory and a
    /// device.
    #[inline(always)]
    pub const fn is_of_zeros(self) -> bool {
        self.flags.contains(EventFlags::ZERO)
            && matches!(self.kind, EventKind::SwapOut | EventKind::SwapIn)
    }
}

/// Consecutive events as columns of equal length; `time_ns` is empty if the trace has no clock.
#[derive(Clone, Debug, Default)]
pub struct Events {
    /// Nanoseconds since the first event of the trace.
    pub time_ns: Vec<i64>,
    /// What happened.
    pub kind: Vec<EventKind>,
    /// Facts about each event and its page.
    pub flags: Vec<EventFlags>,
    /// The page, densely numbered.
    pub page: Vec<PageId>,
    /// The process that owns the page, or that issued the request.
    pub process: Vec<ProcessId>,
}

impl Events {
    /// Number of events.
    pub fn len(&self) -> usize {
        self.kind.len()
    }

    /// Whether there is no event.
    pub fn is_empty(&self) -> bool {
        self.kind.is_empty()
    }

    /// The event at `index`, which must be below `len`.
    #[inline]
    pub fn get(&self, index: usize) -> Event {
        Event {
            kind: self.kind[index],
            flags: self.flags[index],
            page: self.page[index],
            process: self.process[index],
        }
    }

    /// Iterates over the events in order.
    pub fn iter(&self) -> impl Iterator<Item = Event> + '_ {
        let kinds_and_flags = self.kind.iter().zip(&self.flags);
        let pages_and_processes = self.page.iter().zip(&self.process);
        kinds_and_flags.zip(pages_and_processes).map(|((kind, flags), (page, process))| Event {
            kind: *kind,
            flags: *flags,
            page: *page,
            process: *process,
        })
    }

    /// Copies the events whose indices are in `range`.
    #[must_use]
    pub fn slice(&self, range: std::ops::Range<usize>) -> Events {
        let times = if self.time_ns.is_empty() { 0..0 } else { range.clone() };
        Events {
            time_ns: self.time_ns[times].to_vec(),
            kind: self.kind[range.clone()].to_vec(),
            flags: self.flags[range.clone()].to_vec(),
            page: self.page[range.clone()].to_vec(),
            process: self.process[range].to_vec(),
        }
    }

    /// Appends one event without a time.
    pub fn push(&mut self, event: Event) {
        self.kind.push(event.kind);
        self.flags.push(event.flags);
        self.page.push(event.page);
        self.process.push(event.process);
    }

    /// Empties every column and keeps its capacity.
    pub fn clear(&mut self) {
        self.time_ns.clear();
        self.kind.clear();
        self.flags.clear();
        self.page.clear();
        self.process.clear();
    }
}
