//! Network block devices (NBD): block devices whose requests the kernel sends through a socket, here one of a pair
//! within this machine.
//!
//! A device is connected and reconnected by generic netlink, since with the older ioctls the connection ends with the
//! process that made it. Each device has an identifier, by which it is found again (Linux 5.14).

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use neli::consts::nl::NlmF;
use neli::consts::socket::NlFamily;
use neli::err::{RouterError, SerError};
use neli::genl::{AttrTypeBuilder, Genlmsghdr, GenlmsghdrBuilder, Nlattr, NlattrBuilder};
use neli::nl::NlPayload;
use neli::router::synchronous::NlRouter;
use neli::types::{Buffer, GenlBuffer};
use neli::utils::Groups;
use neli::{Size, ToBytes};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use crate::{Error, Root};

/// The name of the netlink family, and the version of its messages.
const FAMILY: &str = "nbd";
const VERSION: u8 = 1;

// Commands and attributes of include/uapi/linux/nbd-netlink.h.
const CONNECT: u8 = 1;
const DISCONNECT: u8 = 2;
const RECONFIGURE: u8 = 3;
const INDEX: u16 = 1;
const SIZE_BYTES: u16 = 2;
const BLOCK_SIZE_BYTES: u16 = 3;
const SERVER_FLAGS: u16 = 5;
const CLIENT_FLAGS: u16 = 6;
const SOCKETS: u16 = 7;
const DEAD_CONN_TIMEOUT: u16 = 8;
const BACKEND_IDENTIFIER: u16 = 10;
const SOCK_ITEM: u16 = 1;
const SOCK_FD: u16 = 1;

// Flags of include/uapi/linux/nbd.h.
const HAS_FLAGS: u64 = 1;
const SEND_FLUSH: u64 = 1 << 2;
const SEND_TRIM: u64 = 1 << 5;
const DESTROY_ON_DISCONNECT: u64 = 1;

/// Requests that arrive while no server is there wait this many seconds for one, and then fail.
pub const RECONNECT_S: u64 = 30;
/// How many numbers of new devices are tried.
const TRIES_MAX: u32 = 16;
/// Milliseconds after which the kernel looks at a request without an answer, and sends it again if a new server has
/// come meanwhile.
const RESEND_MS: u32 = 1000;

/// An NBD device. It stays connected until [`NbdDevice::disconnect`], whatever becomes of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NbdDevice {
    index: u32,
    path: PathBuf,
    identifier: String,
}

/// What a new device is like.
#[derive(Clone, Copy, Debug)]
pub struct NbdParameters<'a> {
    /// The name by which the device is found again.
    pub identifier: &'a str,
    /// The size of the device, a multiple of the block.
    pub bytes: u64,
    /// The size of its blocks.
    pub block_bytes: u64,
    /// The largest request that it gets.
    pub request_bytes_max: usize,
    /// Whether the content must survive the server: then the kernel sends no discards.
    pub is_durable: bool,
}

impl NbdDevice {
    /// Makes a device and connects it to the kernel's end of a [`pair`]. Another thread has to serve the other end meanwhile:
    /// programs may read the device as soon as it is there.
    ///
    /// # Errors
    /// The kernel has no NBD, or refuses.
    pub fn connect(
        root: &Root,
        parameters: NbdParameters<'_>,
        kernels: &OwnedFd,
    ) -> Result<NbdDevice, Error> {
        let netlink = Netlink::open()?;
        let mut refusal = None;
        let next = next_index(root)?;
        let trim = if parameters.is_durable { 0 } else { SEND_TRIM };
        for index in next..next + TRIES_MAX {
            let attributes = vec![
                attribute(INDEX, index)?,
                attribute(SIZE_BYTES, parameters.bytes)?,
                attribute(BLOCK_SIZE_BYTES, parameters.block_bytes)?,
                attribute(SERVER_FLAGS, HAS_FLAGS | SEND_FLUSH | trim)?,
                // The device goes with its connection, so no other program gets its settings.
                attribute(CLIENT_FLAGS, DESTROY_ON_DISCONNECT)?,
                attribute(DEAD_CONN_TIMEOUT, RECONNECT_S)?,
                attribute(BACKEND_IDENTIFIER, parameters.identifier)?,
                socket(kernels)?,
            ];
            if let Err(error) = netlink.ask(CONNECT, attributes) {
                let is_taken = error.raw_os_error() == Some(libc::EBUSY);
                refusal = Some(Error::refused("connect it", path(index), error));
                // Another program may take the number first.
                if is_taken {
                    continue;
                }
                break;
            }
            let device = NbdDevice::adopt(index, parameters.identifier.to_owned());
            let kilobytes = (parameters.request_bytes_max >> 10) as u32;
            let set = device
                .set(root, "max_sectors_kb", kilobytes)
                .and_then(|()| device.set(root, "io_timeout", RESEND_MS));
            if let Err(error) = set {
                device.disconnect()?;
                return Err(error);
            }
            return Ok(device);
        }
        Err(refusal.expect("a number was tried"))
    }

