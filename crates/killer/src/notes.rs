//! Notes of kills, written to a file before each kill, so that the next killer can finish them: a victim in a
//! frozen group of version 1 dies only once the group is thawed, and the group must be frozen again afterwards.
//!
//! Each running killer locks its own file, in a folder that only root or the killer's user can write.
//! Notes overwrite room that was written at the start, so that they fit on a full disk.

use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use daemon::log::TextRoom;
use linux::private_folder::PrivateFolder;
use linux::{Root, system};
use rustix::io::pwrite;

use crate::Error;

/// The folder of the files.
const FOLDER: &str = "/run/pagewise";
const PREFIX: &str = "killd-victims-";
/// Bytes of one note: two numbers, a time, and a path of a group.
const NOTE: usize = 1280;
/// Notes of one file: one bit each in `VictimNotes::taken`.
const NOTES: u32 = 64;
/// The most files of earlier killers that are read.
const FILES_MAX: usize = 64;

/// The file of this killer. It is removed when dropped.
#[derive(Debug)]
pub(crate) struct VictimNotes {
    folder: PrivateFolder,
    name: String,
    file: OwnedFd,
    /// A bit for each note in use.
    taken: AtomicU64,
}

/// One of the `NOTES` rooms for a note in the file.
#[derive(Clone, Copy, Debug)]
struct Room(u32);

/// A note of one victim. It is cleared when dropped: the kill is finished then.
#[derive(Debug)]
pub(crate) struct VictimNote {
    notes: Arc<VictimNotes>,
    room: Room,
    process: u32,
    start: u64,
}

/// A kill that an earlier killer did not finish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unfinished {
    pub process: u32,
    /// The start time of the process, in ticks since boot, by which a reused PID is recognised.
    pub start: u64,
    /// The time of the note, by CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// The state file of the group that the killer thawed, or was about to thaw.
    pub thawed: Option<PathBuf>,
}

impl VictimNotes {
    /// Creates a file; returns the unfinished kills of earlier killers, and removes their files.
    ///
    /// # Errors
    /// A folder that another user can write, or what the operating system refuses.
    pub(crate) fn open(root: &Root) -> Result<(Arc<VictimNotes>, Vec<Unfinished>), Error> {
        let path = root.path(FOLDER);
        let refused = |error| Error::refused(&format!("use {}", path.display()), error);
        let folder = PrivateFolder::open(&path).map_err(refused)?;
        let unfinished = unfinished(&folder).map_err(refused)?;
        let name = format!("{PREFIX}{}", std::process::id());
        let file = folder.create_locked(&name).map_err(refused)?;
        for room in (0..NOTES).map(Room) {
            pwrite(&file, &[0; NOTE], room.offset()).map_err(|error| refused(error.into()))?;
        }
        let notes = VictimNotes { folder, name, file, taken: AtomicU64::new(0) };
        Ok((Arc::new(notes), unfinished))
    }

    /// Notes that a process will be killed; None if all room is taken or the file cannot be written.
    pub(crate) fn victim(notes: &Arc<VictimNotes>, process: u32, start: u64) -> Option<VictimNote> {
        let taken = notes.taken.fetch_update(Relaxed, Relaxed, |taken| {
            (taken != u64::MAX).then(|| taken | 1 << taken.trailing_ones())
        });
        let room = Room(taken.ok()?.trailing_ones());
        let note = VictimNote { notes: Arc::clone(notes), room, process, start };
        note.write(b"").then_some(note)
    }
}

impl Drop for VictimNotes {
    fn drop(&mut self) {
        self.folder.remove(&self.name);
    }
}

impl VictimNote {
    /// Notes that the group with this state file will be thawed, and must be frozen again.
    pub(crate) fn thaws(&self, state: &CStr) -> bool {
        self.write(state.to_bytes())
    }

    fn write(&self, path: &[u8]) -> bool {
        let mut text = TextRoom::<NOTE>::empty();
        let VictimNote { process, start, .. } = self;
        // A path that does not fit is not written.
        let is_whole = text.put(format_args!("{process} {start} {} ", system::monotonic_ns()))
            && text.put_bytes(path)
            && text.put_bytes(b"\n");
        is_whole && pwrite(&self.notes.file, text.whole(), self.room.offset()).is_ok()
    }
}

impl Drop for VictimNote {
    fn drop(&mut self) {
        let _ = pwrite(&self.notes.file, &[0; NOTE], self.room.offset());
        self.notes.taken.fetch_and(!self.room.bit(), Relaxed);
    }
}

impl Room {
    fn offset(self) -> u64 {
        u64::from(self.0) * NOTE as u64
    }

    /// The bit of this room in `VictimNotes::taken`.
    fn bit(self) -> u64 {
        1 << self.0
    }
}

