//! The sockets on which a daemon reports its counters: JSON on one, OpenMetrics on another, plain or as HTTP. Each
//! client gets one answer; a client that is slow to ask delays no other.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use linux::local_socket::{Connected, SocketFile, connected, listen};
use linux::polling;

use crate::Error;

const STACK: usize = 64 << 10;
/// How long to wait for a question: a client that only reads asks none.
const QUESTION_WITHIN: Duration = Duration::from_millis(100);
/// How long a running daemon may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
/// The rest of a longer question is ignored.
const QUESTION_BYTES: usize = 4096;
/// Clients that are served at once; others wait in the backlog.
const CLIENTS_MAX: usize = 32;
/// How often the thread checks whether it should end.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Appends the text of an answer.
pub type Answer = Arc<dyn Fn(&mut String) -> std::fmt::Result + Send + Sync>;

/// A socket to open, and what it answers.
#[derive(Clone)]
pub struct Answering {
    path: PathBuf,
    kind: &'static str,
    write: Answer,
}

impl Answering {
    /// Answers with a JSON object in one line.
    pub fn json(path: &Path, write: Answer) -> Answering {
        Answering { path: path.to_owned(), kind: "application/json", write }
    }

    /// Answers with OpenMetrics 1.0.
    pub fn open_metrics(path: &Path, write: Answer) -> Answering {
        let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        Answering { path: path.to_owned(), kind, write }
    }
}

/// The thread that answers. When dropped, it ends and removes its sockets.
#[derive(Debug)]
pub struct Sockets {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    made: Vec<SocketFile>,
}

impl Sockets {
    /// Opens sockets and answers on them. If a socket cannot be created, for instance in a folder that is not
    /// writable, calls `absent` with the reason and continues without it.
    ///
    /// # Errors
    /// A path in use.
    pub fn start(
        answering: Vec<Answering>,
        mut absent: impl FnMut(String),
    ) -> Result<Sockets, Error> {
        let is_over = Arc::new(AtomicBool::new(false));
        let mut sockets = Sockets { is_over, thread: None, made: Vec::new() };
        let mut listeners = Vec::new();
        for answering in answering {
            let path = answering.path.clone();
            if listener_at(&path, &[])? != Listener::None {
                return Err(taken(&path));
            }
            match listen(&path) {
                Ok(listener) => listeners.push((listener, answering)),
                Err(error) => absent(format!("a socket at {}: {error}", path.display())),
            }
            sockets.made.extend(SocketFile::at(&path));
        }
        if !listeners.is_empty() {
            let is_over = Arc::clone(&sockets.is_over);
            let thread = std::thread::Builder::new().name("sockets".to_owned()).stack_size(STACK);
            let thread = thread.spawn(move || serve(&listeners, &is_over));
            sockets.thread = Some(thread.map_err(|error| Error::refused("start a thread", error))?);
        }
        Ok(sockets)
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.made.clear();
    }
}

/// The program that listens at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listener {
    /// No program.
    None,
    /// A daemon of the kind that the caller asked for.
    Own,
}

/// The program that listens at `path`; a daemon whose answer contains one of `marks` is [`Listener::Own`].
///
/// # Errors
/// The path is not a socket, or another program listens.
pub fn listener_at(path: &Path, marks: &[&str]) -> Result<Listener, Error> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            let what = "a file that is not a socket has this path: move it";
            Err(Error::refused(&format!("listen at {}", path.display()), what))
        }
        Ok(_) => match connected(path) {
            Connected::No => Ok(Listener::None),
            Connected::Yes(stream) if is_own(&stream, marks) => Ok(Listener::Own),
            Connected::Yes(_) | Connected::Full => Err(taken(path)),
        },
        _ => Ok(Listener::None),
    }
}

/// The error for a path at which another program listens.
pub fn taken(path: &Path) -> Error {
    let what = "another program answers there: end it, or choose another path";
    Error::refused(&format!("listen at {}", path.display()), what)
}

/// Whether the answer contains one of `marks`. A daemon also answers a client that asks nothing.
fn is_own(stream: &UnixStream, marks: &[&str]) -> bool {
    let mut answer = String::new();
    let is_set = !marks.is_empty()
        && stream.set_nonblocking(false).is_ok()
        && stream.set_read_timeout(Some(ANSWER_WITHIN)).is_ok();
    // The part that arrives in time is enough.
    let _ = is_set && stream.take(QUESTION_BYTES as u64).read_to_string(&mut answer).is_ok();
    marks.iter().any(|mark| answer.contains(mark))
}

/// A connected client, and its question so far.
struct Client {
    stream: UnixStream,
    kind: &'static str,
    write: Answer,
    question: Vec<u8>,
    late: Instant,
}

fn serve(listeners: &[(UnixListener, Answering)], is_over: &AtomicBool) {
    let mut clients: Vec<Client> = Vec::new();
    while !is_over.load(Relaxed) {
        wait(listeners, &clients);
        for (listener, answering) in listeners {
            while clients.len() < CLIENTS_MAX
                && let Ok((stream, _)) = listener.accept()
            {
                if stream.set_nonblocking(true).is_ok() {
                    let (question, late) = (Vec::new(), Instant::now() + QUESTION_WITHIN);
                    let (kind, write) = (answering.kind, Arc::clone(&answering.write));
                    clients.push(Client { stream, kind, write, question, late });
                }
            }
        }
        clients.retain_mut(|client| match client.has_asked() {
            true => {
                // A client that has disconnected gets no answer.
                let _ = client.answer();
                false
            }
            false => true,
        });
    }
}

