//! Lists the files of the folder `devices`, so that a new device is one file.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

fn main() {
    // Not by `env!`: the script that cargo compiled for one copy of the repository also runs for another with the
    // same target folder.
    let crate_folder = env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it for build scripts");
    let folder = Path::new(&crate_folder).join("../../devices");
    println!("cargo::rerun-if-changed={}", folder.display());
    let entries = fs::read_dir(&folder).expect("the folder devices exists");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("the folder devices can be listed").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .map(|path| path.file_stem().expect("it has an extension").to_string_lossy().into_owned())
        .collect();
    names.sort();
    let mut list = String::from("const BUILTIN: &[(&str, &str)] = &[\n");
    for name in names {
        let file = format!("/../../devices/{name}.toml");
        let text = format!("include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), {file:?}))");
        writeln!(list, "    ({name:?}, {text}),").expect("a string takes every text");
    }
    list.push_str("];\n");
    let output = env::var_os("OUT_DIR").expect("cargo sets it for build scripts");
    fs::write(Path::new(&output).join("builtin_devices.rs"), list).expect("OUT_DIR can be written");
}
