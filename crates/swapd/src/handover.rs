//! What a server leaves to its successor: the descriptors that keep its area alive, and what it cannot find out again.
//!
//! Contract: a guard process holds copies of the descriptors from before the area is in use until the server has
//! ended, and locks the frames, because the server's lock ends with it. So if the server is killed, the kernel keeps its
//! requests, the frames and the disks of the tiers, and the guard goes on as the next server.

use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use linux::Root;
use linux::frames::Kept;
use linux::inherited;
use linux::loop_device::LoopDevice;
use linux::nbd::NbdDevice;
use linux::polling::is_readable;
use linux::ublk::UblkDevice;
use policy::placement::Latencies;
use rustix::io::dup;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::area::ServedArea;
use crate::carrier::Carrier;
use crate::carrier::fuse::{FuseCarrier, ServedFile};
use crate::carrier::granted::{GrantedCarrier, ServedDevice};
use crate::carrier::nbd::NbdCarrier;
use crate::carrier::ublk::UblkCarrier;
use crate::undo::UndoLog;

/// What the guard writes once it keeps the frames in memory.
const READY: &[u8] = b"1";
/// How long a guard may take until then; it starts a program and locks memory.
const GUARD_STARTS_IN: Duration = Duration::from_secs(30);

/// The numbers of descriptors that a successor inherits, and what they are of.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Handover {
    carrier: CarrierHandover,
    frames: i32,
    slow: i32,
    fast: Option<i32>,
    log: i32,
    /// The pipe into which the guard writes once it keeps the frames in memory.
    ready: i32,
    /// The name by which the device is found again.
    name: String,
    device_path: PathBuf,
    log_path: PathBuf,
    /// The times by which the policy weighs the tiers.
    latencies: [f64; 4],
    /// How many servers the area has had before the successor.
    pub takeovers: u64,
}

/// What a successor needs to go on with a carrier.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum CarrierHandover {
    /// The connection, the mount and the loop device.
    Fuse { channel: i32, mount: i32, device: i32 },
    /// The number of the device. The successor connects it again once the server's end of the socket is closed, so it
    /// must not inherit that.
    Nbd { index: u32 },
    /// The number of the device. Its file must not be inherited either.
    Ublk { number: u32 },
}

/// Copies of descriptors that a program inherits which is started now.
#[derive(Debug)]
pub struct Descriptors {
    /// The numbers of the copies, for the successor.
    pub handover: Handover,
    /// The other end of the guard's pipe.
    ready: PipeReader,
    _copies: Vec<OwnedFd>,
}

/// The open files of a server.
pub(crate) struct Files<'a> {
    pub(crate) carrier: &'a GrantedCarrier,
    pub(crate) area: &'a ServedArea,
    pub(crate) frames: BorrowedFd<'a>,
    pub(crate) slow: BorrowedFd<'a>,
    /// The disk of the fast tier, if it has one.
    pub(crate) fast: Option<BorrowedFd<'a>>,
}

impl Descriptors {
    /// Closes the copies, once a program has inherited them, and returns the pipe for [`is_kept`].
    pub(crate) fn close(self) -> PipeReader {
        self.ready
    }

    /// # Errors
    /// The operating system refuses.
    pub(crate) fn of(
        files: &Files<'_>,
        latencies: Latencies,
        takeovers: u64,
    ) -> Result<Descriptors, Error> {
        let mut copies = Vec::new();
        let mut copy = |file: BorrowedFd<'_>| {
            // A copy by dup is inherited, as its original is not.
            let copy = dup(file).map_err(|error| Error::refused("copy a descriptor", error))?;
            let number = copy.as_raw_fd();
            copies.push(copy);
            Ok::<_, Error>(number)
        };
        let (device, log) = files.area.handles()?;
        let refused = |error| Error::refused("make a pipe", error);
        let (ready, written): (_, PipeWriter) = pipe().map_err(refused)?;
        let carrier = match (files.carrier, device) {
            (GrantedCarrier::Fuse(carrier), ServedDevice::Loop(device)) => {
                let [channel, mount] = carrier.handles();
                CarrierHandover::Fuse {
                    channel: copy(channel)?,
                    mount: copy(mount)?,
                    device: copy(device.as_fd())?,
                }
            }
            (GrantedCarrier::Nbd(_), ServedDevice::Nbd(device)) => {
                CarrierHandover::Nbd { index: device.index() }
            }
            (GrantedCarrier::Ublk(_), ServedDevice::Ublk(device)) => {
                CarrierHandover::Ublk { number: device.number() }
            }
            _ => unreachable!("a carrier has the device that it made"),
        };
        let Latencies { slow_read, slow_write, fast_read, fast_write } = latencies;
        let handover = Handover {
            carrier,
            frames: copy(files.frames)?,
            slow: copy(files.slow)?,
            fast: files.fast.map(&mut copy).transpose()?,
            log: copy(log.as_fd())?,
            ready: copy(written.as_fd())?,
            name: files.area.name().to_owned(),
            device_path: files.carrier.device().to_owned(),
            log_path: log.path().to_owned(),
            latencies: [slow_read, slow_write, fast_read, fast_write],
            takeovers: takeovers + 1,
        };
        Ok(Descriptors { handover, ready, _copies: copies })
    }
}

