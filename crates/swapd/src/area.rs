//! The swap area on a carrier's device: from the device to swapon, and back.
//!
//! Contract: no thread of the process that serves formats, enables or disables the area: [`ServedArea::on`] and
//! [`ServedArea::off`] take a function that lets another process call [`enable`] and [`linux::swap::off`]. Such a
//! thread waits for the server where no signal reaches it. If the server is killed meanwhile, the thread holds the
//! process, and with it the connection that should end: the process, the area and every program that needs one of
//! its pages hang for ever. Besides, the kernel's OOM killer begins with the process that disables an area (`oom_task_origin`
//! in mm/oom_kill.c), whatever its adj.

use std::fs::OpenOptions;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use linux::swap::{self, Identity};
use linux::ublk::UblkDevice;
use linux::{Root, gauge::Gauge};
use rustix::fs::{OFlags, major, minor};
use rustix::io::Errno;

use crate::carrier::granted::{CarrierKind, GrantedCarrier, LABEL, ServedDevice};
use crate::carrier::{NewDevice, SLOT_BYTES};
use crate::undo::{Undo, UndoLog};
use crate::{Error, probe};

/// The kernel takes no smaller areas (mm/swapfile.c), and a tier needs some slots.
const SLOTS_MIN: u64 = 256;
/// Memory that has to stay free when all pages of an area have come back.
const SPARE_BYTES: u64 = 32 << 20;

/// A swap area that this process serves.
#[derive(Debug)]
pub struct ServedArea {
    root: Root,
    /// None once it is released.
    device: Option<ServedDevice>,
    /// The name by which the device is found again.
    name: String,
    /// None once everything is undone.
    log: Option<UndoLog>,
}

/// The number of slots of an area of `bytes`.
///
/// # Errors
/// The size is no number of whole slots, too small or too large.
pub fn slots(bytes: u64) -> Result<u32, Error> {
    let slot_bytes = SLOT_BYTES as u64;
    let range = SLOTS_MIN..u64::from(u32::MAX);
    if !bytes.is_multiple_of(slot_bytes) || !range.contains(&(bytes / slot_bytes)) {
        return Err(Error::Usage(format!(
            "an area of {bytes} bytes: expected a multiple of {slot_bytes} bytes, at least 1MiB and \
             below 16TiB"
        )));
    }
    Ok((bytes / slot_bytes) as u32)
}

/// Whether the machine has a swap area now; those of other swap servers count too.
///
/// # Errors
/// The operating system refuses.
pub fn is_another_there(root: &Root) -> Result<bool, Error> {
    Ok(!swap::areas(root)?.is_empty())
}

/// Makes the device of a new area by the first of these kinds that the kernel grants. The area is in use only after
/// [`ServedArea::on`].
///
/// # Errors
/// The kernel grants none; then nothing has changed. The text has the reason of each.
pub fn make(
    root: &Root,
    shape: NewDevice<'_>,
    kinds: &[CarrierKind],
) -> Result<(GrantedCarrier, ServedArea), Error> {
    let (name, log) = begin(root)?;
    let mut reasons = Vec::new();
    for &kind in kinds {
        match GrantedCarrier::start(root, kind, &name, shape) {
            Ok((carrier, device)) => {
                let (device, log) = (Some(device), Some(log));
                return Ok((carrier, ServedArea { root: root.clone(), device, name, log }));
            }
            Err(error) => reasons.push(format!("{}: {error}", kind.name())),
        }
    }
    log.finish()?;
    Err(no_carrier(&reasons))
}

/// A new name, and a log by which the device that gets it is detached.
pub(crate) fn begin(root: &Root) -> Result<(String, UndoLog), Error> {
    let text: String = random(root)?.iter().map(|byte| format!("{byte:02x}")).collect();
    let name = format!("pagewise-swap-{text}");
    let mut log = UndoLog::begin(root, &text)?;
    log.note(&Undo::Detach { name: name.clone() })?;
    Ok((name, log))
}

/// Shows `device` to programs if it is ublk's: that shows a device only now. `server` is the process that serves it:
/// another one than this.
///
/// # Errors
/// The operating system refuses.
pub fn show(device: &Path, server: u32) -> Result<(), Error> {
    match UblkDevice::at(device) {
        Some(device) => Ok(device.start(server)?),
        None => Ok(()),
    }
}

