//! The carrier for kernels without ublk: a loop device with direct I/O over a file that we serve by FUSE.
//!
//! The file is the only one of a file system that is mounted nowhere, so that no other process reaches it; only the
//! loop device keeps it. The device frees itself with its last user, and the file system with the device. When this
//! process dies, the kernel aborts the connection, and requests in progress end with an error, never with other
//! data.
//!
//! The path of a request: swap -> loop device -> its kernel thread, asynchronous direct I/O -> FUSE -> the table here.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use linux::fuse::protocol::{
    self, Attr, AttrOut, EntryOut, FallocateIn, InHeader, InitIn, InitOut, OpenOut, StatfsOut,
    WriteIn, WriteOut,
};
use linux::fuse::{Channel, HEAD_BYTES, Message, Received};
use linux::loop_device::LoopDevice;
use linux::page_buffers::PageBuffers;
use linux::{Root, polling};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use zerocopy::{FromBytes, IntoBytes};

use super::{Carrier, NewDevice, Operation, Request, SLOT_BYTES, Tag, slots_of};
use crate::Error;

/// The places in the table: the most requests in progress.
const PLACES: usize = 64;
/// The bytes of the largest read or write.
const DATA_BYTES_MAX: usize = 256 << 10;
/// The most asynchronous requests that the kernel keeps here. The other places are for those that it waits for:
/// discards, flushes and questions about the file.
const BACKGROUND_MAX: u16 = 48;
/// The node of the file; the root folder is node 1.
const FILE_NODE: u64 = 2;
/// Seconds that the kernel may keep what it knows about the file: for ever.
const KEPT_S: u64 = 1 << 30;
/// How often a start looks whether the device is there.
const START_PERIOD: Duration = Duration::from_millis(2);

// Modes of fallocate that a discard has.
const KEEP_SIZE: u32 = 1;
const PUNCH_HOLE: u32 = 2;

/// A served file below a loop device.
#[derive(Debug)]
pub struct FuseCarrier {
    /// Dropped before `mount`: without a server, the file system ends at once.
    channel: Channel,
    /// Keeps the file system when its file is closed, so that `next` is no error then.
    mount: Arc<OwnedFd>,
    file: ServedFile,
    device: PathBuf,
    buffers: PageBuffers,
    /// By place: the message that waits for an answer.
    open: [Option<Open>; PLACES],
    /// The places without a message, `free_count` of them.
    free: [u16; PLACES],
    free_count: usize,
}

/// The one file.
#[derive(Clone, Debug)]
pub struct ServedFile {
    /// The name of the file, by which its loop device is found.
    pub name: String,
    /// The size of the file.
    pub slots: u32,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    unique: u64,
    operation: Operation,
    bytes: u32,
}

/// What a message wants.
enum Wish {
    /// The engine must answer it.
    Request(Operation, u32, u32),
    /// The message is answered already, or needs no answer.
    Done,
}

impl FuseCarrier {
    /// Makes the file system and a loop device over its file. The caller keeps the device open as long as it
    /// needs it, and closes it in another thread than the one that serves: closing writes back.
    ///
    /// # Errors
    /// The operating system refuses FUSE, loop devices or locked memory.
    pub fn start(
        root: &Root,
        name: &str,
        shape: NewDevice<'_>,
    ) -> Result<(FuseCarrier, LoopDevice), Error> {
        let file = ServedFile { name: name.to_owned(), slots: shape.slots };
        let (channel, mount) = Channel::mount("pagewise", DATA_BYTES_MAX)?;
        let mount = Arc::new(mount);
        let mut carrier = FuseCarrier::over(channel, Arc::clone(&mount), file, PathBuf::new())?;
        let name = carrier.file.name.clone();
        let root = root.clone();
        // These calls wait for answers to the messages that they cause.
        let attaching = thread::spawn(move || attach(&root, &mount, &name));
        while !attaching.is_finished() {
            match carrier.next()? {
                Some(request) => shape.answer_early(&mut carrier, request)?,
                None => drop(polling::is_readable(&carrier.channel, START_PERIOD)),
            }
        }
        let device = attaching.join().expect("the thread does not panic")?;
        carrier.device = device.path().to_owned();
        Ok((carrier, device))
    }

    /// Takes over the channel of a server that ended. Messages that it read and did not answer come again.
    ///
    /// # Errors
    /// The kernel is older than 6.9, or there is too little memory.
    pub fn adopt(
        channel: OwnedFd,
        mount: OwnedFd,
        file: ServedFile,
        device: PathBuf,
    ) -> Result<FuseCarrier, Error> {
        let channel = Channel::adopt(channel);
        let carrier = FuseCarrier::over(channel, Arc::new(mount), file, device)?;
        match carrier.channel.ask_again() {
            Ok(()) => Ok(carrier),
            Err(Errno::INVAL) => Err(Error::Refused(
                "cannot take over a FUSE connection: before Linux 6.9 the kernel does not send open requests to a \
                 successor, so the pages of the area are lost and their programs get SIGBUS; use --through nbd there"
                    .to_owned(),
            )),
            Err(error) => Err(Error::refused("take over a FUSE connection", error)),
        }
    }

