//! Text files of the user: plans and usage logs.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::Error;

/// More than any plan or usage log holds.
const BYTES_MAX: u64 = 64 << 20;

/// The text of the file at `path`.
///
/// # Errors
/// It cannot be read, is no file (a device or a pipe may never end), larger than 64 MiB or no UTF-8.
pub(crate) fn read(path: &Path) -> Result<String, Error> {
    let text = || {
        // Before it is opened: a pipe would wait for its other end.
        let metadata = path.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("it is not a file: give one"));
        }
        let mut bytes = Vec::new();
        File::open(path)?.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > BYTES_MAX {
            return Err(io::Error::other("it is larger than 64 MiB"));
        }
        String::from_utf8(bytes).map_err(|error| {
            let place = error.utf8_error().valid_up_to();
            io::Error::other(format!("it is no UTF-8 text from byte {place} on"))
        })
    };
    text().map_err(|error| Error::file("read", path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_of_an_end_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.toml");
        std::fs::write(&path, "name = 'a'").unwrap();
        assert_eq!(read(&path).unwrap(), "name = 'a'");
        std::fs::write(&path, b"name\xff").unwrap();
        let refused = |path: &Path| match read(path) {
            Err(Error::Refused(message)) => message,
            other => panic!("{other:?}"),
        };
        assert!(refused(&path).ends_with("it is no UTF-8 text from byte 4 on"));
        File::create(&path).unwrap().set_len(BYTES_MAX + 1).unwrap();
        assert!(refused(&path).ends_with("it is larger than 64 MiB"));
        assert!(refused(Path::new("/dev/zero")).ends_with("it is not a file: give one"));
    }
}
