//! The filter of the capture plugin and the Rust filter make the same steps of the same references.

#![allow(clippy::unwrap_used, reason = "helpers of tests stop where tests do")]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use testkit::references::program;
use trace::references::{Filter, Reference};

#[test]
fn the_filters_in_c_and_rust_make_the_same_steps() {
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../capture/filter_stdin.c");
    let compiled = folder.path().join("filter");
    let built = Command::new("cc").arg("-O2").arg(&source).arg("-o").arg(&compiled).status();
    match built {
        Ok(status) => assert!(status.success(), "capture/filter_stdin.c compiles"),
        Err(error) => return testkit::skipped(&format!("no C compiler (cc): {error}")),
    }
    for (seed, blocks) in [(0, 64), (1, 64), (2, 64), (3, 64), (4, 4), (5, 4), (6, 12), (7, 33)] {
        let references = program(seed, 50_000);
        let (mut filter, mut steps) = (Filter::of(blocks), Vec::new());
        let mut bytes = Vec::new();
        for reference in &references {
            bytes.extend(reference.address.to_le_bytes());
            bytes.extend((reference.bytes as u32).to_le_bytes());
            bytes.extend((reference.kind as u32).to_le_bytes());
            let (kind, address, bytes) =
                (reference.kind, reference.address, reference.bytes as u32);
            filter.refer(Reference { kind, address, bytes }, &mut steps);
        }
        let expected: Vec<u8> = steps
            .iter()
            .flat_map(|step| {
                let left = u64::from(step.is_left_written) << 2;
                let place = step.block << 9 | u64::from(step.slot) << 3 | left | step.kind as u64;
                [step.references, place].map(u64::to_le_bytes).concat()
            })
            .collect();
        assert!(run(&compiled, blocks, bytes) == expected, "seed {seed}: the steps differ");
    }
}

/// The output of the program for `input`.
fn run(program: &Path, blocks: usize, input: Vec<u8>) -> Vec<u8> {
    let mut command = Command::new(program);
    command.arg(blocks.to_string());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let feeder = std::thread::spawn(move || stdin.write_all(&input).unwrap());
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    output.stdout
}
