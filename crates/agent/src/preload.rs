//! Finds the shared libraries that ship with this program and are preloaded into other programs.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::exit::Exit;

/// The environment variable that names libraries for the dynamic loader to preload.
pub const VARIABLE: &str = "LD_PRELOAD";

/// The path of the library `name`: beside this program, or in the folder `lib` beside this program's folder.
///
/// # Errors
/// The library is in neither folder.
pub fn library(name: &str) -> Result<PathBuf, Exit> {
    let refused = |error| Exit::Refused(format!("this program's own path is unknown: {error}"));
    let program = env::current_exe().map_err(refused)?;
    let folder = program.parent().unwrap_or(Path::new("/"));
    let places = [folder.join(name), folder.with_file_name("lib").join(name)];
    places.iter().find(|place| place.is_file()).cloned().ok_or_else(|| {
        let [beside, lib] = places.each_ref().map(|place| place.display());
        Exit::Refused(format!("{name} is missing: neither {beside} nor {lib} exists; make build"))
    })
}

/// The value of [`VARIABLE`] that loads `library` before the libraries that it already names.
///
/// # Errors
/// The path contains a blank or a colon, at which the loader splits it.
pub fn value(library: &Path) -> Result<OsString, Exit> {
    let mut value = library.as_os_str().to_owned();
    if value.as_encoded_bytes().iter().any(|byte| b" :".contains(byte)) {
        let path = library.display();
        return Err(Exit::Refused(format!(
            "{path}: the dynamic loader accepts no path with blanks or colons"
        )));
    }
    if let Some(others) = env::var_os(VARIABLE).filter(|others| !others.is_empty()) {
        value.push(":");
        value.push(others);
    }
    Ok(value)
}
