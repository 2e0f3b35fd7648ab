//! Reads bytes as a recording and checks its invariants. The fuzz targets and the test that replays their
//! seeds share it, so that a finding replays exactly.

use crate::formats::{self, ReadOptions};
use crate::input::Input;
use crate::pipeline::{Pipeline, PipelineOptions};
use crate::record::Mapping;
use crate::{Error, Rows, references};

/// Rows after which a replay stops: a short line may stand for a GiB.
const ROWS_MAX: usize = 1 << 20;

/// Bytes for the numbering table, small enough that a replay fills it.
const NUMBERING_BYTES: usize = 1 << 16;

/// Reads `bytes` as the format `name`, in every mapping that it allows: a format of pages, or
/// one of memory references.
///
/// # Panics
/// If the format does not exist, or an invariant does not hold.
pub fn replay(name: &str, bytes: &[u8]) {
    let Some(format) = formats::by_name(name) else {
        return references::replay(name, bytes);
    };
    let _ = (format.sniff)(bytes);
    for (_, mapping) in Mapping::ALL {
        // An error is a valid result for arbitrary bytes.
        let _ = read(name, bytes, mapping);
    }
}

fn read(name: &str, bytes: &[u8], mapping: Mapping) -> Result<(), Error> {
    let options = PipelineOptions {
        format: Some(name.to_owned()),
        read: ReadOptions { mapping: Some(mapping), columns: Vec::new() },
        numbering_bytes_max: Some(NUMBERING_BYTES),
        ..PipelineOptions::default()
    };
    let mut pipeline = Pipeline::of_input(Input::from_bytes("replay", bytes)?, &options)?;
    let mut count = 0;
    while let Some(rows) = pipeline.next_rows()? {
        count += rows.len();
        check(rows);
        if count > ROWS_MAX {
            break;
        }
    }
    Ok(())
}

/// Checks that each column is as long as the batch or empty.
fn check(rows: &Rows) {
    let length = rows.len();
    let events = &rows.events;
    for (column, column_length, may_be_absent) in [
        ("time_ns", events.time_ns.len(), true),
        ("flags", events.flags.len(), false),
        ("page", events.page.len(), true),
        ("process", events.process.len(), false),
        ("space", rows.space.len(), false),
        ("address", rows.address.len(), false),
        ("bytes", rows.bytes.len(), true),
        ("duration_ns", rows.duration_ns.len(), true),
    ] {
        let is_absent = may_be_absent && column_length == 0;
        assert!(column_length == length || is_absent, "{column}: {column_length} of {length}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn fuzz_folder() -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
    }

    #[test]
    fn every_seed_and_every_former_finding_replays() {
        for format in formats::CATALOG {
            for family in ["seeds", "regressions"] {
                let folder = fuzz_folder().join(family).join(format.name);
                let files = std::fs::read_dir(&folder).map(|files| files.collect::<Vec<_>>());
                let files = files.unwrap_or_default();
                assert!(family != "seeds" || !files.is_empty(), "{} has seeds", format.name);
                for file in files {
                    replay(format.name, &std::fs::read(file.unwrap().path()).unwrap());
                }
            }
        }
    }
}
