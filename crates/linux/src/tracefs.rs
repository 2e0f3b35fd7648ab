//! Tracefs, where it is mounted, or else through a mount of our own. The kernel keeps our mount in a mount
//! namespace that has nothing else (fsopen and fsmount, Linux 5.2): it has no path, other processes do not
//! see it, and it ends with the last process that holds it, also after SIGKILL.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use crate::Root;

/// Where systems mount it.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// A tracefs that this process can use.
#[derive(Debug)]
pub struct Tracefs {
    folder: PathBuf,
    own: Option<OwnedFd>,
}

impl Tracefs {
    /// Finds tracefs. If it is not mounted, mounts it for this process alone.
    ///
    /// # Errors
    /// Why it cannot be used, and what helps.
    pub fn of(root: &Root) -> Result<Tracefs, String> {
        if let Some(place) = PLACES.iter().find(|place| root.exists(format!("{place}/instances"))) {
            return Ok(Tracefs { folder: root.path(place), own: None });
        }
        // A folder that stands for the system has only what a test put there.
        let mounted = if root.is_system() { mount() } else { Err(Errno::NODEV) };
        let own = mounted.map_err(why_not)?;
        let folder = PathBuf::from(format!("/proc/self/fd/{}", own.as_raw_fd()));
        Ok(Tracefs { folder, own: Some(own) })
    }

    /// Its folder. The path of an own mount is valid in this process, and in a child until it calls exec.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether it is mounted for this process alone.
    pub fn is_own(&self) -> bool {
        self.own.is_some()
    }
}

fn mount() -> Result<OwnedFd, Errno> {
    let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
}

fn why_not(error: Errno) -> String {
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
    fn a_mounted_tracefs_is_used_where_it_is() {
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
        assert!(why_not(Errno::PERM).contains("run as root"));
        assert!(why_not(Errno::NOSYS).contains("mount -t tracefs nodev /sys/kernel/tracing"));
    }
}