/// Waits until a client connects, asks, or runs out of time.
fn wait(listeners: &[(UnixListener, Answering)], clients: &[Client]) {
    let asking = clients.iter().map(|client| client.stream.as_fd());
    let room = if clients.len() < CLIENTS_MAX { listeners } else { &[] };
    let connecting = room.iter().map(|(listener, _)| listener.as_fd());
    let now = Instant::now();
    let times = clients.iter().map(|client| client.late.saturating_duration_since(now));
    polling::wait_for_any(asking.chain(connecting), times.fold(LOOK_EVERY, Duration::min));
}

impl Client {
    /// Whether the client's question is complete, or its time is over.
    fn has_asked(&mut self) -> bool {
        let mut bytes = [0; QUESTION_BYTES];
        match self.stream.read(&mut bytes) {
            Ok(0) => true,
            Ok(length) => {
                self.question.extend_from_slice(&bytes[..length]);
                self.is_whole() || Instant::now() >= self.late
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Instant::now() >= self.late,
            Err(_) => true,
        }
    }

    /// Whether the question is complete: in HTTP at the empty line, otherwise at the end of the first line.
    fn is_whole(&self) -> bool {
        let end: &[u8] = if self.is_http() { b"\r\n\r\n" } else { b"\n" };
        self.question.len() >= QUESTION_BYTES
            || self.question.windows(end.len()).any(|part| part == end)
    }

    fn is_http(&self) -> bool {
        self.question.starts_with(b"GET ") || self.question.starts_with(b"HEAD ")
    }

    /// Sends the answer. A few kilobytes fit in the socket's buffer, so a client that reads nothing delays
    /// nothing.
    fn answer(&mut self) -> std::io::Result<()> {
        let mut text = String::new();
        let _ = (self.write)(&mut text);
        if self.is_http() {
            let (kind, length) = (self.kind, text.len());
            let body = if self.question.starts_with(b"HEAD ") { "" } else { &text };
            text = format!(
                "HTTP/1.0 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}"
            );
        }
        self.stream.write_all(text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &'static str) -> Answer {
        Arc::new(move |answer: &mut String| std::fmt::Write::write_str(answer, text))
    }

    fn json(path: &Path) -> Vec<Answering> {
        vec![Answering::json(path, text("{\"counts\":0}\n"))]
    }

    fn start(answering: Vec<Answering>) -> Result<Sockets, Error> {
        Sockets::start(answering, |what| panic!("{what}"))
    }

    fn ask(path: &Path) -> String {
        let mut stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn both_sockets_answer_and_are_removed_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let [first, metrics] = ["json", "metrics"].map(|name| folder.path().join("run").join(name));
        let both = || {
            let mut both = json(&first);
            both.push(Answering::open_metrics(&metrics, text("# HELP a b\n# EOF\n")));
            both
        };
        let sockets = start(both()).unwrap();
        // Clients that ask nothing delay no other client.
        let silent: Vec<UnixStream> =
            (0..2 * CLIENTS_MAX).map(|_| UnixStream::connect(&metrics).unwrap()).collect();
        assert!(ask(&first).contains("\"counts\":0"));
        drop(silent);
        assert_eq!(listener_at(&first, &["absent", "counts"]).unwrap(), Listener::Own);
        let answer = ask(&metrics);
        assert!(answer.starts_with("# HELP ") && answer.ends_with("# EOF\n"), "{answer}");
        let taken = start(both()).err().unwrap().to_string();
        assert!(taken.contains("another program answers there"), "{taken}");
        drop(sockets);
        assert!(!first.exists() && !metrics.exists());
        // A killed daemon leaves its socket.
        drop(UnixListener::bind(&first).unwrap());
        drop(start(both()).unwrap());
    }

    #[test]
    fn a_question_in_pieces_is_one_question() {
        let (mut asker, stream) = UnixStream::pair().unwrap();
        stream.set_nonblocking(true).unwrap();
        let late = Instant::now() + Duration::from_secs(60);
        let Answering { kind, write, .. } = Answering::json(Path::new("/"), text("{}\n"));
        let mut client = Client { stream, kind, write, question: Vec::new(), late };
        for (piece, is_whole) in [("GE", false), ("T / HTTP/1.1\r\n", false), ("\r\n", true)] {
            asker.write_all(piece.as_bytes()).unwrap();
            assert_eq!(client.has_asked(), is_whole, "{piece:?}");
        }
        client.answer().unwrap();
        drop(client);
        let mut text = String::new();
        asker.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.0 200 OK\r\n"), "{text}");
    }

    #[test]
    fn the_socket_of_another_program_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("json");
        let sockets = start(json(&path)).unwrap();
        // Moved instead of removed, so that its inode is not reused.
        std::fs::rename(&path, folder.path().join("moved")).unwrap();
        let _other = UnixListener::bind(&path).unwrap();
        drop(sockets);
        assert!(path.exists());
    }

    #[test]
    fn a_file_in_the_way_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes");
        std::fs::write(&path, "mine").unwrap();
        assert!(start(json(&path)).is_err());
        assert_eq!(std::fs::read_to_string(path).unwrap(), "mine");
    }

    #[test]
    fn a_socket_that_cannot_be_created_is_reported_as_absent() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let mut absent = Vec::new();
        Sockets::start(json(&file.join("json")), |what| absent.push(what)).unwrap();
        assert!(absent[0].starts_with("a socket at ") && absent.len() == 1, "{absent:?}");
    }
}
