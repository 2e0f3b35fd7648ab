//! Sockets of this machine that have a path (unix(7)).

use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

/// The longest path of a socket (sun_path in unix(7), without the final zero).
pub const PATH_MAX: usize = 107;

/// The file of a socket; another program may have replaced it since. When dropped, it is removed unless it was replaced.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

/// The result of connecting.
#[derive(Debug)]
pub enum Connected {
    /// No process listens.
    No,
    /// A process accepts.
    Yes(UnixStream),
    /// A process listens, but its backlog is full.
    Full,
}

/// Connects to `path` without blocking: a process that no longer accepts connections would block the caller
/// forever. The stream does not block either.
pub fn connected(path: &Path) -> Connected {
    let Ok(address) = SocketAddrUnix::new(path) else { return Connected::No };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let Ok(socket) = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None) else {
        return Connected::No;
    };
    match connect(&socket, &address) {
        Ok(()) => Connected::Yes(UnixStream::from(socket)),
        Err(Errno::AGAIN) => Connected::Full,
        Err(_) => Connected::No,
    }
}

/// Listens at `path` without blocking, and replaces a file with this path. Makes the folder.
///
/// # Errors
/// The operating system refuses.
pub fn listen(path: &Path) -> io::Result<UnixListener> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

impl SocketFile {
    /// The file at `path` as it is now; None if there is none.
    pub fn at(path: &Path) -> Option<SocketFile> {
        let (device, inode) = identity(path)?;
        Some(SocketFile { path: path.to_owned(), device, inode })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path) == Some((self.device, self.inode)) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let file = std::fs::symlink_metadata(path).ok()?;
    Some((file.dev(), file.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_found_and_a_left_socket_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run").join("socket");
        assert!(matches!(connected(&path), Connected::No));
        let listener = listen(&path).unwrap();
        assert!(matches!(connected(&path), Connected::Yes(_)));
        drop(listener);
        assert!(path.exists() && matches!(connected(&path), Connected::No));
        listen(&path).unwrap();
    }

    #[test]
    fn a_full_backlog_does_not_block() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let _listener = listen(&path).unwrap();
        let mut clients = Vec::new();
        while let Connected::Yes(stream) = connected(&path) {
            clients.push(stream);
            assert!(clients.len() < 100_000, "the backlog has no end");
        }
        assert!(matches!(connected(&path), Connected::Full));
    }

    #[test]
    fn a_file_is_removed_unless_it_was_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = listen(&path).unwrap();
        drop(SocketFile::at(&path).unwrap());
        assert!(!path.exists());
        drop(listener);
        let _listener = listen(&path).unwrap();
        let file = SocketFile::at(&path).unwrap();
        // Moved instead of removed, so that its inode is not reused.
        std::fs::rename(&path, folder.path().join("moved")).unwrap();
        let _other = listen(&path).unwrap();
        drop(file);
        assert!(path.exists());
    }
}