    /// What a successor needs for [`FuseCarrier::adopt`]: the channel and the mount.
    pub fn handles(&self) -> [BorrowedFd<'_>; 2] {
        [self.channel.as_fd(), self.mount.as_fd()]
    }

    /// The file that it serves.
    pub fn file(&self) -> &ServedFile {
        &self.file
    }

    fn over(
        channel: Channel,
        mount: Arc<OwnedFd>,
        file: ServedFile,
        device: PathBuf,
    ) -> Result<FuseCarrier, Error> {
        Ok(FuseCarrier {
            channel,
            mount,
            file,
            device,
            buffers: PageBuffers::new(PLACES, DATA_BYTES_MAX)?,
            open: [None; PLACES],
            free: std::array::from_fn(|place| place as u16),
            free_count: PLACES,
        })
    }

    fn wish(&mut self, place: u16, head: &[u8; HEAD_BYTES], message: Message) -> Wish {
        let InHeader { opcode, unique, nodeid, .. } = message.header;
        let operands = &head[size_of::<InHeader>()..];
        match opcode {
            protocol::READ | protocol::WRITE => match WriteIn::read_from_prefix(operands) {
                Ok((operands, _)) => self.transfer(opcode, unique, operands, message.data_bytes),
                Err(_) => self.deny(unique, Errno::INVAL),
            },
            protocol::FALLOCATE => match FallocateIn::read_from_prefix(operands) {
                Ok((operands, _)) => self.fallocate(unique, operands),
                Err(_) => self.deny(unique, Errno::INVAL),
            },
            protocol::FSYNC => Wish::Request(Operation::Flush, 0, 0),
            protocol::INIT => self.init(unique, operands),
            protocol::LOOKUP => self.lookup(unique, place, operands, message),
            protocol::GETATTR => {
                let attr = self.attr(nodeid);
                self.answer(unique, AttrOut { attr_valid: KEPT_S, attr, ..AttrOut::default() })
            }
            protocol::OPEN => {
                let open_flags = protocol::OPEN_DIRECT_IO
                    | protocol::OPEN_NO_FLUSH
                    | protocol::OPEN_PARALLEL_DIRECT_WRITES;
                self.answer(unique, OpenOut { open_flags, ..OpenOut::default() })
            }
            protocol::STATFS => {
                let bytes = SLOT_BYTES as u32;
                let (blocks, files) = (u64::from(self.file.slots), 2);
                let namelen = self.file.name.len() as u32;
                let sizes = StatfsOut {
                    blocks,
                    files,
                    bsize: bytes,
                    frsize: bytes,
                    namelen,
                    ..StatfsOut::default()
                };
                self.answer(unique, sizes)
            }
            protocol::RELEASE | protocol::FLUSH | protocol::DESTROY => self.grant(unique),
            protocol::FORGET | protocol::BATCH_FORGET => Wish::Done,
            // The kernel remembers this answer, and does not ask again.
            _ => self.deny(unique, Errno::NOSYS),
        }
    }

    fn transfer(&self, opcode: u32, unique: u64, wanted: WriteIn, data_bytes: usize) -> Wish {
        let operation = match opcode {
            protocol::READ => Operation::Read,
            _ => Operation::Write,
        };
        let bytes = wanted.size as usize;
        let has_data = operation == Operation::Read || data_bytes == bytes;
        match slots_of(self.file.slots, wanted.offset, u64::from(wanted.size)) {
            Some((first, slots)) if slots > 0 && bytes <= DATA_BYTES_MAX && has_data => {
                Wish::Request(operation, first, slots)
            }
            _ => self.deny(unique, Errno::INVAL),
        }
    }

    /// A discard; zeroing and allocating are refused.
    fn fallocate(&self, unique: u64, wanted: FallocateIn) -> Wish {
        if wanted.mode != PUNCH_HOLE | KEEP_SIZE {
            return self.deny(unique, Errno::OPNOTSUPP);
        }
        match slots_of(self.file.slots, wanted.offset, wanted.length) {
            Some((_, 0)) => self.grant(unique),
            Some((first, slots)) => Wish::Request(Operation::Discard, first, slots),
            None => self.deny(unique, Errno::INVAL),
        }
    }

    fn init(&self, unique: u64, operands: &[u8]) -> Wish {
        let offered = match InitIn::read_from_prefix(operands) {
            Ok((offered, _)) if offered.major == protocol::MAJOR => offered,
            _ => return self.deny(unique, Errno::PROTO),
        };
        let wanted =
            protocol::ASYNC_READ | protocol::BIG_WRITES | protocol::ASYNC_DIO | protocol::MAX_PAGES;
        let answer = InitOut {
            major: protocol::MAJOR,
            minor: protocol::MINOR.min(offered.minor),
            flags: wanted & offered.flags,
            max_background: BACKGROUND_MAX,
            congestion_threshold: BACKGROUND_MAX,
            max_write: DATA_BYTES_MAX as u32,
            time_gran: 1,
            max_pages: (DATA_BYTES_MAX / SLOT_BYTES) as u16,
            ..InitOut::default()
        };
        self.answer(unique, answer)
    }

