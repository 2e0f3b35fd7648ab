//! Sets `PAGEWISE_BUILD`: a hash of the sources that compute results, the same on every machine. It
//! distinguishes the results of a changed simulator from earlier results.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// Sources of the module, relative to this crate.
const SOURCES: [&str; 7] = [
    "src",
    "../sim/src",
    "../policy/src",
    "../trace/src",
    "../types/src",
    "../../devices",
    "../../Cargo.lock",
];

const FNV_OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const FNV_PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

fn main() -> io::Result<()> {
    let mut hash = FNV_OFFSET;
    for source in SOURCES {
        println!("cargo:rerun-if-changed={source}");
        for file in files_in(Path::new(source))? {
            hash = fnv(hash, file.to_string_lossy().as_bytes());
            hash = fnv(hash, &fs::read(&file)?);
        }
    }
    println!("cargo:rustc-env=PAGEWISE_BUILD={hash:032x}");
    Ok(())
}

/// The file itself, or all files of a folder, in order.
fn files_in(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut entries =
        fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    entries.sort();
    let mut files = Vec::new();
    for entry in entries {
        files.extend(files_in(&entry)?);
    }
    Ok(files)
}

/// FNV-1a of 128 bits: sufficient to distinguish versions of files, because there is no attacker.
fn fnv(hash: u128, bytes: &[u8]) -> u128 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(FNV_PRIME))
}
