//! The cgroups of a process, from the text of `/proc/PID/cgroup`. Nothing here allocates.

/// The path of the memory cgroup: in the controller's own hierarchy, else in that of version 2.
pub fn memory_group(groups: &[u8]) -> Option<&[u8]> {
    controller_group(groups, b"memory").or_else(|| controller_group(groups, b""))
}

/// The path of the cgroup in the hierarchy with `controller`; version 2 has the empty name.
pub fn controller_group<'a>(groups: &'a [u8], controller: &[u8]) -> Option<&'a [u8]> {
    groups.split(|&byte| byte == b'\n').find_map(|line| {
        let mut parts = line.splitn(3, |&byte| byte == b':').skip(1);
        let (names, path) = (parts.next()?, parts.next()?);
        names.split(|&byte| byte == b',').any(|name| name == controller).then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_group_is_found_in_either_version() {
        let both = b"4:memory:/a b\n1:cpu,cpuacct:/c\n0::/unified\n";
        assert_eq!(memory_group(both), Some(&b"/a b"[..]));
        assert_eq!(controller_group(both, b"cpuacct"), Some(&b"/c"[..]));
        assert_eq!(memory_group(b"0::/x:y\n"), Some(&b"/x:y"[..]));
        assert_eq!(memory_group(b""), None);
    }
}
