//! Applies the steps of a plan, and undoes them however the run ends.
//!
//! Each change is written to an undo log before it is made. With the log, the changes can be undone by the run
//! itself at its end or when it panics, by its guard (`crate::guard`) if the run was killed, and by
//! `pagewise-agent launch --undo` if both were killed. The log is in a folder that a reboot empties; a reboot
//! also undoes all changes but the swap file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use linux::cgroup::Version;
use linux::groups::{self, Layout, V1, V2};
use linux::guard::Guard;
use linux::{KernelSetting, Root, swap, zram};
use serde::{Deserialize, Serialize};
use trace::store::write_whole;

use crate::lock::{FOLDER, Lock};
use crate::steps::ChangeStep;
use crate::tiers::Server;
use crate::{Error, guard};

/// An action that undoes a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Undo {
    Write {
        path: PathBuf,
        value: String,
    },
    SwapOff {
        path: PathBuf,
    },
    RemoveFile {
        path: PathBuf,
    },
    RemoveFolder {
        path: PathBuf,
    },
    RemoveZram {
        number: u32,
    },
    /// Removes a new device whose number is not known yet. Written before the device is added; a later
    /// `RemoveZram` replaces it. `others` existed before.
    RemoveNewZram {
        others: Vec<String>,
    },
    RemoveGroup {
        folder: PathBuf,
    },
    RemoveGroups {
        memory: PathBuf,
        programs: PathBuf,
        is_v1: bool,
    },
}

/// The undo log of this machine.
pub fn undo_log(root: &Root) -> PathBuf {
    root.path(FOLDER).join("launch.undo")
}

/// The changes that were made. When dropped, they are undone, and then the guard is released.
#[derive(Debug)]
pub struct Changes {
    root: Root,
    undo_log: PathBuf,
    file: File,
    /// Dropped after the undo, which empties its swap area.
    server: Option<Server>,
    guard: Option<Guard>,
}

impl Changes {
    /// Begins an empty undo log.
    ///
    /// # Errors
    /// The changes of an earlier run were not undone.
    pub fn begin(root: &Root) -> Result<Changes, Error> {
        let undo_log = undo_log(root);
        match OpenOptions::new().append(true).create_new(true).open(&undo_log) {
            Ok(file) => {
                Ok(Changes { root: root.clone(), undo_log, file, server: None, guard: None })
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(Error::Refused(format!(
                    "{}: an earlier launch was killed before it could undo its changes; undo them \
                     with: pagewise-agent launch --undo",
                    undo_log.display()
                )))
            }
            Err(error) => Err(Error::file("created", &undo_log, &error)),
        }
    }

    /// Starts the guard: from now on the changes are undone even if this program is killed.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn guard(&mut self, lock: &Lock) -> Result<(), Error> {
        self.guard = Some(guard::start(lock)?);
        Ok(())
    }

    /// Applies a step.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn apply(&mut self, step: &ChangeStep, layout: &dyn Layout) -> Result<(), Error> {
        match step {
            ChangeStep::Set(setting) => self.set(setting),
            ChangeStep::Toggle(setting, undo) => {
                self.note(Undo::Write { path: undo.path.clone(), value: undo.value.clone() })?;
                Ok(setting.apply(&self.root)?)
            }
            ChangeStep::Zram { compressor, size, priority } => {
                self.zram(compressor.as_deref(), size.0, *priority)
            }
            ChangeStep::SwapFile { path, size, priority } => {
                self.note(Undo::RemoveFile { path: path.clone() })?;
                swap::create_file(path, size.0)?;
                self.swap_on(path, *priority)
            }
            ChangeStep::Serve { tiers, folder, size, priority } => {
                // swapd has an undo log of its own, and ends with this program.
                self.server = Some(Server::start(tiers, folder, *size, *priority)?);
                Ok(())
            }
            ChangeStep::Groups { folders, settings } => {
                self.note(Undo::RemoveGroups {
                    memory: layout.memory().to_owned(),
                    programs: layout.programs().to_owned(),
                    is_v1: layout.version() == Version::V1,
                })?;
                folders.iter().try_for_each(|folder| groups::create(&self.root, folder))?;
                settings.iter().try_for_each(|setting| setting.apply(&self.root))?;
                Ok(())
            }
            ChangeStep::Slow { throttle, .. } => {
                if throttle.is_own {
                    self.note(Undo::RemoveGroup { folder: throttle.group.clone() })?;
                    groups::create(&self.root, &throttle.group)?;
                }
                Ok(throttle.settings.iter().try_for_each(|setting| setting.apply(&self.root))?)
            }
            ChangeStep::DropCaches => {
                Ok(KernelSetting::new("/proc/sys/vm/drop_caches", 3).apply(&self.root)?)
            }
        }
    }

    /// Creates a folder for the time of the run.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn folder(&mut self, path: &Path) -> Result<(), Error> {
        self.note(Undo::RemoveFolder { path: path.to_owned() })?;
        fs::create_dir(path).map_err(|error| Error::file("created", path, &error))
    }

    fn set(&mut self, setting: &KernelSetting) -> Result<(), Error> {
        let KernelSetting { path, .. } = setting;
        let before = self.root.read(path)?.ok_or_else(|| {
            linux::Error::unexpected(path, "is missing: the kernel does not offer it")
        })?;
        let value = before.trim().to_owned();
        self.note(Undo::Write { path: path.clone(), value })?;
        Ok(setting.apply(&self.root)?)
    }

    fn zram(&mut self, compressor: Option<&str>, bytes: u64, priority: i32) -> Result<(), Error> {
        self.note(Undo::RemoveNewZram { others: zram::devices(&self.root)? })?;
        let number = zram::add(&self.root)?;
        self.note(Undo::RemoveZram { number })?;
        for setting in zram::settings(number, compressor, bytes) {
            setting.apply(&self.root)?;
        }
        let device = zram::path(number);
        swap::format(&device, bytes)?;
        self.swap_on(&device, priority)
    }

    fn swap_on(&mut self, path: &Path, priority: i32) -> Result<(), Error> {
        self.note(Undo::SwapOff { path: path.to_owned() })?;
        Ok(swap::on(path, priority)?)
    }

    fn note(&mut self, undo: Undo) -> Result<(), Error> {
        let line = serde_json::to_string(&undo).expect("paths of ours are UTF-8") + "\n";
        let written = self.file.write_all(line.as_bytes());
        written.map_err(|error| Error::file("written", &self.undo_log, &error))
    }

    /// Undoes all changes.
    ///
    /// # Errors
    /// A change could not be undone; it stays in the log.
    pub fn undo(self) -> Result<(), Error> {
        undo(&self.root).map(drop)
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        // After `undo` there is no log, so this does nothing.
        if let Err(error) = undo(&self.root) {
            // `eprintln!` would panic without a terminal, and end the undoing.
            let _ = writeln!(io::stderr(), "pagewise-agent: {error}");
        }
    }
}

