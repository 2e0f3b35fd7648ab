//! The control socket: a client writes requests, one JSON object in a line, such as `{"freeze":"notes"}`, and reads an
//! answer in a line for each. Only the user of relaunchd may connect.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use daemon::sockets::{Listener, listener_at, taken};
use linux::local_socket::{Connected, SocketFile, connected, listen};
use serde::{Deserialize, Serialize};

use crate::Error;

/// The longest line of a request.
const LINE_BYTES: usize = 4096;
/// Clients that are connected at once; of more, the one that is connected longest is cut off.
const CLIENTS_MAX: usize = 32;
/// How long a client waits: a large prefetch takes seconds, on a slow device more.
const ANSWER_WITHIN: Duration = Duration::from_secs(120);

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Request {
    /// Freeze the application with this name.
    Freeze(String),
    /// Prefetch for the application with this name, and thaw it.
    Thaw(String),
}

/// The answer to a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Whether the request was carried out.
    pub ok: bool,
    /// The name of the application.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// Whether the application is frozen now.
    #[serde(default)]
    pub is_frozen: bool,
    /// Pages that the visit is expected to use.
    #[serde(default)]
    pub predicted_pages: u64,
    /// Pages that were read before it.
    #[serde(default)]
    pub prefetched_pages: u64,
    /// Seconds that the prefetch took.
    #[serde(default)]
    pub prefetch_s: f64,
    /// Why less was done than usual, or why the request was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl Answer {
    pub(crate) fn refused(why: impl ToString) -> Answer {
        Answer { why: Some(why.to_string()), ..Answer::default() }
    }
}

/// The listening socket and its clients. The file is removed when dropped.
#[derive(Debug)]
pub(crate) struct ControlSocket {
    listener: UnixListener,
    clients: Vec<Client>,
    _file: Option<SocketFile>,
}

#[derive(Debug)]
struct Client {
    stream: UnixStream,
    line: Vec<u8>,
    has_ended: bool,
}

impl ControlSocket {
    /// Listens at `path`.
    ///
    /// # Errors
    /// The path is in use, or the operating system refuses.
    pub(crate) fn open(path: &Path) -> Result<ControlSocket, Error> {
        if is_running_at(path)? {
            return Err(taken(path));
        }
        let refused = |error| Error::refused(&format!("listen at {}", path.display()), error);
        let listener = listen(path).map_err(refused)?;
        let file = SocketFile::at(path);
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o600)).map_err(refused)?;
        Ok(ControlSocket { listener, clients: Vec::new(), _file: file })
    }

    /// The files that can be read when a client connects or asks.
    pub(crate) fn files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let clients = self.clients.iter().map(|client| client.stream.as_fd());
        clients.chain([self.listener.as_fd()])
    }

    /// Answers all whole requests that have arrived.
    pub(crate) fn answer(&mut self, mut carry_out: impl FnMut(Request) -> Answer) {
        while let Ok((stream, _)) = self.listener.accept() {
            if stream.set_nonblocking(true).is_ok() {
                if self.clients.len() >= CLIENTS_MAX {
                    self.clients.remove(0);
                }
                self.clients.push(Client { stream, line: Vec::new(), has_ended: false });
            }
        }
        for client in &mut self.clients {
            client.read();
            while let Some(line) = client.next() {
                let answer = match serde_json::from_slice(&line) {
                    Ok(request) => carry_out(request),
                    Err(error) => Answer::refused(format!(
                        "expected {{\"freeze\":\"NAME\"}} or {{\"thaw\":\"NAME\"}}: {error}"
                    )),
                };
                client.write(&answer);
            }
        }
        self.clients.retain(|client| !client.has_ended);
    }
}

impl Client {
    fn read(&mut self) {
        let mut bytes = [0; LINE_BYTES];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => break self.has_ended = true,
                Ok(length) => {
                    self.line.extend_from_slice(&bytes[..length]);
                    if self.line.len() > 4 * LINE_BYTES {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break self.has_ended = true,
            }
        }
    }

    /// The next whole line; an overlong one is answered as it is so far, and ends the connection.
    fn next(&mut self) -> Option<Vec<u8>> {
        if let Some(end) = self.line.iter().position(|&byte| byte == b'\n') {
            let rest = self.line.split_off(end + 1);
            return Some(std::mem::replace(&mut self.line, rest));
        }
        if self.line.len() > LINE_BYTES {
            self.has_ended = true;
            return Some(std::mem::take(&mut self.line));
        }
        None
    }

