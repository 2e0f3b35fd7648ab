//! Messages to systemd (sd_notify(3)): ready, alive, reloading, stopping.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The service manager that started this program, if it asked for messages.
#[derive(Debug)]
pub struct Notify {
    socket: Option<UnixDatagram>,
    /// How often the manager expects WATCHDOG=1.
    pub watchdog: Option<Duration>,
}

impl Notify {
    /// Connects to the manager that the environment names.
    pub fn from_environment() -> Notify {
        let name = std::env::var("NOTIFY_SOCKET").ok();
        let watchdog = std::env::var("WATCHDOG_USEC").ok().and_then(|text| text.parse().ok());
        Notify {
            socket: name.and_then(|name| connect(&name).ok()),
            // Half the time after which the manager restarts this program.
            watchdog: watchdog.map(|time: u64| Duration::from_micros(time / 2)),
        }
    }

    /// Sends a message, and ignores failures.
    pub fn send(&self, what: &str) {
        if let Some(socket) = &self.socket {
            let _ = socket.send(what.as_bytes());
        }
    }
}

fn connect(name: &str) -> std::io::Result<UnixDatagram> {
    let address = match name.strip_prefix('@') {
        Some(abstract_name) => SocketAddr::from_abstract_name(abstract_name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.connect_addr(&address)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_reach_the_manager_and_failures_are_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        manager.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let notify = Notify { socket: connect(path.to_str().unwrap()).ok(), watchdog: None };
        notify.send("READY=1");
        let mut buffer = [0; 16];
        let length = manager.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"READY=1");
        drop(manager);
        notify.send("WATCHDOG=1");
    }
}
