//! Descriptors that another program left open for this one.
#![allow(unsafe_code, reason = "the number of a descriptor proves nothing about its owner")]

use std::os::fd::{FromRawFd, OwnedFd};

use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};

use crate::Error;

/// The descriptor with this number, which programs that this one starts do not inherit. Take each number once, and only
/// those that the starter named.
///
/// # Errors
/// There is no such descriptor, or it is a standard stream.
pub fn take(number: i32) -> Result<OwnedFd, Error> {
    const STANDARD_STREAMS: i32 = 3;
    let refused = |error| Error::call("inherit a descriptor", error);
    if number < STANDARD_STREAMS {
        return Err(refused(rustix::io::Errno::BADF));
    }
    // SAFETY: borrowed for this call only, which finds out whether it is open.
    let borrowed = unsafe { std::os::fd::BorrowedFd::borrow_raw(number) };
    fcntl_getfd(borrowed).map_err(refused)?;
    fcntl_setfd(borrowed, FdFlags::CLOEXEC).map_err(refused)?;
    // SAFETY: it is open, and by the contract nothing else in this process owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::IntoRawFd;

    #[test]
    fn an_open_descriptor_is_taken_and_no_other() {
        let (reader, _writer) = std::io::pipe().unwrap();
        let number = OwnedFd::from(reader).into_raw_fd();
        let taken = take(number).unwrap();
        assert!(fcntl_getfd(&taken).unwrap().contains(FdFlags::CLOEXEC));
        for number in [-1, 0, 2, 100_000] {
            assert!(take(number).is_err(), "{number}");
        }
    }
}
