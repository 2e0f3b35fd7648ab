//! Reports progress from Rust to a Python callback, and Ctrl-C from Python to Rust.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use types::{Cancelled, Progress};

/// Shortest interval between callbacks: short enough for a smooth bar and a prompt Ctrl-C, and long
/// enough that the cost of the interpreter lock is negligible.
const INTERVAL: Duration = Duration::from_millis(50);

/// Calls `callback(done, total)`, and stops the work if the callback raises or the user interrupts. The
/// exception waits in `raised` until the call returns.
pub struct Callback {
    callback: Option<Py<PyAny>>,
    state: Mutex<State>,
}

struct State {
    called: Instant,
    raised: Option<PyErr>,
}

/// Whether all running work is to end: Python delivers Ctrl-C to its main thread only.
static IS_STOPPING: AtomicBool = AtomicBool::new(false);

/// Ends the work of all threads at their next report if `stop`, as Ctrl-C would; without `stop`, work that
/// begins later runs.
#[pyfunction]
pub fn stop_running(stop: bool) {
    IS_STOPPING.store(stop, Ordering::Relaxed);
}

impl Callback {
    /// Reports to `callback` and checks for Ctrl-C; without a callback it only checks for Ctrl-C.
    pub fn new(callback: Option<Py<PyAny>>) -> Callback {
        Callback { callback, state: Mutex::new(State { called: Instant::now(), raised: None }) }
    }

    /// The exception that stopped the work, if any.
    pub fn into_raised(self) -> Option<PyErr> {
        self.state.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()).raised
    }
}

impl Progress for Callback {
    fn advance(&self, done: u64, total: u64) -> Result<(), Cancelled> {
        // Many threads may report at the same time. If the lock is taken, another thread is reporting.
        let Ok(mut state) = self.state.try_lock() else { return Ok(()) };
        if state.raised.is_some() {
            return Err(Cancelled);
        }
        if state.called.elapsed() < INTERVAL && (total == 0 || done < total) {
            return Ok(());
        }
        state.called = Instant::now();
        let answer = Python::attach(|py| {
            py.check_signals()?;
            if IS_STOPPING.load(Ordering::Relaxed) {
                return Err(PyKeyboardInterrupt::new_err(()));
            }
            match &self.callback {
                Some(callback) => callback.call1(py, (done, total)).map(|_| ()),
                None => Ok(()),
            }
        });
        answer.map_err(|raised| {
            state.raised = Some(raised);
            Cancelled
        })
    }
}
