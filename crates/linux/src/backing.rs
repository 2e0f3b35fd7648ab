//! Memory that the host of a virtual machine has given to it.
#![allow(unsafe_code, reason = "a mapping by its address")]

use std::ptr::null_mut;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::Error;

/// Touches `bytes` of memory once and frees them again. The host backs a page when the guest touches it for the
/// first time, which takes longer than any later use; the kernel hands out recently freed pages first.
///
/// # Errors
/// The operating system refuses.
pub fn touch(bytes: usize) -> Result<(), Error> {
    let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
    // SAFETY: a new mapping at an address that the kernel chooses.
    let memory =
        unsafe { mmap_anonymous(null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags) }
            .map_err(|error| Error::call("mmap", error))?;
    // SAFETY: the mapping above, to which no reference exists.
    unsafe { munmap(memory, bytes) }.map_err(|error| Error::call("munmap", error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Root, system};

    #[test]
    fn all_bytes_are_touched_at_once() {
        let bytes = 256 << 20;
        touch(bytes).unwrap();
        assert!(system::peak_bytes(&Root::system()).unwrap() >= bytes as u64);
        assert!(touch(0).is_err());
    }
}
