//! Areas of swap, from `/proc/swaps`.

use std::path::PathBuf;

use crate::{Error, Root};

/// One area of swap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Area {
    /// The file or device.
    pub path: PathBuf,
    /// Whether it is a file of a file system.
    pub is_file: bool,
    /// Bytes it holds.
    pub bytes: u64,
    /// Bytes in use.
    pub bytes_used: u64,
    /// Higher is used first; equal ones take turns.
    pub priority: i32,
}

/// The areas in use, in the kernel's order.
///
/// # Errors
/// What the operating system refuses, or a line that is not of the known form.
pub fn areas(root: &Root) -> Result<Vec<Area>, Error> {
    let text = root.read("/proc/swaps")?.unwrap_or_default();
    let area = |line| {
        parse(line).ok_or_else(|| {
            Error::unexpected("/proc/swaps", format!("expected a path and four fields: {line:?}"))
        })
    };
    text.lines().skip(1).filter(|line| !line.trim().is_empty()).map(area).collect()
}

fn parse(line: &str) -> Option<Area> {
    let mut fields = line.split_whitespace().rev();
    let priority = fields.next()?.parse().ok()?;
    let used_kibibytes: u64 = fields.next()?.parse().ok()?;
    let kibibytes: u64 = fields.next()?.parse().ok()?;
    let is_file = fields.next()? == "file";
    let path = fields.next()?;
    Some(Area {
        path: unescape(path),
        is_file,
        bytes: kibibytes * 1024,
        bytes_used: used_kibibytes * 1024,
        priority,
    })
}

/// The kernel writes blanks and line ends in paths as a backslash and three octal digits.
fn unescape(path: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&byte, others)) = rest.split_first() {
        let code = rest.get(1..4).and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(code) if byte == b'\\' => {
                bytes.push(code);
                rest = &rest[4..];
            }
            _ => {
                bytes.push(byte);
                rest = others;
            }
        }
    }
    PathBuf::from(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_are_read_with_blanks_in_their_paths() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("proc")).unwrap();
        let text = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n\
                    /dev/zram0                              partition\t524284\t\t1024\t\t100\n\
                    /var/swap\\040file                      file\t\t1048572\t\t0\t\t-2\n";
        std::fs::write(folder.path().join("proc/swaps"), text).unwrap();
        let areas = areas(&Root::at(folder.path())).unwrap();
        assert_eq!(areas.len(), 2);
        assert_eq!((areas[0].bytes, areas[0].bytes_used), (524284 * 1024, 1024 * 1024));
        assert_eq!(areas[1].path, PathBuf::from("/var/swap file"));
        assert_eq!((areas[1].is_file, areas[1].priority), (true, -2));
    }

    #[test]
    fn another_form_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("proc")).unwrap();
        std::fs::write(folder.path().join("proc/swaps"), "Filename\nwhat is this\n").unwrap();
        let error = areas(&Root::at(folder.path())).unwrap_err().to_string();
        assert!(error.contains("/proc/swaps") && error.contains("what is this"), "{error}");
    }
}
