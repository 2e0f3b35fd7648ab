//! A cgroup that can be frozen: in the freezer hierarchy of version 1 (`freezer.state`), or in version 2
//! (`cgroup.freeze`).

use std::path::{Path, PathBuf};

use crate::cgroup::{Version, each_process_below};
use crate::groups::{self, Layout, V1, V2};
use crate::{Error, Root, unescape};

/// A group, and how it is frozen.
#[derive(Debug)]
pub struct Freezer {
    /// The absolute path of its folder.
    pub folder: PathBuf,
    layout: Box<dyn Layout>,
    name: String,
}

impl Freezer {
    /// Finds the group at `path`: an absolute path, or one that is relative to the root of a hierarchy, as in
    /// `/proc/PID/cgroup`. None if there is no such group now.
    ///
    /// # Errors
    /// No hierarchy with a freezer is mounted, or the path is not a cgroup that can be frozen.
    pub fn at(root: &Root, path: &Path) -> Result<Option<Freezer>, Error> {
        let mounts = mounts(root)?;
        if mounts.is_empty() {
            let what = "no cgroup hierarchy with a freezer is mounted; as root: mount -t cgroup -o \
                        freezer cgroup FOLDER";
            return Err(Error::unexpected("/proc/self/mounts", what));
        }
        let inside = mounts.iter().find(|(mount, _)| path.starts_with(mount));
        let below = |mount: &Path| mount.join(path.strip_prefix("/").unwrap_or(path));
        let mut folders: Vec<(PathBuf, Version)> = match inside {
            Some((_, version)) => vec![(path.to_owned(), *version)],
            None => mounts.iter().map(|(mount, version)| (below(mount), *version)).collect(),
        };
        folders.retain(|(folder, _)| root.exists(folder));
        let Some((folder, version)) =
            folders.iter().find(|(folder, version)| root.exists(folder.join(state_file(*version))))
        else {
            return match folders.first() {
                None => Ok(None),
                // The root of a hierarchy cannot be frozen either.
                Some((folder, version)) => {
                    let what = format!(
                        "is not a cgroup that can be frozen: it has no {}",
                        state_file(*version)
                    );
                    Err(Error::unexpected(folder, what))
                }
            };
        };
        let parent = folder.parent().unwrap_or(folder);
        let layout: Box<dyn Layout> = match version {
            Version::V1 => Box::new(V1::of(parent, parent)),
            Version::V2 => Box::new(V2::of(parent)),
        };
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Some(Freezer { folder: folder.clone(), layout, name }))
    }

    /// The version of the control groups.
    pub fn version(&self) -> Version {
        self.layout.version()
    }

    /// The file that the kernel changes when the group freezes or thaws; None in version 1, which has no notices.
    pub fn notices(&self) -> Option<PathBuf> {
        (self.version() == Version::V2).then(|| self.folder.join("cgroup.events"))
    }

    /// Whether the group still exists.
    pub fn exists(&self, root: &Root) -> bool {
        root.exists(self.folder.join("cgroup.procs"))
    }

    /// Whether every task of the group has stopped.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn is_frozen(&self, root: &Root) -> Result<bool, Error> {
        self.layout.is_frozen(root, &self.name)
    }

    /// Freezes the group and waits until its tasks have stopped; false if some did not stop in time.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn freeze(&self, root: &Root) -> Result<bool, Error> {
        groups::freeze(root, self.layout.as_ref(), &self.name)
    }

    /// Thaws the group.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn thaw(&self, root: &Root) -> Result<(), Error> {
        self.layout.freeze(&self.name, false).apply(root)
    }

    /// The PIDs of processes in the group and in groups below it, in order; empty if the group was removed.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn processes(&self, root: &Root) -> Result<Vec<u32>, Error> {
        let mut found = Vec::new();
        let walked = root.open_folder(&self.folder).and_then(|folder| {
            each_process_below(&folder, &mut |process| found.push(process))
                .map_err(|error| Error::refused("list processes of", &self.folder, error.into()))
        });
        match walked {
            Err(error) if self.exists(root) => Err(error),
            _ => {
                found.sort_unstable();
                Ok(found)
            }
        }
    }
}

/// The file whose presence shows that a group can be frozen.
fn state_file(version: Version) -> &'static str {
    match version {
        Version::V1 => "freezer.state",
        Version::V2 => "cgroup.freeze",
    }
}

/// Mount points of hierarchies with a freezer.
fn mounts(root: &Root) -> Result<Vec<(PathBuf, Version)>, Error> {
    let text = root.read("/proc/self/mounts")?.unwrap_or_default();
    let mount = |line: &str| {
        let mut fields = line.split_whitespace();
        let (mount, kind, options) = (fields.nth(1)?, fields.next()?, fields.next()?);
        let version = match kind {
            "cgroup2" => Version::V2,
            "cgroup" if options.split(',').any(|option| option == "freezer") => Version::V1,
            _ => return None,
        };
        Some((unescape(mount), version))
    };
    Ok(text.lines().filter_map(mount).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn groups_of_both_versions_are_found_and_frozen() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let write = |path: &str, text: &str| {
            fs::create_dir_all(root.path(path).parent().unwrap()).unwrap();
            fs::write(root.path(path), text).unwrap();
        };
        write("/proc/self/mounts", "none / ext4 rw 0 0\n");
        let error = Freezer::at(&root, Path::new("/a")).unwrap_err().to_string();
        assert!(error.contains("mount -t cgroup -o freezer"), "{error}");
        let mounts = "a /one/freezer cgroup rw,freezer 0 0\nb /two cgroup2 rw 0 0\n";
        write("/proc/self/mounts", mounts);
        assert!(Freezer::at(&root, Path::new("/apps/notes")).unwrap().is_none());

        write("/one/freezer/apps/notes/freezer.state", "FROZEN\n");
        write("/one/freezer/apps/notes/cgroup.procs", "9\n7\n");
        for path in ["/apps/notes", "apps/notes", "/one/freezer/apps/notes"] {
            let group = Freezer::at(&root, Path::new(path)).unwrap().unwrap();
            assert_eq!((group.version(), group.notices()), (Version::V1, None));
            assert_eq!(group.processes(&root).unwrap(), [7, 9]);
            assert!(group.is_frozen(&root).unwrap());
        }
        let group = Freezer::at(&root, Path::new("/apps/notes")).unwrap().unwrap();
        group.thaw(&root).unwrap();
        assert!(!group.is_frozen(&root).unwrap());

        write("/two/apps/mail/cgroup.freeze", "0\n");
        write("/two/apps/mail/cgroup.procs", "");
        write("/two/apps/mail/cgroup.events", "populated 1\nfrozen 1\n");
        let group = Freezer::at(&root, Path::new("/apps/mail")).unwrap().unwrap();
        assert_eq!(group.notices(), Some(PathBuf::from("/two/apps/mail/cgroup.events")));
        assert!(group.freeze(&root).unwrap() && group.exists(&root));
        assert_eq!(root.read("/two/apps/mail/cgroup.freeze").unwrap().unwrap(), "1\n");
        fs::remove_dir_all(root.path("/two/apps/mail")).unwrap();
        assert_eq!(group.processes(&root).unwrap(), [0; 0]);
        let error = Freezer::at(&root, Path::new("/two")).unwrap_err().to_string();
        assert!(error.contains("cannot be frozen") || error.contains("can be frozen"), "{error}");
    }
}
