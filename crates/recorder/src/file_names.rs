//! Parses names of files from the kernel: path parts below the root of a file system.

use std::collections::HashMap;

use trace::recording::FileName;

/// The layout of `struct file_name` in record.h.
const HEAD_BYTES: usize = 16;
const PART_BYTES: usize = 64;
const PARTS_MAX: usize = 20;

/// The bytes of `struct file_name`.
pub const BYTES: usize = HEAD_BYTES + PARTS_MAX * PART_BYTES;

/// Parses a `struct file_name`; the path begins with the mount point of its file system in `mounts`. None if the
/// length is wrong.
pub fn from_kernel(bytes: &[u8], mounts: &HashMap<u32, String>) -> Option<FileName> {
    let (head, parts) = bytes.split_first_chunk::<HEAD_BYTES>()?;
    if bytes.len() != BYTES {
        return None;
    }
    let word = |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let inode = u64::from_ne_bytes(*head.first_chunk()?);
    let (device, count) = (word(8), (word(12) as usize).min(PARTS_MAX));
    let mut path = mounts.get(&device).map_or("", |point| point.trim_end_matches('/')).to_owned();
    if count == PARTS_MAX {
        path += "/...";
    }
    for part in parts.chunks_exact(PART_BYTES).take(count).rev() {
        let name = part.split(|&byte| byte == 0).next().unwrap_or_default();
        path.push('/');
        path += &String::from_utf8_lossy(name);
    }
    Some(FileName { device, inode, path })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(device: u32, parts: &[&[u8]]) -> Vec<u8> {
        let mut bytes = 7u64.to_ne_bytes().to_vec();
        bytes.extend(device.to_ne_bytes());
        bytes.extend((parts.len() as u32).to_ne_bytes());
        for part in parts {
            let end = bytes.len() + PART_BYTES;
            bytes.extend(*part);
            bytes.resize(end, 0);
        }
        bytes.resize(BYTES, b'x');
        bytes
    }

    #[test]
    fn parts_become_a_path_below_the_mount_point() {
        let mounts = HashMap::from([(1, "/".to_owned()), (2, "/mnt/disk".to_owned())]);
        let parts: &[&[u8]] = &[b"libc.so.6", b"lib", b"usr"];
        let name = |device| from_kernel(&bytes(device, parts), &mounts).unwrap();
        assert_eq!(name(1).path, "/usr/lib/libc.so.6");
        assert_eq!((name(2).path.as_str(), name(2).inode), ("/mnt/disk/usr/lib/libc.so.6", 7));
        assert_eq!(name(3).path, "/usr/lib/libc.so.6");
        let hostile = from_kernel(&bytes(1, &[b"\xff\n"]), &mounts).unwrap();
        assert_eq!(hostile.path, "/\u{fffd}\n");
        let deep = vec![&b"d"[..]; PARTS_MAX];
        assert!(from_kernel(&bytes(1, &deep), &mounts).unwrap().path.starts_with("/.../d/"));
        assert_eq!(from_kernel(&[0; 40], &mounts), None);
    }
}
