//! Tests that cannot run here say so, and are counted: a test that skips looks like one that passed.

use std::fs::OpenOptions;
use std::io::Write;

/// Names the file that skipped tests are written to, one line each; `make test` counts them.
pub const LEDGER: &str = "PAGEWISE_SKIPPED";

/// Says on standard error that the running test is skipped and why, and adds a line to the file
/// that the environment variable `LEDGER` names, if there is one.
///
/// # Panics
/// If that file cannot be written: a skip that is not counted would pass for a test that ran.
pub fn skipped(reason: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a thread without a name");
    eprintln!("skipped: {test}: {reason}");
    if let Some(path) = std::env::var_os(LEDGER) {
        // One short write in append mode: lines of tests that run at once do not mix.
        let line = format!("Rust: {test}: {reason}\n");
        let file = OpenOptions::new().append(true).create(true).open(path);
        file.and_then(|mut file| file.write_all(line.as_bytes()))
            .expect("the ledger of skipped tests can be written");
    }
}
