//! Reports and counts skipped tests, because the test runner shows a skipped test as passed.

use std::fs::OpenOptions;
use std::io::Write;

/// Environment variable with the path of the file of skipped tests, one line each; `make test` counts
/// them.
pub const LEDGER: &str = "PAGEWISE_SKIPPED";

/// Prints to standard error that the running test is skipped and why, and adds a line to the file that
/// the environment variable `LEDGER` names, if it is set.
///
/// # Panics
/// If that file cannot be written, because an uncounted skip would look like a passed test.
pub fn skipped(reason: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a thread without a name");
    eprintln!("skipped: {test}: {reason}");
    if let Some(path) = std::env::var_os(LEDGER) {
        // A single short write in append mode: lines of concurrent tests do not mix.
        let line = format!("Rust: {test}: {reason}\n");
        let file = OpenOptions::new().append(true).create(true).open(path);
        file.and_then(|mut file| file.write_all(line.as_bytes()))
            .expect("the ledger of skipped tests can be written");
    }
}
