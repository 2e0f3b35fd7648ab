//! HTTP over a local port: a request is answered when the whole body has arrived.

use std::io;

use super::{Conversation, until};

/// A program that serves HTTP.
pub(crate) struct Http {
    agent: ureq::Agent,
    url: String,
    ready_url: String,
}

impl Http {
    /// A conversation that requests `url`; the program is ready when `ready_url` answers.
    pub(crate) fn new(url: String, ready_url: String) -> Http {
        // A connection per request, because a frozen server may lose an idle connection.
        let agent = ureq::Agent::config_builder()
            // The application is local, so ignore the environment's proxy.
            .proxy(None)
            .max_idle_connections(0)
            .max_idle_connections_per_host(0)
            .http_status_as_error(false)
            .build()
            .new_agent();
        Http { agent, url, ready_url }
    }

    fn get(&self, url: &str) -> Result<(), String> {
        let failed = |error: &dyn std::fmt::Display| format!("{url}: {error}");
        let mut response = self.agent.get(url).call().map_err(|error| failed(&error))?;
        io::copy(&mut response.body_mut().as_reader(), &mut io::sink())
            .map_err(|error| failed(&error))?;
        match response.status().as_u16() {
            200 => Ok(()),
            status => Err(failed(&format!("status {status}"))),
        }
    }
}

impl Conversation for Http {
    fn wait_until_ready(&mut self, is_over: &dyn Fn() -> bool) -> Result<(), String> {
        let url = self.ready_url.replace("{round}", "0");
        until(is_over, || self.get(&url))
    }

    fn ask(&mut self, round: u32) -> Result<(), String> {
        self.get(&self.url.replace("{round}", &round.to_string()))
    }
}
