//! The undo log of a served area: what to undo is written before it is done. The server itself undoes it at its end;
//! after a kill, the next start or `pagewise-agent swapd --undo` does. The log lies in a folder that a reboot empties,
//! and a reboot undoes all of it.
//!
//! Contract: a log belongs to the process that has it locked, and the kernel releases the lock with the process. So
//! only logs that no process has locked are undone.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use linux::nbd::NbdDevice;
use linux::private_folder::{PrivateFolder, lock};
use linux::ublk::UblkDevice;
use linux::{Root, loop_device, swap, zram};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::carrier::granted::{ublk_key, zram_identity};
use crate::carrier::ublk;

const FOLDER: &str = "/run/pagewise";
const PREFIX: &str = "swapd-";
const SUFFIX: &str = ".undo";

/// An action that undoes a change. A device is named by the file of a loop device, the identifier of an NBD, the key of a
/// ublk device or the swap area of a zram device, because its number may be another device's by the time of the undoing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Undo {
    /// Disable the swap area on the device with this name.
    SwapOff {
        /// The name of the device.
        name: String,
    },
    /// Detach the device with this name from its file or its connection, or remove it.
    Detach {
        /// The name of the device.
        name: String,
    },
    /// Remove this zram device if it holds no data: its swap area was not made.
    RemoveEmpty {
        /// The number of the device.
        zram: u32,
        /// The inode of the device, which no later device with this number has; absent in earlier logs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        inode: Option<u64>,
    },
}

/// The undo log of this process.
#[derive(Debug)]
pub struct UndoLog {
    root: Root,
    path: PathBuf,
    file: File,
}

impl UndoLog {
    /// Begins an empty log, whose name contains `name`.
    ///
    /// # Errors
    /// The log exists, or the operating system refuses.
    pub fn begin(root: &Root, name: &str) -> Result<UndoLog, Error> {
        let folder = root.path(FOLDER);
        let refused = |error: io::Error| refused("begin the undo log", &folder, &error);
        let own = PrivateFolder::open(&folder).map_err(refused)?;
        let name = format!("{PREFIX}{name}{SUFFIX}");
        let file = File::from(own.create_locked(&name).map_err(refused)?);
        Ok(UndoLog { root: root.clone(), path: folder.join(name), file })
    }

    /// The log at `path`, whose lock another process passed on with the descriptor.
    pub(crate) fn adopt(root: &Root, path: PathBuf, file: OwnedFd) -> UndoLog {
        UndoLog { root: root.clone(), path, file: File::from(file) }
    }

    /// The path of the log.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes an action, before the change that it undoes is made.
    ///
    /// # Errors
    /// The operating system refuses; then do not make the change.
    pub fn note(&mut self, undo: &Undo) -> Result<(), Error> {
        let line = serde_json::to_string(undo).expect("names are UTF-8") + "\n";
        let written = self.file.write_all(line.as_bytes());
        written.map_err(|error| refused("write the undo log", &self.path, &error))
    }

    /// Undoes all changes and removes the log.
    ///
    /// # Errors
    /// A change cannot be undone; it stays in the log.
    pub fn finish(mut self) -> Result<usize, Error> {
        undo(&self.root, &self.path, &mut self.file)
    }
}