/// Makes sure that nothing uses a served device any more, and that all that was written to it has arrived. The process
/// that serves it must not do so itself.
///
/// # Errors
/// The device is in use: the text says by what.
pub fn check_unused(root: &Root, device: &Path) -> Result<(), Error> {
    let refused =
        |error: &dyn std::fmt::Display| Error::Refused(format!("{}: {error}", device.display()));
    let opened =
        OpenOptions::new().read(true).custom_flags(OFlags::EXCL.bits() as i32).open(device);
    match opened {
        Ok(file) => file.sync_all().map_err(|error| refused(&error)),
        Err(error) if error.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {
            Err(refused(&user(root, device)))
        }
        Err(error) => Err(refused(&error)),
    }
}

/// What uses a device exclusively, and how to end that.
fn user(root: &Root, device: &Path) -> String {
    let number = std::fs::metadata(device).map(|found| found.rdev());
    let mounted = number.ok().and_then(|number| {
        let number = linux::system::device_number(major(number), minor(number));
        linux::mounts::by_device(root).ok()?.remove(&number)
    });
    match mounted {
        Some(point) => format!("is mounted at {point}; umount it"),
        None => "is in use by another program, a mount elsewhere, a swap area or another device"
            .to_owned(),
    }
}

/// Rounds in which the way through the carrier is measured.
const CARRIER_ROUNDS: u32 = 5;
/// The pause between two of them.
const CARRIER_PAUSE: Duration = Duration::from_millis(200);

/// The time that a read of a page takes on its way through the carrier of a new area and back, at least: the server
/// answers reads of slots that were never written without its tiers, and a tenth of them take less. The median would be
/// that of the other programs on a busy machine. The lowest of several rounds counts, because a burst of other I/O,
/// such as the writeback of what was written just before, slows a whole round. The process that serves must not measure
/// it itself.
///
/// # Errors
/// The operating system refuses.
pub fn carrier_time(device: &Path, bytes: u64) -> Result<Duration, Error> {
    let direct = OFlags::DIRECT.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(direct).open(device);
    let file =
        file.map_err(|error| Error::refused(&format!("open {}", device.display()), error))?;
    let blocks = bytes / SLOT_BYTES as u64;
    let what = "the way through the carrier";
    let file = file.into();
    let mut lowest_ns = f64::INFINITY;
    for round in 0..CARRIER_ROUNDS {
        if round > 0 {
            std::thread::sleep(CARRIER_PAUSE);
        }
        let [read_ns, _] = probe::times_ns(&file, blocks, false, 0.1, what)?;
        lowest_ns = lowest_ns.min(read_ns);
    }
    Ok(Duration::from_nanos(lowest_ns as u64))
}

/// Starts `device` if it is ublk's, asks `check` whether it may be used, formats it, of `bytes`, and enables it with this
/// priority; the kernel discards freed slots if the device takes discards. `server` is the process that serves the
/// device: another one than this.
///
/// # Errors
/// `check` refuses; the operating system does.
pub fn enable(
    root: &Root,
    device: &Path,
    bytes: u64,
    priority: i32,
    server: u32,
    check: impl FnOnce() -> Result<(), Error>,
) -> Result<(), Error> {
    show(device, server)?;
    check()?;
    swap::format_as(device, bytes, &Identity { uuid: random(root)?, label: LABEL })?;
    Ok(swap::on_discarding(device, priority)?)
}

/// A random number as a UUID of version 4 has it.
fn random(root: &Root) -> Result<[u8; 16], Error> {
    const PATH: &str = "/proc/sys/kernel/random/uuid";
    let text = root.read(PATH)?.unwrap_or_default().replace('-', "");
    let number = u128::from_str_radix(text.trim(), 16);
    let number = number.map_err(|_| linux::Error::unexpected(PATH, "expected a UUID"))?;
    Ok(number.to_be_bytes())
}

impl ServedArea {
    /// The area on a device that was made before, by a server that ended or by the kernel.
    pub(crate) fn adopt(
        root: &Root,
        device: ServedDevice,
        name: String,
        log: UndoLog,
    ) -> ServedArea {
        ServedArea { root: root.clone(), device: Some(device), name, log: Some(log) }
    }

