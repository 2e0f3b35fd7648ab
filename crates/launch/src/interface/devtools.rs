//! The DevTools protocol of Chromium (chromedevtools.github.io/devtools-protocol) over a websocket
//! on a local port: opens a page, and evaluates expressions in it.

use std::fs;
use std::net::TcpStream;
use std::path::PathBuf;

use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};

use super::{Conversation, until};

/// The options that make a browser listen; `{data}` is the application's folder.
pub(crate) const FLAGS: [&str; 2] = ["--remote-debugging-port=0", "--user-data-dir={data}"];

/// The beginning of the line of standard error that names the address.
const LISTENING: &str = "DevTools listening on ";

/// A browser with a page.
pub(crate) struct Devtools {
    /// The browser's standard error.
    log: PathBuf,
    /// The offset in the log at which this start's part begins.
    log_from: u64,
    page: String,
    request: String,
    session: Option<Session>,
}

struct Session {
    socket: WebSocket<TcpStream>,
    /// The session ID of the page.
    id: String,
    calls: u64,
}

impl Devtools {
    /// A conversation that opens `page`, a URL or the path of a file, and evaluates `request` in it. The browser
    /// writes its standard error to `log`, from offset `log_from` on.
    pub(crate) fn new(log: PathBuf, log_from: u64, page: &str, request: String) -> Devtools {
        let page = if page.contains("://") { page.to_owned() } else { format!("file://{page}") };
        Devtools { log, log_from, page, request, session: None }
    }

    /// The address on which the browser listens.
    fn address(&self) -> Result<String, String> {
        let bytes = fs::read(&self.log).unwrap_or_default();
        let own = bytes.get(self.log_from as usize..).unwrap_or_default();
        let text = String::from_utf8_lossy(own);
        let complete = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let address = complete.filter_map(|line| line.trim().strip_prefix(LISTENING)).next();
        address.map(str::to_owned).ok_or_else(|| format!("it did not print {LISTENING:?}"))
    }
}

impl Conversation for Devtools {
    fn wait_until_ready(&mut self, is_over: &dyn Fn() -> bool) -> Result<(), String> {
        let address = until(is_over, || self.address())?;
        let mut session = Session::open(&address, &self.page)?;
        // A new target first shows an empty page, which is complete, too.
        let is_loaded = "location.href !== 'about:blank' && document.readyState === 'complete'";
        until(is_over, || match session.evaluate(is_loaded)? {
            Value::Bool(true) => Ok(()),
            _ => Err(format!("{} is not loaded", self.page)),
        })?;
        self.session = Some(session);
        Ok(())
    }

    fn ask(&mut self, round: u32) -> Result<(), String> {
        let expression = self.request.replace("{round}", &round.to_string());
        let session = self.session.as_mut().ok_or("its page is not open")?;
        session.evaluate(&expression).map(drop)
    }
}

impl Session {
    fn open(address: &str, page: &str) -> Result<Session, String> {
        let failed = |error: &dyn std::fmt::Display| format!("{address}: {error}");
        let host = address.strip_prefix("ws://").and_then(|rest| rest.split('/').next());
        let stream = TcpStream::connect(host.unwrap_or(address)).map_err(|error| failed(&error))?;
        stream.set_nodelay(true).map_err(|error| failed(&error))?;
        let (socket, _) = tungstenite::client(address, stream).map_err(|error| failed(&error))?;
        let mut session = Session { socket, id: String::new(), calls: 0 };
        let target = session.call("Target.createTarget", json!({ "url": page }))?;
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = session.call("Target.attachToTarget", attach)?;
        let id = attached["sessionId"].as_str();
        session.id = id.ok_or("the browser gave its page no session")?.to_owned();
        Ok(session)
    }

    /// Evaluates `expression` in the page; waits for a promise.
    fn evaluate(&mut self, expression: &str) -> Result<Value, String> {
        let parameters =
            json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let mut result = self.call("Runtime.evaluate", parameters)?;
        match result.get("exceptionDetails") {
            Some(exception) => {
                let text = &exception["exception"]["description"];
                Err(format!("{expression}: {}", text.as_str().unwrap_or("it threw")))
            }
            None => Ok(result["result"]["value"].take()),
        }
    }

    fn call(&mut self, method: &str, parameters: Value) -> Result<Value, String> {
        let failed = |error: &dyn std::fmt::Display| format!("{method}: {error}");
        self.calls += 1;
        let mut call = json!({ "id": self.calls, "method": method, "params": parameters });
        if !self.id.is_empty() {
            call["sessionId"] = Value::from(self.id.as_str());
        }
        let message = Message::text(call.to_string());
        self.socket.send(message).map_err(|error| failed(&error))?;
        loop {
            let message = self.socket.read().map_err(|error| failed(&error))?;
            // Skip events, and answers to other calls.
            let Message::Text(text) = message else { continue };
            let mut answer: Value = serde_json::from_str(&text).map_err(|error| failed(&error))?;
            if answer["id"] != self.calls {
                continue;
            }
            return match answer.get("error") {
                Some(error) => Err(failed(&error["message"])),
                None => Ok(answer["result"].take()),
            };
        }
    }
}
