//! Block devices whose requests a process takes from io_uring (ublk, Linux 6.11: before, DEL_DEV_ASYNC does not work).
//!
//! A device has two files: `/dev/ublkbN`, which programs use, and `/dev/ublkcN`, through which its server takes requests
//! and answers them. The kernel copies data between a request and the server's memory. A device whose server ends waits
//! for another one.
#![allow(unsafe_code, reason = "the kernel reads and writes memory that commands name by address")]

use std::ffi::c_void;
use std::fs::{File, OpenOptions};
use std::io;
use std::mem::{ManuallyDrop, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::ptr::{NonNull, null_mut, read_volatile};

use io_uring::squeue::Entry128;
use io_uring::{IoUring, cqueue, opcode, types::Fd};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::features::{UBLK_SINCE, is_at_least};
use crate::page_buffers::PageBuffers;
use crate::system::Machine;
use crate::{Error, Root};

const CONTROL: &str = "/dev/ublk-control";

// Names and numbers of include/uapi/linux/ublk_cmd.h, with the type, direction and size of an ioctl.
const fn command(direction: u32, number: u32, bytes: usize) -> u32 {
    direction << 30 | (bytes as u32) << 16 | (b'u' as u32) << 8 | number
}
const READS: u32 = 2;
const WRITES: u32 = 3;
const GET_DEV_INFO: u32 = command(READS, 0x02, size_of::<Control>());
const ADD_DEV: u32 = command(WRITES, 0x04, size_of::<Control>());
const START_DEV: u32 = command(WRITES, 0x06, size_of::<Control>());
const STOP_DEV: u32 = command(WRITES, 0x07, size_of::<Control>());
const SET_PARAMS: u32 = command(WRITES, 0x08, size_of::<Control>());
const START_USER_RECOVERY: u32 = command(WRITES, 0x10, size_of::<Control>());
const END_USER_RECOVERY: u32 = command(WRITES, 0x11, size_of::<Control>());
const DEL_DEV_ASYNC: u32 = command(READS, 0x14, size_of::<Control>());
const FETCH: u32 = command(WRITES, 0x20, size_of::<IoCommand>());
const COMMIT_AND_FETCH: u32 = command(WRITES, 0x21, size_of::<IoCommand>());

/// Requests without an answer come again after the end of their server.
const USER_RECOVERY: u64 = 1 << 3;
const USER_RECOVERY_REISSUE: u64 = 1 << 4;
const CMD_IOCTL_ENCODE: u64 = 1 << 6;
const ANY_NUMBER: u32 = u32::MAX;
const ANY_QUEUE: u16 = u16::MAX;
/// Writes become durable only with a flush, so the kernel sends flushes.
const VOLATILE_CACHE: u32 = 1 << 2;
const BASIC: u32 = 1;
const DISCARD: u32 = 2;
/// The result of a fetch: the tag has a request.
const HAS_REQUEST: i32 = 0;
/// The result of a fetch: the kernel gives the tag up.
const IS_GIVEN_UP: i32 = -libc::ENODEV;

// The operations of a request.
const READ: u8 = 0;
const WRITE: u8 = 1;
const FLUSH: u8 = 2;
const DISCARD_SECTORS: u8 = 3;

const SECTOR_BYTES: u64 = 512;
/// The largest discard, in sectors: less than 4 GiB.
const DISCARD_SECTORS_MAX: u32 = 4 << 20;

/// `struct ublksrv_ctrl_cmd`.
#[derive(Clone, Copy, Default, IntoBytes, Immutable)]
#[repr(C)]
struct Control {
    number: u32,
    queue: u16,
    bytes: u16,
    address: u64,
    data: u64,
    path_bytes: u16,
    padding: u16,
    reserved: u32,
}

/// `struct ublksrv_ctrl_dev_info`.
#[derive(Clone, Copy, Default, IntoBytes, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
struct DeviceInfo {
    queues: u16,
    depth: u16,
    state: u16,
    padding: u16,
    data_bytes_max: u32,
    number: u32,
    server: i32,
    padding2: u32,
    flags: u64,
    /// Belongs to the server: the key of the device.
    key: u64,
    owner: [u32; 2],
    reserved: [u64; 2],
}

/// `struct ublk_params` as far as its discards.
#[derive(Clone, Copy, Default, IntoBytes, Immutable)]
#[repr(C)]
struct Parameters {
    bytes: u32,
    kinds: u32,
    attributes: u32,
    logical_shift: u8,
    physical_shift: u8,
    optimal_shift: u8,
    minimal_shift: u8,
    sectors_max: u32,
    chunk_sectors: u32,
    sectors: u64,
    virtual_boundary: u64,
    discard_alignment: u32,
    discard_granularity: u32,
    discard_sectors_max: u32,
    zero_sectors_max: u32,
    discard_segments_max: u16,
    reserved: u16,
    padding: u32,
}
/// The bytes of [`Parameters`] without the padding at its end.
const PARAMETER_BYTES: u32 = 60;

/// `struct ublksrv_io_cmd`.
#[derive(Clone, Copy, Default, IntoBytes, Immutable)]
#[repr(C)]
struct IoCommand {
    queue: u16,
    tag: u16,
    result: i32,
    address: u64,
}

/// `struct ublksrv_io_desc`.
#[derive(Clone, Copy)]
#[repr(C)]
struct IoDescription {
    operation: u32,
    sectors: u32,
    first_sector: u64,
    address: u64,
}

/// What a new device is like.
#[derive(Clone, Copy, Debug)]
pub struct UblkParameters {
    /// A number by which the device is found again.
    pub key: u64,
    /// The size of the device, a multiple of the block.
    pub bytes: u64,
    /// The size of its blocks, a power of two.
    pub block_bytes: u32,
    /// The most requests in progress.
    pub depth: u16,
    /// The bytes of the largest read or write.
    pub request_bytes_max: u32,
    /// Whether the content must survive the server: then the kernel sends flushes, and no discards.
    pub is_durable: bool,
}

/// A device. It stays until [`UblkDevice::remove`], whatever becomes of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UblkDevice {
    number: u32,
    path: PathBuf,
}

