//! Gives a command SIGPIPE and standard streams as this program's caller left them. The start of a Rust program changes
//! both.
//!
//! Contract: before `main`, the standard library ignores SIGPIPE and opens `/dev/null` for each closed standard stream;
//! when it starts a command, it resets SIGPIPE to the default. A function of `.init_array` runs before all that.
#![allow(
    unsafe_code,
    reason = "libc calls a function before main, and a hook runs between fork and exec"
)]

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};

use rustix::io::{FdFlags, fcntl_setfd};

/// Standard input, output and error.
const STREAMS: i32 = 3;

/// Whether the caller ignored SIGPIPE.
static IGNORES_PIPE: AtomicBool = AtomicBool::new(false);
/// A bit for each standard stream that the caller closed.
static CLOSED: AtomicU8 = AtomicU8::new(0);

#[used]
#[unsafe(link_section = ".init_array")]
static NOTE: extern "C" fn() = note;

/// Notes the state of the process before the start of the standard library changes it.
extern "C" fn note() {
    // SAFETY: zeros are a valid `sigaction`.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: without a new action, the call only writes the present one.
    let is_known =
        unsafe { libc::sigaction(libc::SIGPIPE, std::ptr::null(), &raw mut action) } == 0;
    IGNORES_PIPE.store(is_known && action.sa_sigaction == libc::SIG_IGN, Relaxed);
    for stream in 0..STREAMS {
        // SAFETY: the call only reads the flags of a descriptor, if that is open.
        if unsafe { libc::fcntl(stream, libc::F_GETFD) } == -1 {
            CLOSED.fetch_or(1 << stream, Relaxed);
        }
    }
}

/// Makes `command` begin with SIGPIPE ignored and standard streams closed if this program began so. Streams that the
/// command redirects stay open. Closed streams stay closed for later commands too.
pub fn to(command: &mut Command) {
    for stream in (0..STREAMS).filter(|stream| CLOSED.load(Relaxed) >> stream & 1 == 1) {
        // SAFETY: the start opened it, and nothing closes a standard stream.
        let stream = unsafe { std::os::fd::BorrowedFd::borrow_raw(stream) };
        // The copy that a redirection makes stays open.
        let _ = fcntl_setfd(stream, FdFlags::CLOEXEC);
    }
    if IGNORES_PIPE.load(Relaxed) {
        // SAFETY: it only makes a system call, and allocates nothing.
        unsafe { command.pre_exec(ignore_pipe) };
    }
}

fn ignore_pipe() -> std::io::Result<()> {
    // SAFETY: ignoring a signal runs no code of this program.
    match unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) } {
        libc::SIG_ERR => Err(std::io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_ignores_sigpipe_if_the_caller_did() {
        let mut command = Command::new("cat");
        to(command.arg("/proc/self/status"));
        let status = String::from_utf8(command.output().unwrap().stdout).unwrap();
        let mask = crate::kernel_file::mask(status.as_bytes(), b"SigIgn").unwrap();
        assert_eq!(mask >> (libc::SIGPIPE - 1) & 1 == 1, IGNORES_PIPE.load(Relaxed), "{mask:x}");
    }
}
