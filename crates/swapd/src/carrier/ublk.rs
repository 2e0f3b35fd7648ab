//! The carrier ublk: a block device whose requests come through io_uring.
//!
//! The kernel binds a device to the thread that first takes requests from it, so that must be the thread that serves.
//! Programs see the device only after [`linux::ublk::UblkDevice::start`], which waits for reads of its first blocks;
//! [`crate::area::enable`] calls it in another process.
//!
//! When this process dies, the kernel keeps the requests without an answer for a successor.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use linux::ublk::{UblkDevice, UblkOperation, UblkParameters, UblkServer};
use linux::{Root, polling};
use rustix::io::Errno;

use super::{Carrier, NewDevice, Operation, Request, SLOT_BYTES, Tag, slots_of};
use crate::Error;

/// The most requests in progress.
const DEPTH: u16 = 64;
/// The bytes of the largest read or write.
const DATA_BYTES_MAX: usize = 256 << 10;
/// How often a successor looks whether the kernel has noticed the end of the server.
const END_PERIOD: Duration = Duration::from_millis(2);
/// How long a successor waits until the kernel has noticed it. After that the pages are lost, so it waits long: the
/// kernel may need seconds on a busy machine.
const END_WAIT: Duration = Duration::from_secs(60);

/// A served ublk device.
pub struct UblkCarrier {
    server: UblkServer,
    device: UblkDevice,
    slots: u32,
    /// By tag: the bytes of its request's data.
    data_bytes: [u32; DEPTH as usize],
    /// The end of a recovery that is not known yet.
    recovery: Option<JoinHandle<Result<(), linux::Error>>>,
}

impl UblkCarrier {
    /// Makes a device, which `key` names.
    ///
    /// # Errors
    /// The operating system refuses ublk or locked memory.
    pub fn start(root: &Root, key: u64, parameters: NewDevice<'_>) -> Result<UblkCarrier, Error> {
        let NewDevice { slots, content } = parameters;
        let parameters = UblkParameters {
            key,
            bytes: u64::from(slots) * SLOT_BYTES as u64,
            block_bytes: SLOT_BYTES as u32,
            depth: DEPTH,
            request_bytes_max: DATA_BYTES_MAX as u32,
            is_durable: content.is_some(),
        };
        let device = UblkDevice::add(root, parameters)?;
        UblkCarrier::over(device.clone(), slots).map_err(|error| match device.remove() {
            Ok(()) => error,
            Err(removing) => Error::Refused(format!("{error}; and {removing}")),
        })
    }

    /// Serves a device whose server ended. Requests without an answer come again.
    ///
    /// # Errors
    /// The kernel refuses, or there is too little memory.
    pub fn adopt(device: UblkDevice, slots: u32) -> Result<UblkCarrier, Error> {
        begin_recovery(&device)?;
        let mut carrier = UblkCarrier::over(device.clone(), slots)?;
        // Waits until the thread that serves takes requests, and ends at once if this process does.
        let ending = thread::spawn(move || device.end_recovery(std::process::id()));
        carrier.recovery = Some(ending);
        Ok(carrier)
    }

    /// The device that it serves.
    pub fn ublk(&self) -> &UblkDevice {
        &self.device
    }

    fn over(device: UblkDevice, slots: u32) -> Result<UblkCarrier, Error> {
        let server = UblkServer::open(&device, DEPTH, DATA_BYTES_MAX)?;
        Ok(UblkCarrier { server, device, slots, data_bytes: [0; DEPTH as usize], recovery: None })
    }
}

/// Runs `work` while every request of the device, whose server ended, fails. Without that a request waits for a
/// successor for ever.
///
/// # Errors
/// The kernel refuses.
pub fn failing<T>(device: &UblkDevice, work: impl FnOnce() -> T) -> Result<T, Error> {
    begin_recovery(device)?;
    let mut server = UblkServer::open(device, DEPTH, DATA_BYTES_MAX)?;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let serving = scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) {
                match server.next_request()? {
                    Some(request) => server.finish(request.tag, Err(Errno::IO)),
                    None => drop(polling::is_readable(&server, END_PERIOD)),
                }
            }
            Ok(())
        });
        let ended = device.end_recovery(std::process::id());
        let done = ended.map(|()| work());
        is_over.store(true, Ordering::Release);
        let served: Result<(), linux::Error> = serving.join().expect("the thread does not panic");
        let done = done?;
        served?;
        Ok(done)
    })
}

/// Begins the recovery of a device; the kernel refuses until it has seen the end of the old server.
fn begin_recovery(device: &UblkDevice) -> Result<(), Error> {
    let begun = Instant::now();
    while let Err(error) = device.begin_recovery() {
        if begun.elapsed() > END_WAIT {
            return Err(error.into());
        }
        thread::sleep(END_PERIOD);
    }
    Ok(())
}

impl Carrier for UblkCarrier {
    fn device(&self) -> &Path {
        self.device.path()
    }

    fn next(&mut self) -> Result<Option<Request>, Error> {
        if let Some(recovery) = self.recovery.take_if(|recovery| recovery.is_finished()) {
            recovery.join().expect("the thread does not panic")?;
        }
        while let Some(request) = self.server.next_request()? {
            let operation = match request.operation {
                UblkOperation::Read => Some(Operation::Read),
                UblkOperation::Write => Some(Operation::Write),
                UblkOperation::Discard => Some(Operation::Discard),
                UblkOperation::Flush => Some(Operation::Flush),
                UblkOperation::Other => None,
            };
            let has_data = matches!(operation, Some(Operation::Read | Operation::Write));
            let range = match operation {
                Some(Operation::Flush) => Some((0, 0)),
                _ => slots_of(self.slots, request.offset, request.bytes),
            };
            let is_short = !has_data || request.bytes <= DATA_BYTES_MAX as u64;
            let tag = request.tag;
            if let Some(operation) = operation
                && let Some((first, slots)) = range.filter(|_| is_short)
            {
                self.data_bytes[usize::from(tag)] = if has_data { request.bytes as u32 } else { 0 };
                return Ok(Some(Request { tag: Tag(tag), operation, first, slots }));
            }
            self.server.finish(tag, Err(Errno::INVAL));
        }
        Ok(None)
    }

    fn data(&mut self, tag: Tag) -> &mut [u8] {
        let bytes = self.data_bytes[tag.index()] as usize;
        &mut self.server.buffer(tag.0)[..bytes]
    }

    fn finish(&mut self, tag: Tag, outcome: Result<(), Errno>) -> Result<(), Error> {
        let moved_bytes = self.data_bytes[tag.index()];
        self.server.finish(tag.0, outcome.map(|()| moved_bytes));
        Ok(())
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.server.as_fd()
    }
}
