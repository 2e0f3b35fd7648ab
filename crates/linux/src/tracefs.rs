//! Finds tracefs, or mounts it privately. The kernel keeps a private mount in an otherwise empty mount namespace
//! (fsopen and fsmount, Linux 5.2): it has no path, other processes do not see it, and it ends with the
//! last process that holds it, even after SIGKILL.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use crate::Root;

/// The usual mount points of tracefs.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// A tracefs that this process can use.
#[derive(Debug)]
pub struct Tracefs {
    folder: PathBuf,
    own: Option<OwnedFd>,
}

impl Tracefs {
    /// Finds tracefs. If it is not mounted, mounts it only for this process.
    ///
    /// # Errors
    /// The reason why it cannot be used, with advice.
    pub fn of(root: &Root) -> Result<Tracefs, String> {
        if let Some(place) = PLACES.iter().find(|place| root.exists(format!("{place}/instances"))) {
            return Ok(Tracefs { folder: root.path(place), own: None });
        }
        // In a test's folder, do not mount.
        let mounted = if root.is_system() { mount() } else { Err(Errno::NODEV) };
        let own = mounted.map_err(reason)?;
        let folder = PathBuf::from(format!("/proc/self/fd/{}", own.as_raw_fd()));
        Ok(Tracefs { folder, own: Some(own) })
    }

    /// The folder of tracefs. The path of a private mount is valid in this process, and in a child until it calls exec.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether tracefs is mounted only for this process.
    pub fn is_own(&self) -> bool {
        self.own.is_some()
    }
}

fn mount() -> Result<OwnedFd, Errno> {
    let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
}

fn reason(error: Errno) -> String {
    match error {
        Errno::NODEV => "this kernel was built without tracefs".to_owned(),
        Errno::PERM => "tracefs is not mounted where this process can read it, and the kernel does not let it mount \
                        tracefs; run as root (CAP_SYS_ADMIN)"
            .to_owned(),
        other => format!(
            "tracefs is not mounted, and mounting it failed ({other}); as root: mount -t tracefs nodev {}",
            PLACES[0]
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mounted_tracefs_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        assert!(Tracefs::of(&root).unwrap_err().contains("without tracefs"));
        std::fs::create_dir_all(root.path("/sys/kernel/debug/tracing/instances")).unwrap();
        let found = Tracefs::of(&root).unwrap();
        assert_eq!(found.folder(), root.path("/sys/kernel/debug/tracing"));
        assert!(!found.is_own());
    }

    #[test]
    fn a_refused_mount_names_the_remedy() {
        assert!(reason(Errno::PERM).contains("run as root"));
        assert!(reason(Errno::NOSYS).contains("mount -t tracefs nodev /sys/kernel/tracing"));
    }
}
