//! The carrier NBD: a network block device whose socket is one of a pair within this machine.
//!
//! When this process dies, the kernel keeps the requests that have no answer for a while, and sends them again to a
//! successor ([`linux::nbd`] has the times).
//!
//! The path of a request: swap -> NBD -> the socket -> the table here.

use std::mem::size_of;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use linux::nbd::{self, NbdDevice, NbdParameters};
use linux::page_buffers::PageBuffers;
use linux::{Root, polling};
use rustix::io::{Errno, IoSlice, retry_on_intr};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, sendmsg};
use zerocopy::byteorder::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{Carrier, NewDevice, Operation, Request, SLOT_BYTES, Tag, slots_of};
use crate::Error;

/// The tags of requests: the most requests that the kernel sends at a time (`queue_depth` of drivers/block/nbd.c).
const DEPTH: usize = 128;
/// The bytes of the largest read or write.
const DATA_BYTES_MAX: usize = 128 << 10;
/// Bytes that are read from the socket at once: many requests, or a request and the data of a few slots.
const STAGE_BYTES: usize = 32 << 10;
/// How often a start looks whether the device is there, and a successor whether the old connection has ended.
const START_PERIOD: Duration = Duration::from_millis(2);
/// How long a successor waits for the end of the old connection: as long as the kernel keeps requests.
const END_WAIT: Duration = Duration::from_secs(nbd::RECONNECT_S);

// Numbers of include/uapi/linux/nbd.h.
const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;
const READ: u32 = 0;
const WRITE: u32 = 1;
const DISCONNECT: u32 = 2;
const FLUSH: u32 = 3;
const TRIM: u32 = 4;
/// Flags of the command are above these bits.
const COMMAND: u32 = 0xffff;

/// `struct nbd_request`.
#[derive(Clone, Copy, FromBytes, KnownLayout, Immutable)]
#[repr(C)]
struct Head {
    magic: U32,
    command: U32,
    cookie: [u8; 8],
    from: U64,
    bytes: U32,
}

/// `struct nbd_reply`.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct Reply {
    magic: U32,
    error: U32,
    cookie: [u8; 8],
}

/// A served NBD.
#[derive(Debug)]
pub struct NbdCarrier {
    socket: OwnedFd,
    device: NbdDevice,
    slots: u32,
    buffers: PageBuffers,
    /// By tag: the request that waits for an answer.
    open: [Option<Open>; DEPTH],
    /// The tags without a request, `free_count` of them.
    free: [u16; DEPTH],
    free_count: usize,
    /// Bytes that came from the socket and are not used yet: `stage[stage_from..stage_to]`.
    stage: PageBuffers,
    stage_from: usize,
    stage_to: usize,
    /// A write whose data have not come completely.
    coming: Option<Coming>,
    /// Whether the kernel has said that it disconnects.
    has_ended: bool,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    cookie: [u8; 8],
    operation: Operation,
    bytes: u32,
}

/// A write whose data are on their way.
#[derive(Clone, Copy, Debug)]
struct Coming {
    cookie: [u8; 8],
    bytes: usize,
    /// Bytes that have come.
    here: usize,
    /// Where the data go; none if the write is refused, and the data are dropped.
    target: Option<WriteTarget>,
}

#[derive(Clone, Copy, Debug)]
struct WriteTarget {
    tag: u16,
    first: u32,
    slots: u32,
}

impl NbdCarrier {
    /// Connects a device, which `identifier` names.
    ///
    /// # Errors
    /// The operating system refuses NBD or locked memory.
    pub fn start(
        root: &Root,
        identifier: &str,
        parameters: NewDevice<'_>,
    ) -> Result<NbdCarrier, Error> {
        let NewDevice { slots, content } = parameters;
        let is_durable = content.is_some();
        let (own, kernels) = nbd::pair()?;
        let unknown = NbdDevice::adopt(u32::MAX, identifier.to_owned());
        let mut carrier = NbdCarrier::over(own, unknown, slots)?;
        let (root, identifier) = (root.clone(), identifier.to_owned());
        // The changes of the device wait for answers to requests that other programs have caused.
        let connecting = thread::spawn(move || {
            let parameters = NbdParameters {
                identifier: &identifier,
                bytes: u64::from(slots) * SLOT_BYTES as u64,
                block_bytes: SLOT_BYTES as u64,
                request_bytes_max: DATA_BYTES_MAX,
                is_durable,
            };
            NbdDevice::connect(&root, parameters, &kernels)
        });
        let mut served = Ok(());
        while served.is_ok() && !connecting.is_finished() {
            served = carrier.serve_early(parameters);
        }
        let connected = connecting.join().expect("the thread does not panic");
        match (connected, served) {
            (Err(error), _) => Err(error.into()),
            (Ok(device), Err(error)) => {
                device.disconnect()?;
                Err(error)
            }
            (Ok(device), Ok(())) => {
                carrier.device = device;
                Ok(carrier)
            }
        }
    }