/// Waits for the end of the run whose guard this process is, then undoes what the run left. Returns
/// the number of changes.
///
/// # Errors
/// A change could not be undone.
pub fn undo_after_run(root: &Root) -> Result<usize, Error> {
    linux::guard::wait();
    undo(root)
}

/// Undoes the changes in the log, the last first, and removes the log; returns their number. After a failure it
/// still undoes the rest.
///
/// # Errors
/// The first failure; failed changes stay in the log.
pub fn undo(root: &Root) -> Result<usize, Error> {
    let path = undo_log(root);
    let text = match fs::read(&path) {
        // A crash may leave arbitrary bytes at the end: undo the lines that can be read.
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(Error::file("read", &path, &error)),
    };
    let mut count = 0;
    let mut failed = Vec::new();
    let mut first_error = None;
    for (line, undo) in entries(&text) {
        match undo.act(root) {
            Ok(()) => count += 1,
            Err(error) => {
                failed.push(line);
                first_error.get_or_insert(error);
            }
        }
    }
    let Some(error) = first_error else {
        return match fs::remove_file(&path) {
            Ok(()) => Ok(count),
            Err(error) => Err(Error::file("removed", &path, &error)),
        };
    };
    failed.reverse();
    write_whole(&path, (failed.join("\n") + "\n").as_bytes())
        .map_err(|error| Error::file("written", &path, &error))?;
    Err(Error::Refused(format!(
        "{error}; {} changes are not undone: try again with: pagewise-agent launch --undo",
        failed.len()
    )))
}

/// The lines of an undo log that need an action, the last first.
fn entries(log: &str) -> Vec<(&str, Undo)> {
    let mut is_zram_known = false;
    let mut entry = |line| {
        // A killed run may leave an incomplete line, for a change that was not made.
        let undo = serde_json::from_str(line).ok()?;
        is_zram_known |= matches!(undo, Undo::RemoveZram { .. });
        // Devices that were added later belong to other programs.
        let is_settled = is_zram_known && matches!(undo, Undo::RemoveNewZram { .. });
        (!is_settled).then_some((line, undo))
    };
    log.lines().rev().filter_map(&mut entry).collect()
}

