//! A real program as recorded by valgrind's lackey, through import, file and one pass, against memories
//! that see every reference.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use sim::refs::{self, Questions};
use testkit::references::{Memory, Reference};
use trace::references::{Reader, ReferenceImportOptions, import};
use types::{NoProgress, ReferenceKind};

const REFERENCES: usize = 1_000_000;

/// Lines of lackey with a reference, at most `references`; none if valgrind is not installed.
fn lackey(references: usize) -> Option<Vec<String>> {
    let mut valgrind = Command::new("valgrind")
        .args(["--tool=lackey", "--trace-mem=yes", "ls", "-lR", "/etc"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    let text = BufReader::new(valgrind.stderr.take().unwrap());
    let is_reference = |line: &String| line.starts_with(['I', ' ']);
    let lines = text.lines().map(Result::unwrap).filter(is_reference).take(references).collect();
    // Ends lackey in the middle of the program, if that is still running.
    let _ = valgrind.kill();
    valgrind.wait().unwrap();
    Some(lines)
}

fn parsed(line: &str) -> Reference {
    let (letter, rest) = line.split_at(2);
    let (address, bytes) = rest.trim().split_once(',').unwrap();
    let kind = match letter.trim() {
        "I" => ReferenceKind::Instruction,
        "L" => ReferenceKind::Read,
        _ => ReferenceKind::Write,
    };
    let address = u64::from_str_radix(address, 16).unwrap();
    Reference { kind, address, bytes: bytes.parse().unwrap() }
}

#[test]
#[ignore = "slow"]
fn a_real_program_is_counted_to_the_last_digit() {
    let Some(lines) = lackey(REFERENCES) else {
        testkit::skipped("valgrind is not installed");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (text, trace) = (folder.path().join("lackey.txt"), folder.path().join("ls.pwf"));
    let mut file = std::fs::File::create(&text).unwrap();
    lines.iter().for_each(|line| writeln!(file, "{line}").unwrap());
    import(&text, &trace, &ReferenceImportOptions::default(), &NoProgress).unwrap();

    let questions = Questions { page_bytes: vec![512, 4096, 65536], ..Questions::default() };
    let answers = refs::run(&mut Reader::open(&trace).unwrap(), &questions, &NoProgress).unwrap();
    assert_eq!(answers.totals.all(), Some(lines.len() as u64));

    let references: Vec<Reference> = lines.iter().map(|line| parsed(line)).collect();
    for size in answers.sizes {
        for frames in [64, 200] {
            let mut memory = Memory::new(size.page_bytes, frames);
            references.iter().for_each(|&reference| memory.refer(reference));
            let which = format!("pages of {} bytes, {frames} frames", size.page_bytes);
            assert_eq!(size.curve.misses(frames as u64), memory.misses, "{which}");
            assert_eq!(size.curve.write_backs(frames as u64), memory.write_backs, "{which}");
        }
    }
}
