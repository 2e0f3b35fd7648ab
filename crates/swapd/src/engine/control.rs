//! How another thread reaches a serving engine: to end it, and to wake it when it sleeps.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use rustix::event::{EventfdFlags, eventfd};

use crate::Error;

/// What threads share with a serving engine.
#[derive(Debug)]
pub struct Control {
    wake: OwnedFd,
    is_ending: AtomicBool,
    carrier_ns: AtomicU64,
}

impl Control {
    /// For an engine that nothing asks to end yet.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn new() -> Result<Control, Error> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let wake = eventfd(0, flags).map_err(|error| Error::refused("make an eventfd", error))?;
        Ok(Control { wake, is_ending: AtomicBool::new(false), carrier_ns: AtomicU64::new(0) })
    }

    /// Lets the engine end once it has answered every request that it took.
    pub fn end(&self) {
        self.is_ending.store(true, Relaxed);
        self.wake();
    }

    /// Lets emulated devices count the time that a request takes on its way through the carrier and back.
    pub fn set_carrier_ns(&self, carrier_ns: u64) {
        self.carrier_ns.store(carrier_ns, Relaxed);
        self.wake();
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.load(Relaxed)
    }

    pub(super) fn carrier_ns(&self) -> u64 {
        self.carrier_ns.load(Relaxed)
    }

    fn wake(&self) {
        // A full counter wakes as well.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// Forgets that somebody woke the engine.
    pub(super) fn clear(&self) {
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}