impl Undo {
    fn act(&self, root: &Root) -> Result<(), Error> {
        match self {
            Undo::Write { path, value } => Ok(KernelSetting::new(path, value).apply(root)?),
            Undo::SwapOff { path } => Ok(swap::off(path)?),
            Undo::RemoveFile { path } => gone(path, fs::remove_file(path)),
            Undo::RemoveFolder { path } => gone(path, fs::remove_dir_all(path)),
            Undo::RemoveZram { number } => Ok(zram::remove(root, *number)?),
            Undo::RemoveNewZram { others } => Ok(zram::remove_unused(root, others)?),
            Undo::RemoveGroup { folder } => Ok(groups::remove_group(root, folder)?),
            Undo::RemoveGroups { memory, programs, is_v1 } => {
                let layout: Box<dyn Layout> = match is_v1 {
                    true => Box::new(V1::of(memory, programs)),
                    false => Box::new(V2::of(memory)),
                };
                Ok(groups::remove(root, layout.as_ref())?)
            }
        }
    }
}

/// The error of a removal, unless the path was already gone.
fn gone(path: &Path, result: io::Result<()>) -> Result<(), Error> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::file("removed", path, &error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A system whose undo log has `entries`, and an incomplete line as a killed run leaves it.
    fn left(entries: &[Undo]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        fs::create_dir_all(root.path(FOLDER)).unwrap();
        let lines: Vec<String> =
            entries.iter().map(|entry| serde_json::to_string(entry).unwrap()).collect();
        let half = b"\n{\"Write\":{\"pa\xff";
        fs::write(undo_log(&root), [lines.join("\n").as_bytes(), half].concat()).unwrap();
        (folder, root)
    }

    fn restore(path: &str, value: &str) -> Undo {
        Undo::Write { path: PathBuf::from(path), value: value.to_owned() }
    }

    #[test]
    fn the_last_change_is_undone_first() {
        let entries = [restore("/swappiness", "60"), restore("/swappiness", "100")];
        let (_folder, root) = left(&entries);
        fs::write(root.path("/swappiness"), "999").unwrap();
        assert_eq!(undo(&root).unwrap(), 2);
        assert_eq!(root.read("/swappiness").unwrap().unwrap(), "600");
        assert_eq!(undo(&root).unwrap(), 0);
    }

    #[test]
    fn a_failed_undo_stays_in_the_log_and_the_others_are_undone() {
        let (folder, root) = left(&[
            restore("/there", "1"),
            restore("/gone", "2"),
            Undo::RemoveFile { path: PathBuf::from("/no/such/file") },
        ]);
        fs::write(root.path("/there"), "0").unwrap();
        let error = undo(&root).unwrap_err().to_string();
        assert!(error.contains("/gone") && error.contains("1 changes are not undone"), "{error}");
        assert_eq!(root.read("/there").unwrap().unwrap(), "1");
        fs::write(folder.path().join("gone"), "0").unwrap();
        assert_eq!(undo(&root).unwrap(), 1);
        assert!(!undo_log(&root).exists());
    }

    #[test]
    fn a_zram_device_whose_number_was_not_written_is_found() {
        let new = || Undo::RemoveNewZram { others: vec!["zram0".to_owned()] };
        for (entries, removed) in [
            (vec![new()], "2"),
            // The number of the device was written, so other devices are not the run's.
            (vec![new(), Undo::RemoveZram { number: 7 }], "7"),
        ] {
            let (_folder, root) = left(&entries);
            // Devices of other programs, from before and since, unused and in use; and the run's own.
            for (name, is_set_up) in
                [("zram0", "0"), ("zram1", "1"), ("zram2", "0"), ("zram7", "1")]
            {
                let device = root.path(format!("/sys/block/{name}"));
                fs::create_dir_all(&device).unwrap();
                fs::write(device.join("initstate"), is_set_up).unwrap();
                fs::write(device.join("reset"), "").unwrap();
            }
            let control = root.path("/sys/class/zram-control");
            fs::create_dir_all(&control).unwrap();
            fs::write(control.join("hot_remove"), "").unwrap();
            assert_eq!(undo(&root).unwrap(), 1);
            assert_eq!(fs::read_to_string(control.join("hot_remove")).unwrap(), removed);
            assert_eq!(root.read("/sys/block/zram1/reset").unwrap().unwrap(), "");
        }
    }

    #[test]
    fn a_panic_undoes_what_was_changed() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        fs::create_dir_all(root.path(FOLDER)).unwrap();
        fs::write(root.path("/swappiness"), "060\n").unwrap();
        let layout = V2::new(Path::new("/cgroup"), "launch");
        let run = std::panic::AssertUnwindSafe(|| {
            let mut changes = Changes::begin(&root).unwrap();
            changes
                .apply(&ChangeStep::Set(KernelSetting::new("/swappiness", 100)), &layout)
                .unwrap();
            assert_eq!(root.read("/swappiness").unwrap().unwrap(), "100\n");
            assert!(Changes::begin(&root).unwrap_err().to_string().contains("--undo"));
            panic!("as a bug in the run would");
        });
        assert!(std::panic::catch_unwind(run).is_err());
        assert_eq!(root.read("/swappiness").unwrap().unwrap(), "060\n");
        assert!(!undo_log(&root).exists());
    }
}
