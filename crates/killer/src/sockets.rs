//! Two sockets that tell what the killer counts: as JSON, and as OpenMetrics, also to whoever asks by
//! HTTP. Whoever connects gets one answer.

use std::io::{Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{Error, Statistics};

const STACK: usize = 64 << 10;
/// How long a question is waited for: whoever only reads asks none.
const QUESTION_WITHIN: Duration = Duration::from_millis(100);
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
/// How soon the end is noticed.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// Where the sockets lie.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paths {
    /// The one that answers JSON.
    pub statistics: Option<PathBuf>,
    /// The one that answers OpenMetrics.
    pub metrics: Option<PathBuf>,
}

/// The thread that answers. Dropped, it ends and removes its sockets.
pub(crate) struct Sockets {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    paths: Vec<PathBuf>,
}

type Tell = fn(&Statistics, &mut String) -> std::fmt::Result;

impl Sockets {
    /// Listens, if there is any path.
    ///
    /// # Errors
    /// A path that is taken by something else than a socket, or what the operating system refuses.
    pub(crate) fn start(paths: &Paths, statistics: &Arc<Statistics>) -> Result<Sockets, Error> {
        let is_over = Arc::new(AtomicBool::new(false));
        let mut sockets = Sockets { is_over, thread: None, paths: Vec::new() };
        let wanted: [(&Option<PathBuf>, Tell); 2] =
            [(&paths.statistics, Statistics::json), (&paths.metrics, Statistics::open_metrics)];
        let mut listeners = Vec::new();
        for (path, tell) in wanted {
            if let Some(path) = path {
                listeners.push((listen(path)?, tell));
                sockets.paths.push(path.clone());
            }
        }
        if !listeners.is_empty() {
            let (is_over, statistics) = (Arc::clone(&sockets.is_over), Arc::clone(statistics));
            let thread = std::thread::Builder::new().name("sockets".to_owned()).stack_size(STACK);
            let thread = thread.spawn(move || serve(&listeners, &statistics, &is_over));
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
        for path in &self.paths {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A listener at `path`, in the place of a socket that an earlier killer left.
fn listen(path: &Path) -> Result<UnixListener, Error> {
    let refused = |error| Error::refused(&format!("listen at {}", path.display()), error);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(refused)?;
    }
    if std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        if UnixStream::connect(path).is_ok() {
            let what = "another killer answers there".to_owned();
            return Err(Error::refused(&format!("listen at {}", path.display()), what));
        }
        std::fs::remove_file(path).map_err(refused)?;
    }
    let listener = UnixListener::bind(path).map_err(refused)?;
    listener.set_nonblocking(true).map_err(refused)?;
    Ok(listener)
}

fn serve(listeners: &[(UnixListener, Tell)], statistics: &Statistics, is_over: &AtomicBool) {
    while !is_over.load(Relaxed) {
        let mut ready: Vec<PollFd<'_>> =
            listeners.iter().map(|(listener, _)| PollFd::new(listener, PollFlags::IN)).collect();
        if poll(&mut ready, Some(&LOOK_EVERY)).unwrap_or(0) == 0 {
            continue;
        }
        for (listener, tell) in listeners {
            if let Ok((stream, _)) = listener.accept() {
                // Whoever goes away before the answer has none.
                let _ = answer(stream, statistics, *tell);
            }
        }
    }
}

fn answer(mut stream: UnixStream, statistics: &Statistics, tell: Tell) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(QUESTION_WITHIN))?;
    stream.set_write_timeout(Some(ANSWER_WITHIN))?;
    let mut question = [0; 1024];
    let length = stream.read(&mut question).unwrap_or(0);
    let mut text = String::new();
    let _ = tell(statistics, &mut text);
    if question[..length].starts_with(b"GET ") {
        let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        let length = text.len();
        write!(
            stream,
            "HTTP/1.0 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n"
        )?;
    }
    stream.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(path: &Path) -> String {
        let mut stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn both_sockets_answer_and_are_gone_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let [json, metrics] = ["json", "metrics"].map(|name| folder.path().join("run").join(name));
        let paths = Paths { statistics: Some(json.clone()), metrics: Some(metrics.clone()) };
        let statistics = Arc::new(Statistics::default());
        let sockets = Sockets::start(&paths, &statistics).unwrap();
        assert!(ask(&json).contains("\"kills\":0"));
        let answer = ask(&metrics);
        assert!(answer.starts_with("# HELP ") && answer.ends_with("# EOF\n"), "{answer}");
        let taken = Sockets::start(&paths, &statistics).err().unwrap().to_string();
        assert!(taken.contains("another killer answers there"), "{taken}");
        drop(sockets);
        assert!(!json.exists() && !metrics.exists());
        // Left by one that was killed.
        drop(UnixListener::bind(&json).unwrap());
        drop(Sockets::start(&paths, &statistics).unwrap());
    }

    #[test]
    fn who_asks_by_http_gets_its_head_too() {
        let (mut asking, asked) = UnixStream::pair().unwrap();
        // Asked before it is read, so that no time counts.
        asking.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        answer(asked, &Statistics::default(), Statistics::open_metrics).unwrap();
        let mut text = String::new();
        asking.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.0 200 OK\r\n") && text.ends_with("# EOF\n"), "{text}");
    }

    #[test]
    fn a_file_in_the_way_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes");
        std::fs::write(&path, "mine").unwrap();
        let paths = Paths { statistics: Some(path.clone()), metrics: None };
        assert!(Sockets::start(&paths, &Arc::default()).is_err());
        assert_eq!(std::fs::read_to_string(path).unwrap(), "mine");
    }
}
