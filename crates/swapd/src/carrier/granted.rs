//! The carriers that this program has, and the one that a kernel grants.

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use linux::Root;
use linux::features::is_at_least;
use linux::loop_device::LoopDevice;
use linux::nbd::NbdDevice;
use linux::swap::Identity;
use linux::ublk::UblkDevice;
use linux::zram;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

use super::fuse::FuseCarrier;
use super::nbd::NbdCarrier;
use super::ublk::UblkCarrier;
use super::{Carrier, NewDevice, Request, Tag};
use crate::Error;

/// The name of an area that tools such as `blkid` show.
pub const LABEL: [u8; 16] = *b"pagewise\0\0\0\0\0\0\0\0";
/// The first Linux whose FUSE sends open requests again to a successor (FUSE_NOTIFY_RESEND).
const FUSE_RESEND_SINCE: (u32, u32) = (6, 9);

/// The kinds of carriers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CarrierKind {
    /// A block device whose requests come through io_uring.
    Ublk,
    /// A network block device.
    Nbd,
    /// A loop device over a file that is served by FUSE.
    Fuse,
}

impl CarrierKind {
    /// Every kind, the best for this kernel first: those whose requests a successor gets before those whose pages are
    /// lost with the server, and among them the one that takes fewer instructions for a fault (bench/swapd_vm.py).
    pub fn preferred(kernel: &str) -> [CarrierKind; 3] {
        if is_at_least(kernel, FUSE_RESEND_SINCE) {
            [CarrierKind::Ublk, CarrierKind::Fuse, CarrierKind::Nbd]
        } else {
            [CarrierKind::Ublk, CarrierKind::Nbd, CarrierKind::Fuse]
        }
    }

    /// The name for users.
    pub fn name(self) -> &'static str {
        match self {
            CarrierKind::Ublk => "ublk",
            CarrierKind::Nbd => "nbd",
            CarrierKind::Fuse => "fuse",
        }
    }
}

/// The carrier that the kernel granted.
pub enum GrantedCarrier {
    /// A block device whose requests come through io_uring.
    Ublk(Box<UblkCarrier>),
    /// A network block device.
    Nbd(Box<NbdCarrier>),
    /// A loop device over a file that is served by FUSE.
    Fuse(Box<FuseCarrier>),
}

/// The block device of a carrier, which stays as long as this value.
#[derive(Debug)]
pub enum ServedDevice {
    /// Removed by [`ServedDevice::release`].
    Ublk(UblkDevice),
    /// Disconnected by [`ServedDevice::release`].
    Nbd(NbdDevice),
    /// Freed with its last user.
    Loop(LoopDevice),
    /// A zram device, which the kernel serves by itself. Removed by [`ServedDevice::release`].
    Zram {
        /// The number of the device.
        number: u32,
        /// The path of the device.
        path: PathBuf,
    },
}

/// The number by which a ublk device is found again that was made for this name.
pub fn ublk_key(name: &str) -> u64 {
    XxHash3_64::oneshot(name.as_bytes())
}

/// The identity of the swap area by which a zram device is found again that was made for this name.
pub fn zram_identity(name: &str) -> Identity {
    Identity { uuid: u128::from(ublk_key(name)).to_be_bytes(), label: LABEL }
}

impl GrantedCarrier {
    /// Makes a carrier of this kind, and its device. `name` is the name of neither another file nor another device.
    ///
    /// # Errors
    /// The kernel does not grant it.
    pub fn start(
        root: &Root,
        kind: CarrierKind,
        name: &str,
        shape: NewDevice<'_>,
    ) -> Result<(GrantedCarrier, ServedDevice), Error> {
        match kind {
            CarrierKind::Ublk => {
                let carrier = UblkCarrier::start(root, ublk_key(name), shape)?;
                let device = ServedDevice::Ublk(carrier.ublk().clone());
                Ok((GrantedCarrier::Ublk(Box::new(carrier)), device))
            }
            CarrierKind::Nbd => {
                let carrier = NbdCarrier::start(root, name, shape)?;
                let device = ServedDevice::Nbd(carrier.nbd().clone());
                Ok((GrantedCarrier::Nbd(Box::new(carrier)), device))
            }
            CarrierKind::Fuse => {
                let (carrier, device) = FuseCarrier::start(root, name, shape)?;
                Ok((GrantedCarrier::Fuse(Box::new(carrier)), ServedDevice::Loop(device)))
            }
        }
    }