    /// Connects a device whose server ended to the kernel's end of a new [`pair`]. Requests without an answer come
    /// again.
    ///
    /// # Errors
    /// The device has a server, was disconnected, or the kernel refuses.
    pub fn reconnect(&self, kernels: &OwnedFd) -> Result<(), Error> {
        let answer = Netlink::open()?.ask(
            RECONFIGURE,
            vec![
                attribute(INDEX, self.index)?,
                attribute(BACKEND_IDENTIFIER, self.identifier.as_str())?,
                socket(kernels)?,
            ],
        );
        answer.map_err(|error| Error::refused("reconnect it", &self.path, error))
    }

    /// Disconnects the device; its requests without an answer fail. Does nothing if it is not connected.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn disconnect(&self) -> Result<(), Error> {
        match Netlink::open()?.ask(DISCONNECT, vec![attribute(INDEX, self.index)?]) {
            Ok(()) => Ok(()),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
            Err(error) => Err(Error::refused("disconnect it", &self.path, error)),
        }
    }

    /// The device with this identifier, if there is one.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn find(root: &Root, identifier: &str) -> Result<Option<NbdDevice>, Error> {
        for (index, name) in devices(root)? {
            let text = root.read(in_block(&name, "backend"))?.unwrap_or_default();
            if text.trim_end() == identifier {
                return Ok(Some(NbdDevice::adopt(index, identifier.to_owned())));
            }
        }
        Ok(None)
    }

    /// The device with this number and identifier, as [`NbdDevice::index`] and [`NbdDevice::identifier`] gave them to
    /// another process.
    pub fn adopt(index: u32, identifier: String) -> NbdDevice {
        NbdDevice { index, path: path(index), identifier }
    }

    /// The number of the device.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The name by which the device is found again.
    pub fn identifier(&self) -> &str {
        &self.identifier
    }

    /// The path of the device.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn set(&self, root: &Root, name: &str, value: u32) -> Result<(), Error> {
        let file = in_block(&format!("nbd{}", self.index), &format!("queue/{name}"));
        std::fs::write(root.path(&file), value.to_string())
            .map_err(|error| Error::refused("write", file, error))
    }
}

/// Whether the kernel has NBD now. A module that is not loaded does not count.
///
/// # Errors
/// The kernel has none: the reason.
pub fn probe() -> Result<(), Error> {
    Netlink::open().map(drop)
}

/// The number after those of all devices.
fn next_index(root: &Root) -> Result<u32, Error> {
    Ok(devices(root)?.last().map_or(0, |(index, _)| index + 1))
}

/// The numbers and names of all NBD devices.
fn devices(root: &Root) -> Result<Vec<(u32, String)>, Error> {
    let numbered = |name: String| {
        let index = name.strip_prefix("nbd")?.parse().ok()?;
        Some((index, name))
    };
    let mut devices: Vec<_> = root.list("/sys/block")?.into_iter().filter_map(numbered).collect();
    devices.sort();
    Ok(devices)
}

