//! A file of the kernel that is read repeatedly without allocating, so that it can be read when memory is short.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::{Error, Root};

/// A file that stays open, and a buffer for its text.
#[derive(Debug)]
pub struct KernelFile {
    file: File,
    text: Box<[u8]>,
}

impl KernelFile {
    /// Opens the absolute `path` with a buffer of `room` bytes; None if there is no such file.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn open(
        root: &Root,
        path: impl AsRef<Path>,
        room: usize,
    ) -> Result<Option<KernelFile>, Error> {
        match OpenOptions::new().read(true).open(root.path(&path)) {
            Ok(file) => Ok(Some(KernelFile { file, text: vec![0; room].into() })),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::refused("open", path, error)),
        }
    }

    /// Reads its text, up to the size of the buffer; None if the kernel refuses.
    pub fn text(&mut self) -> Option<&[u8]> {
        let length = self.file.read_at(&mut self.text, 0).ok()?;
        Some(&self.text[..length])
    }

    /// Reads the number at its beginning; None for another text, such as `max`.
    pub fn number(&mut self) -> Option<u64> {
        number(self.text()?)
    }
}

/// The number after `name` at the beginning of a line; an optional colon and blanks are skipped.
pub fn field(text: &[u8], name: &[u8]) -> Option<u64> {
    number(value(text, name)?)
}

/// The mask after `name` at the beginning of a line, in hexadecimal digits.
pub fn mask(text: &[u8], name: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(value(text, name)?.trim_ascii_end()).ok()?;
    u64::from_str_radix(digits, 16).ok()
}

/// The rest of the line that begins with `name`, a blank or a colon.
fn value<'text>(text: &'text [u8], name: &[u8]) -> Option<&'text [u8]> {
    let rest = text.split(|&byte| byte == b'\n').find_map(|line| {
        let rest = line.strip_prefix(name)?;
        rest.first().is_some_and(|&byte| byte == b' ' || byte == b':').then_some(rest)
    })?;
    Some(rest.strip_prefix(b":").unwrap_or(rest).trim_ascii_start())
}

/// The size after `name`, in bytes; the kernel writes it in kB.
pub fn bytes(text: &[u8], name: &[u8]) -> Option<u64> {
    field(text, name)?.checked_mul(1024)
}

/// The number at the beginning of a text.
pub fn number(text: &[u8]) -> Option<u64> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&text[..digits]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_full_name() {
        let text = b"MemTotal:       24592 kB\nMemFree: 7 kB\npgscan_direct 12\npgscan 99\n";
        assert_eq!((field(text, b"MemFree"), bytes(text, b"MemFree")), (Some(7), Some(7168)));
        assert_eq!(field(text, b"pgscan"), Some(99));
        assert_eq!(field(text, b"pgscan_direct"), Some(12));
        assert_eq!(field(text, b"Mem"), None);
        assert_eq!(number(b"max\n"), None);
        let status = b"SigQ:\t0/7\nSigIgn:\t0000000000001000\nCapEff:\tx\n";
        assert_eq!((mask(status, b"SigIgn"), mask(status, b"CapEff")), (Some(4096), None));
    }

    #[test]
    fn each_read_returns_the_present_text() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        assert!(KernelFile::open(&root, "/current", 16).unwrap().is_none());
        std::fs::write(root.path("/current"), "4096\n").unwrap();
        let mut file = KernelFile::open(&root, "/current", 16).unwrap().unwrap();
        assert_eq!(file.number(), Some(4096));
        std::fs::write(root.path("/current"), "max\n").unwrap();
        assert_eq!((file.number(), file.text().unwrap()), (None, &b"max\n"[..]));
    }
}
