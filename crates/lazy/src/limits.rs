//! The memory available to the process: the machine's available memory, and the limits of its memory
//! cgroups, of either version.

use types::Bytes;

use crate::text::{Text, lines, number, read};

/// Memory that may be used, if it can be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// Available memory of the machine, or the lowest limit of a group if that is less.
    pub whole: Option<Bytes>,
    /// Least memory left in any group; none if no group has a limit.
    pub left: Option<Bytes>,
}

impl Reach {
    /// Reads the limits only, as if nothing were in use: two short files per group.
    pub fn at_start() -> Reach {
        let limit = least(|group| group.limit());
        Reach { whole: available().into_iter().chain(limit).min(), left: limit }
    }

    /// Reads the current usage as well, from one long file per group.
    pub fn now() -> Reach {
        Reach { left: least(|group| group.left()), ..Reach::at_start() }
    }
}

fn available() -> Option<Bytes> {
    let mut room = [0; 256];
    let text = read(&Text::of(&[b"/proc/meminfo"]), &mut room)?;
    Some(Bytes(value(text, b"MemAvailable:")? << 10))
}

/// The least of the groups' answers.
fn least(ask: fn(&Group) -> Option<Bytes>) -> Option<Bytes> {
    let mut least = None;
    each_group(&mut |group| least = least.into_iter().chain(ask(group)).min());
    least
}

/// A memory cgroup that the process is in.
#[derive(Debug)]
pub struct Group<'a> {
    /// Names of its files.
    pub files: &'static Files,
    mount: &'a [u8],
    path: &'a [u8],
}

/// Names of the files in one cgroup version.
#[derive(Debug)]
pub struct Files {
    limits: &'static [&'static [u8]],
    usage: &'static [u8],
    statistics: &'static [u8],
    /// In the statistics: pages that the kernel takes without writing them, including lazily freed
    /// ones.
    inactive: &'static [u8],
    /// File that reports that the group is short of memory.
    pub pressure: &'static [u8],
    /// File through which a report is requested, if it is another one.
    pub control: Option<&'static [u8]>,
}

const MOUNT: [&[u8]; 2] = [b"/sys/fs/cgroup/memory", b"/sys/fs/cgroup"];
static FILES: [Files; 2] = [
    Files {
        limits: &[b"memory.limit_in_bytes"],
        usage: b"memory.usage_in_bytes",
        statistics: b"memory.stat",
        inactive: b"total_inactive_file ",
        pressure: b"memory.pressure_level",
        control: Some(b"cgroup.event_control"),
    },
    Files {
        limits: &[b"memory.max", b"memory.high"],
        usage: b"memory.current",
        statistics: b"memory.stat",
        inactive: b"inactive_file ",
        pressure: b"memory.pressure",
        control: None,
    },
];
/// A limit from here on means no limit: version 1 writes the largest number of pages it can count.
const UNLIMITED: u64 = 1 << 60;

/// Calls `visit` for the process's memory cgroups, inner ones first.
pub fn each_group(visit: &mut dyn FnMut(&Group)) {
    let mut room = [0; 2048];
    let Some(text) = read(&Text::of(&[b"/proc/self/cgroup"]), &mut room) else { return };
    for (version, path) in lines(text).filter_map(version_and_path) {
        let (Some(files), Some(mount)) = (FILES.get(version), MOUNT.get(version)) else { return };
        each_above(&Group { files, mount, path }, visit);
    }
}

/// Calls `visit` for the group and its ancestors.
fn each_above(group: &Group, visit: &mut dyn FnMut(&Group)) {
    let mut path = group.path.strip_suffix(b"/").unwrap_or(group.path);
    loop {
        visit(&Group { path, ..*group });
        let Some(slash) = path.iter().rposition(|&byte| byte == b'/') else { return };
        path = path.get(..slash).unwrap_or_default();
    }
}

