//! A process that does nothing, for tests of what is done to processes.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Beyond it something hangs.
const HANGS_AFTER: Duration = Duration::from_secs(60);

/// A process that sleeps until it is killed; gone when dropped.
#[derive(Debug)]
pub struct Sleeper(pub Child);

impl Sleeper {
    /// Starts one, and returns when it sleeps: until then it may wait for its program's pages.
    ///
    /// # Panics
    /// There is no `sleep`, or it does not come to it.
    pub fn start() -> Sleeper {
        let mut command = Command::new("sleep");
        let child = command.arg("1000").stdin(Stdio::null()).spawn().expect("there is a sleep");
        Sleeper(child).in_state("(sleep) S ")
    }

    /// Starts one whose main thread has ended while another sleeps.
    ///
    /// # Panics
    /// There is no `python3`, or it does not come to it.
    pub fn without_main_thread() -> Sleeper {
        // libc's `pthread_exit` would not return to Python.
        let script = "import ctypes, platform, threading, time
threading.Thread(target=time.sleep, args=(1000,)).start()
ctypes.CDLL(None).syscall(93 if platform.machine() == 'aarch64' else 60, 0)";
        let mut command = Command::new("python3");
        let child = command.args(["-c", script]).stdin(Stdio::null()).spawn();
        Sleeper(child.expect("there is a python3")).in_state("(python3) Z ")
    }

    /// Waits until its name and state are so.
    fn in_state(self, state: &str) -> Sleeper {
        let stat = format!("/proc/{}/stat", self.0.id());
        let late = Instant::now() + HANGS_AFTER;
        while !fs::read_to_string(&stat).is_ok_and(|text| text.contains(state)) {
            assert!(Instant::now() < late, "{stat}: it does not come to {state}");
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
