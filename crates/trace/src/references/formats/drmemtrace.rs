//! `drmemtrace`: the traces that drraw2trace of DynamoRIO writes (`trace_entry_t` in its trace_entry.h, versions 2 to 6):
//! entries of 12 bytes, little endian: u16 type, u16 size, u64 address. The size is that of the
//! reference or instruction; of a bundle it is the number of instructions, whose lengths the address holds; of a marker it
//! is the kind of marker. The first entry is the header. Traces of builds for 32 bits have entries of 8 bytes and are
//! not recognised.
//!
//! References of the program are read. Prefetches and flushes of caches are not references, and
//! instructions that are not fetched again, as in an x86 string instruction with a repeat prefix, do not count.

use std::collections::HashSet;

use types::ReferenceKind;

use super::{Format, ReferenceReader};
use crate::Error;
use crate::input::Input;
use crate::ledger::Ledger;
use crate::references::Reference;
use crate::sniff::Confidence;

/// The row of this format.
pub const FORMAT: Format = Format {
    name: "drmemtrace",
    summary: "offline traces of DynamoRIO's drmemtrace, one thread or core per file",
    sniff,
    has_lines: false,
    open,
};

const ENTRY_BYTES: usize = 12;

/// Entries per call of `read`, less than a buffer of the input holds.
const ENTRIES_PER_READ: usize = 16 * 1024;

/// Largest number of threads that are counted apart.
const THREADS_MAX: usize = 1 << 20;

/// Versions that are read. The later ones differ from the first in markers and kinds of jumps only.
const VERSIONS: std::ops::RangeInclusive<u64> = 2..=6;

/// Instructions of a bundle: each has a byte in the address.
const BUNDLE_MAX: usize = 8;

/// Types of entries, by their numbers in `trace_type_t`.
mod entry {
    pub const READ: u16 = 0;
    pub const WRITE: u16 = 1;
    pub const PREFETCH: u16 = 2;
    pub const PREFETCH_LAST: u16 = 9;
    pub const INSTRUCTION: u16 = 10;
    pub const INSTRUCTION_LAST: u16 = 16;
    pub const BUNDLE: u16 = 17;
    pub const FLUSH: u16 = 18;
    pub const FLUSH_LAST: u16 = 21;
    pub const THREAD: u16 = 22;
    pub const THREAD_EXIT: u16 = 23;
    pub const PROCESS: u16 = 24;
    pub const HEADER: u16 = 25;
    pub const FOOTER: u16 = 26;
    pub const HARDWARE_PREFETCH: u16 = 27;
    pub const MARKER: u16 = 28;
    pub const NOT_FETCHED: u16 = 29;
    pub const PERHAPS_FETCHED: u16 = 30;
    pub const SYSENTER: u16 = 31;
    pub const PREFETCH_OF_LEVEL: u16 = 32;
    pub const PREFETCH_OF_LEVEL_LAST: u16 = 46;
    pub const ENCODING: u16 = 47;
    pub const TAKEN_JUMP: u16 = 48;
    pub const UNTAKEN_JUMP: u16 = 49;
}

/// Kinds of markers that matter, by their numbers in `trace_marker_type_t`.
mod marker {
    pub const FILE_TYPE: u16 = 9;
    pub const VERSION: u16 = 12;
    pub const WINDOW: u16 = 14;
    pub const KERNEL_BEGIN: u16 = 27;
    pub const KERNEL_END: u16 = 28;
    pub const SWITCH_BEGIN: u16 = 34;
    pub const SWITCH_END: u16 = 35;
}

/// Bits of the file's type (`offline_file_type_t`).
mod file_type {
    /// A filter of recently used cache lines left references out, of any kind, of instructions or of data.
    pub const FILTERED: u64 = 0x01 | 0x80 | 0x100;
    pub const WITHOUT_DATA: u64 = 0x04;
}

const PREFETCHES: &str = "prefetches and flushes of caches, which are no references";
const OF_KERNEL: &str = "references of the kernel, which are left out";
const OF_OTHERS: &str = "references of further processes, which are left out";
const FILTERED: &str =
    "files whose recorder filtered references out: shares and counts are of the others";
const WITHOUT_DATA: &str = "files without references to data";
const WINDOWS: &str = "times that the recorder paused between windows";
const CUT: &str = "files without a footer: the end of the trace is missing";