    fn serve_early(&mut self, parameters: NewDevice<'_>) -> Result<(), Error> {
        let Some(request) = self.next()? else {
            polling::is_readable(&self.socket, START_PERIOD);
            return Ok(());
        };
        parameters.answer_early(self, request)
    }

    /// Serves a device whose server ended. Requests without an answer come again.
    ///
    /// # Errors
    /// The kernel refuses, or there is too little memory.
    pub fn adopt(device: NbdDevice, slots: u32) -> Result<NbdCarrier, Error> {
        let begun = Instant::now();
        loop {
            let (own, kernels) = nbd::pair()?;
            let asked = device.reconnect(&kernels);
            // Until the kernel has seen the end of the old connection it ignores the new one, without an error.
            drop(kernels);
            if asked.is_ok() && !is_closed(&own) {
                return NbdCarrier::over(own, device, slots);
            }
            if begun.elapsed() > END_WAIT {
                asked?;
                return Err(Error::Refused(format!(
                    "{}: the kernel takes no new connection",
                    device.path().display()
                )));
            }
            thread::sleep(START_PERIOD);
        }
    }

    /// The device that it serves.
    pub fn nbd(&self) -> &NbdDevice {
        &self.device
    }

    fn over(socket: OwnedFd, device: NbdDevice, slots: u32) -> Result<NbdCarrier, Error> {
        Ok(NbdCarrier {
            socket,
            device,
            slots,
            buffers: PageBuffers::new(DEPTH, DATA_BYTES_MAX)?,
            open: [None; DEPTH],
            free: std::array::from_fn(|tag| tag as u16),
            free_count: DEPTH,
            stage: PageBuffers::new(1, STAGE_BYTES)?,
            stage_from: 0,
            stage_to: 0,
            coming: None,
            has_ended: false,
        })
    }

    /// The next request whose head is in the stage: a whole request, or none if it was answered here or its data
    /// have yet to come.
    fn begin(&mut self, head: Head) -> Result<Option<Request>, Error> {
        if head.magic.get() != REQUEST_MAGIC {
            return Err(Error::Refused("the kernel's NBD sent no request".to_owned()));
        }
        let (cookie, bytes) = (head.cookie, head.bytes.get());
        let slots = slots_of(self.slots, head.from.get(), u64::from(bytes));
        let is_short = bytes as usize <= DATA_BYTES_MAX;
        match (head.command.get() & COMMAND, slots) {
            (WRITE, slots) => {
                let target = slots.filter(|&(_, slots)| is_short && slots > 0);
                let target =
                    target.map(|(first, slots)| WriteTarget { tag: self.take_tag(), first, slots });
                self.coming = Some(Coming { cookie, bytes: bytes as usize, here: 0, target });
                self.fill_from_stage()
            }
            (READ, Some((first, slots))) if is_short && slots > 0 => {
                Ok(Some(self.enter(cookie, Operation::Read, first, slots)))
            }
            (TRIM, Some((first, slots))) if slots > 0 => {
                Ok(Some(self.enter(cookie, Operation::Discard, first, slots)))
            }
            (FLUSH, _) => Ok(Some(self.enter(cookie, Operation::Flush, 0, 0))),
            (DISCONNECT, _) => {
                self.has_ended = true;
                Ok(None)
            }
            _ => self.answer(cookie, Err(Errno::INVAL), &[]).map(|()| None),
        }
    }

    /// Copies data of the coming write from the stage; the write, if it is complete now.
    fn fill_from_stage(&mut self) -> Result<Option<Request>, Error> {
        let Some(mut coming) = self.coming else { return Ok(None) };
        let bytes = (self.stage_to - self.stage_from).min(coming.bytes - coming.here);
        let from = &self.stage.get(0)[self.stage_from..self.stage_from + bytes];
        if let Some(target) = coming.target {
            self.buffers.get_mut(usize::from(target.tag))[coming.here..coming.here + bytes]
                .copy_from_slice(from);
        }
        self.stage_from += bytes;
        coming.here += bytes;
        self.coming = Some(coming);
        self.complete(coming)
    }