    /// The kind of this carrier.
    pub fn kind(&self) -> CarrierKind {
        match self {
            GrantedCarrier::Ublk(_) => CarrierKind::Ublk,
            GrantedCarrier::Nbd(_) => CarrierKind::Nbd,
            GrantedCarrier::Fuse(_) => CarrierKind::Fuse,
        }
    }

    fn inner(&self) -> &dyn Carrier {
        match self {
            GrantedCarrier::Ublk(carrier) => carrier.as_ref(),
            GrantedCarrier::Nbd(carrier) => carrier.as_ref(),
            GrantedCarrier::Fuse(carrier) => carrier.as_ref(),
        }
    }

    fn inner_mut(&mut self) -> &mut dyn Carrier {
        match self {
            GrantedCarrier::Ublk(carrier) => carrier.as_mut(),
            GrantedCarrier::Nbd(carrier) => carrier.as_mut(),
            GrantedCarrier::Fuse(carrier) => carrier.as_mut(),
        }
    }
}

impl Carrier for GrantedCarrier {
    fn device(&self) -> &Path {
        self.inner().device()
    }

    fn next(&mut self) -> Result<Option<Request>, Error> {
        self.inner_mut().next()
    }

    fn data(&mut self, tag: Tag) -> &mut [u8] {
        self.inner_mut().data(tag)
    }

    fn finish(&mut self, tag: Tag, outcome: Result<(), Errno>) -> Result<(), Error> {
        self.inner_mut().finish(tag, outcome)
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.inner().descriptor()
    }
}

impl ServedDevice {
    /// The path of the device.
    pub fn path(&self) -> &Path {
        match self {
            ServedDevice::Ublk(device) => device.path(),
            ServedDevice::Nbd(device) => device.path(),
            ServedDevice::Loop(device) => device.path(),
            ServedDevice::Zram { path, .. } => path,
        }
    }

    /// The most bytes that one discard of the device may have; 0 if it takes none.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn discard_bytes_max(&self, root: &Root) -> Result<u64, Error> {
        let name = self.path().file_name().unwrap_or_default();
        let file = PathBuf::from("/sys/block").join(name).join("queue/discard_max_bytes");
        let text = root.read(file)?;
        Ok(text.and_then(|text| text.trim().parse().ok()).unwrap_or(0))
    }

    /// Gives the device up, whose name is `name`: nothing reads from it any more. Its number may be another device's
    /// already.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn release(self, root: &Root, name: &str) -> Result<(), Error> {
        match self {
            ServedDevice::Ublk(device) => {
                let own = UblkDevice::find(root, ublk_key(name))?.filter(|found| *found == device);
                Ok(own.map_or(Ok(()), |device| device.remove())?)
            }
            ServedDevice::Nbd(device) => {
                let own = NbdDevice::find(root, name)?.filter(|found| *found == device);
                Ok(own.map_or(Ok(()), |device| device.disconnect())?)
            }
            ServedDevice::Loop(device) => {
                drop(device);
                Ok(())
            }
            ServedDevice::Zram { number, .. } => match zram::holding(root, &zram_identity(name))? {
                Some(own) if own == number => Ok(zram::remove(root, number)?),
                _ => Ok(()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preferred_carrier_survives_its_server() {
        let [first, second, _] = CarrierKind::preferred("6.1.0-44-cloud-amd64");
        assert_eq!((first, second), (CarrierKind::Ublk, CarrierKind::Nbd));
        for kernel in ["6.9.0", "6.12.95+deb12-cloud-amd64", "7.0"] {
            assert_eq!(CarrierKind::preferred(kernel)[1], CarrierKind::Fuse, "{kernel}");
        }
    }
}
