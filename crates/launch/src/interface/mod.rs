//! How the lab speaks with an application, one file per interface.
//!
//! Conversations simply wait. An application that takes too long is killed by the watch
//! (`crate::watch`), which ends whatever waits for it.

mod devtools;
mod http;
mod line;

pub(crate) use devtools::{Devtools, FLAGS as DEVTOOLS_FLAGS};
pub(crate) use http::Http;
pub(crate) use line::Line;

/// Speaks with a running application. What goes wrong is told in one line.
pub(crate) trait Conversation {
    /// Waits until the application can be used, or `is_over`.
    fn wait_until_ready(&mut self, is_over: &dyn Fn() -> bool) -> Result<(), String>;

    /// Sends the request of a round and waits for the whole answer.
    fn ask(&mut self, round: u32) -> Result<(), String>;
}

/// Calls `attempt` until it succeeds, or `is_over`.
fn until<T>(
    is_over: &dyn Fn() -> bool,
    mut attempt: impl FnMut() -> Result<T, String>,
) -> Result<T, String> {
    const PAUSE: std::time::Duration = std::time::Duration::from_millis(5);
    loop {
        match attempt() {
            Ok(value) => return Ok(value),
            Err(why) if is_over() => return Err(why),
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}
