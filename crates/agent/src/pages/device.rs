//! Zram devices of our own for the time of a measurement. A guard process (`linux::guard`) adds the device and removes
//! it when this process ends, however that happens; if the guard was killed, this process removes it.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use linux::guard::{self, Guard};
use linux::zram_trial::TrialDevice;
use linux::{Root, zram};

use crate::exit::Exit;
use crate::output::print;

/// The arguments that make `pagewise-agent` the guard of a device.
const GUARD: [&str; 2] = ["pages", "--hold-device"];
/// A device is in use until the kernel has closed the files of the process that ended, and while udev looks at it.
const TRIES: u32 = 200;
const BETWEEN_TRIES: Duration = Duration::from_millis(10);

/// A zram device that exists as long as this value.
#[derive(Debug)]
pub struct OwnDevice {
    root: Root,
    number: u32,
    inode: Option<u64>,
    guard: Option<Guard>,
    /// None once the device is closed, so that it can be removed.
    trial: Option<TrialDevice>,
}

impl OwnDevice {
    /// Adds a device with this compressor and room for `pages` pages.
    ///
    /// # Errors
    /// The kernel has no zram or no such compressor, or the operating system refuses.
    pub fn add(
        root: &Root,
        compressor: &str,
        pages: u64,
        page_bytes: u64,
    ) -> Result<OwnDevice, Exit> {
        let mut command = Command::new("/proc/self/exe");
        let mut guard = Guard::start(command.args(GUARD).stdout(Stdio::piped()))?;
        let mut line = String::new();
        if let Some(output) = guard.output() {
            let read = BufReader::new(output).read_line(&mut line);
            read.map_err(|error| Exit::Refused(format!("no zram device: {error}")))?;
        }
        let number = line.trim().parse::<u32>().map_err(|_| {
            Exit::Refused("no zram device can be added; the line above says why".to_owned())
        })?;
        let inode = zram::inode(root, number);
        let mut own =
            OwnDevice { root: root.clone(), number, inode, guard: Some(guard), trial: None };
        own.trial = Some(TrialDevice::set_up(root, number, compressor, pages, page_bytes)?);
        Ok(own)
    }

    /// The device, set up.
    pub fn trial(&mut self) -> &mut TrialDevice {
        self.trial.as_mut().expect("the device is set up until it is dropped")
    }
}

impl Drop for OwnDevice {
    fn drop(&mut self) {
        drop(self.trial.take());
        drop(self.guard.take());
        // The guard has removed it, unless it was killed.
        if self.inode.is_some() && zram::inode(&self.root, self.number) == self.inode {
            remove(&self.root, self.number);
        }
    }
}

/// The guard: adds a device, writes its number to standard output, and removes it when the parent ends or asks for it.
///
/// # Errors
/// The kernel refuses to add a device.
pub fn hold(root: &Root) -> Result<(), Exit> {
    guard::detach();
    let number = zram::add(root)?;
    let inode = zram::inode(root, number);
    let printed = print(number);
    guard::wait();
    // A device with the same number that someone else has added since is not ours.
    if zram::inode(root, number) == inode {
        remove(root, number);
    }
    printed
}

fn remove(root: &Root, number: u32) {
    for _ in 0..TRIES {
        if zram::remove(root, number).is_ok() {
            return;
        }
        thread::sleep(BETWEEN_TRIES);
    }
}
