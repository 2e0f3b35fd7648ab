//! Requests from JSON text, results to Python objects.

use pyo3::IntoPyObject;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::errors::usage;
use crate::results::{PolicyRow, Row};
use policy::OptionRow;

/// Parses JSON text. The error names `what` the text is, and the position.
///
/// # Errors
/// `UsageError` if the text is invalid.
pub fn parsed<T: for<'text> Deserialize<'text>>(
    py: Python<'_>,
    what: &str,
    text: &str,
) -> PyResult<T> {
    serde_json::from_str(text).map_err(|error| usage(py, &format!("{what}: {error}")))
}

/// A result that Python gets as the objects that `json.loads` would make of its JSON text: the keys of
/// dictionaries are strings, and a number that is not finite is None.
pub struct Answer<T>(pub T);

impl<'py, T: Serialize> IntoPyObject<'py> for Answer<T> {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let value = serde_json::to_value(self.0).expect("an answer is plain data");
        object(py, value)
    }
}

/// The object for `value`, each part of which is freed once it is converted.
fn object(py: Python<'_>, value: Value) -> PyResult<Bound<'_, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(flag) => PyBool::new(py, flag).to_owned().into_any(),
        Value::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
            (Some(count), ..) => PyInt::new(py, count).into_any(),
            (None, Some(integer), _) => PyInt::new(py, integer).into_any(),
            (None, None, float) => {
                PyFloat::new(py, float.expect("a number is one of three")).into_any()
            }
        },
        Value::String(text) => PyString::new(py, &text).into_any(),
        Value::Array(values) => {
            let list = PyList::empty(py);
            for value in values {
                list.append(object(py, value)?)?;
            }
            list.into_any()
        }
        Value::Object(fields) => {
            let dictionary = PyDict::new(py);
            for (name, value) in fields {
                dictionary.set_item(PyString::intern(py, &name), object(py, value)?)?;
            }
            dictionary.into_any()
        }
    })
}

/// The rows of a catalog, given by name and summary.
pub fn catalog(rows: impl Iterator<Item = (&'static str, &'static str)>) -> Answer<Vec<Row>> {
    Answer(rows.map(|(name, summary)| Row { name, summary }).collect())
}

/// The rows of a catalog of policies, given by name, summary and options.
pub fn with_options(
    rows: impl Iterator<Item = (&'static str, &'static str, &'static [OptionRow])>,
) -> Answer<Vec<PolicyRow>> {
    let row = |(name, summary, options): (_, _, &'static [OptionRow])| PolicyRow {
        name,
        summary,
        options: options.iter().map(Into::into).collect(),
    };
    Answer(rows.map(row).collect())
}
