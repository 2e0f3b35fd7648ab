//! Records events and moves as they are decided and end. The serving thread only stores numbers in a ring; another
//! thread writes them to files. A full ring makes the server wait, so nothing is lost.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::thread::JoinHandle;
use std::time::Duration;

use policy::tiers::{Move, Request as Event, Step};
use rustix::time::{ClockId, clock_gettime};
use types::PageId;

use crate::Error;

/// Entries in the ring: at 100,000 events a second, a third of a second.
const ENTRIES: usize = 1 << 17;
/// How often the writing thread looks for entries.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The tiers were asked about a slot.
    Event {
        /// CLOCK_MONOTONIC, in nanoseconds.
        time_ns: u64,
        /// Running number.
        number: u64,
        /// What happened to the slot.
        event: Event,
        /// The slot.
        slot: u32,
    },
    /// A move was decided because of an event.
    Decided {
        /// Number of the event.
        number: u64,
        /// The move.
        moved: Move,
    },
    /// A move ended.
    Ended {
        /// Number of the event that decided it.
        number: u64,
        /// The move.
        moved: Move,
        /// Whether it was done; if not, it failed.
        is_done: bool,
    },
}

/// The kind of an entry in its packed form; a step is added to the last three.
mod code {
    pub const OUT: u64 = 0;
    pub const IN: u64 = 1;
    pub const VOID: u64 = 2;
    pub const DECIDED: u64 = 16;
    pub const DONE: u64 = 32;
    pub const FAILED: u64 = 48;
}

impl Entry {
    fn pack(self) -> [u64; 3] {
        let of_step = |moved: Move| {
            let step = Step::ALL.iter().position(|step| *step == moved.step);
            (step.expect("every step is listed") as u64, moved.page.0)
        };
        let (time_ns, number, code, slot) = match self {
            Entry::Event { time_ns, number, event, slot } => {
                let code = match event {
                    Event::Out { .. } => code::OUT,
                    Event::In => code::IN,
                    Event::Void => code::VOID,
                };
                (time_ns, number, code, slot)
            }
            Entry::Decided { number, moved } => {
                let (step, slot) = of_step(moved);
                (0, number, code::DECIDED + step, slot)
            }
            Entry::Ended { number, moved, is_done } => {
                let (step, slot) = of_step(moved);
                (0, number, if is_done { code::DONE } else { code::FAILED } + step, slot)
            }
        };
        [time_ns, number, code << 32 | u64::from(slot)]
    }

    fn unpack([time_ns, number, rest]: [u64; 3]) -> Entry {
        let (code, slot) = (rest >> 32, rest as u32);
        let event = |event| Entry::Event { time_ns, number, event, slot };
        let moved = || Move { step: Step::ALL[(code % 16) as usize], page: PageId(slot) };
        match code {
            code::OUT => event(Event::Out { is_dirty: true }),
            code::IN => event(Event::In),
            code::VOID => event(Event::Void),
            code if code < code::DONE => Entry::Decided { number, moved: moved() },
            code => Entry::Ended { number, moved: moved(), is_done: code < code::FAILED },
        }
    }
}

/// A ring of packed entries between two threads.
///
/// Invariant: entries from `taken` up to, but not including, `put` are full; only the serving thread changes `put`,
/// only the writing thread `taken`, and `put - taken` is at most the length.
struct Ring {
    entries: Vec<[AtomicU64; 3]>,
    put: AtomicU64,
    taken: AtomicU64,
    is_over: AtomicBool,
}

impl Ring {
    fn new(entries: usize) -> Ring {
        Ring {
            entries: (0..entries).map(|_| Default::default()).collect(),
            put: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        }
    }

    fn at(&self, number: u64) -> &[AtomicU64; 3] {
        &self.entries[(number % self.entries.len() as u64) as usize]
    }

    fn push(&self, entry: Entry) {
        let put = self.put.load(Relaxed);
        while put - self.taken.load(Acquire) == self.entries.len() as u64 {
            std::thread::yield_now();
        }
        for (word, value) in self.at(put).iter().zip(entry.pack()) {
            word.store(value, Relaxed);
        }
        self.put.store(put + 1, Release);
    }

    /// Hands every entry to `each`; returns how many there were.
    fn drain(&self, mut each: impl FnMut(Entry) -> io::Result<()>) -> io::Result<u64> {
        let (taken, put) = (self.taken.load(Relaxed), self.put.load(Acquire));
        for number in taken..put {
            let [first, second, third] = self.at(number);
            let words = [first.load(Relaxed), second.load(Relaxed), third.load(Relaxed)];
            let written = each(Entry::unpack(words));
            self.taken.store(number + 1, Release);
            written?;
        }
        Ok(put - taken)
    }
}

/// A file that takes entries.
pub trait Sink: Send {
    /// Takes the next entry.
    ///
    /// # Errors
    /// The operating system refuses the write.
    fn take(&mut self, entry: Entry) -> io::Result<()>;
    /// Completes the file.
    ///
    /// # Errors
    /// The operating system refuses the write.
    fn finish(&mut self) -> io::Result<()>;
}

/// The serving thread's end of a recording.
pub struct Recorder {
    ring: Arc<Ring>,
}

/// The thread that writes.
pub struct RecordingThread {
    ring: Arc<Ring>,
    thread: JoinHandle<io::Result<()>>,
}

