//! Waits until files are ready, up to a time. Waiting for one file allocates nothing.
//!
//! Contract: a signal ends a wait as if the time were over; the caller checks for it.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Waits up to `time` until `file` can be read, or has ended; returns whether it is so. A time that the clock cannot
/// represent means no limit.
pub fn is_readable(file: impl AsFd, time: Duration) -> bool {
    is_ready(file.as_fd(), PollFlags::IN, time)
}

/// Whether `file` can be written without waiting.
pub fn is_writable(file: impl AsFd) -> bool {
    is_ready(file.as_fd(), PollFlags::OUT, Duration::ZERO)
}

/// Waits up to `time` until one of `files` can be read.
pub fn wait_for_any<'a>(files: impl Iterator<Item = BorrowedFd<'a>>, time: Duration) {
    let mut ready: Vec<PollFd<'_>> =
        files.map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN)).collect();
    let _ = poll(&mut ready, Timespec::try_from(time).ok().as_ref());
}

fn is_ready(file: BorrowedFd<'_>, flags: PollFlags, time: Duration) -> bool {
    let mut ready = [PollFd::from_borrowed_fd(file, flags)];
    let time = Timespec::try_from(time).ok();
    poll(&mut ready, time.as_ref()).is_ok_and(|count| count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::time::Instant;

    #[test]
    fn a_pipe_is_ready_once_it_has_bytes_or_room() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        assert!(!is_readable(&reader, Duration::from_millis(1)));
        let begun = Instant::now();
        wait_for_any([reader.as_fd()].into_iter(), Duration::from_millis(20));
        assert!(begun.elapsed() >= Duration::from_millis(20));
        assert!(is_writable(&writer));
        writer.write_all(b"x").unwrap();
        assert!(is_readable(&reader, Duration::MAX));
        wait_for_any([reader.as_fd()].into_iter(), Duration::MAX);
        rustix::io::ioctl_fionbio(&writer, true).unwrap();
        while writer.write(&[0; 4096]).is_ok() {}
        assert!(!is_writable(&writer));
    }
}
