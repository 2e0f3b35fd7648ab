//! Cuts a recording to the movements of pages (`trace::recording::cut`), small enough to ship:
//!
//!     cargo run --release -p trace --example cut_recording [--swap-only] RECORDING OUTPUT
//!
//! `--swap-only` leaves out the pages of files. OUTPUT must not exist. After an error there is none.

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, ErrorKind};
use std::path::Path;
use std::process::ExitCode;

use trace::input::Input;
use trace::recording::{Pages, cut};

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut pages = Pages::All;
    if arguments.first().is_some_and(|word| word == "--swap-only") {
        pages = Pages::Swap;
        arguments.remove(0);
    }
    let [from, to] = arguments.as_slice() else {
        eprintln!("usage: cut_recording [--swap-only] RECORDING OUTPUT");
        return ExitCode::from(2);
    };
    match written(Path::new(from), Path::new(to), pages) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cut_recording: {error}");
            ExitCode::from(3)
        }
    }
}

fn written(from: &Path, to: &Path, pages: Pages) -> Result<(), Box<dyn Error>> {
    let input = Input::open(from, false)?;
    let output = File::create_new(to).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => format!("{} exists; delete it", to.display()),
        _ => format!("{}: {error}", to.display()),
    })?;
    let written = written_to(input, output, pages);
    if written.is_err() {
        // The first error is the one to report.
        let _ = std::fs::remove_file(to);
    }
    written
}

fn written_to(input: Input, output: File, pages: Pages) -> Result<(), Box<dyn Error>> {
    cut(input, BufWriter::new(output), pages)?.into_inner()?.sync_all()?;
    Ok(())
}