fn path(index: u32) -> PathBuf {
    PathBuf::from(format!("/dev/nbd{index}"))
}

fn in_block(name: &str, file: &str) -> PathBuf {
    Path::new("/sys/block").join(name).join(file)
}

/// A new connection: the server's end and the kernel's.
///
/// # Errors
/// The operating system refuses.
pub fn pair() -> Result<(OwnedFd, OwnedFd), Error> {
    socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .map_err(|error| Error::call("socketpair", error))
}

type Attribute = Nlattr<u16, Buffer>;

fn attribute(kind: u16, payload: impl Size + ToBytes) -> Result<Attribute, Error> {
    let kind = built(AttrTypeBuilder::default().nla_type(kind).build())?;
    built(NlattrBuilder::default().nla_type(kind).nla_payload(payload).build())
}

/// The list of the one socket of a connection.
fn socket(socket: &impl AsFd) -> Result<Attribute, Error> {
    let number = attribute(SOCK_FD, socket.as_fd().as_raw_fd() as u32)?;
    let item = attribute(SOCK_ITEM, Vec::<u8>::new())?.nest(&number).map_err(unsent)?;
    attribute(SOCKETS, Vec::<u8>::new())?.nest(&item).map_err(unsent)
}

fn built<T, E: std::fmt::Display>(built: Result<T, E>) -> Result<T, Error> {
    built.map_err(|error| Error::call("netlink", io::Error::other(error.to_string())))
}

fn unsent(error: SerError) -> Error {
    Error::call("netlink", io::Error::other(error.to_string()))
}

/// A connection to the kernel's NBD.
struct Netlink {
    router: NlRouter,
    family: u16,
}

impl Netlink {
    fn open() -> Result<Netlink, Error> {
        let opened = NlRouter::connect(NlFamily::Generic, None, Groups::empty());
        let (router, _) =
            opened.map_err(|error| Error::call("netlink", io::Error::other(error.to_string())))?;
        let family = router.resolve_genl_family(FAMILY).map_err(|_| {
            let reason = "the module nbd is not loaded: `modprobe nbd`";
            Error::call("NBD", io::Error::new(io::ErrorKind::NotFound, reason))
        })?;
        Ok(Netlink { router, family })
    }

    /// Sends a command and waits until the kernel has done it.
    fn ask(&self, command: u8, attributes: Vec<Attribute>) -> io::Result<()> {
        let other = |error: &dyn std::fmt::Display| io::Error::other(error.to_string());
        let attributes: GenlBuffer<u16, Buffer> = attributes.into_iter().collect();
        let message =
            GenlmsghdrBuilder::default().cmd(command).version(VERSION).attrs(attributes).build();
        let message = message.map_err(|error| other(&error))?;
        let answers = self
            .router
            .send::<_, _, u16, Genlmsghdr<u8, u16>>(
                self.family,
                NlmF::REQUEST | NlmF::ACK,
                NlPayload::Payload(message),
            )
            .map_err(|error| other(&error))?;
        for answer in answers {
            match answer {
                Ok(_) => {}
                Err(RouterError::Nlmsgerr(refusal)) => {
                    return Err(io::Error::from_raw_os_error(-refusal.error()));
                }
                Err(error) => return Err(other(&error)),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn devices_are_found_by_their_identifier_and_new_ones_follow_them() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        for (name, backend) in [("nbd0", Some("ours")), ("nbd10", None), ("nbd2", Some("theirs"))] {
            let block = root.path(Path::new("/sys/block").join(name));
            fs::create_dir_all(&block).unwrap();
            if let Some(backend) = backend {
                fs::write(block.join("backend"), format!("{backend}\n")).unwrap();
            }
        }
        fs::create_dir_all(root.path("/sys/block/vda")).unwrap();
        assert_eq!(next_index(&root).unwrap(), 11);
        let device = NbdDevice::find(&root, "theirs").unwrap().unwrap();
        assert_eq!((device.index, device.path()), (2, Path::new("/dev/nbd2")));
        assert_eq!(NbdDevice::find(&root, "another").unwrap(), None);
    }
}
