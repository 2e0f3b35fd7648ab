//! The ring between the serving thread and the one that writes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::thread::JoinHandle;
use std::time::Duration;

use linux::system::monotonic_ns;
use policy::tiers::{Move, Request as Event};

use super::entry::Entry;
use crate::Error;

/// Entries in the ring: at 100,000 events a second, a third of a second.
const ENTRIES: usize = 1 << 17;
/// How often the writing thread looks for entries.
const LOOK_EVERY: Duration = Duration::from_millis(20);

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
        let time_ns = monotonic_ns();
        self.ring.push(Entry::Event { time_ns, number, event, slot });
        self.replaced(number, moves);
    }

    /// Records that the tiers have another number of frames from the next event on, which has this number.
    pub(crate) fn capacity(&mut self, number: u64, frames: u64) {
        // No store has more frames than fit into a word of its map.
        self.ring.push(Entry::Capacity { number, frames: frames as u32 });
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use policy::tiers::Step;
    use types::PageId;

    use super::*;

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
}