/// An entry of the file.
#[derive(Clone, Copy)]
struct Entry {
    kind: u16,
    size: u16,
    address: u64,
}

impl Entry {
    fn decode(bytes: &[u8; ENTRY_BYTES]) -> Entry {
        let [k0, k1, s0, s1, address @ ..] = *bytes;
        Entry {
            kind: u16::from_le_bytes([k0, k1]),
            size: u16::from_le_bytes([s0, s1]),
            address: u64::from_le_bytes(address),
        }
    }

    fn is_header(self) -> bool {
        self.kind == entry::HEADER && VERSIONS.contains(&self.address)
    }
}

fn sniff(head: &[u8]) -> Confidence {
    let (entries, _) = head.as_chunks::<ENTRY_BYTES>();
    let mut entries = entries.iter().map(Entry::decode);
    let is_header = entries.next().is_some_and(Entry::is_header);
    // What drraw2trace writes next: the version again, or the thread or process.
    let is_usual = entries.next().is_none_or(|second| match second.kind {
        entry::MARKER => second.size == marker::VERSION || second.size == marker::FILE_TYPE,
        kind => kind == entry::THREAD || kind == entry::PROCESS,
    });
    Confidence::Certain.when(is_header && is_usual)
}

fn open(input: Input) -> Result<Box<dyn ReferenceReader>, Error> {
    Ok(Box::new(Drmemtrace { input, state: State::default() }))
}

/// Reads a file.
struct Drmemtrace {
    input: Input,
    state: State,
}

impl ReferenceReader for Drmemtrace {
    fn read(
        &mut self,
        references: &mut Vec<Reference>,
        ledger: &mut Ledger,
    ) -> Result<bool, Error> {
        let Some(held) = self.input.need(ENTRY_BYTES)? else {
            ledger.lose(CUT, u64::from(self.state.is_open));
            self.state.is_open = false;
            return Ok(false);
        };
        let (entries, _) = held.as_chunks::<ENTRY_BYTES>();
        let mut consumed = 0;
        let mut problem = None;
        for bytes in entries.iter().take(ENTRIES_PER_READ) {
            if let Err(what) = self.state.take(Entry::decode(bytes), references, ledger) {
                problem = Some(what);
                break;
            }
            consumed += ENTRY_BYTES;
        }
        self.input.consume(consumed);
        problem.map_or(Ok(true), |what| Err(self.input.corrupt(&what)))
    }

    fn threads(&self) -> Option<u64> {
        Some(self.state.threads.len() as u64)
    }
}

/// What the entries so far say about the next ones.
#[derive(Default)]
struct State {
    /// Whether a header came, and no footer since.
    is_open: bool,
    /// The first process of the file, and the process of the next references.
    first_process: Option<u64>,
    process: Option<u64>,
    thread: Option<u64>,
    threads: HashSet<u64>,
    is_in_kernel: bool,
    window: Option<u64>,
    /// The first byte of the last instruction, and the one after it.
    instruction: Option<(u64, u64)>,
}

impl State {
    /// Reads an entry; the error says what is wrong with it.
    fn take(
        &mut self,
        entry: Entry,
        references: &mut Vec<Reference>,
        ledger: &mut Ledger,
    ) -> Result<(), String> {
        let Entry { kind, size, address } = entry;
        if !self.is_open && kind != entry::HEADER {
            return Err(format!(
                "expected the header of a trace that drraw2trace wrote, of a version from {} to {}",
                VERSIONS.start(),
                VERSIONS.end()
            ));
        }
        match kind {
            entry::READ => self.refer(ReferenceKind::Read, entry, references, ledger),
            entry::WRITE => self.refer(ReferenceKind::Write, entry, references, ledger),
            entry::INSTRUCTION..=entry::INSTRUCTION_LAST
            | entry::SYSENTER
            | entry::TAKEN_JUMP
            | entry::UNTAKEN_JUMP => self.fetch(entry, references, ledger),
            entry::PERHAPS_FETCHED => {
                // The repeats of a string instruction are not fetched again.
                if self.instruction.is_none_or(|(first, _)| first != address) {
                    self.fetch(entry, references, ledger);
                }
            }
            entry::NOT_FETCHED => self.place(entry),
            entry::BUNDLE => self.fetch_bundle(entry, references, ledger)?,
            entry::PREFETCH..=entry::PREFETCH_LAST
            | entry::PREFETCH_OF_LEVEL..=entry::PREFETCH_OF_LEVEL_LAST
            | entry::HARDWARE_PREFETCH
            | entry::FLUSH..=entry::FLUSH_LAST => ledger.lose(PREFETCHES, 1),
            entry::THREAD => self.begin_thread(address),
            entry::PROCESS => {
                self.process = Some(address);
                self.first_process = self.first_process.or(Some(address));
            }
            entry::HEADER => self.begin(entry, ledger)?,
            entry::FOOTER => self.is_open = false,
            entry::MARKER => self.mark(size, address, ledger),
            entry::THREAD_EXIT | entry::ENCODING => {}
            unknown => {
                let last = entry::UNTAKEN_JUMP;
                return Err(format!("expected an entry of type 0 to {last}, found type {unknown}"));
            }
        }
        Ok(())
    }

