//! A recording beside a run.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;

use linux::Root;
use linux::cgroup::MemoryGroup;
use recorder::{BackendChoice, Filter, Outcome, Stop, sources};

use crate::Error;

/// Room for records that wait: a file cache that thrashes makes 10^5 a second.
const BUFFER_BYTES: u32 = 64 << 20;

/// A recording that runs. Dropped, it ends.
pub(crate) struct Recording {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Outcome, recorder::Error>>>,
}

/// Ends a recording when it is told to, and tells when it began.
struct Ending {
    is_over: Arc<AtomicBool>,
    began: mpsc::Sender<()>,
}

impl Stop for Ending {
    fn start(&mut self) -> io::Result<()> {
        // Nobody waits where the run ended already.
        let _ = self.began.send(());
        Ok(())
    }

    fn is_over(&mut self) -> Option<Option<i32>> {
        self.is_over.load(Ordering::Relaxed).then_some(None)
    }
}

impl Recording {
    /// Records every source to `path`, and of memory and processes those of the group at `memory`;
    /// when this returns, nothing is missed any more.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn start(root: &Root, path: &Path, memory: &Path) -> Result<Recording, Error> {
        let options = recorder::Options {
            output: path.to_owned(),
            sources: sources::CATALOG.iter().collect(),
            filter: Filter::default(),
            noted: Some(MemoryGroup::at(root, memory)?),
            backend: BackendChoice::Any,
            buffer_bytes: BUFFER_BYTES,
            command: Vec::new(),
        };
        let is_over = Arc::new(AtomicBool::new(false));
        let (sender, began) = mpsc::channel();
        let mut ending = Ending { is_over: Arc::clone(&is_over), began: sender };
        let root = root.clone();
        let thread = std::thread::spawn(move || recorder::record(&root, &options, &mut ending));
        let mut recording = Recording { is_over, thread: Some(thread) };
        match began.recv() {
            Ok(()) => Ok(recording),
            // The thread ended before it began.
            Err(_) => match recording.finish() {
                Err(error) => Err(error),
                Ok(_) => Err(Error::Refused("the recording ended before it began".to_owned())),
            },
        }
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// Why it could not begin or be written.
    pub(crate) fn finish(&mut self) -> Result<Option<Outcome>, Error> {
        self.is_over.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else { return Ok(None) };
        let ended = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let outcome = ended.map_err(|error| Error::Refused(error.to_string()))?;
        match outcome.failure {
            Some(failure) => Err(Error::Refused(failure)),
            None => Ok(Some(outcome)),
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}