    /// The name ends with a NUL byte, and may go on in the data.
    fn lookup(&self, unique: u64, place: u16, operands: &[u8], message: Message) -> Wish {
        let data = &self.buffers.get(usize::from(place))[..message.data_bytes];
        let name = operands.iter().chain(data).take_while(|&&byte| byte != 0);
        if !name.eq(self.file.name.as_bytes()) {
            return self.deny(unique, Errno::NOENT);
        }
        self.answer(
            unique,
            EntryOut {
                nodeid: FILE_NODE,
                entry_valid: KEPT_S,
                attr_valid: KEPT_S,
                attr: self.attr(FILE_NODE),
                ..EntryOut::default()
            },
        )
    }

    fn attr(&self, node: u64) -> Attr {
        const FOLDER: u32 = 0o040_700;
        const FILE: u32 = 0o100_600;
        let size = match node {
            FILE_NODE => u64::from(self.file.slots) * SLOT_BYTES as u64,
            _ => 0,
        };
        let mode = if node == FILE_NODE { FILE } else { FOLDER };
        let blksize = SLOT_BYTES as u32;
        Attr { ino: node, size, blocks: size / 512, mode, nlink: 1, blksize, ..Attr::default() }
    }

    fn answer(&self, unique: u64, answer: impl IntoBytes + zerocopy::Immutable) -> Wish {
        // A message that needs no answer any more is no error; if the connection has ended, the next
        // `receive` says so.
        let _ = self.channel.answer(unique, Ok(answer.as_bytes()));
        Wish::Done
    }

    fn grant(&self, unique: u64) -> Wish {
        let _ = self.channel.answer(unique, Ok(&[]));
        Wish::Done
    }

    fn deny(&self, unique: u64, error: Errno) -> Wish {
        let _ = self.channel.answer(unique, Err(error));
        Wish::Done
    }
}

/// Opens the file below `mount` and attaches it to a loop device.
fn attach(root: &Root, mount: &OwnedFd, name: &str) -> Result<LoopDevice, Error> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = openat(mount, name, flags, Mode::empty());
    let file = file.map_err(|error| Error::refused("open the file that swapd serves", error))?;
    Ok(LoopDevice::attach(root, &file, SLOT_BYTES as u32)?)
}

impl Carrier for FuseCarrier {
    fn device(&self) -> &Path {
        &self.device
    }

    fn next(&mut self) -> Result<Option<Request>, Error> {
        while self.free_count > 0 {
            let place = self.free[self.free_count - 1];
            let mut head = [0; HEAD_BYTES];
            let data = self.buffers.get_mut(usize::from(place));
            let message = match self.channel.receive(&mut head, data) {
                Ok(Received::Message(message)) => message,
                Ok(Received::Nothing) => return Ok(None),
                Ok(Received::Ended) => {
                    return Err(Error::Refused("the kernel ended the FUSE connection".to_owned()));
                }
                Err(error) => return Err(Error::refused("read from /dev/fuse", error)),
            };
            if let Wish::Request(operation, first, slots) = self.wish(place, &head, message) {
                let bytes = match operation {
                    Operation::Read | Operation::Write => slots * SLOT_BYTES as u32,
                    Operation::Discard | Operation::Flush => 0,
                };
                let unique = message.header.unique;
                self.open[usize::from(place)] = Some(Open { unique, operation, bytes });
                self.free_count -= 1;
                return Ok(Some(Request { tag: Tag(place), operation, first, slots }));
            }
        }
        Ok(None)
    }

    fn data(&mut self, tag: Tag) -> &mut [u8] {
        let bytes = self.open[tag.index()].map_or(0, |open| open.bytes as usize);
        &mut self.buffers.get_mut(tag.index())[..bytes]
    }

    fn finish(&mut self, tag: Tag, outcome: Result<(), Errno>) -> Result<(), Error> {
        let open = self.open[tag.index()].take().expect("a request is finished once");
        self.free[self.free_count] = tag.0;
        self.free_count += 1;
        let size = WriteOut { size: open.bytes, padding: 0 };
        let answer = match open.operation {
            Operation::Read => &self.buffers.get(tag.index())[..open.bytes as usize],
            Operation::Write => size.as_bytes(),
            Operation::Discard | Operation::Flush => &[],
        };
        match self.channel.answer(open.unique, outcome.map(|()| answer)) {
            // The kernel needs no answer any more.
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(Error::refused("answer the kernel through /dev/fuse", error)),
        }
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}