    /// Begins a file; several may follow each other.
    fn begin(&mut self, header: Entry, ledger: &mut Ledger) -> Result<(), String> {
        if !header.is_header() {
            let (first, last) = (VERSIONS.start(), VERSIONS.end());
            let found = header.address;
            return Err(format!("expected a version from {first} to {last}, found {found}"));
        }
        ledger.lose(CUT, u64::from(self.is_open));
        self.is_open = true;
        self.is_in_kernel = false;
        (self.thread, self.instruction, self.window) = (None, None, None);
        Ok(())
    }

    fn begin_thread(&mut self, thread: u64) {
        if self.thread != Some(thread) {
            self.thread = Some(thread);
            self.instruction = None;
            if self.threads.len() < THREADS_MAX {
                self.threads.insert(thread);
            }
        }
    }

    fn mark(&mut self, kind: u16, value: u64, ledger: &mut Ledger) {
        match kind {
            marker::FILE_TYPE => {
                ledger.lose(FILTERED, u64::from(value & file_type::FILTERED != 0));
                ledger.lose(WITHOUT_DATA, u64::from(value & file_type::WITHOUT_DATA != 0));
            }
            marker::WINDOW => {
                let is_next = self.window.is_some_and(|window| window != value);
                self.window = Some(value);
                ledger.lose(WINDOWS, u64::from(is_next));
            }
            marker::KERNEL_BEGIN | marker::SWITCH_BEGIN => self.is_in_kernel = true,
            marker::KERNEL_END | marker::SWITCH_END => self.is_in_kernel = false,
            _ => {}
        }
    }

    fn refer(
        &self,
        kind: ReferenceKind,
        entry: Entry,
        references: &mut Vec<Reference>,
        ledger: &mut Ledger,
    ) {
        if self.is_in_kernel {
            ledger.lose(OF_KERNEL, 1);
        } else if self.process != self.first_process {
            ledger.lose(OF_OTHERS, 1);
        } else {
            references.push(Reference {
                kind,
                address: entry.address,
                bytes: u32::from(entry.size),
            });
        }
    }

    /// Notes where an instruction is.
    fn place(&mut self, entry: Entry) {
        let end = entry.address.wrapping_add(u64::from(entry.size));
        self.instruction = Some((entry.address, end));
    }

    fn fetch(&mut self, entry: Entry, references: &mut Vec<Reference>, ledger: &mut Ledger) {
        self.place(entry);
        self.refer(ReferenceKind::Instruction, entry, references, ledger);
    }

    /// Reads instructions that follow the last one without a gap.
    fn fetch_bundle(
        &mut self,
        bundle: Entry,
        references: &mut Vec<Reference>,
        ledger: &mut Ledger,
    ) -> Result<(), String> {
        let lengths = bundle.address.to_le_bytes();
        let Some(lengths) = lengths.get(..usize::from(bundle.size)) else {
            let found = bundle.size;
            return Err(format!(
                "expected a bundle of at most {BUNDLE_MAX} instructions, found {found}"
            ));
        };
        for &length in lengths {
            let Some((_, address)) = self.instruction else {
                return Err("a bundle of instructions without an instruction before it".to_owned());
            };
            let entry = Entry { kind: entry::INSTRUCTION, size: u16::from(length), address };
            self.fetch(entry, references, ledger);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
