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
        let sleeper = Sleeper(child);
        let stat = format!("/proc/{}/stat", sleeper.0.id());
        let late = Instant::now() + HANGS_AFTER;
        while !fs::read_to_string(&stat).is_ok_and(|text| text.contains("(sleep) S ")) {
            assert!(Instant::now() < late, "{stat}: it does not sleep");
            std::thread::yield_now();
        }
        sleeper
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
