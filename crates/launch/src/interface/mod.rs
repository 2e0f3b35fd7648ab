//! Interfaces to applications, one file each.
//!
//! A conversation waits without a limit. The watch (`crate::watch`) kills an application that takes too long,
//! which ends the wait.

mod devtools;
mod http;
mod line;

pub(crate) use devtools::{Devtools, FLAGS as DEVTOOLS_FLAGS};
pub(crate) use http::Http;
pub(crate) use line::Line;

/// A conversation with a running application. An error is one line of text.
pub(crate) trait Conversation {
    /// Waits until the application is ready, or `is_over`.
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
