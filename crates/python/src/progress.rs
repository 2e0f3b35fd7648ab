//! Progress from Rust to a Python callback, and Ctrl-C from Python to Rust.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use types::{Cancelled, Progress};

/// How often Python is asked at most: often enough for a smooth bar and a prompt Ctrl-C, seldom
/// enough that taking the interpreter lock costs nothing.
const INTERVAL: Duration = Duration::from_millis(50);

/// Calls `callback(done, total)`, and stops the work when the callback raises or the user
/// interrupts. The exception waits in `raised` until the call has unwound.
pub struct Callback {
    callback: Option<Py<PyAny>>,
    state: Mutex<State>,
}

struct State {
    asked: Instant,
    raised: Option<PyErr>,
}

impl Callback {
    /// Watches on behalf of `callback`; without one only Ctrl-C is watched.
    pub fn new(callback: Option<Py<PyAny>>) -> Callback {
        Callback { callback, state: Mutex::new(State { asked: Instant::now(), raised: None }) }
    }

    /// The exception that stopped the work, if any.
    pub fn into_raised(self) -> Option<PyErr> {
        self.state.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()).raised
    }
}

impl Progress for Callback {
    fn advance(&self, done: u64, total: u64) -> Result<(), Cancelled> {
        // Many threads may report at once: whoever finds the lock taken has nothing to add.
        let Ok(mut state) = self.state.try_lock() else { return Ok(()) };
        if state.raised.is_some() {
            return Err(Cancelled);
        }
        if state.asked.elapsed() < INTERVAL && (total == 0 || done < total) {
            return Ok(());
        }
        state.asked = Instant::now();
        let answer = Python::attach(|py| {
            py.check_signals()?;
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
