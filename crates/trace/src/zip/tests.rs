//! Archives as zip tools write them, and damaged ones.

use std::io::Write;

use rawzip::ZipArchiveWriter;

use super::*;
use crate::input::Input;

/// An archive of these files, compressed by `method`.
fn archive(method: CompressionMethod, files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = ZipArchiveWriter::new(Vec::new());
    for (name, bytes) in files {
        if name.ends_with('/') {
            archive.new_dir(*name).create().unwrap();
            continue;
        }
        let builder = archive.new_file(*name).compression_method(method);
        let (mut entry, config) = builder.start().unwrap();
        let descriptor = match method {
            CompressionMethod::DEFLATE => {
                let level = flate2::Compression::fast();
                let encoder = flate2::write::DeflateEncoder::new(&mut entry, level);
                let mut writer = config.wrap(encoder);
                writer.write_all(bytes).unwrap();
                let (encoder, descriptor) = writer.finish().unwrap();
                encoder.finish().unwrap();
                descriptor
            }
            CompressionMethod::ZSTD => {
                let mut writer = config.wrap(zstd::Encoder::new(&mut entry, 1).unwrap());
                writer.write_all(bytes).unwrap();
                let (encoder, descriptor) = writer.finish().unwrap();
                encoder.finish().unwrap();
                descriptor
            }
            _ => {
                let mut writer = config.wrap(&mut entry);
                writer.write_all(bytes).unwrap();
                writer.finish().unwrap().1
            }
        };
        entry.finish(descriptor).unwrap();
    }
    archive.finish().unwrap()
}

fn deflated(files: &[(&str, &[u8])]) -> Vec<u8> {
    archive(CompressionMethod::DEFLATE, files)
}

fn read(bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let mut input = Input::from_bytes("a.zip", bytes.to_vec())?;
    let mut text = Vec::new();
    while !input.fill()?.is_empty() {
        text.extend_from_slice(input.held());
        input.consume(usize::MAX);
    }
    Ok(text)
}

#[test]
fn the_only_file_is_read_however_it_is_compressed() {
    let text = b"12.5 out 4711\n".repeat(40_000);
    for method in [CompressionMethod::STORE, CompressionMethod::DEFLATE, CompressionMethod::ZSTD] {
        let files: [(&str, &[u8]); 3] =
            [("folder/", b""), ("folder/trace.html", &text), ("__MACOSX/._trace.html", b"x")];
        assert_eq!(read(&archive(method, &files)).unwrap(), text, "{method}");
    }
}

#[test]
fn chunks_are_one_recording_and_one_of_several_files_must_be_a_trace() {
    let chunks = deflated(&[("chunk.0000", b"ab"), ("chunk.0001", b""), ("chunk.0002", b"cd")]);
    assert_eq!(read(&chunks).unwrap(), b"abcd");
    let trace = deflated(&[("notes.md", b"no"), ("systrace.html", b"yes"), ("chunk.1", b"no")]);
    assert_eq!(read(&trace).unwrap(), b"yes");
    let error = read(&deflated(&[("a.html", b"1"), ("b/b.html", b"2")])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownFormat);
    assert!(error.to_string().ends_with("unpack the one that you mean (a.html, b/b.html)"));
    let error = read(&deflated(&[("folder/", b"")])).unwrap_err();
    assert!(error.to_string().contains("without files"), "{error}");
}

#[test]
fn a_file_a_pipe_and_memory_give_the_same_bytes_and_the_hash_of_the_archive() {
    use sha2::{Digest, Sha256};
    let text = b"a trace of several reads ".repeat(100_000);
    let packed = deflated(&[("trace.txt", &text)]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.zip");
    std::fs::write(&path, &packed).unwrap();
    let mut input = Input::open(&path, true).unwrap();
    let meter = input.meter();
    let mut again = input.again().unwrap();
    for input in [&mut input, &mut again] {
        let mut found = vec![0; text.len() + 1];
        assert_eq!(input.read_into(&mut found).unwrap(), text.len());
        assert_eq!(found[..text.len()], text);
    }
    let hash = Sha256::digest(&packed).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(meter.sha256(), Some(hash));
    assert!(meter.bytes() <= packed.len() as u64 && meter.bytes() > 0);
    let whole = Input::open(&path, false).unwrap().whole().unwrap();
    assert_eq!(whole.length(), text.len() as u64);
}

#[test]
fn cut_and_damaged_archives_are_errors_and_never_other_bytes() {
    let text = b"12.5 out 4711\n13.0 out 4712\n".repeat(3);
    let whole = deflated(&[("chunk.0000", &text), ("chunk.0001", &text)]);
    for length in 4..whole.len() {
        assert!(read(&whole[..length]).is_err(), "{length}");
    }
    let both = text.repeat(2);
    for place in 4..whole.len() {
        let mut spoilt = whole.clone();
        spoilt[place] ^= 0x41;
        if let Ok(found) = read(&spoilt) {
            // A changed name or time of the list, or one that makes a chunk no file, leaves whole members.
            assert!([&both, &text].contains(&&found), "{place}");
        }
    }
}

#[test]
fn encrypted_members_and_other_methods_are_refused() {
    let whole = deflated(&[("a.txt", b"text")]);
    let list = whole.windows(4).position(|four| four == b"PK\x01\x02").unwrap();
    let refused = |place: usize, value: u8| {
        let mut spoilt = whole.clone();
        spoilt[list + place] = value;
        read(&spoilt).unwrap_err().to_string()
    };
    // Flags are at 8 and the method is at 10 of an entry of the list.
    assert!(refused(8, 1).contains("encrypted zip archive: unpack it first"));
    assert!(refused(10, 12).contains("unpack it first"));
}
