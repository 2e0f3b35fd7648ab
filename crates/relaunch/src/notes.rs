//! Notes of the groups that relaunchd has frozen, in a file that outlives it: the next relaunchd thaws what a killed one
//! left frozen.
//!
//! Each running relaunchd locks its own file, in a folder that only root or its user can write. A group is noted before
//! it is frozen, and its note is cleared after it is thawed.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use linux::Root;
use linux::private_folder::PrivateFolder;
use rustix::io::pwrite;

use crate::Error;
use crate::config::{APPS_MAX, GROUP_BYTES_MAX};

/// The folder of the files.
const FOLDER: &str = "/run/pagewise";
const PREFIX: &str = "relaunchd-frozen-";
/// Bytes of one note: a path below a mount point, and a newline.
const NOTE: usize = GROUP_BYTES_MAX + 280;
/// The most files of earlier relaunchds that are read.
const FILES_MAX: usize = 64;

/// The file of this relaunchd. It is removed when dropped.
#[derive(Debug)]
pub(crate) struct FrozenNotes {
    folder: PrivateFolder,
    name: String,
    file: OwnedFd,
    taken: Vec<bool>,
}

/// The place of a note in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(usize);

impl FrozenNotes {
    /// Creates a file; returns the groups that earlier relaunchds left frozen, and removes their files.
    ///
    /// # Errors
    /// A folder that another user can write, or what the operating system refuses.
    pub(crate) fn open(root: &Root) -> Result<(FrozenNotes, Vec<PathBuf>), Error> {
        let path = root.path(FOLDER);
        let refused = |error: io::Error| Error::refused(&format!("use {}", path.display()), error);
        let folder = PrivateFolder::open(&path).map_err(refused)?;
        let left = folder.take_left(PREFIX, FILES_MAX, APPS_MAX * NOTE).map_err(refused)?;
        let left = left.iter().flat_map(|text| text.chunks(NOTE)).filter_map(group_in).collect();
        let name = format!("{PREFIX}{}", std::process::id());
        let file = folder.create_locked(&name).map_err(refused)?;
        // Room that is written now is there on a full disk, too.
        for place in 0..APPS_MAX {
            let offset = (place * NOTE) as u64;
            pwrite(&file, &[0; NOTE], offset).map_err(|error| refused(error.into()))?;
        }
        Ok((FrozenNotes { folder, name, file, taken: vec![false; APPS_MAX] }, left))
    }

    /// Notes that the group at `path` is about to be frozen.
    ///
    /// # Errors
    /// The note cannot be written, so the group must not be frozen.
    pub(crate) fn add(&mut self, path: &Path) -> Result<Place, Error> {
        let refused = |error: io::Error| Error::refused("note a frozen group", error);
        let bytes = path.as_os_str().as_encoded_bytes();
        let free = self.taken.iter().position(|is_taken| !is_taken);
        let (Some(place), true) = (free, bytes.len() < NOTE && !bytes.contains(&b'\n')) else {
            return Err(refused(io::Error::other(format!("no room for {}", path.display()))));
        };
        let mut text = [0; NOTE];
        text[..bytes.len()].copy_from_slice(bytes);
        text[bytes.len()] = b'\n';
        pwrite(&self.file, &text, (place * NOTE) as u64).map_err(|error| refused(error.into()))?;
        self.taken[place] = true;
        Ok(Place(place))
    }

    /// Clears a note: its group is thawed.
    pub(crate) fn clear(&mut self, place: Place) {
        let _ = pwrite(&self.file, &[0; NOTE], (place.0 * NOTE) as u64);
        self.taken[place.0] = false;
    }
}

impl Drop for FrozenNotes {
    fn drop(&mut self) {
        self.folder.remove(&self.name);
    }
}

/// The group in a piece of a file; None if it is empty or incomplete.
fn group_in(piece: &[u8]) -> Option<PathBuf> {
    let end = piece.iter().position(|&byte| byte == b'\n')?;
    let text = std::str::from_utf8(&piece[..end]).ok()?;
    text.starts_with('/').then(|| PathBuf::from(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_group_that_a_killed_relaunchd_left_frozen_is_found_once() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("run")).unwrap();
        let root = Root::at(folder.path());
        let (mut notes, left) = FrozenNotes::open(&root).unwrap();
        assert!(left.is_empty(), "{left:?}");
        let group = Path::new("/sys/fs/cgroup/freezer/apps/a b");
        let first = notes.add(Path::new("/first")).unwrap();
        notes.add(group).unwrap();
        notes.clear(first);
        assert_eq!(notes.add(Path::new("/again")).unwrap(), first);
        notes.clear(first);
        assert!(notes.add(&Path::new("/").join("x".repeat(NOTE))).is_err());
        // A killed relaunchd: its file stays without a lock.
        let path = root.path(FOLDER).join(format!("{PREFIX}1"));
        fs::copy(root.path(FOLDER).join(&notes.name), &path).unwrap();
        drop(notes);
        let (notes, left) = FrozenNotes::open(&root).unwrap();
        assert_eq!(left, [group]);
        assert!(!path.exists());
        drop(notes);
        assert_eq!(fs::read_dir(root.path(FOLDER)).unwrap().count(), 0);
    }

    #[test]
    fn there_is_room_for_every_application() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("run")).unwrap();
        let (mut notes, _) = FrozenNotes::open(&Root::at(folder.path())).unwrap();
        for number in 0..APPS_MAX {
            notes.add(Path::new(&format!("/{number}"))).unwrap();
        }
        let error = notes.add(Path::new("/more")).unwrap_err().to_string();
        assert!(error.contains("cannot note a frozen group"), "{error}");
    }
}