impl UblkDevice {
    /// Makes a device. Programs see it only after [`UblkDevice::start`].
    ///
    /// # Errors
    /// The kernel has no ublk, or refuses.
    pub fn add(root: &Root, parameters: UblkParameters) -> Result<UblkDevice, Error> {
        let kernel = Machine::this(root)?.kernel;
        if !is_at_least(&kernel, UBLK_SINCE) {
            let old = io::Error::new(io::ErrorKind::Unsupported, "needs Linux 6.11");
            return Err(Error::refused("make a device", CONTROL, old));
        }
        let control = ControlRing::open()?;
        let mut info = DeviceInfo {
            queues: 1,
            depth: parameters.depth,
            data_bytes_max: parameters.request_bytes_max,
            number: ANY_NUMBER,
            flags: USER_RECOVERY | USER_RECOVERY_REISSUE | CMD_IOCTL_ENCODE,
            key: parameters.key,
            ..DeviceInfo::default()
        };
        control.ask_about(ADD_DEV, ANY_NUMBER, &mut info)?;
        let device = UblkDevice::adopt(info.number);
        let shift = parameters.block_bytes.trailing_zeros() as u8;
        let mut parameters = Parameters {
            bytes: PARAMETER_BYTES,
            kinds: if parameters.is_durable { BASIC } else { BASIC | DISCARD },
            attributes: if parameters.is_durable { VOLATILE_CACHE } else { 0 },
            logical_shift: shift,
            physical_shift: shift,
            optimal_shift: shift,
            minimal_shift: shift,
            sectors_max: (u64::from(parameters.request_bytes_max) / SECTOR_BYTES) as u32,
            sectors: parameters.bytes / SECTOR_BYTES,
            discard_granularity: parameters.block_bytes,
            discard_sectors_max: DISCARD_SECTORS_MAX,
            discard_segments_max: 1,
            ..Parameters::default()
        };
        match control.ask_about(SET_PARAMS, device.number, &mut parameters) {
            Ok(()) => Ok(device),
            Err(error) => {
                device.remove()?;
                Err(error)
            }
        }
    }

    /// The device with this number.
    pub fn adopt(number: u32) -> UblkDevice {
        UblkDevice { number, path: PathBuf::from(format!("/dev/ublkb{number}")) }
    }

    /// The device at this path, if it is one of ublk's.
    pub fn at(path: &Path) -> Option<UblkDevice> {
        let number = path.to_str()?.strip_prefix("/dev/ublkb")?.parse().ok()?;
        Some(UblkDevice::adopt(number))
    }

