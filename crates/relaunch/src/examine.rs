//! Checks whether a relaunchd with these settings can start on this machine.

use linux::address_space::AddressSpace;
use linux::freezer::Freezer;
use linux::held_process::open_processes;
use linux::{Root, private_folder};

use crate::control::is_running_at;
use crate::{Config, Error};

/// What was found.
#[derive(Debug, Default)]
pub struct Examined {
    /// A line about the group of each application.
    pub groups: Vec<String>,
    /// Whether a program already listens at the control socket.
    pub is_running: bool,
    /// Features that relaunchd runs without.
    pub absent: Vec<String>,
}

/// Examines settings on this machine.
///
/// # Errors
/// The first reason for which relaunchd would not start, except a running one with the same settings.
pub fn examine(root: &Root, config: &Config) -> Result<Examined, Error> {
    let mut found =
        Examined { is_running: is_running_at(&config.sockets.control)?, ..Examined::default() };
    for watched in &config.apps {
        let line = match Freezer::at(root, &watched.cgroup)? {
            None => format!("{}: no cgroup {} yet", watched.name, watched.cgroup.display()),
            Some(group) => {
                let folder = root.open_folder(&group.folder)?;
                let is_free = private_folder::lock(&folder).unwrap_or(true);
                let note = if is_free { "" } else { ", watched by a running relaunchd" };
                let version = if group.notices().is_some() { 2 } else { 1 };
                let path = group.folder.display();
                format!("{}: {path}, version {version}{note}", watched.name)
            }
        };
        found.groups.push(line);
    }
    let own = AddressSpace::open(&open_processes(root)?, std::process::id());
    if !own.is_ok_and(|own| own.has_scan()) {
        let what = "PAGEMAP_SCAN (Linux 6.7): page maps are read entry by entry, which is slower";
        found.absent.push(what.to_owned());
    }
    Ok(found)
}
