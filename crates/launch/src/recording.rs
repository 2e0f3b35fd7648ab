//! Records during a run.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;

use linux::Root;
use linux::cgroup::MemoryGroup;
use recorder::{BackendChoice, EventFilter, RecordingOutcome, Stop, sources};

use crate::Error;

/// The size of the recorder's buffer: a thrashing page cache gives 10^5 records per second.
const BUFFER_BYTES: u32 = 64 << 20;

/// A running recording. When dropped, it ends.
pub(crate) struct RunningRecording {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<RecordingOutcome, recorder::Error>>>,
}

/// Ends a recording on request, and reports when it has begun.
struct Ending {
    is_over: Arc<AtomicBool>,
    began: mpsc::Sender<()>,
}

impl Stop for Ending {
    fn start(&mut self) -> io::Result<()> {
        // The run may have ended already, and no longer wait.
        let _ = self.began.send(());
        Ok(())
    }

    fn is_over(&mut self) -> Option<Option<i32>> {
        self.is_over.load(Ordering::Relaxed).then_some(None)
    }
}

impl RunningRecording {
    /// Records every source to `path`, and the memory and processes of the group at `memory`. After this returns,
    /// no event is missed.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn start(
        root: &Root,
        path: &Path,
        memory: &Path,
    ) -> Result<RunningRecording, Error> {
        let options = recorder::Options {
            output: path.to_owned(),
            sources: sources::CATALOG.iter().collect(),
            filter: EventFilter::default(),
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
        let mut recording = RunningRecording { is_over, thread: Some(thread) };
        match began.recv() {
            Ok(()) => Ok(recording),
            // The thread ended before the recording began.
            Err(_) => match recording.finish() {
                Err(error) => Err(error),
                Ok(_) => Err(Error::Refused("the recording ended before it began".to_owned())),
            },
        }
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// The recording could not begin, or could not be written.
    pub(crate) fn finish(&mut self) -> Result<Option<RecordingOutcome>, Error> {
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

impl Drop for RunningRecording {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}
