//! A process that does nothing, for tests of what is done to processes.

use std::process::{Child, Command, Stdio};

/// A process that sleeps until it is killed; gone when dropped.
#[derive(Debug)]
pub struct Sleeper(pub Child);

impl Sleeper {
    /// Starts one.
    ///
    /// # Panics
    /// There is no `sleep`.
    pub fn start() -> Sleeper {
        let mut command = Command::new("sleep");
        Sleeper(command.arg("1000").stdin(Stdio::null()).spawn().expect("there is a sleep"))
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