/// Begins a recording to `sinks`. A refused write ends it: later entries are dropped, and
/// [`RecordingThread::finish`] returns the error.
///
/// # Errors
/// The operating system refuses a thread.
pub fn begin(sinks: Vec<Box<dyn Sink>>) -> Result<(Recorder, RecordingThread), Error> {
    let ring = Arc::new(Ring::new(ENTRIES));
    let thread = std::thread::Builder::new().name("recording".to_owned());
    let of_thread = Arc::clone(&ring);
    let thread = thread.spawn(move || write_entries(&of_thread, sinks));
    let thread = thread.map_err(|error| Error::refused("start a thread", error))?;
    Ok((Recorder { ring: Arc::clone(&ring) }, RecordingThread { ring, thread }))
}

fn write_entries(ring: &Ring, mut sinks: Vec<Box<dyn Sink>>) -> io::Result<()> {
    let mut result = Ok(());
    loop {
        let is_over = ring.is_over.load(Acquire);
        let drained = ring.drain(|entry| match result {
            Ok(()) => sinks.iter_mut().try_for_each(|sink| sink.take(entry)),
            Err(_) => Ok(()),
        });
        match drained {
            Err(error) => result = Err(error),
            Ok(0) if is_over => break,
            Ok(0) => std::thread::sleep(LOOK_EVERY),
            Ok(_) => {}
        }
    }
    result?;
    sinks.iter_mut().try_for_each(|sink| sink.finish())
}

impl RecordingThread {
    /// Writes what is left and completes the files. The engine has ended before.
    ///
    /// # Errors
    /// The first refused write.
    pub fn finish(self) -> Result<(), Error> {
        self.ring.is_over.store(true, Release);
        let ended = self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        ended.map_err(|error| Error::refused("write the recording", error))
    }
}

impl Recorder {
    /// Records an event and the moves decided.
    pub(crate) fn decided(&mut self, number: u64, event: Event, slot: u32, moves: &[Move]) {
        let now = clock_gettime(ClockId::Monotonic);
        let time_ns = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        self.ring.push(Entry::Event { time_ns, number, event, slot });
        self.replaced(number, moves);
    }

    /// Records further moves of an event, in the place of one that failed.
    pub(crate) fn replaced(&mut self, number: u64, moves: &[Move]) {
        for &moved in moves {
            self.ring.push(Entry::Decided { number, moved });
        }
    }

    /// Records the end of a move.
    pub(crate) fn ended(&mut self, number: u64, moved: Move, is_done: bool) {
        self.ring.push(Entry::Ended { number, moved, is_done });
    }
}

/// The moves decided, as CSV with the columns `event,slot,move`.
pub struct MovesFile<W> {
    file: W,
}

impl<W: Write + Send> MovesFile<W> {
    /// Writes the head of the file.
    ///
    /// # Errors
    /// The operating system refuses the write.
    pub fn new(mut file: W) -> io::Result<MovesFile<W>> {
        file.write_all(b"event,slot,move\n")?;
        Ok(MovesFile { file })
    }
}

impl<W: Write + Send> Sink for MovesFile<W> {
    fn take(&mut self, entry: Entry) -> io::Result<()> {
        match entry {
            Entry::Decided { number, moved } => {
                writeln!(self.file, "{number},{},{}", moved.page.0, moved.step.name())
            }
            Entry::Event { .. } | Entry::Ended { .. } => Ok(()),
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn every_entry_survives_its_words() {
        let moved = |step| Move { step, page: PageId(u32::MAX) };
        for step in Step::ALL {
            for entry in [
                Entry::Decided { number: 7, moved: moved(step) },
                Entry::Ended { number: 1 << 40, moved: moved(step), is_done: true },
                Entry::Ended { number: 0, moved: moved(step), is_done: false },
            ] {
                assert_eq!(Entry::unpack(entry.pack()), entry);
            }
        }
        for event in [Event::Out { is_dirty: true }, Event::In, Event::Void] {
            let entry = Entry::Event { time_ns: 5, number: 6, event, slot: 7 };
            assert_eq!(Entry::unpack(entry.pack()), entry);
        }
    }

    struct List(Arc<Mutex<Vec<Entry>>>);

    impl Sink for List {
        fn take(&mut self, entry: Entry) -> io::Result<()> {
            self.0.lock().unwrap().push(entry);
            Ok(())
        }

        fn finish(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_ring_loses_nothing_and_keeps_the_order() {
        let list = Arc::default();
        let (mut recorder, thread) = begin(vec![Box::new(List(Arc::clone(&list)))]).unwrap();
        let moved = Move { step: Step::Promote, page: PageId(3) };
        let count = 3 * ENTRIES as u64;
        (0..count).for_each(|number| recorder.ended(number, moved, true));
        thread.finish().unwrap();
        let list = list.lock().unwrap();
        assert_eq!(list.len() as u64, count);
        let is_in_order = list
            .iter()
            .zip(0..)
            .all(|(entry, number)| *entry == Entry::Ended { number, moved, is_done: true });
        assert!(is_in_order);
    }

    #[test]
    fn the_file_of_moves_has_a_row_for_each_move_decided() {
        let mut file = MovesFile::new(Vec::new()).unwrap();
        let moved = |step, slot| Move { step, page: PageId(slot) };
        for entry in [
            Entry::Decided { number: 4, moved: moved(Step::Demote { writes: true }, 9) },
            Entry::Decided { number: 4, moved: moved(Step::WriteFast, 2) },
            Entry::Ended { number: 4, moved: moved(Step::WriteFast, 2), is_done: true },
        ] {
            file.take(entry).unwrap();
        }
        assert_eq!(file.file, b"event,slot,move\n4,9,demote_write\n4,2,write_fast\n");
    }
}
