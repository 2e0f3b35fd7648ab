//! A zram device that compresses pages to measure their sizes, one page after the other, and holds none for longer.
//!
//! Contract: the device belongs to the caller, who adds it with [`crate::zram::add`] and removes it with
//! [`crate::zram::remove`]. Pages go to it past the page cache.
#![allow(unsafe_code, reason = "BLKDISCARD has no wrapper")]

use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::{pread, pwrite};

use crate::kernel_file::KernelFile;
use crate::{Error, Root, zram};

/// `_IO(0x12, 119)` of linux/fs.h.
const BLKDISCARD: libc::Ioctl = 0x1277;
/// The field `compr_data_size` of `mm_stat`.
const COMPRESSED_FIELD: usize = 1;
const TEXT_BYTES: usize = 256;

/// A zram device with a compressor, of a few pages.
#[derive(Debug)]
pub struct TrialDevice {
    number: u32,
    device: OwnedFd,
    counts: KernelFile,
    page_bytes: u64,
    pages: u64,
}

impl TrialDevice {
    /// Sets up device `number`, which is new, with this compressor and room for `pages` pages of `page_bytes`.
    ///
    /// # Errors
    /// The kernel has no such compressor, or the operating system refuses.
    pub fn set_up(
        root: &Root,
        number: u32,
        compressor: &str,
        pages: u64,
        page_bytes: u64,
    ) -> Result<TrialDevice, Error> {
        for setting in zram::settings(number, Some(compressor), pages * page_bytes) {
            setting.apply(root)?;
        }
        let path = zram::path(number);
        let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC | OFlags::EXCL;
        let device = openat(CWD, root.path(&path), flags, Mode::empty())
            .map_err(|error| Error::refused("open", &path, error.into()))?;
        let path = format!("/sys/block/zram{number}/mm_stat");
        let counts = KernelFile::open(root, &path, TEXT_BYTES)?
            .ok_or_else(|| Error::unexpected(path, "this kernel does not have it"))?;
        Ok(TrialDevice { number, device, counts, page_bytes, pages })
    }

    /// Stores a page, which begins at a multiple of the page size in memory, as page `slot` of the device.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn write(&self, slot: u64, page: &[u8]) -> Result<(), Error> {
        match pwrite(&self.device, page, slot * self.page_bytes) {
            Ok(length) if length == page.len() => Ok(()),
            Ok(_) => Err(self.refused("write a whole page to", rustix::io::Errno::IO)),
            Err(error) => Err(self.refused("write", error)),
        }
    }

    /// Gets page `slot` back into `target`, which begins at a multiple of the page size in memory.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn read(&self, slot: u64, target: &mut [u8]) -> Result<(), Error> {
        let wanted = target.len();
        match pread(&self.device, target, slot * self.page_bytes) {
            Ok(length) if length == wanted => Ok(()),
            Ok(_) => Err(self.refused("read a whole page of", rustix::io::Errno::IO)),
            Err(error) => Err(self.refused("read", error)),
        }
    }

    /// Frees all pages of the device.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn clear(&self) -> Result<(), Error> {
        let range = [0_u64, self.pages * self.page_bytes];
        // SAFETY: the kernel reads two numbers from `range`, which outlives the call.
        let result = unsafe { libc::ioctl(self.device.as_raw_fd(), BLKDISCARD, range.as_ptr()) };
        match result {
            0 => Ok(()),
            _ => {
                let error = std::io::Error::last_os_error();
                Err(Error::refused("free the pages of", zram::path(self.number), error))
            }
        }
    }

    /// The bytes of all pages that the device holds, compressed: `compr_data_size`. A page that zram stores as it is
    /// counts whole, and a page of equal words not at all.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn compressed_bytes(&mut self) -> Result<u64, Error> {
        let text = self.counts.text().and_then(|text| std::str::from_utf8(text).ok());
        let field = text.and_then(|text| text.split_ascii_whitespace().nth(COMPRESSED_FIELD));
        field.and_then(|field| field.parse().ok()).ok_or_else(|| {
            let path = format!("/sys/block/zram{}/mm_stat", self.number);
            Error::unexpected(path, "expected the statistics of a zram device")
        })
    }

    fn refused(&self, what: &str, error: rustix::io::Errno) -> Error {
        Error::refused(what, zram::path(self.number), error.into())
    }
}
