//! The files that pages belong to, with a number for page keys, a path and a class for each.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use types::PageClass;

use crate::ADDRESS_BITS;

/// Bits of a file page's address that hold the page's index in the file; the bits above them hold the
/// number of the file. A larger file has a number for each 64 GiB.
pub const FILE_PAGE_BITS: u32 = 24;

/// Largest number of files: the rest of an address has no room for more.
const FILES_MAX: usize = 1 << (ADDRESS_BITS - FILE_PAGE_BITS);

/// A file with pages in a trace; its index in `Header::files` is its number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct File {
    /// The file system's device as major:minor.
    pub device: String,
    /// Number of the inode.
    pub inode: u64,
    /// The first page of this entry; 0 except for the parts beyond 64 GiB of a file.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub first_page: u64,
    /// Path of the file; empty if the recording does not know it.
    pub path: String,
    /// Name of the class of its pages.
    pub class: String,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Files by number.
#[derive(Debug, Default)]
pub struct Files {
    files: Vec<File>,
    classes: Vec<PageClass>,
    /// The file that has each device and inode now.
    known: HashMap<(u32, u64), Known>,
}

#[derive(Debug, Default)]
struct Known {
    path: String,
    /// The file's parts of 64 GiB that have pages, and the number of each.
    parts: Vec<(u64, u32)>,
}

impl Files {
    /// Names the file that has this inode from now on; another file may have had the inode before.
    pub fn name(&mut self, device: u32, inode: u64, path: String) {
        let known = self.known.entry((device, inode)).or_default();
        if known.path != path {
            *known = Known { path, parts: Vec::new() };
        }
    }

    /// The address of page `page` of a file and its class; `None` beyond a million files.
    pub fn page(&mut self, device: u32, inode: u64, page: u64) -> Option<(u64, PageClass)> {
        let (part, place) = (page >> FILE_PAGE_BITS, page & ((1 << FILE_PAGE_BITS) - 1));
        if self.files.len() == FILES_MAX && !self.known.contains_key(&(device, inode)) {
            return None;
        }
        let known = self.known.entry((device, inode)).or_default();
        let number = match known.parts.iter().find(|(there, _)| *there == part) {
            Some(&(_, number)) => number,
            None if self.files.len() == FILES_MAX => return None,
            None => {
                let number = self.files.len() as u32;
                known.parts.push((part, number));
                let class = class_of(&known.path);
                self.classes.push(class);
                self.files.push(File {
                    device: device_name(device),
                    inode,
                    first_page: part << FILE_PAGE_BITS,
                    path: known.path.clone(),
                    class: class.name().to_owned(),
                });
                number
            }
        };
        Some((u64::from(number) << FILE_PAGE_BITS | place, self.classes[number as usize]))
    }

    /// Every file with pages, by number.
    pub fn list(&self) -> &[File] {
        &self.files
    }
}

/// The kernel's device number as major:minor; its low 20 bits are the minor number.
pub fn device_name(device: u32) -> String {
    format!("{}:{}", device >> 20, device & 0xf_ffff)
}

/// Folders with the programs and files of services (Filesystem Hierarchy Standard 3.0; on Android the
/// system and vendor partitions).
const SERVICE_FOLDERS: [&str; 9] = [
    "/sbin/",
    "/usr/sbin/",
    "/usr/libexec/",
    "/lib/systemd/",
    "/usr/lib/systemd/",
    "/etc/",
    "/var/log/",
    "/system/",
    "/vendor/",
];

/// The class of the pages of the file at `path`. Files outside the service folders belong to
/// applications.
pub fn class_of(path: &str) -> PageClass {
    let name = path.rsplit('/').next().unwrap_or_default();
    if path.is_empty() {
        PageClass::Other
    } else if name.ends_with(".so") || name.contains(".so.") {
        PageClass::SharedLibrary
    } else if SERVICE_FOLDERS.iter().any(|folder| path.starts_with(folder)) {
        PageClass::Service
    } else {
        PageClass::OwnFile
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_follow_from_paths() {
        let cases = [
            ("/usr/lib/libc.so.6", PageClass::SharedLibrary),
            ("/usr/lib/python3/_json.so", PageClass::SharedLibrary),
            ("/usr/sbin/sshd", PageClass::Service),
            ("/usr/bin/node", PageClass::OwnFile),
            ("/opt/a.sort", PageClass::OwnFile),
            ("", PageClass::Other),
        ];
        for (path, class) in cases {
            assert_eq!(class_of(path), class, "{path}");
        }
    }

    #[test]
    fn an_inode_with_a_new_path_is_another_file() {
        let mut files = Files::default();
        files.name(1, 7, "/usr/lib/a.so".into());
        let first = files.page(1, 7, 3).unwrap();
        assert_eq!(first, (3, PageClass::SharedLibrary));
        files.name(1, 7, "/usr/lib/a.so".into());
        assert_eq!(files.page(1, 7, 3), Some(first));
        files.name(1, 7, "/tmp/b".into());
        assert_eq!(files.page(1, 7, 3), Some((1 << FILE_PAGE_BITS | 3, PageClass::OwnFile)));
        assert_eq!(files.page(2, 7, 0), Some((2 << FILE_PAGE_BITS, PageClass::Other)));
        let far = files.page(1, 7, 2 << FILE_PAGE_BITS | 5).unwrap();
        assert_eq!(far, (3 << FILE_PAGE_BITS | 5, PageClass::OwnFile));
        let paths: Vec<&str> = files.list().iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["/usr/lib/a.so", "/tmp/b", "", "/tmp/b"]);
        assert_eq!(files.list()[3].first_page, 2 << FILE_PAGE_BITS);
    }
}