/// The index in `FILES` and the path of the group that a line of /proc/self/cgroup names; none if
/// the line is about other controllers.
fn version_and_path(line: &[u8]) -> Option<(usize, &[u8])> {
    let mut fields = line.splitn(3, |&byte| byte == b':');
    let (_number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
    let is_of_memory = controllers.split(|&byte| byte == b',').any(|name| name == b"memory");
    match (is_of_memory, controllers.is_empty()) {
        (true, _) => Some((0, path)),
        (false, true) => Some((1, path)),
        (false, false) => None,
    }
}

impl Group<'_> {
    /// The path of a file of the group.
    pub fn file(&self, name: &[u8]) -> Text {
        Text::of(&[self.mount, self.path, b"/", name])
    }

    /// Memory that the group may use; none if it has no limit.
    pub fn limit(&self) -> Option<Bytes> {
        let limits = self.files.limits.iter().filter_map(|name| self.number_of(name));
        limits.filter(|&limit| limit < UNLIMITED).min().map(Bytes)
    }

    /// Memory that the group may still use before the kernel must write any page; none
    /// if it has no limit.
    fn left(&self) -> Option<Bytes> {
        let limit = self.limit()?;
        let mut room = [0; 4096];
        let statistics = read(&self.file(self.files.statistics), &mut room);
        let inactive = statistics.and_then(|text| value(text, self.files.inactive)).unwrap_or(0);
        let used = self.number_of(self.files.usage)?.saturating_sub(inactive);
        Some(Bytes(limit.0.saturating_sub(used)))
    }

    fn number_of(&self, name: &[u8]) -> Option<u64> {
        let mut room = [0; 32];
        read(&self.file(name), &mut room).and_then(number)
    }
}

/// The number in the line that begins with `name`.
fn value(text: &[u8], name: &[u8]) -> Option<u64> {
    lines(text).find_map(|line| line.strip_prefix(name)).and_then(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_memory_is_in_reach() {
        let (start, now) = (Reach::at_start(), Reach::now());
        assert!(start.whole.unwrap() <= available().unwrap() || start.left.is_some());
        assert!(now.whole.unwrap().0 > 0 && now.left.is_some() == start.left.is_some());
        assert!(now.left <= start.left);
    }

    #[test]
    fn other_controllers_limit_nothing() {
        assert_eq!(version_and_path(b"3:cpu,cpuacct:/a/b"), None);
        assert_eq!(version_and_path(b"no group"), None);
        assert_eq!(version_and_path(b"5:memory:/a/b"), Some((0, &b"/a/b"[..])));
        assert_eq!(version_and_path(b"0::/a:b"), Some((1, &b"/a:b"[..])));
    }

    /// Two groups, one in the other, as folders: their limits, usages and inactive file pages.
    fn folders(version: usize, rows: [(&str, u64, u64); 2]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let files = &FILES[version];
        for (path, (limit, used, inactive)) in ["outer", "outer/inner"].into_iter().zip(rows) {
            let path = folder.path().join(path);
            std::fs::create_dir(&path).unwrap();
            let text = |name: &[u8]| String::from_utf8(name.to_vec()).unwrap();
            std::fs::write(path.join(text(files.limits[0])), limit).unwrap();
            std::fs::write(path.join(text(files.usage)), format!("{used}\n")).unwrap();
            let statistics = format!("anon 1\n{}{inactive}\n", text(files.inactive));
            std::fs::write(path.join(text(files.statistics)), statistics).unwrap();
        }
        folder
    }

    #[test]
    fn a_group_has_left_what_is_not_in_use() {
        for (version, none) in [(0, "9223372036854771712\n"), (1, "max\n")] {
            let folder = folders(version, [("1000\n", 900, 250), (none, 5, 0)]);
            let mount = folder.path().as_os_str().as_encoded_bytes();
            let group = Group { files: &FILES[version], mount, path: b"/outer/inner" };
            let mut seen = Vec::new();
            each_above(&group, &mut |group| seen.push((group.limit(), group.left())));
            let outer = (Some(Bytes(1000)), Some(Bytes(350)));
            assert_eq!(seen, [(None, None), outer, (None, None)]);
        }
    }
}
