//! Checks whether a preloaded library can serve a program.

use std::env;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use object::elf::{EM_AARCH64, EM_X86_64, FileHeader64, PT_INTERP};
use object::read::ReadCache;
use object::read::elf::{ElfFile, FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSymbol};

use crate::{Error, process};

type Elf<'a> = ElfFile<'a, FileHeader64<Endianness>, &'a ReadCache<File>>;

/// Why a preloaded library cannot serve a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreached {
    /// The program is linked statically.
    Static,
    /// The libc of the program is musl, which lacks symbols of glibc.
    Musl,
    /// The program gains privileges when it starts, so the loader ignores LD_PRELOAD.
    Privileged,
    /// The program defines `malloc` itself.
    OwnMalloc,
    /// The program was built with a sanitizer, which also replaces `malloc`.
    Sanitized,
    /// The file is a program for another processor, or not a program.
    Foreign,
}

impl Unreached {
    /// The reason as text, about the program.
    pub fn reason(self) -> &'static str {
        match self {
            Unreached::Static => "it is linked statically, so it loads no library",
            Unreached::Musl => "its libc is musl, and the library needs glibc",
            Unreached::Privileged => {
                "it gains privileges when it starts, so the loader ignores LD_PRELOAD"
            }
            Unreached::OwnMalloc => "it has its own malloc",
            Unreached::Sanitized => "it was built with a sanitizer",
            Unreached::Foreign => "it is not a program for this processor",
        }
    }
}

/// The file that a shell runs for `command`; None if there is none.
pub fn find(command: &str) -> Option<PathBuf> {
    let is_program = |path: &Path| is_executable(path).unwrap_or(false);
    if command.contains('/') {
        return Some(PathBuf::from(command)).filter(|path| is_program(path));
    }
    in_path(command, is_program)
}

/// The first file called `name` in a folder of PATH for which `is_program`.
pub fn in_path(name: &str, is_program: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| is_program(path))
}

/// Whether some user may run the file at `path`.
///
/// # Errors
/// The operating system refuses, or there is no such file.
pub fn is_executable(path: &Path) -> io::Result<bool> {
    let file = fs::metadata(path)?;
    Ok(file.is_file() && file.mode() & 0o111 != 0)
}

/// Why a preloaded library is not loaded into `program`, or its `malloc` is not used; for a script, the check is
/// of its interpreter. None if the library can serve it.
///
/// # Errors
/// A file cannot be read.
pub fn unreached(program: &Path) -> Result<Option<Unreached>, Error> {
    let mut program = program.to_owned();
    for _ in 0..INTERPRETERS_MAX {
        match interpreter(&beginning(&program)?) {
            Some(next) => program = next,
            None => break,
        }
    }
    if gains_rights(&program)? {
        return Ok(Some(Unreached::Privileged));
    }
    let file = File::open(&program).map_err(|error| Error::refused("read", &program, error))?;
    let cache = ReadCache::new(file);
    // A file that is not a 64-bit ELF file is for another processor, or the kernel refuses it.
    Ok(Elf::parse(&cache).map_or(Some(Unreached::Foreign), |elf| unreached_binary(&elf, &cache)))
}

/// The offset of the dynamic symbol `name` in `library`; None if it has no such symbol.
///
/// # Errors
/// The file cannot be read.
pub fn symbol_offset(library: &Path, name: &str) -> Result<Option<u64>, Error> {
    let file = File::open(library).map_err(|error| Error::refused("read", library, error))?;
    let cache = ReadCache::new(file);
    let Ok(elf) = Elf::parse(&cache) else { return Ok(None) };
    let found = elf.dynamic_symbols().find(|symbol| symbol.name().is_ok_and(|own| own == name));
    Ok(found.map(|symbol| symbol.address()))
}

fn unreached_binary(elf: &Elf<'_>, cache: &ReadCache<File>) -> Option<Unreached> {
    let endian = elf.endian();
    let own = if cfg!(target_arch = "x86_64") { EM_X86_64 } else { EM_AARCH64 };
    if elf.elf_header().e_machine(endian) != own {
        return Some(Unreached::Foreign);
    }
    let loader = elf.elf_program_headers().iter().find(|header| header.p_type(endian) == PT_INTERP);
    let Some(loader) = loader.and_then(|header| header.interpreter(endian, cache).ok()?) else {
        return Some(Unreached::Static);
    };
    if loader.windows(4).any(|part| part == b"musl") {
        return Some(Unreached::Musl);
    }
    let has_symbol = |is_wanted: fn(&str, bool) -> bool| {
        elf.dynamic_symbols()
            .any(|symbol| symbol.name().is_ok_and(|name| is_wanted(name, symbol.is_definition())))
    };
    // A sanitizer's library must be loaded first, or it ends the program.
    if has_symbol(|name, _| SANITIZERS.contains(&name)) {
        return Some(Unreached::Sanitized);
    }
    has_symbol(|name, is_own| is_own && name == "malloc").then_some(Unreached::OwnMalloc)
}

