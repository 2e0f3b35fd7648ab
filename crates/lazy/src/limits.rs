//! What memory is in reach: the machine's available memory and the limits of the memory cgroups
//! that the process is in, of either version.

use types::Bytes;

use crate::text::{Text, lines, number, read};

/// Bytes in reach; none where nothing can be read.
pub fn memory_in_reach() -> Option<Bytes> {
    let available = available();
    let limit = cgroup_limit();
    available.into_iter().chain(limit).min()
}

fn available() -> Option<Bytes> {
    let mut room = [0; 256];
    let text = read(&Text::of(&[b"/proc/meminfo"]), &mut room)?;
    let line = lines(text).find_map(|line| line.strip_prefix(b"MemAvailable:"))?;
    Some(Bytes(number(line)? << 10))
}

fn cgroup_limit() -> Option<Bytes> {
    let mut room = [0; 2048];
    let text = read(&Text::of(&[b"/proc/self/cgroup"]), &mut room)?;
    lines(text).filter_map(limit_of).min()
}

/// The least limit of the group that a line of /proc/self/cgroup names, and of those above it.
fn limit_of(line: &[u8]) -> Option<Bytes> {
    let mut fields = line.splitn(3, |&byte| byte == b':');
    let (_number, controllers, mut group) = (fields.next()?, fields.next()?, fields.next()?);
    let (mount, file): (&[u8], &[u8]) = if controllers.is_empty() {
        (b"/sys/fs/cgroup", b"/memory.max")
    } else if controllers.split(|&byte| byte == b',').any(|name| name == b"memory") {
        (b"/sys/fs/cgroup/memory", b"/memory.limit_in_bytes")
    } else {
        return None;
    };
    let mut least = None;
    loop {
        let mut room = [0; 32];
        let limit = read(&Text::of(&[mount, group, file]), &mut room).and_then(number).map(Bytes);
        least = least.into_iter().chain(limit).min();
        let Some(slash) = group.iter().rposition(|&byte| byte == b'/') else { return least };
        group = group.get(..slash)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_memory_is_in_reach() {
        let memory = memory_in_reach().unwrap();
        assert!(memory <= available().unwrap() || cgroup_limit().is_some());
        assert!(memory.0 > 0);
    }

    #[test]
    fn other_controllers_limit_nothing() {
        assert_eq!(limit_of(b"3:cpu,cpuacct:/a/b"), None);
        assert_eq!(limit_of(b"no group"), None);
    }
}