/// Reads the notes of killers that no longer run, and removes their files.
fn unfinished(folder: &PrivateFolder) -> io::Result<Vec<Unfinished>> {
    let left = folder.take_left(PREFIX, FILES_MAX, NOTES as usize * NOTE)?;
    Ok(left.iter().flat_map(|text| text.chunks(NOTE)).filter_map(parse).collect())
}

/// The note in a piece of a file; None if it is empty or incomplete.
fn parse(piece: &[u8]) -> Option<Unfinished> {
    let end = piece.iter().position(|&byte| byte == b'\n')?;
    let text = std::str::from_utf8(&piece[..end]).ok()?;
    let mut parts = text.splitn(4, ' ');
    let (process, start) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let at_ns = parts.next()?.parse().ok()?;
    let path = parts.next()?;
    let thawed = (!path.is_empty()).then(|| Path::new(path).to_owned());
    Some(Unfinished { process, start, at_ns, thawed })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn root() -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("run")).unwrap();
        let root = Root::at(folder.path());
        (folder, root)
    }

    /// Leaves the file of a killed killer, which is no longer locked.
    fn left(root: &Root, notes: Arc<VictimNotes>, note: VictimNote) -> PathBuf {
        let path = root.path(FOLDER).join(format!("{PREFIX}1"));
        fs::copy(root.path(FOLDER).join(&notes.name), &path).unwrap();
        drop((note, notes));
        path
    }

    #[test]
    fn an_unfinished_kill_is_found_once() {
        let (_folder, root) = root();
        let (notes, none) = VictimNotes::open(&root).unwrap();
        assert_eq!(none, []);
        let note = VictimNotes::victim(&notes, 77, 1234).unwrap();
        drop(VictimNotes::victim(&notes, 78, 1).unwrap());
        let path = left(&root, notes, note);
        let (notes, found) = VictimNotes::open(&root).unwrap();
        let [Unfinished { process: 77, start: 1234, thawed: None, .. }] = &found[..] else {
            panic!("{found:?}")
        };
        assert!(!path.exists());
        let note = VictimNotes::victim(&notes, 79, 5).unwrap();
        assert!(note.thaws(c"/sys/fs/cgroup/freezer/a b/freezer.state"));
        left(&root, notes, note);
        let (notes, found) = VictimNotes::open(&root).unwrap();
        let thawed = Some(PathBuf::from("/sys/fs/cgroup/freezer/a b/freezer.state"));
        assert_eq!((found[0].process, &found[0].thawed), (79, &thawed));
        drop(notes);
        assert_eq!(fs::read_dir(root.path(FOLDER)).unwrap().count(), 0);
        assert_eq!(VictimNotes::open(&root).unwrap().1, []);
    }

    #[test]
    fn room_of_dropped_notes_is_used_again() {
        let (_folder, root) = root();
        let (notes, _) = VictimNotes::open(&root).unwrap();
        for _ in 0..3 {
            let all: Vec<VictimNote> =
                (0..NOTES).map(|number| VictimNotes::victim(&notes, number, 0).unwrap()).collect();
            assert!(VictimNotes::victim(&notes, 1, 0).is_none());
            drop(all);
        }
        let note = VictimNotes::victim(&notes, 1, 0).unwrap();
        let long = std::ffi::CString::new(vec![b'x'; NOTE]).unwrap();
        assert!(!note.thaws(&long), "a path that does not fit is refused");
    }

    #[test]
    fn files_of_other_programs_are_left_alone() {
        let (folder, root) = root();
        let (notes, _) = VictimNotes::open(&root).unwrap();
        let run = root.path(FOLDER);
        // A running killer's file, links to another file, a folder, and a file without a note.
        let victim = folder.path().join("victim");
        fs::write(&victim, "77 1 0 \n").unwrap();
        symlink(&victim, run.join(format!("{PREFIX}2"))).unwrap();
        fs::create_dir(run.join(format!("{PREFIX}3"))).unwrap();
        fs::hard_link(&victim, run.join(format!("{PREFIX}4"))).unwrap();
        fs::write(run.join(format!("{PREFIX}5")), "77 x\nnot a note").unwrap();
        let note = VictimNotes::victim(&notes, 9, 9).unwrap();
        assert_eq!(unfinished(&notes.folder).unwrap(), []);
        assert!(run.join(&notes.name).exists() && victim.exists());
        drop((note, notes));

        // A link with the name of the new file is not followed.
        let aim = folder.path().join("aim");
        symlink(&aim, run.join(format!("{PREFIX}{}", std::process::id()))).unwrap();
        assert!(VictimNotes::open(&root).is_err());
        assert!(!aim.exists());
    }

    #[test]
    fn a_folder_that_others_can_write_is_not_used() {
        let (_folder, root) = root();
        let run = root.path(FOLDER);
        fs::create_dir(&run).unwrap();
        fs::set_permissions(&run, PermissionsExt::from_mode(0o777)).unwrap();
        let error = VictimNotes::open(&root).unwrap_err().to_string();
        assert!(error.contains("others can write there"), "{error}");
    }
}