    /// The coming write, if all of its data are here.
    fn complete(&mut self, coming: Coming) -> Result<Option<Request>, Error> {
        if coming.here < coming.bytes {
            return Ok(None);
        }
        self.coming = None;
        let Some(WriteTarget { tag, first, slots }) = coming.target else {
            return self.answer(coming.cookie, Err(Errno::INVAL), &[]).map(|()| None);
        };
        let (cookie, bytes) = (coming.cookie, coming.bytes as u32);
        self.open[usize::from(tag)] = Some(Open { cookie, operation: Operation::Write, bytes });
        Ok(Some(Request { tag: Tag(tag), operation: Operation::Write, first, slots }))
    }

    fn enter(&mut self, cookie: [u8; 8], operation: Operation, first: u32, slots: u32) -> Request {
        let tag = self.take_tag();
        let bytes = match operation {
            Operation::Read | Operation::Write => slots * SLOT_BYTES as u32,
            Operation::Discard | Operation::Flush => 0,
        };
        self.open[usize::from(tag)] = Some(Open { cookie, operation, bytes });
        Request { tag: Tag(tag), operation, first, slots }
    }

    /// A free tag; there is one whenever a head is taken.
    fn take_tag(&mut self) -> u16 {
        self.free_count -= 1;
        self.free[self.free_count]
    }

    /// Reads more bytes: data of a coming write to its buffer, anything else into the stage. Returns whether there
    /// were any.
    fn receive(&mut self) -> Result<bool, Error> {
        let (buffer, is_direct) = match self.coming {
            Some(Coming { target: Some(target), bytes, here, .. })
                if bytes - here > STAGE_BYTES / 2 =>
            {
                (&mut self.buffers.get_mut(usize::from(target.tag))[here..bytes], true)
            }
            _ => {
                // The rest of a head moves to the beginning.
                self.stage.get_mut(0).copy_within(self.stage_from..self.stage_to, 0);
                self.stage_to -= self.stage_from;
                self.stage_from = 0;
                (&mut self.stage.get_mut(0)[self.stage_to..], false)
            }
        };
        let got = retry_on_intr(|| recv(&self.socket, &mut *buffer, RecvFlags::DONTWAIT));
        let bytes = match got {
            Ok((_, 0)) if self.has_ended => {
                return Ok(false);
            }
            Ok((_, 0)) | Err(Errno::CONNRESET) => {
                return Err(Error::Refused("the kernel ended the NBD connection".to_owned()));
            }
            Ok((_, bytes)) => bytes,
            Err(Errno::AGAIN) => return Ok(false),
            Err(error) => return Err(Error::refused("read from the NBD socket", error)),
        };
        match &mut self.coming {
            Some(coming) if is_direct => coming.here += bytes,
            _ => self.stage_to += bytes,
        }
        Ok(true)
    }

    /// The head at the beginning of the stage, if all of it is there.
    fn head(&mut self) -> Option<Head> {
        let staged = &self.stage.get(0)[self.stage_from..self.stage_to];
        let (head, _) = Head::read_from_prefix(staged).ok()?;
        self.stage_from += size_of::<Head>();
        Some(head)
    }

    fn answer(
        &self,
        cookie: [u8; 8],
        outcome: Result<(), Errno>,
        data: &[u8],
    ) -> Result<(), Error> {
        let error = outcome.map_or_else(|error| error.raw_os_error() as u32, |()| 0);
        let reply = Reply { magic: U32::new(REPLY_MAGIC), error: U32::new(error), cookie };
        let (mut head, mut data) = (reply.as_bytes(), data);
        // The kernel always reads answers, so this does not wait for long.
        while !head.is_empty() || !data.is_empty() {
            let parts = [IoSlice::new(head), IoSlice::new(data)];
            let mut nothing = SendAncillaryBuffer::default();
            let sent =
                retry_on_intr(|| sendmsg(&self.socket, &parts, &mut nothing, SendFlags::NOSIGNAL));
            match sent {
                Ok(bytes) => {
                    let of_head = bytes.min(head.len());
                    head = &head[of_head..];
                    data = &data[bytes - of_head..];
                }
                // The kernel needs no answer any more; if it was not asked to disconnect, `next` reports the end.
                Err(Errno::PIPE | Errno::CONNRESET) => return Ok(()),
                Err(error) => return Err(Error::refused("answer the kernel through NBD", error)),
            }
        }
        Ok(())
    }
}

