//! Gives a command ignored signals and standard streams as this program's caller left them. The start of a Rust program
//! changes SIGPIPE and the streams, and its handlers of other signals become the default at the start of a command.
//!
//! Contract: before `main`, the standard library ignores SIGPIPE and opens `/dev/null` for each closed standard stream;
//! when it starts a command, it resets SIGPIPE to the default. A function of `.init_array` runs before all that.
#![allow(
    unsafe_code,
    reason = "libc calls a function before main, and a hook runs between fork and exec"
)]

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use rustix::io::{FdFlags, fcntl_setfd};

/// Standard input, output and error.
const STREAMS: i32 = 3;

/// The signals that this program changes.
const SIGNALS: [i32; 5] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGPIPE, libc::SIGTERM];

/// A bit for each of `SIGNALS` that the caller ignored.
static IGNORED: AtomicU8 = AtomicU8::new(0);
/// A bit for each standard stream that the caller closed.
static CLOSED: AtomicU8 = AtomicU8::new(0);

#[used]
#[unsafe(link_section = ".init_array")]
static NOTE: extern "C" fn() = note;

/// Notes the state of the process before the start of the standard library changes it.
extern "C" fn note() {
    for (bit, signal) in SIGNALS.into_iter().enumerate() {
        // SAFETY: zeros are a valid `sigaction`.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: without a new action, the call only writes the present one.
        let is_known = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) } == 0;
        if is_known && action.sa_sigaction == libc::SIG_IGN {
            IGNORED.fetch_or(1 << bit, Relaxed);
        }
    }
    for stream in 0..STREAMS {
        // SAFETY: the call only reads the flags of a descriptor, if that is open.
        if unsafe { libc::fcntl(stream, libc::F_GETFD) } == -1 {
            CLOSED.fetch_or(1 << stream, Relaxed);
        }
    }
}

/// Makes `command` begin with signals ignored and standard streams closed if this program began so. Streams that the
/// command redirects stay open. Closed streams stay closed for later commands too.
pub fn to(command: &mut Command) {
    for stream in (0..STREAMS).filter(|stream| CLOSED.load(Relaxed) >> stream & 1 == 1) {
        // SAFETY: the start opened it, and nothing closes a standard stream.
        let stream = unsafe { std::os::fd::BorrowedFd::borrow_raw(stream) };
        // The copy that a redirection makes stays open.
        let _ = fcntl_setfd(stream, FdFlags::CLOEXEC);
    }
    if IGNORED.load(Relaxed) != 0 {
        // SAFETY: it only makes system calls, and allocates nothing.
        unsafe { command.pre_exec(ignore) };
    }
}

fn ignore() -> std::io::Result<()> {
    for (bit, signal) in SIGNALS.into_iter().enumerate() {
        if IGNORED.load(Relaxed) >> bit & 1 == 0 {
            continue;
        }
        // SAFETY: ignoring a signal runs no code of this program.
        if unsafe { libc::signal(signal, libc::SIG_IGN) } == libc::SIG_ERR {
            return Err(std::io::Error::last_os_error());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_ignores_what_the_caller_ignored() {
        let mut command = Command::new("cat");
        to(command.arg("/proc/self/status"));
        let status = String::from_utf8(command.output().unwrap().stdout).unwrap();
        let mask = crate::kernel_file::mask(status.as_bytes(), b"SigIgn").unwrap();
        for (bit, signal) in SIGNALS.into_iter().enumerate() {
            let is_ignored = IGNORED.load(Relaxed) >> bit & 1 == 1;
            assert_eq!(mask >> (signal - 1) & 1 == 1, is_ignored, "signal {signal} of {mask:x}");
        }
    }
}
