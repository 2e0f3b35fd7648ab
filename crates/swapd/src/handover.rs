//! What a server leaves to its successor: the descriptors that keep its area alive, and what it cannot find out again.
//!
//! Contract: a guard process holds copies of the descriptors from before the area is in use until the server has
//! ended. So if the server is killed, the kernel keeps its requests, the frames and the disks of the tiers, and the guard goes
//! on as the next server.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use linux::Root;
use linux::inherited;
use linux::loop_device::LoopDevice;
use policy::placement::Latencies;
use rustix::io::dup;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::area::ServedArea;
use crate::carrier::fuse::{FuseCarrier, ServedFile};
use crate::undo::UndoLog;

/// The numbers of descriptors that a successor inherits, and what they are of.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Handover {
    channel: i32,
    mount: i32,
    frames: i32,
    slow: i32,
    fast: Option<i32>,
    device: i32,
    log: i32,
    file_name: String,
    device_path: PathBuf,
    log_path: PathBuf,
    /// The times by which the policy weighs the tiers.
    latencies: [f64; 4],
    /// How many servers the area has had before the successor.
    pub takeovers: u64,
}

/// Copies of descriptors that a program inherits which is started now.
#[derive(Debug)]
pub struct Descriptors {
    /// The numbers of the copies, for the successor.
    pub handover: Handover,
    _copies: Vec<OwnedFd>,
}

/// The open files of a server.
pub(crate) struct Files<'a> {
    pub(crate) carrier: &'a FuseCarrier,
    pub(crate) area: &'a ServedArea,
    pub(crate) frames: BorrowedFd<'a>,
    pub(crate) slow: BorrowedFd<'a>,
    /// The disk of the fast tier, if it has one.
    pub(crate) fast: Option<BorrowedFd<'a>>,
}

impl Descriptors {
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
        let [channel, mount] = files.carrier.handles();
        let (device, log) = files.area.handles()?;
        let Latencies { slow_read, slow_write, fast_read, fast_write } = latencies;
        let handover = Handover {
            channel: copy(channel)?,
            mount: copy(mount)?,
            frames: copy(files.frames)?,
            slow: copy(files.slow)?,
            fast: files.fast.map(&mut copy).transpose()?,
            device: copy(device.as_fd())?,
            log: copy(log.as_fd())?,
            file_name: files.carrier.file().name.clone(),
            device_path: device.path().to_owned(),
            log_path: log.path().to_owned(),
            latencies: [slow_read, slow_write, fast_read, fast_write],
            takeovers: takeovers + 1,
        };
        Ok(Descriptors { handover, _copies: copies })
    }
}

/// What a successor has inherited.
pub(crate) struct Inherited {
    pub(crate) channel: OwnedFd,
    pub(crate) mount: OwnedFd,
    pub(crate) frames: OwnedFd,
    pub(crate) slow: OwnedFd,
    pub(crate) fast: Option<OwnedFd>,
    pub(crate) device: PathBuf,
    pub(crate) area: ServedArea,
    pub(crate) file: ServedFile,
    pub(crate) latencies: Latencies,
}

impl Handover {
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
        let file = ServedFile { name: self.file_name.clone(), slots };
        let device = LoopDevice::adopt(self.device_path.clone(), inherited::take(self.device)?);
        let log = UndoLog::adopt(root, self.log_path.clone(), inherited::take(self.log)?);
        Ok(Inherited {
            channel: inherited::take(self.channel)?,
            mount: inherited::take(self.mount)?,
            frames: inherited::take(self.frames)?,
            slow: inherited::take(self.slow)?,
            fast: self.fast.map(inherited::take).transpose()?,
            area: ServedArea::adopt(root, device, file.clone(), log),
            device: self.device_path.clone(),
            file,
            latencies: Latencies { slow_read, slow_write, fast_read, fast_write },
        })
    }
}
