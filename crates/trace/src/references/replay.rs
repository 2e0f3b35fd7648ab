//! Reads bytes as a trace of references and checks its invariants. The fuzz targets and the tests that
//! replay their seeds share it.

use super::formats::{self, Format};
use super::{Filter, Reader};
use crate::ledger::Ledger;
use crate::{Error, input::Input};

/// The target that reads a pagewise trace; the others are named after foreign formats.
const TRACE: &str = "pwf";

/// Reads `bytes` like the fuzz target `name`.
///
/// # Panics
/// If the target does not exist, or an invariant does not hold.
pub fn replay(name: &str, bytes: &[u8]) {
    // An error is a valid result for arbitrary bytes.
    if name == TRACE {
        let _ = read_trace(bytes);
    } else {
        let format = formats::by_name(name).expect("the target is named after a format");
        let _ = (format.sniff)(bytes);
        let _ = read(format, bytes);
    }
}

fn read_trace(bytes: &[u8]) -> Result<(), Error> {
    let mut reader = Reader::from_bytes("replay", bytes.to_vec())?;
    let (mut steps, mut references) = (Vec::new(), 0);
    while reader.next_steps(&mut steps)? {
        references += steps.iter().map(|step| step.references).sum::<u64>();
        let all = reader.totals().all().expect("totals that overflow are refused");
        assert!(references <= all, "{references} references in steps, {all} in all");
    }
    Ok(())
}

fn read(format: &Format, bytes: &[u8]) -> Result<(), Error> {
    let mut reader = (format.open)(Input::from_bytes("replay", bytes)?)?;
    let (mut references, mut ledger) = (Vec::new(), Ledger::new(false));
    let (mut filter, mut steps, mut count) = (Filter::new(), Vec::new(), 0);
    while reader.read(&mut references, &mut ledger)? {
        count += references.len() as u64;
        for reference in references.drain(..) {
            filter.refer(reference, &mut steps);
        }
        steps.clear();
    }
    assert_eq!(filter.totals().all(), Some(count), "each reference counts once");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::references::formats::CATALOG;
    use std::path::{Path, PathBuf};

    fn fuzz_folder() -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
    }

    fn files(target: &Path) -> Vec<Vec<u8>> {
        let entries = std::fs::read_dir(target).map(|files| files.collect::<Vec<_>>());
        let entries = entries.unwrap_or_default();
        entries.into_iter().map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect()
    }

    #[test]
    fn every_seed_and_every_former_finding_replays() {
        for name in CATALOG.iter().map(|format| format.name).chain([TRACE]) {
            let seeds = files(&fuzz_folder().join("seeds").join(name));
            assert!(!seeds.is_empty(), "{name} has seeds");
            for bytes in seeds.iter().chain(&files(&fuzz_folder().join("regressions").join(name))) {
                replay(name, bytes);
            }
        }
    }
}