    /// The device with this key, if there is one.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn find(root: &Root, key: u64) -> Result<Option<UblkDevice>, Error> {
        let numbers = root.list("/sys/class/ublk-char")?;
        if numbers.is_empty() {
            return Ok(None);
        }
        let control = ControlRing::open()?;
        for name in numbers {
            let Some(number) = name.strip_prefix("ublkc").and_then(|number| number.parse().ok())
            else {
                continue;
            };
            let mut info = DeviceInfo::default();
            // A device that just goes is not it.
            if control.ask_about(GET_DEV_INFO, number, &mut info).is_ok() && info.key == key {
                return Ok(Some(UblkDevice::adopt(number)));
            }
        }
        Ok(None)
    }

    /// Makes the device visible. Waits until `server`, a process, fetches requests, and then for reads of its first
    /// blocks; so the server must not do this itself.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn start(&self, server: u32) -> Result<(), Error> {
        ControlRing::open()?.ask(START_DEV, self.command(u64::from(server)))
    }

    /// Begins to give a device to another server after the end of the one before.
    ///
    /// # Errors
    /// The kernel has not yet noticed the end of the server, or refuses.
    pub fn begin_recovery(&self) -> Result<(), Error> {
        ControlRing::open()?.ask(START_USER_RECOVERY, self.command(0))
    }

    /// Gives the device to `server`, once that fetches requests. Those without an answer come again.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn end_recovery(&self, server: u32) -> Result<(), Error> {
        ControlRing::open()?.ask(END_USER_RECOVERY, self.command(u64::from(server)))
    }

    /// Removes the device; its requests fail from now on. A device that is gone is ignored.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn remove(&self) -> Result<(), Error> {
        let control = ControlRing::open()?;
        for command in [STOP_DEV, DEL_DEV_ASYNC] {
            match control.try_ask(command, self.command(0)) {
                Err(error)
                    if !matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENODEV)) =>
                {
                    return Err(Error::refused("remove it", &self.path, error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The number of the device.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The path of the device that programs use.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn command(&self, data: u64) -> Control {
        Control { number: self.number, queue: ANY_QUEUE, data, ..Control::default() }
    }
}

/// Whether the kernel has ublk now. A module that is not loaded does not count.
///
/// # Errors
/// The kernel has none: the reason.
pub fn probe() -> Result<(), Error> {
    ControlRing::open().map(drop)
}

/// Commands to the kernel's ublk, one at a time.
struct ControlRing {
    ring: IoUring<Entry128>,
    file: File,
}

impl ControlRing {
    fn open() -> Result<ControlRing, Error> {
        let file = OpenOptions::new().read(true).write(true).open(CONTROL);
        let file = file.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                let reason = "the module ublk_drv is not loaded: `modprobe ublk_drv`";
                Error::call("ublk", io::Error::new(error.kind(), reason))
            }
            _ => Error::refused("open it", CONTROL, error),
        })?;
        let ring = IoUring::<Entry128>::builder().build(2);
        Ok(ControlRing { ring: ring.map_err(|error| Error::call("io_uring", error))?, file })
    }

    /// Sends a command with a value that the kernel reads or fills.
    fn ask_about<T: IntoBytes + Immutable>(
        &self,
        command: u32,
        number: u32,
        value: &mut T,
    ) -> Result<(), Error> {
        let bytes = size_of::<T>() as u16;
        let address = std::ptr::from_mut(value).expose_provenance() as u64;
        let queue = ANY_QUEUE;
        self.ask(command, Control { number, queue, bytes, address, ..Control::default() })
    }

    /// Sends a command, and waits until the kernel has done it.
    fn ask(&self, command: u32, control: Control) -> Result<(), Error> {
        self.try_ask(command, control).map_err(|error| Error::refused("ask it", CONTROL, error))
    }

    /// `ask` with the kernel's own error.
    fn try_ask(&self, command: u32, control: Control) -> io::Result<()> {
        let mut bytes = [0; 80];
        bytes[..size_of::<Control>()].copy_from_slice(control.as_bytes());
        let entry = opcode::UringCmd80::new(Fd(self.file.as_raw_fd()), command).cmd(bytes).build();
        // SAFETY: one thread has `self` at a time, since it is not `Sync`; memory that the command names outlives
        // this call, which waits for its end.
        unsafe { self.ring.submission_shared().push(&entry) }.expect("the ring has room");
        loop {
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            // SAFETY: as above.
            let ended = unsafe { self.ring.completion_shared() }.next();
            match ended.map(|ended: cqueue::Entry| ended.result()) {
                None => {}
                Some(result) if result < 0 => {
                    return Err(io::Error::from_raw_os_error(-result));
                }
                Some(_) => return Ok(()),
            }
        }
    }
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UblkOperation {
    /// Fill the tag's buffer.
    Read,
    /// Keep what is in the tag's buffer.
    Write,
    /// Make finished writes durable.
    Flush,
    /// Forget what is there.
    Discard,
    /// An operation that a server need not know.
    Other,
}

