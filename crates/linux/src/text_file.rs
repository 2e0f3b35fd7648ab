//! Reads text files that users name: settings, plans, logs.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Reads the text of the file at `path`, of at most `mebibytes_max` MiB.
///
/// # Errors
/// The file cannot be read, is not a regular file (a device or a pipe may never end), is larger, or is not UTF-8.
pub fn read(path: &Path, mebibytes_max: u64) -> io::Result<String> {
    // Without NONBLOCK, opening a pipe would wait for its other end.
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let (mut bytes, bytes_max) = (Vec::new(), mebibytes_max << 20);
    file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(io::Error::other(format!("it is larger than {mebibytes_max} MiB")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let place = error.utf8_error().valid_up_to();
        io::Error::other(format!("it is not UTF-8 text from byte {place} on"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn devices_pipes_large_files_and_binary_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.toml");
        std::fs::write(&path, "name = 'a'").unwrap();
        assert_eq!(read(&path, 1).unwrap(), "name = 'a'");
        std::fs::write(&path, b"name\xff").unwrap();
        let refused = |path: &Path| read(path, 1).unwrap_err().to_string();
        assert_eq!(refused(&path), "it is not UTF-8 text from byte 4 on");
        File::create(&path).unwrap().set_len((1 << 20) + 1).unwrap();
        assert_eq!(refused(&path), "it is larger than 1 MiB");
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        for path in [Path::new("/dev/zero"), folder.path(), &pipe] {
            assert_eq!(refused(path), "it is not a regular file");
        }
    }
}
