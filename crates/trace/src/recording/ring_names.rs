//! Names of files whose segments a ring has forgotten. They are kept because the BPF programs pass a name only once.

use std::collections::BTreeMap;

use super::FileName;

/// Upper bound of the bytes of an entry beyond its path: the key, the string and its place in a tree.
const ENTRY_BYTES: usize = 96;

/// Names in a bounded number of bytes. The names seen or given last are in `newer`; if that is half full, it becomes
/// `older`, and the names of `older` are forgotten.
///
/// bytes(newer) <= bytes_max / 2, bytes(older) <= bytes_max / 2
#[derive(Default)]
pub(super) struct RingNames {
    bytes_max: usize,
    newer: Half,
    older: Half,
    forgotten: u64,
}

#[derive(Default)]
struct Half {
    paths: BTreeMap<(u32, u64), String>,
    bytes: usize,
}

impl Half {
    fn remove(&mut self, key: (u32, u64)) {
        if let Some(path) = self.paths.remove(&key) {
            self.bytes -= path.len() + ENTRY_BYTES;
        }
    }
}

impl RingNames {
    /// No names yet, and at most `bytes_max` bytes of them.
    pub(super) fn new(bytes_max: usize) -> RingNames {
        RingNames { bytes_max, ..RingNames::default() }
    }

    /// Adds a name, which replaces that of an earlier file with the same inode.
    pub(super) fn add(&mut self, name: FileName) {
        let FileName { device, inode, mut path } = name;
        let key = (device, inode);
        self.newer.remove(key);
        self.older.remove(key);
        path.shrink_to_fit();
        let bytes = path.len() + ENTRY_BYTES;
        if bytes > self.bytes_max / 2 {
            self.forgotten += 1;
            return;
        }
        if self.newer.bytes + bytes > self.bytes_max / 2 {
            let newer = std::mem::take(&mut self.newer);
            let forgotten = std::mem::replace(&mut self.older, newer);
            self.forgotten += forgotten.paths.len() as u64;
        }
        self.newer.bytes += bytes;
        self.newer.paths.insert(key, path);
    }

    /// All names, by device and inode.
    pub(super) fn list(&self) -> Vec<FileName> {
        let mut all: Vec<FileName> = [&self.older, &self.newer]
            .into_iter()
            .flat_map(|half| &half.paths)
            .map(|(&(device, inode), path)| FileName { device, inode, path: path.clone() })
            .collect();
        all.sort_by_key(|name| (name.device, name.inode));
        all
    }

    /// Names that were forgotten because the table was full.
    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(inode: u64, path: &str) -> FileName {
        FileName { device: 1, inode, path: path.to_owned() }
    }

    #[test]
    fn the_last_names_stay_and_the_bytes_are_bounded() {
        let mut names = RingNames::new(20 * (ENTRY_BYTES + 2));
        for inode in 0..1000 {
            names.add(name(inode, "/x"));
            let kept = names.list();
            assert!(kept.len() <= 20);
            let expected: Vec<u64> = (0..=inode).rev().take(kept.len()).collect();
            assert!(kept.len() as u64 >= (inode + 1).min(10), "{inode}: {}", kept.len());
            assert!(kept.iter().rev().map(|name| name.inode).eq(expected));
            assert_eq!(names.forgotten() + kept.len() as u64, inode + 1);
        }
    }

    #[test]
    fn the_name_of_a_later_file_replaces_that_of_an_earlier_file() {
        let mut names = RingNames::new(1 << 12);
        names.add(name(7, "/old"));
        names.add(name(7, "/new"));
        assert_eq!(names.list(), [name(7, "/new")]);
        assert_eq!(names.forgotten(), 0);
        names.add(name(8, &"/long".repeat(1000)));
        assert_eq!((names.list().len(), names.forgotten()), (1, 1));
    }
}