/// Whether the other end of a connection is closed.
fn is_closed(own: &OwnedFd) -> bool {
    let mut byte = [0];
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    matches!(recv(own, &mut byte, flags), Ok((_, 0)))
}

impl Carrier for NbdCarrier {
    fn device(&self) -> &Path {
        self.device.path()
    }

    fn next(&mut self) -> Result<Option<Request>, Error> {
        loop {
            // Bytes that went to the buffer directly.
            if let Some(coming) = self.coming
                && let Some(request) = self.complete(coming)?
            {
                return Ok(Some(request));
            }
            let found = if self.coming.is_some() {
                self.fill_from_stage()?
            } else if self.has_ended {
                // The socket is readable from now on, so waiting for it would not wait.
                thread::sleep(START_PERIOD);
                return Ok(None);
            } else if self.free_count == 0 {
                return Ok(None);
            } else {
                match self.head() {
                    Some(head) => self.begin(head)?,
                    None if self.receive()? => None,
                    None => return Ok(None),
                }
            };
            if found.is_some() {
                return Ok(found);
            }
            if self.coming.is_some() && !self.receive()? {
                return Ok(None);
            }
        }
    }

    fn data(&mut self, tag: Tag) -> &mut [u8] {
        let bytes = self.open[tag.index()].map_or(0, |open| open.bytes as usize);
        &mut self.buffers.get_mut(tag.index())[..bytes]
    }