impl AsFd for UndoLog {
    /// The lock: who holds a copy of the descriptor holds the lock.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Undoes what processes left that ended without undoing it; returns the number of changes. After a failure it still
/// undoes the rest.
///
/// # Errors
/// The first failure; failed changes stay in their log.
pub fn left(root: &Root) -> Result<usize, Error> {
    let (mut count, mut first_error) = (0, None);
    for name in root.list(FOLDER)? {
        if !name.starts_with(PREFIX) || !name.ends_with(SUFFIX) {
            continue;
        }
        match undo_left(root, &root.path(FOLDER).join(name)) {
            Ok(undone) => count += undone,
            Err(error) => drop(first_error.get_or_insert(error)),
        }
    }
    first_error.map_or(Ok(count), Err)
}

fn undo_left(root: &Root, path: &Path) -> Result<usize, Error> {
    let refused = |error: io::Error| refused("read the undo log", path, &error);
    let mut file = OpenOptions::new().read(true).write(true).open(path).map_err(refused)?;
    match lock(&file).map_err(refused)? {
        true => undo(root, path, &mut file),
        // Its process runs.
        false => Ok(0),
    }
}

/// Undoes the changes of a log, the last first, and removes it; if some fail, the log keeps those.
fn undo(root: &Root, path: &Path, file: &mut File) -> Result<usize, Error> {
    let refused = |error: io::Error| refused("read the undo log", path, &error);
    let mut bytes = Vec::new();
    file.rewind().and_then(|()| file.read_to_end(&mut bytes)).map_err(refused)?;
    // A crash may leave half a line at the end, of a change that was not made.
    let text = String::from_utf8_lossy(&bytes);
    let (mut count, mut failed, mut first_error) = (0, Vec::new(), None);
    for line in text.lines().rev() {
        let Ok(undo) = serde_json::from_str::<Undo>(line) else { continue };
        match undo.act(root) {
            Ok(()) => count += 1,
            Err(error) => {
                failed.push(line);
                first_error.get_or_insert(error);
            }
        }
    }
    let Some(error) = first_error else {
        fs::remove_file(path).map_err(refused)?;
        return Ok(count);
    };
    failed.reverse();
    let rest = failed.join("\n") + "\n";
    file.set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| file.write_all(rest.as_bytes()))
        .map_err(refused)?;
    Err(Error::Refused(format!(
        "{error}; {} changes are not undone: try again with: pagewise-agent swapd --undo",
        failed.len()
    )))
}

impl Undo {
    fn act(&self, root: &Root) -> Result<(), Error> {
        let name = match self {
            Undo::SwapOff { name } | Undo::Detach { name } => name,
            Undo::RemoveEmpty { zram: number, inode } => {
                let is_same = inode.is_none() || *inode == zram::inode(root, *number);
                return match is_same && zram::is_empty(root, *number)? {
                    true => Ok(zram::remove(root, *number)?),
                    false => Ok(()),
                };
            }
        };
        for device in loop_device::holding(root, name)? {
            match self {
                Undo::SwapOff { .. } => swap::off(&device)?,
                _ => loop_device::detach(&device)?,
            }
        }
        if let Some(number) = zram::holding(root, &zram_identity(name))? {
            // Unlike the other devices it still has its pages, so no program loses any.
            swap::off(&zram::path(number))?;
            zram::remove(root, number)?;
        }
        if let Some(device) = NbdDevice::find(root, name)? {
            // Without a server each request would wait for one, so the connection ends before the area.
            device.disconnect()?;
            if matches!(self, Undo::SwapOff { .. }) {
                swap::off(device.path())?;
            }
        }
        if let Some(device) = UblkDevice::find(root, ublk_key(name))? {
            let areas = swap::areas(root)?;
            let is_area = areas.iter().any(|area| area.path == device.path());
            if is_area && matches!(self, Undo::SwapOff { .. }) {
                // Removed first, the device could not be named any more.
                ublk::failing(&device, || uninterrupted(|| swap::off(device.path())))??;
            }
            device.remove()?;
        }
        Ok(())
    }
}

/// Repeats a call that a signal interrupts, but not for ever. The end of an io_uring (io_ring_exit_work in the kernel's
/// io_uring.c) interrupts a call of its user like a signal.
fn uninterrupted(call: impl Fn() -> Result<(), linux::Error>) -> Result<(), linux::Error> {
    const TRIES_MAX: usize = 16;
    for _ in 1..TRIES_MAX {
        match call() {
            Err(error) if error.io_kind() == Some(io::ErrorKind::Interrupted) => {}
            ended => return ended,
        }
    }
    call()
}

