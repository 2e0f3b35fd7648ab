//! A process that only sleeps, for tests that act on processes.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Timeout after which a test fails instead of waiting.
const HANGS_AFTER: Duration = Duration::from_secs(60);

/// A process that sleeps until it is killed. Dropping it kills it.
#[derive(Debug)]
pub struct Sleeper(pub Child);

impl Sleeper {
    /// Starts the process and returns when it sleeps: before that it may wait for the pages of its
    /// program.
    ///
    /// # Panics
    /// If the program `sleep` does not exist or does not sleep in time.
    pub fn start() -> Sleeper {
        let mut command = Command::new("sleep");
        let child =
            command.arg("1000").stdin(Stdio::null()).spawn().expect("the program sleep exists");
        Sleeper(child).in_state("(sleep) S ")
    }

    /// Starts a process whose main thread has ended while another thread sleeps.
    ///
    /// # Panics
    /// If `python3` does not exist or does not reach this state in time.
    pub fn without_main_thread() -> Sleeper {
        // libc's `pthread_exit` would not return to Python.
        let script = "import ctypes, platform, threading, time
threading.Thread(target=time.sleep, args=(1000,)).start()
ctypes.CDLL(None).syscall(93 if platform.machine() == 'aarch64' else 60, 0)";
        let mut command = Command::new("python3");
        let child = command.args(["-c", script]).stdin(Stdio::null()).spawn();
        Sleeper(child.expect("the program python3 exists")).in_state("(python3) Z ")
    }

    /// Waits until /proc shows this name and state.
    fn in_state(self, state: &str) -> Sleeper {
        let stat = format!("/proc/{}/stat", self.0.id());
        let late = Instant::now() + HANGS_AFTER;
        while !fs::read_to_string(&stat).is_ok_and(|text| text.contains(state)) {
            assert!(Instant::now() < late, "{stat}: the process does not reach {state}");
            std::thread::yield_now();
        }
        self
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
