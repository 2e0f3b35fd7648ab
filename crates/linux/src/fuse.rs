//! The kernel's side of a file system in user space: `/dev/fuse`, without a library. A session of the crate `fuser`
//! demands the first message, INIT, from the kernel; a successor of a killed server never sees that message, so
//! this channel can also [`Channel::adopt`] a descriptor that is in use already.
//!
//! Contract: the file system is mounted nowhere. The caller reaches its files through the descriptor of the mount,
//! so no other process can, and it is gone with the last open file. The kernel aborts the connection when the last
//! descriptor of `/dev/fuse` is closed: then every open request ends with an error.

pub mod protocol;

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::{Errno, readv, writev};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_flag,
    fsconfig_set_string, fsmount, fsopen,
};
use zerocopy::{FromBytes, IntoBytes};

use crate::Error;
use protocol::{InHeader, OutHeader, WriteIn};

const DEVICE: &str = "/dev/fuse";

/// The bytes before the data of a write: the header, and the operands of a write.
pub const HEAD_BYTES: usize = size_of::<InHeader>() + size_of::<WriteIn>();

/// A connection to the kernel.
#[derive(Debug)]
pub struct Channel(OwnedFd);

/// A message of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The operation, and the file that it asks about.
    pub header: InHeader,
    /// The bytes after the first [`HEAD_BYTES`]; 0 if it is shorter.
    pub data_bytes: usize,
}

/// What a read of the channel gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A message.
    Message(Message),
    /// There is none at present.
    Nothing,
    /// The kernel ended the connection: the file system is gone.
    Ended,
}

impl Channel {
    /// Makes a file system whose reads have at most `read_bytes_max`. Returns the channel and the descriptor of the
    /// mount, below which its files are opened. The kernel's first message is INIT.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn mount(source: &str, read_bytes_max: usize) -> Result<(Channel, OwnedFd), Error> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let device = openat(CWD, DEVICE, flags, Mode::empty())
            .map_err(|error| Error::refused("open it", DEVICE, error.into()))?;
        let mount = mount(source, device.as_fd(), read_bytes_max)
            .map_err(|error| Error::refused("make a file system", DEVICE, error.into()))?;
        Ok((Channel(device), mount))
    }

    /// Takes over the descriptor of a channel that has had its INIT, from a server that ended. The kernel sends
    /// unanswered messages again after [`Channel::ask_again`].
    pub fn adopt(device: OwnedFd) -> Channel {
        Channel(device)
    }

    /// Makes the kernel send again every message that was read and is not answered (Linux 6.9). Such a message has
    /// the bit [`protocol::UNIQUE_RESEND`] in its number.
    ///
    /// # Errors
    /// The operating system refuses: EINVAL before Linux 6.9.
    pub fn ask_again(&self) -> Result<(), Errno> {
        self.send(0, protocol::NOTIFY_RESEND, &[])
    }

    /// Reads a message without waiting: its first bytes to `head`, the others to `data`. Both together must have
    /// room for the largest write.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn receive(&self, head: &mut [u8; HEAD_BYTES], data: &mut [u8]) -> Result<Received, Errno> {
        loop {
            let mut parts = [IoSliceMut::new(head), IoSliceMut::new(data)];
            return match readv(&self.0, &mut parts) {
                Ok(length) => Ok(match InHeader::read_from_prefix(&head[..]) {
                    Ok((header, _)) if length >= size_of::<InHeader>() => {
                        let data_bytes = length.saturating_sub(HEAD_BYTES);
                        Received::Message(Message { header, data_bytes })
                    }
                    _ => return Err(Errno::PROTO),
                }),
                Err(Errno::AGAIN) => Ok(Received::Nothing),
                Err(Errno::NODEV | Errno::CONNABORTED) => Ok(Received::Ended),
                // A request that a signal removed from the queue while it was read.
                Err(Errno::INTR | Errno::NOENT) => continue,
                Err(error) => Err(error),
            };
        }
    }

    /// Answers the message with the number `unique`: with the bytes of `parts`, or with an error.
    ///
    /// # Errors
    /// The operating system refuses: ENOENT if the message was interrupted and needs no answer.
    pub fn answer(&self, unique: u64, outcome: Result<&[u8], Errno>) -> Result<(), Errno> {
        match outcome {
            Ok(bytes) => self.send(unique, 0, bytes),
            Err(error) => self.send(unique, -error.raw_os_error(), &[]),
        }
    }

    fn send(&self, unique: u64, error: i32, bytes: &[u8]) -> Result<(), Errno> {
        let len = (size_of::<OutHeader>() + bytes.len()) as u32;
        let header = OutHeader { len, error, unique };
        let parts = [IoSlice::new(header.as_bytes()), IoSlice::new(bytes)];
        // An error must be the header and nothing else, and a part without bytes counts as a part.
        let count = if bytes.is_empty() { 1 } else { 2 };
        writev(&self.0, &parts[..count]).map(drop)
    }
}

impl AsFd for Channel {
    /// Readable when [`Channel::receive`] has something.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Mounts the file system, and attaches the mount to no folder.
fn mount(source: &str, device: BorrowedFd<'_>, read_bytes_max: usize) -> Result<OwnedFd, Errno> {
    use std::os::fd::AsRawFd;
    let context = fsopen("fuse", FsOpenFlags::FSOPEN_CLOEXEC)?;
    let context = context.as_fd();
    fsconfig_set_string(context, "source", source)?;
    fsconfig_set_string(context, "fd", device.as_raw_fd().to_string())?;
    fsconfig_set_string(context, "rootmode", "40000")?;
    fsconfig_set_string(context, "user_id", crate::process::user().to_string())?;
    fsconfig_set_string(context, "group_id", rustix::process::getegid().as_raw().to_string())?;
    fsconfig_set_string(context, "max_read", read_bytes_max.to_string())?;
    fsconfig_set_flag(context, "default_permissions")?;
    fsconfig_create(context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    fsmount(context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

#[cfg(test)]
mod tests {
    use super::protocol::{self, AttrOut, InitIn};
    use super::*;
    use crate::polling;
    use std::time::Duration;

    #[test]
    fn the_head_of_a_message_ends_where_the_data_of_a_write_begin() {
        assert_eq!(HEAD_BYTES, 80);
        assert_eq!((size_of::<OutHeader>(), size_of::<AttrOut>()), (16, 104));
    }

    #[test]
    fn the_first_message_is_init_and_dropping_the_channel_ends_the_file_system() {
        let (channel, mount) = match Channel::mount("pagewise-test", 1 << 16) {
            Ok(mounted) => mounted,
            Err(error) => return testkit::skipped(&error.to_string()),
        };
        assert!(polling::is_readable(&channel, Duration::from_secs(60)));
        let (mut head, mut data) = ([0; HEAD_BYTES], vec![0; 1 << 17]);
        let received = channel.receive(&mut head, &mut data).unwrap();
        let Received::Message(message) = received else { panic!("{received:?}") };
        assert_eq!(message.header.opcode, protocol::INIT);
        let (init, _) = InitIn::read_from_prefix(&head[size_of::<InHeader>()..]).unwrap();
        assert_eq!(init.major, 7);
        assert_eq!(channel.receive(&mut head, &mut data), Ok(Received::Nothing));
        drop(channel);
        let opened = openat(&mount, "swap", OFlags::RDWR, Mode::empty());
        assert_eq!(opened.unwrap_err(), Errno::NOTCONN);
    }
}