/// A request. It is open until [`UblkServer::finish`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UblkRequest {
    /// The tag of the request, and of its buffer.
    pub tag: u16,
    /// What is asked for.
    pub operation: UblkOperation,
    /// The first byte.
    pub offset: u64,
    /// The number of bytes.
    pub bytes: u64,
}

/// The requests of a device. The thread that first calls [`UblkServer::next_request`] is its server.
pub struct UblkServer {
    ring: IoUring,
    file: File,
    descriptions: Descriptions,
    /// Dropped only if the kernel has given up every tag: it ends the commands of a closed ring later.
    buffers: ManuallyDrop<PageBuffers>,
    depth: u16,
    is_fetching: bool,
    /// Answers that the kernel does not know yet.
    pushed: usize,
    /// Places that the kernel gave up: the device is removed, or waits for another server.
    given_up: u16,
}

impl UblkServer {
    /// Opens the device for its server: `depth` and `request_bytes_max` as in its [`UblkParameters`].
    ///
    /// # Errors
    /// The device has a server, or there is too little memory.
    pub fn open(
        device: &UblkDevice,
        depth: u16,
        request_bytes_max: usize,
    ) -> Result<UblkServer, Error> {
        let path = format!("/dev/ublkc{}", device.number);
        let file = OpenOptions::new().read(true).write(true).open(&path);
        let file = file.map_err(|error| Error::refused("open it", &path, error))?;
        let descriptions = Descriptions::map(&file, depth)?;
        let ring = IoUring::builder().build(u32::from(depth).next_power_of_two());
        Ok(UblkServer {
            ring: ring.map_err(|error| Error::call("io_uring", error))?,
            file,
            descriptions,
            buffers: ManuallyDrop::new(PageBuffers::new(usize::from(depth), request_bytes_max)?),
            depth,
            is_fetching: false,
            pushed: 0,
            given_up: 0,
        })
    }

    /// The next request, if there is one; never waits. Tells the kernel the answers since the last call.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn next_request(&mut self) -> Result<Option<UblkRequest>, Error> {
        if !self.is_fetching {
            self.is_fetching = true;
            (0..self.depth).for_each(|tag| self.push(FETCH, tag, 0));
        }
        self.submit()?;
        loop {
            let Some(ended) = self.ring.completion().next() else { return Ok(None) };
            let tag = ended.user_data() as u16;
            match ended.result() {
                HAS_REQUEST => return Ok(Some(self.descriptions.request(tag))),
                IS_GIVEN_UP => self.given_up += 1,
                result => {
                    let error = io::Error::from_raw_os_error(-result);
                    return Err(Error::call("ublk", error));
                }
            }
        }
    }

    /// Whether the kernel has given up every tag.
    pub fn has_ended(&self) -> bool {
        self.given_up == self.depth
    }

    /// The buffer of a tag.
    pub fn buffer(&mut self, tag: u16) -> &mut [u8] {
        self.buffers.get_mut(usize::from(tag))
    }

    /// Answers the request of a tag: the bytes that were moved, or an error. The kernel knows it with the next call
    /// of [`UblkServer::next_request`].
    pub fn finish(&mut self, tag: u16, result: Result<u32, Errno>) {
        let result = match result {
            Ok(bytes) => bytes as i32,
            Err(error) => -error.raw_os_error(),
        };
        self.push(COMMIT_AND_FETCH, tag, result);
    }

    fn push(&mut self, command: u32, tag: u16, result: i32) {
        let buffer = self.buffers.get_mut(usize::from(tag));
        let address = buffer.as_mut_ptr().expose_provenance() as u64;
        let command_bytes = IoCommand { queue: 0, tag, result, address };
        let mut bytes = [0; 16];
        bytes.copy_from_slice(command_bytes.as_bytes());
        let entry = opcode::UringCmd16::new(Fd(self.file.as_raw_fd()), command)
            .cmd(bytes)
            .build()
            .user_data(u64::from(tag));
        // SAFETY: the buffer stays until the kernel has given the tag up; each tag has at most one command, so the
        // ring has room.
        unsafe { self.ring.submission().push(&entry) }.expect("the ring has room");
        self.pushed += 1;
    }

    fn submit(&mut self) -> Result<(), Error> {
        while self.pushed > 0 {
            match self.ring.submit() {
                Ok(submitted) => self.pushed -= submitted,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::call("io_uring", error)),
            }
        }
        Ok(())
    }
}