const SANITIZERS: [&str; 4] = ["__asan_init", "__tsan_init", "__msan_init", "__hwasan_init"];

/// The first bytes of a file, which include the first line of a script.
fn beginning(program: &Path) -> Result<Vec<u8>, Error> {
    let read = || {
        let mut bytes = Vec::new();
        File::open(program)?.take(256).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read().map_err(|error| Error::refused("read", program, error))
}

/// An interpreter may itself be a script; the kernel permits this depth.
const INTERPRETERS_MAX: usize = 5;

const ELF_MAGIC: &[u8] = b"\x7fELF";
const SHELL: &str = "/bin/sh";

/// The program that a script names in its first line; after `env`, the first word that is not an option and
/// sets no variable. A text without such a line is run by the shell, as by `execvp`.
fn interpreter(bytes: &[u8]) -> Option<PathBuf> {
    let line = bytes.split(|&byte| byte == b'\n').next()?;
    let Some(line) = line.strip_prefix(b"#!") else {
        let is_text = !line.contains(&0) && !bytes.starts_with(ELF_MAGIC);
        return is_text.then(|| PathBuf::from(SHELL));
    };
    let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
    let program = PathBuf::from(words.next()?);
    if program.file_name()? != "env" {
        return Some(program);
    }
    words.find(|word| !word.starts_with('-') && !word.contains('=')).and_then(find)
}

/// Whether the kernel gives a program privileges that its caller does not have; root has them all.
fn gains_rights(program: &Path) -> Result<bool, Error> {
    let file = fs::metadata(program).map_err(|error| Error::refused("read", program, error))?;
    let (is_setuid, is_setgid) = (file.mode() & 0o4000 != 0, file.mode() & 0o2000 != 0);
    let is_other = is_setuid && file.uid() != process::user();
    let mut room = [0; 64];
    let has_capabilities = rustix::fs::getxattr(program, "security.capability", &mut room).is_ok();
    Ok(is_other || is_setgid || (has_capabilities && !process::is_root()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn file(content: &[u8], mode: u32) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        (folder, path)
    }

    #[test]
    fn an_ordinary_program_or_script_can_be_served() {
        let shell = find("sh").unwrap();
        assert_eq!(unreached(&shell).unwrap(), None);
        let script = format!("#!{} -e\n", shell.display());
        let (_folder, path) = file(script.as_bytes(), 0o755);
        assert_eq!(unreached(&path).unwrap(), None);
        for text in ["echo a script without an interpreter line\n", ""] {
            let (_folder, path) = file(text.as_bytes(), 0o755);
            assert_eq!(unreached(&path).unwrap(), None, "{text}");
        }
        for line in
            ["#!/usr/bin/env sh\n", "#!/usr/bin/env -S sh -e\n", "#!/usr/bin/env -S A=b sh\n"]
        {
            let (_folder, path) = file(line.as_bytes(), 0o755);
            assert_eq!(unreached(&path).unwrap(), None, "{line}");
            let (_folder, path) = file(format!("#!{}\n", path.display()).as_bytes(), 0o755);
            assert_eq!(unreached(&path).unwrap(), None, "a script that {line} runs");
        }
    }

    #[test]
    fn a_file_that_is_not_a_program_is_foreign() {
        let (_folder, path) = file(b"MZ\x90\0\x03", 0o755);
        assert_eq!(unreached(&path).unwrap(), Some(Unreached::Foreign));
        assert!(unreached(Path::new("/nowhere")).is_err());
    }

    #[test]
    fn a_program_is_found_as_a_shell_finds_it() {
        assert!(find("sh").unwrap().is_absolute());
        assert_eq!(find("no-such-program"), None);
        let (_folder, path) = file(b"", 0o644);
        assert_eq!(find(path.to_str().unwrap()), None);
    }

    #[test]
    fn a_symbol_of_a_library_is_found() {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let line = maps.lines().find(|line| line.contains("/libc.so")).expect("libc is loaded");
        let library = PathBuf::from(line.split_ascii_whitespace().last().unwrap());
        assert!(symbol_offset(&library, "malloc").unwrap().is_some_and(|offset| offset > 0));
        assert_eq!(symbol_offset(&library, "no_such_symbol").unwrap(), None);
    }
}