    fn finish(&mut self, tag: Tag, outcome: Result<(), Errno>) -> Result<(), Error> {
        let open = self.open[tag.index()].take().expect("a request is finished once");
        self.free[self.free_count] = tag.0;
        self.free_count += 1;
        let data = match (open.operation, outcome) {
            (Operation::Read, Ok(())) => &self.buffers.get(tag.index())[..open.bytes as usize],
            _ => &[],
        };
        self.answer(open.cookie, outcome, data)
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::{read, write};

    const SLOTS: u32 = 4096;

    fn carrier() -> (NbdCarrier, OwnedFd) {
        let (own, kernels) = nbd::pair().unwrap();
        let device = NbdDevice::adopt(7, "test".to_owned());
        (NbdCarrier::over(own, device, SLOTS).unwrap(), kernels)
    }

    fn head(command: u32, cookie: u64, slot: u64, bytes: u32) -> Vec<u8> {
        let mut head = REQUEST_MAGIC.to_be_bytes().to_vec();
        head.extend(command.to_be_bytes());
        head.extend(cookie.to_be_bytes());
        head.extend((slot * SLOT_BYTES as u64).to_be_bytes());
        head.extend(bytes.to_be_bytes());
        head
    }

    fn written(cookie: u64, slot: u64, slots: usize) -> (Vec<u8>, Vec<u8>) {
        let data: Vec<u8> =
            (0..slots * SLOT_BYTES).map(|byte| (byte / 7) as u8 ^ cookie as u8).collect();
        let mut message = head(WRITE, cookie, slot, data.len() as u32);
        message.extend(&data);
        (message, data)
    }

    fn reply(kernels: &OwnedFd, bytes: usize) -> (u32, u64, Vec<u8>) {
        let mut answer = vec![0; 16 + bytes];
        let mut have = 0;
        while have < answer.len() {
            have += read(kernels, &mut answer[have..]).unwrap();
        }
        assert_eq!(answer[..4], REPLY_MAGIC.to_be_bytes());
        let error = u32::from_be_bytes(answer[4..8].try_into().unwrap());
        let cookie = u64::from_be_bytes(answer[8..16].try_into().unwrap());
        (error, cookie, answer.split_off(16))
    }

    #[test]
    fn requests_are_whole_however_their_bytes_come() {
        // Sizes of parts, from single bytes to more than the stage.
        for part in [1, 27, 28, 29, 4096, 20_000, 40_000, 1 << 20] {
            let (mut carrier, kernels) = carrier();
            let (small, small_data) = written(1, 5, 1);
            let (large, large_data) = written(2, 8, 32);
            let mut stream = small;
            stream.extend(head(READ, 3, 100, 8192));
            stream.extend(large);
            stream.extend(head(TRIM | 1 << 16, 4, 0, 4096 * 4096));
            stream.extend(head(FLUSH, 5, 0, 0));
            let sender = kernels.try_clone().unwrap();
            let writing = thread::spawn(move || {
                for bytes in stream.chunks(part) {
                    let mut sent = 0;
                    while sent < bytes.len() {
                        sent += write(&sender, &bytes[sent..]).unwrap();
                    }
                }
            });
            let mut requests = Vec::new();
            while requests.len() < 5 {
                requests.extend(carrier.next().unwrap());
            }
            writing.join().unwrap();
            let brief: Vec<_> =
                requests.iter().map(|each| (each.operation, each.first, each.slots)).collect();
            let expected = [
                (Operation::Write, 5, 1),
                (Operation::Read, 100, 2),
                (Operation::Write, 8, 32),
                (Operation::Discard, 0, 4096),
                (Operation::Flush, 0, 0),
            ];
            assert_eq!(brief, expected, "parts of {part}");
            assert!(carrier.data(requests[0].tag) == small_data);
            assert!(carrier.data(requests[2].tag) == large_data);
            carrier.data(requests[1].tag).fill(9);
            carrier.finish(requests[1].tag, Ok(())).unwrap();
            assert_eq!(reply(&kernels, 8192), (0, 3, vec![9; 8192]));
            carrier.finish(requests[0].tag, Err(Errno::IO)).unwrap();
            assert_eq!(reply(&kernels, 0), (Errno::IO.raw_os_error() as u32, 1, vec![]));
        }
    }

    #[test]
    fn what_is_no_request_for_slots_is_denied_and_the_stream_goes_on() {
        let (mut carrier, kernels) = carrier();
        let (beyond, _) = written(1, u64::from(SLOTS), 1);
        let (long, _) = written(2, 0, 33);
        let sender = kernels.try_clone().unwrap();
        let mut stream = [beyond, long].concat();
        stream.extend(head(READ, 3, 0, 100));
        stream.extend(head(READ, 4, 0, 33 * 4096));
        stream.extend(head(9, 5, 0, 4096));
        stream.extend(head(READ, 6, 0, 4096));
        let writing = thread::spawn(move || {
            let mut sent = 0;
            while sent < stream.len() {
                sent += write(&sender, &stream[sent..]).unwrap();
            }
        });
        let request = loop {
            if let Some(request) = carrier.next().unwrap() {
                break request;
            }
        };
        writing.join().unwrap();
        assert_eq!((request.operation, request.slots), (Operation::Read, 1));
        for cookie in 1..=5 {
            assert_eq!(reply(&kernels, 0), (Errno::INVAL.raw_os_error() as u32, cookie, vec![]));
        }
    }

    #[test]
    fn without_a_free_tag_requests_wait() {
        let (mut carrier, kernels) = carrier();
        for cookie in 0..DEPTH as u64 + 3 {
            write(&kernels, &head(READ, cookie, cookie, 4096)).unwrap();
        }
        let taken: Vec<Request> = std::iter::from_fn(|| carrier.next().unwrap()).collect();
        assert_eq!(taken.len(), DEPTH);
        carrier.finish(taken[10].tag, Ok(())).unwrap();
        let next = carrier.next().unwrap().unwrap();
        assert_eq!((next.tag, next.first), (taken[10].tag, DEPTH as u32));
        assert_eq!(carrier.next().unwrap(), None);
    }

    #[test]
    fn the_end_of_a_connection_is_an_error_unless_the_kernel_says_so() {
        let (mut carrier, kernels) = self::carrier();
        write(&kernels, &head(DISCONNECT, 0, 0, 0)).unwrap();
        drop(kernels);
        assert_eq!(carrier.next().unwrap(), None);
        assert_eq!(carrier.next().unwrap(), None);
        let (mut carrier, kernels) = self::carrier();
        write(&kernels, &head(READ, 0, 0, 4096)[..10]).unwrap();
        drop(kernels);
        let error = carrier.next().unwrap_err().to_string();
        assert_eq!(error, "the kernel ended the NBD connection");
        let (mut carrier, kernels) = self::carrier();
        write(&kernels, &[0; 28]).unwrap();
        assert!(carrier.next().is_err());
    }
}