impl Drop for UblkServer {
    fn drop(&mut self) {
        if self.has_ended() || !self.is_fetching {
            // SAFETY: the buffers are not used after this.
            unsafe { ManuallyDrop::drop(&mut self.buffers) };
        }
    }
}

impl AsFd for UblkServer {
    /// Readable when [`UblkServer::next_request`] would return a request.
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring is open as long as `self`.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }
}

/// The kernel's description of each tag's request, which it fills before it reports the request.
struct Descriptions {
    memory: NonNull<IoDescription>,
    bytes: usize,
    depth: u16,
}

// SAFETY: the mapping belongs to this value and to no thread.
unsafe impl Send for Descriptions {}

impl Descriptions {
    fn map(file: &File, depth: u16) -> Result<Descriptions, Error> {
        let bytes = usize::from(depth) * size_of::<IoDescription>();
        let bytes = bytes.next_multiple_of(rustix::param::page_size());
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let memory = unsafe { mmap(null_mut(), bytes, ProtFlags::READ, flags, file, 0) };
        let memory = memory.map_err(|error| Error::call("mmap", error))?;
        let memory = NonNull::new(memory.cast()).expect("the kernel maps nothing at 0");
        Ok(Descriptions { memory, bytes, depth })
    }

    fn request(&self, tag: u16) -> UblkRequest {
        assert!(tag < self.depth, "tag {tag} of {}", self.depth);
        // SAFETY: inside the mapping; the kernel writes it before it reports the request, and not again before the
        // answer.
        let description = unsafe { read_volatile(self.memory.as_ptr().add(usize::from(tag))) };
        let operation = match description.operation as u8 {
            READ => UblkOperation::Read,
            WRITE => UblkOperation::Write,
            FLUSH => UblkOperation::Flush,
            DISCARD_SECTORS => UblkOperation::Discard,
            _ => UblkOperation::Other,
        };
        UblkRequest {
            tag,
            operation,
            offset: description.first_sector * SECTOR_BYTES,
            bytes: u64::from(description.sectors) * SECTOR_BYTES,
        }
    }
}

impl Drop for Descriptions {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to `self`.
        let _ = unsafe { munmap(self.memory.as_ptr().cast::<c_void>(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_the_kernels() {
        assert_eq!(size_of::<Control>(), 32);
        assert_eq!(size_of::<DeviceInfo>(), 64);
        assert_eq!(size_of::<Parameters>(), PARAMETER_BYTES as usize + 4);
        assert_eq!((size_of::<IoCommand>(), size_of::<IoDescription>()), (16, 24));
        // UBLK_U_CMD_ADD_DEV and UBLK_U_IO_FETCH_REQ.
        assert_eq!((ADD_DEV, FETCH), (0xc020_7504, 0xc010_7520));
    }

    #[test]
    fn a_device_is_known_by_its_path() {
        assert_eq!(UblkDevice::at(Path::new("/dev/ublkb12")), Some(UblkDevice::adopt(12)));
        for path in ["/dev/ublkc1", "/dev/ublkb", "/dev/ublkb1p1", "/dev/loop1"] {
            assert_eq!(UblkDevice::at(Path::new(path)), None, "{path}");
        }
    }

    #[test]
    fn without_ublk_no_device_is_found() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(UblkDevice::find(&Root::at(folder.path()), 7).unwrap(), None);
    }
}
