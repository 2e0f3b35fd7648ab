//! Requests and results as JSON text.

use pyo3::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::errors::usage;
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

/// A result as JSON text.
pub fn answered(answer: impl Serialize) -> String {
    serde_json::to_string(&answer).expect("an answer is plain data")
}

/// The rows of a catalog, given by name and summary, as JSON text.
pub fn catalog<'a>(rows: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let rows = rows.map(|(name, summary)| json!({ "name": name, "summary": summary }));
    answered(rows.collect::<Vec<_>>())
}

/// The rows of a catalog of policies, given by name, summary and options, as JSON text.
pub fn with_options<'a>(rows: impl Iterator<Item = (&'a str, &'a str, &'a [OptionRow])>) -> String {
    let option = |option: &OptionRow| json!({ "name": option.name, "default": option.default, "summary": option.summary });
    let rows = rows.map(|(name, summary, options)| {
        let options: Vec<Value> = options.iter().map(option).collect();
        json!({ "name": name, "summary": summary, "options": options })
    });
    answered(rows.collect::<Vec<_>>())
}