fn refused(what: &str, path: &Path, error: &io::Error) -> Error {
    Error::Refused(format!("{}: cannot {what}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn system() -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        fs::create_dir_all(root.path("/run")).unwrap();
        (folder, root)
    }

    fn off(file: &str) -> Undo {
        Undo::SwapOff { name: file.to_owned() }
    }

    #[test]
    fn only_logs_without_a_process_are_undone() {
        let (_folder, root) = system();
        let mut log = UndoLog::begin(&root, "1").unwrap();
        log.note(&off("no-such-file")).unwrap();
        log.note(&Undo::Detach { name: "no-such-file".to_owned() }).unwrap();
        assert!(UndoLog::begin(&root, "1").is_err());
        assert_eq!(left(&root).unwrap(), 0);
        let held = log.as_fd().try_clone_to_owned().unwrap();
        drop(log);
        assert_eq!(left(&root).unwrap(), 0);
        drop(held);
        assert_eq!(left(&root).unwrap(), 2);
        assert_eq!(root.list(FOLDER).unwrap(), [""; 0]);
        assert_eq!(left(&root).unwrap(), 0);
    }

    #[test]
    fn a_zram_device_is_removed_only_while_it_is_empty() {
        let (_folder, root) = system();
        let block = "/sys/block/zram5";
        fs::create_dir_all(root.path(block)).unwrap();
        fs::create_dir_all(root.path("/sys/class/zram-control")).unwrap();
        for (file, text) in [("disksize", "4096"), ("mm_stat", "4096 12"), ("reset", "")] {
            fs::write(root.path(block).join(file), text).unwrap();
        }
        let removed = root.path("/sys/class/zram-control/hot_remove");
        fs::write(&removed, "").unwrap();
        let inode = zram::inode(&root, 5);
        assert!(inode.is_some() && zram::inode(&root, 6).is_none());
        let undo = Undo::RemoveEmpty { zram: 5, inode };
        undo.act(&root).unwrap();
        assert_eq!(fs::read_to_string(&removed).unwrap(), "");
        fs::write(root.path(block).join("mm_stat"), "0 0").unwrap();
        // Another program has removed the device, and made one that got its number.
        fs::rename(root.path(block), root.path("/sys/block/first")).unwrap();
        fs::create_dir_all(root.path(block)).unwrap();
        for file in ["disksize", "mm_stat", "reset"] {
            fs::copy(root.path("/sys/block/first").join(file), root.path(block).join(file))
                .unwrap();
        }
        undo.act(&root).unwrap();
        assert_eq!(fs::read_to_string(&removed).unwrap(), "");
        fs::remove_dir_all(root.path(block)).unwrap();
        fs::rename(root.path("/sys/block/first"), root.path(block)).unwrap();
        undo.act(&root).unwrap();
        assert_eq!(fs::read_to_string(&removed).unwrap(), "5");
        let earlier: Undo = serde_json::from_str(r#"{"RemoveEmpty":{"zram":5}}"#).unwrap();
        assert_eq!(earlier, Undo::RemoveEmpty { zram: 5, inode: None });
    }

    #[test]
    fn a_failed_undo_stays_in_the_log_and_the_others_are_undone() {
        let (_folder, root) = system();
        fs::create_dir_all(root.path("/sys/block/loop-gone/loop")).unwrap();
        fs::write(root.path("/sys/block/loop-gone/loop/backing_file"), "/mine\n").unwrap();
        let mut log = UndoLog::begin(&root, "2").unwrap();
        log.note(&Undo::Detach { name: "mine".to_owned() }).unwrap();
        log.note(&off("other")).unwrap();
        log.file.write_all(b"{\"SwapOff\":{\"fi").unwrap();
        let error = log.finish().unwrap_err().to_string();
        assert!(error.contains("/dev/loop-gone") && error.contains("1 changes are not"), "{error}");
        fs::remove_dir_all(root.path("/sys/block")).unwrap();
        assert_eq!(left(&root).unwrap(), 1);
    }
}
