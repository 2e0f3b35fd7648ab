//! Converts Rust errors to the exceptions of `pagewise.errors`.

use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use trace::{Error, ErrorKind, Position};

use crate::progress::Callback;

/// Runs `work` without the interpreter lock, and converts its error to an exception.
///
/// # Errors
/// The exception of the callback, `KeyboardInterrupt`, or a `PagewiseError`.
pub fn detached<T: Send, E: Raise + Send>(
    py: Python<'_>,
    callback: Option<Py<PyAny>>,
    work: impl Send + FnOnce(&Callback) -> Result<T, E>,
) -> PyResult<T> {
    let progress = Callback::new(callback);
    let result = py.detach(|| work(&progress));
    let raised = progress.into_raised();
    result.map_err(|error| raised.unwrap_or_else(|| error.raise(py)))
}

/// A Rust error with a corresponding `PagewiseError`.
pub trait Raise {
    /// The exception for this error.
    fn raise(&self, py: Python<'_>) -> PyErr;
}

impl Raise for Error {
    fn raise(&self, py: Python<'_>) -> PyErr {
        raise(py, self)
    }
}

impl Raise for sim::Error {
    fn raise(&self, py: Python<'_>) -> PyErr {
        match (self.trace_error(), self.kind()) {
            (Some(error), _) => raise(py, error),
            (None, sim::ErrorKind::Cancelled) => PyKeyboardInterrupt::new_err(()),
            (None, sim::ErrorKind::Device | sim::ErrorKind::Trace) => {
                exception(py, "UnreadableInput", &self.to_string(), None, None)
            }
            (None, _) => usage(py, &self.to_string()),
        }
    }
}

/// The exception for `error`.
pub fn raise(py: Python<'_>, error: &Error) -> PyErr {
    let class = match error.kind() {
        ErrorKind::Io | ErrorKind::Corrupt | ErrorKind::UnknownFormat => "UnreadableInput",
        ErrorKind::Usage => "UsageError",
        ErrorKind::Cancelled => return PyKeyboardInterrupt::new_err(()),
    };
    let position = error.position().map(|position| match position {
        Position::Byte(offset) => format!("byte {offset}"),
        Position::Line(line) => format!("line {line}"),
    });
    let path = error.path().to_string_lossy();
    exception(py, class, &error.to_string(), Some(&path), position.as_deref())
}

/// A `UsageError` without a file.
pub fn usage(py: Python<'_>, message: &str) -> PyErr {
    exception(py, "UsageError", message, None, None)
}

/// A `PagewiseError` by the name of its class.
fn exception(
    py: Python<'_>,
    class: &str,
    message: &str,
    path: Option<&str>,
    position: Option<&str>,
) -> PyErr {
    let build = || -> PyResult<PyErr> {
        let details = PyDict::new(py);
        details.set_item("path", path)?;
        details.set_item("position", position)?;
        let class = py.import("pagewise.errors")?.getattr(class)?;
        Ok(PyErr::from_value(class.call((message,), Some(&details))?))
    };
    // This fails only in a broken installation; keep the message even then.
    build().unwrap_or_else(|_| PyRuntimeError::new_err(message.to_owned()))
}
