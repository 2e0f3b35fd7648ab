//! The conformance test of the catalog, and tests of each format.

use std::path::{Path, PathBuf};

use super::*;
use crate::references::replay;
use types::ReferenceKind::{Instruction, Read, Write};

/// Every reference of a file, and the numbers of its bad lines.
fn read(format: &Format, bytes: impl AsRef<[u8]>) -> (Vec<Reference>, Vec<u64>) {
    let input = Input::from_bytes("sample", bytes.as_ref().to_vec()).unwrap();
    let mut reader = (format.open)(input).unwrap();
    let (mut references, mut ledger) = (Vec::new(), Ledger::new(false));
    while reader.read(&mut references, &mut ledger).unwrap() {}
    (references, ledger.rejects().1.iter().map(|reject| reject.line).collect())
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A small file per format, the first of its fuzzing seeds.
fn seed(format: &Format) -> Vec<u8> {
    let path = repository().join("fuzz/seeds").join(format.name).join("small");
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The small file of a text format; `None` for other formats.
fn text_of(format: &Format) -> Option<String> {
    format.has_lines.then(|| String::from_utf8(seed(format)).unwrap())
}

fn by_content(bytes: impl AsRef<[u8]>) -> Result<&'static str, Error> {
    let mut input = Input::from_bytes("sample", bytes.as_ref().to_vec())?;
    recognise(&mut input).map(|format| format.name)
}

#[test]
#[ignore = "slow"]
fn every_format_recognises_its_own_files_is_documented_and_never_panics() {
    let page = std::fs::read_to_string(repository().join("docs/formats.md")).unwrap();
    for format in CATALOG {
        let whole = seed(format);
        assert_eq!(by_content(&whole).unwrap(), format.name);
        assert!(page.contains(&format!("\n| `{}` | ", format.name)), "{}", format.name);
        let (references, rejects) = read(format, &whole);
        assert!(!references.is_empty() && rejects.is_empty(), "{}", format.name);
        if let Some(text) = text_of(format) {
            assert_eq!(read(format, text.replace('\n', "\r\n")).0, references);
        }
        for place in 0..whole.len() {
            let mut spoilt = whole.clone();
            for value in [b'9', 0xff, b'\n'] {
                spoilt[place] = value;
                replay(format.name, &spoilt);
                replay(format.name, &spoilt[..place]);
            }
        }
    }
    let error = by_content("hello\nworld\n").unwrap_err();
    assert_eq!(
        error.to_string(),
        "sample at byte 0: no known format of references; formats are \
                                   drmemtrace, lackey, refs3, addresses"
    );
}

#[test]
fn every_format_counts_a_bad_line_in_the_ledger() {
    for format in CATALOG {
        let Some(text) = text_of(format) else { continue };
        let text = text.trim_end();
        let (references, rejects) = read(format, text);
        assert!(rejects.is_empty(), "{}", format.name);
        let with_bad_line = format!("{text}\nhello\n");
        let bad_line = text.lines().count() as u64 + 1;
        assert_eq!(read(format, with_bad_line), (references, vec![bad_line]), "{}", format.name);
    }
}

#[test]
fn a_modification_of_lackey_is_one_write() {
    let text =
        "==12== Lackey\nI  04016b80,3\n S 1ffeffe7e0,8\n L 00100,1\n M 00200,4\nhello\n I 1,1";
    let (references, rejects) = read(&lackey::FORMAT, text);
    let brief: Vec<_> = references
        .iter()
        .map(|reference| (reference.kind, reference.address, reference.bytes))
        .collect();
    assert_eq!(
        brief,
        [
            (Instruction, 0x401_6b80, 3),
            (Write, 0x1f_feff_e7e0, 8),
            (Read, 0x100, 1),
            (Write, 0x200, 4)
        ]
    );
    assert_eq!(rejects, [6, 7]);
}

#[test]
fn refs3_reads_the_columns_of_memtrace() {
    let text = "readi\t0x04000BE0\t2\nwrite\t0xBEFFFACC\t4\nreadd\t0401582C 4 \nread\t0x1\t1\n\
                write\t0x1\t65537\nwrite\t0x1g\t1\nreadi\t0x1\t1\t1\n";
    let (references, rejects) = read(&refs3::FORMAT, text);
    let brief: Vec<_> = references
        .iter()
        .map(|reference| (reference.kind, reference.address, reference.bytes))
        .collect();
    assert_eq!(
        brief,
        [(Instruction, 0x400_0be0, 2), (Write, 0xbeff_facc, 4), (Read, 0x401_582c, 4)]
    );
    assert_eq!(rejects, [4, 5, 6, 7]);
}

#[test]
fn a_trace_with_a_bad_line_is_recognised_and_text_without_references_is_not() {
    let lines = "readi 4000be0 2\nread\nwrite befffacc 4\n";
    assert_eq!(by_content(lines).unwrap(), "refs3");
    assert_eq!(read(&refs3::FORMAT, lines).1, [2]);
    assert!(by_content("readi\nwrite beffacc 4\nreadd 1\n").is_err());
}

#[test]
fn an_import_of_references_as_pages_names_the_right_option() {
    let text = "readi 4000be0 2\n".as_bytes().to_vec();
    let error = crate::formats::recognise(&mut Input::from_bytes("sample", text).unwrap());
    assert!(error.unwrap_err().to_string().contains("import them with --as refs"));
}

#[test]
fn addresses_may_follow_comments_have_quotes_and_an_index_column() {
    let lines = "# tool 1.0\n\n,address,type\n# r\n0,0x1000,w\n\"1\",\"0x2000\",\"r\"\n";
    for delimiter in [",", ";", "\t"] {
        let text = lines.replace(',', delimiter);
        assert_eq!(by_content(&text).unwrap(), "addresses");
        let (references, rejects) = read(&addresses::FORMAT, &text);
        let brief: Vec<_> =
            references.iter().map(|reference| (reference.kind, reference.address)).collect();
        assert_eq!((brief, rejects), (vec![(Write, 0x1000), (Read, 0x2000)], vec![]));
    }
}

#[test]
fn addresses_may_have_a_type_and_a_size() {
    let (references, rejects) = read(&addresses::FORMAT, "address\n0x1000\n4096\n\n# end\nx\n");
    assert_eq!(references, [Reference { kind: Read, address: 4096, bytes: 1 }; 2]);
    assert_eq!(rejects, [6]);
    let text = "time;size;Address;type\n1;8;0x20;W\n1;8;0x20;instruction\n1;8;0x20;x\n1;8\n";
    let (references, rejects) = read(&addresses::FORMAT, text);
    let write = Reference { kind: Write, address: 0x20, bytes: 8 };
    assert_eq!(references, [write, Reference { kind: Instruction, ..write }]);
    assert_eq!(rejects, [4, 5]);
}