/// Waits until the guard keeps the frames in memory. False if it does not: it has ended, cannot lock them, or takes
/// too long.
pub(crate) fn is_kept(mut ready: PipeReader) -> bool {
    let mut word = [0; READY.len()];
    is_readable(&ready, GUARD_STARTS_IN) && ready.read_exact(&mut word).is_ok() && word == READY
}

/// What a successor has inherited.
pub(crate) struct Inherited {
    pub(crate) carrier: GrantedCarrier,
    pub(crate) frames: OwnedFd,
    pub(crate) slow: OwnedFd,
    pub(crate) fast: Option<OwnedFd>,
    pub(crate) area: ServedArea,
    pub(crate) latencies: Latencies,
}

impl Handover {
    /// Keeps the frames and the map in memory until the successor has locked them itself, and reports that to the
    /// server. Once only.
    ///
    /// # Errors
    /// The operating system refuses; then the server learns that there is no such guard.
    pub fn keep_frames(&self) -> Result<Kept, Error> {
        let mut ready = PipeWriter::from(inherited::take(self.ready)?);
        let kept = Kept::of_descriptor(self.frames)?;
        // A server that was killed meanwhile does not read it.
        let _ = ready.write_all(READY);
        Ok(kept)
    }

    /// The text that names everything, for an argument of the successor.
    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("paths of ours are UTF-8")
    }

    /// The handover of this text.
    ///
    /// # Errors
    /// The text is not that of [`Handover::text`].
    pub fn parse(text: &str) -> Result<Handover, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    /// Takes what this process has inherited. Once only.
    ///
    /// # Errors
    /// A descriptor is missing.
    pub(crate) fn take(&self, root: &Root, slots: u32) -> Result<Inherited, Error> {
        let [slow_read, slow_write, fast_read, fast_write] = self.latencies;
        let name = self.name.clone();
        let (carrier, device) = match self.carrier {
            CarrierHandover::Fuse { channel, mount, device } => {
                let file = ServedFile { name: name.clone(), slots };
                let (channel, mount) = (inherited::take(channel)?, inherited::take(mount)?);
                let path = self.device_path.clone();
                let device = LoopDevice::adopt(path.clone(), inherited::take(device)?);
                let carrier = FuseCarrier::adopt(channel, mount, file, path)?;
                (GrantedCarrier::Fuse(Box::new(carrier)), ServedDevice::Loop(device))
            }
            CarrierHandover::Nbd { index } => {
                let device = NbdDevice::adopt(index, name.clone());
                let carrier = NbdCarrier::adopt(device.clone(), slots)?;
                (GrantedCarrier::Nbd(Box::new(carrier)), ServedDevice::Nbd(device))
            }
            CarrierHandover::Ublk { number } => {
                let device = UblkDevice::adopt(number);
                let carrier = UblkCarrier::adopt(device.clone(), slots)?;
                (GrantedCarrier::Ublk(Box::new(carrier)), ServedDevice::Ublk(device))
            }
        };
        let log = UndoLog::adopt(root, self.log_path.clone(), inherited::take(self.log)?);
        Ok(Inherited {
            carrier,
            frames: inherited::take(self.frames)?,
            slow: inherited::take(self.slow)?,
            fast: self.fast.map(inherited::take).transpose()?,
            area: ServedArea::adopt(root, device, name, log),
            latencies: Latencies { slow_read, slow_write, fast_read, fast_write },
        })
    }
}
