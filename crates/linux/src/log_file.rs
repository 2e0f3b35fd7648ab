//! A file for lines of a log that never blocks its writer: a line that the reader is too slow for is refused.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::{FileType, OFlags, fstat};
use rustix::io::write;

use crate::polling;

/// The longest line: a write of this size to a pipe is atomic (PIPE_BUF).
pub const LINE_MAX: usize = 4096;

/// The file of a log.
#[derive(Debug)]
pub struct LogFile {
    file: File,
    /// Whether a write may block, so that it is polled first.
    may_wait: bool,
}

impl LogFile {
    /// Standard output.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn standard() -> io::Result<LogFile> {
        let own = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        let kind = FileType::from_raw_mode(fstat(&own)?.st_mode);
        if kind == FileType::RegularFile {
            return Ok(LogFile { file: own, may_wait: false });
        }
        // Other processes share standard output, so open it again to make only this descriptor
        // non-blocking. A socket, such as the journal's, cannot be opened again: `write` polls it first.
        let flags = OFlags::NONBLOCK.bits() as i32;
        let reopened = OpenOptions::new().write(true).custom_flags(flags).open("/proc/self/fd/1");
        Ok(match reopened {
            Ok(file) => LogFile { file, may_wait: false },
            Err(_) => LogFile::to(own),
        })
    }

    /// The caller's file.
    pub fn to(file: File) -> LogFile {
        LogFile { file, may_wait: true }
    }

    /// Writes a line of up to `LINE_MAX` bytes; returns false if the reader is not ready for it. Allocates nothing.
    pub fn write(&self, line: &[u8]) -> bool {
        (!self.may_wait || polling::is_writable(&self.file)) && write(&self.file, line).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::OwnedFd;

    #[test]
    fn a_full_pipe_refuses_whole_lines() {
        let (mut reader, writer) = io::pipe().unwrap();
        let log = LogFile::to(File::from(OwnedFd::from(writer)));
        let written = (0..100).filter(|_| log.write(&[b'x'; LINE_MAX])).count();
        assert!((1..100).contains(&written), "{written}");
        drop(log);
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes.len(), written * LINE_MAX);
    }
}