    /// What a successor needs for [`ServedArea::adopt`].
    ///
    /// # Errors
    /// The area is disabled.
    pub(crate) fn handles(&self) -> Result<(&ServedDevice, &UndoLog), Error> {
        let both = self.device.as_ref().zip(self.log.as_ref());
        both.ok_or_else(|| Error::Refused("the area is disabled".to_owned()))
    }

    /// The name by which the device is found again.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Shows the device to programs by `show`; there is no swap area on it.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn show(&self, show: impl FnOnce(&Path) -> Result<(), Error>) -> Result<(), Error> {
        show(self.device.as_ref().expect("the device is not released").path())
    }

    /// Formats and enables the area by `enable`, which gets the device.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn on(&mut self, enable: impl FnOnce(&Path) -> Result<(), Error>) -> Result<(), Error> {
        let log = self.log.as_mut().expect("the area is not disabled");
        log.note(&Undo::SwapOff { name: self.name.clone() })?;
        let device = self.device.as_ref().expect("the area is not disabled");
        enable(device.path())
    }

    /// The most bytes that one discard has; 0 if the kernel sends none.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn discard_bytes_max(&self) -> Result<u64, Error> {
        let device = self.device.as_ref();
        device.map_or(Ok(0), |device| device.discard_bytes_max(&self.root))
    }

    /// Bytes that memory lacks to take back every page of this area; 0 if there is room.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn missing_bytes(&self) -> Result<u64, Error> {
        let Some(device) = &self.device else { return Ok(0) };
        let areas = swap::areas(&self.root)?;
        let (own, others): (Vec<_>, Vec<_>) =
            areas.into_iter().partition(|area| area.path == device.path());
        let used: u64 = own.iter().map(|area| area.bytes_used).sum();
        let room: u64 = others.iter().map(|area| area.bytes - area.bytes_used).sum();
        let memory =
            Gauge::open(&self.root, None)?.read(false).map_or(0, |memory| memory.available);
        Ok(missing(used, memory + room))
    }

    /// Disables the area by `swapoff`, releases its device and ends the undo log. Someone has to serve meanwhile.
    ///
    /// # Errors
    /// The operating system refuses: the area is in use as before.
    pub fn off(&mut self, swapoff: impl FnOnce(&Path) -> Result<(), Error>) -> Result<(), Error> {
        if let Some(device) = &self.device {
            swapoff(device.path())?;
        }
        self.finish()
    }

    /// Disables the area although no thread serves it: its pages are lost.
    ///
    /// # Errors
    /// The operating system refuses: what could not be undone stays in the log.
    pub fn off_without_server(&mut self) -> Result<(), Error> {
        let undone = self.log.take().map_or(Ok(0), UndoLog::finish).map(drop);
        self.finish().and(undone)
    }

    fn finish(&mut self) -> Result<(), Error> {
        // Released before the log is undone, so that nothing is left to undo.
        if let Some(device) = self.device.take() {
            device.release(&self.root, &self.name)?;
        }
        self.log.take().map_or(Ok(0), UndoLog::finish).map(drop)
    }
}

impl Drop for ServedArea {
    /// After an error the pages are lost already if no thread serves, so this ends soon.
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

/// What is missing to bring `used` bytes back into `room`.
fn missing(used: u64, room: u64) -> u64 {
    match used {
        0 => 0,
        used => (used + SPARE_BYTES).saturating_sub(room),
    }
}

/// Why the kernel grants no carrier: the text says what to do.
fn no_carrier(reasons: &[String]) -> Error {
    Error::Refused(format!(
        "no carrier for a swap area: {}; all need root, ublk Linux 6.11, nbd Linux 5.14, and fuse Linux 5.8 and the \
         modules fuse and loop (`modprobe -a fuse loop`)",
        reasons.join("; ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_area_has_whole_slots() {
        assert_eq!(slots(3 << 30).unwrap(), 786_432);
        for bytes in [0, 4096, (1 << 20) + 1, (1 << 20) - 4096, 1 << 44, u64::MAX] {
            assert!(matches!(slots(bytes), Err(Error::Usage(_))), "{bytes}");
        }
    }

    #[test]
    fn an_area_without_pages_can_always_be_disabled() {
        assert_eq!(missing(0, 0), 0);
        assert_eq!(missing(4096, 0), 4096 + SPARE_BYTES);
        assert_eq!(missing(4096, 1 << 30), 0);
    }
}