    /// Writes an answer. A client that does not read its answers is cut off.
    fn write(&mut self, answer: &Answer) {
        let text = serde_json::to_string(answer).unwrap_or_default() + "\n";
        self.has_ended |= self.stream.write_all(text.as_bytes()).is_err();
    }
}

/// Whether a program listens at `path`.
///
/// # Errors
/// The path is not a socket.
pub(crate) fn is_running_at(path: &Path) -> Result<bool, Error> {
    match connected(path) {
        Connected::No => Ok(listener_at(path, &[])? != Listener::None),
        Connected::Yes(_) | Connected::Full => Ok(true),
    }
}

/// Asks the relaunchd that listens at `path`.
///
/// # Errors
/// None listens there, or it does not answer.
pub fn ask(path: &Path, request: &Request) -> Result<Answer, Error> {
    let what = format!("ask the relaunchd at {}", path.display());
    let refused = |error: io::Error| {
        let advice = match error.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
                "; start it: pagewise-agent relaunchd --config FILE"
            }
            _ => "",
        };
        Error::refused(&what, format!("{error}{advice}"))
    };
    let stream = UnixStream::connect(path).map_err(refused)?;
    stream.set_read_timeout(Some(ANSWER_WITHIN)).map_err(refused)?;
    let text = serde_json::to_string(request).map_err(|error| refused(error.into()))?;
    (&stream).write_all(format!("{text}\n").as_bytes()).map_err(refused)?;
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).map_err(refused)?;
    serde_json::from_str(&line).map_err(|error| Error::refused(&what, format!("{error}: {line:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn carried_out(request: Request) -> Answer {
        match request {
            Request::Freeze(app) => Answer { ok: true, app: Some(app), ..Answer::default() },
            Request::Thaw(app) => Answer::refused(format!("no application {app}")),
        }
    }

    #[test]
    fn each_line_has_an_answer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run").join("control");
        let error = ask(&path, &Request::Freeze("a".to_owned())).unwrap_err().to_string();
        assert!(error.contains("start it: pagewise-agent relaunchd"), "{error}");
        let mut control = ControlSocket::open(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let error = ControlSocket::open(&path).unwrap_err().to_string();
        assert!(error.contains("another program answers there"), "{error}");
        let asked = {
            let path = path.clone();
            std::thread::spawn(move || ask(&path, &Request::Freeze("notes".to_owned())).unwrap())
        };
        while !asked.is_finished() {
            linux::polling::wait_for_any(control.files(), Duration::from_millis(10));
            control.answer(carried_out);
        }
        assert_eq!(asked.join().unwrap().app.as_deref(), Some("notes"));

        // Two requests in pieces, and one that is none.
        let mut stream = UnixStream::connect(&path).unwrap();
        for piece in ["{\"thaw\":", "\"x\"}\n{\"freeze\":\"y\"}\n", "melt x\n"] {
            stream.write_all(piece.as_bytes()).unwrap();
            control.answer(carried_out);
        }
        let mut lines = BufReader::new(&stream).lines();
        let mut next =
            || -> Answer { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
        assert_eq!(next().why.as_deref(), Some("no application x"));
        assert!(next().ok);
        assert!(next().why.unwrap().starts_with("expected {\"freeze\":\"NAME\"}"));
        drop(control);
        assert!(!path.exists());
    }

    #[test]
    fn clients_that_ask_nothing_or_too_much_are_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control");
        let mut control = ControlSocket::open(&path).unwrap();
        let mut long = UnixStream::connect(&path).unwrap();
        long.write_all(&[b'x'; LINE_BYTES + 1]).unwrap();
        control.answer(carried_out);
        let mut text = String::new();
        long.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("{\"ok\":false"), "{text}");
        let silent: Vec<UnixStream> = (0..2 * CLIENTS_MAX)
            .map(|_| {
                let stream = UnixStream::connect(&path).unwrap();
                control.answer(carried_out);
                stream
            })
            .collect();
        assert_eq!((silent.len(), control.clients.len()), (2 * CLIENTS_MAX, CLIENTS_MAX));
        drop(silent);
        control.answer(carried_out);
        assert!(control.clients.is_empty());
    }
}
