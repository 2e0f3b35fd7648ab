//! A separate trace instance in tracefs, which does not disturb other tracing on the machine. It is read as text
//! or as raw pages of the ring buffer. However the recorder ends, a shell that waits for its end removes the
//! instance. The working directory of the shell is the folder of instances, because the recorder's own mount of
//! tracefs has no path.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use linux::Root;
use linux::tracefs::Tracefs;
use rustix::fs::OFlags;

/// The largest page of the ring buffer; kernels use 4 to 64 KiB.
const PAGE_BYTES_MAX: usize = 64 << 10;

/// A trace instance.
#[derive(Debug)]
pub struct Instance {
    tracefs: Tracefs,
    folder: PathBuf,
    pipes: Vec<File>,
    guard: Child,
}

impl Instance {
    /// Creates an instance without enabled events, with a buffer of `bytes` for all processors together.
    ///
    /// # Errors
    /// The reason why the operating system refuses.
    pub fn make(root: &Root, bytes: u64) -> Result<Instance, String> {
        let tracefs = Tracefs::of(root)?;
        let folder = tracefs.folder().join(format!("instances/pagewise-{}", std::process::id()));
        let refused = |error: io::Error| format!("{}: {error}", folder.display());
        fs::create_dir(&folder).map_err(refused)?;
        let guard = guard(&folder).map_err(|error| {
            let _ = fs::remove_dir(&folder);
            format!("cannot start the shell that removes the trace instance: {error}")
        })?;
        let instance = Instance { tracefs, folder: folder.clone(), pipes: Vec::new(), guard };
        let processors = std::thread::available_parallelism().map_or(1, usize::from) as u64;
        let kibibytes = (bytes / 1024 / processors).max(4);
        instance.set("trace_clock", "mono").map_err(refused)?;
        instance.set("buffer_size_kb", &kibibytes.to_string()).map_err(refused)?;
        instance.set("options/overwrite", "0").map_err(refused)?;
        // Without this option a line has only the thread ID, which for most processes is the PID.
        let _ = instance.set("options/record-tgid", "1");
        Ok(instance)
    }

    /// Opens the text of all processors, or with `pages` the raw pages of each processor.
    ///
    /// # Errors
    /// The reason why the operating system refuses.
    pub fn listen(&mut self, pages: bool) -> Result<(), String> {
        let files = match pages {
            false => vec!["trace_pipe".to_owned()],
            true => self
                .processors()
                .iter()
                .map(|processor| format!("per_cpu/{processor}/trace_pipe_raw"))
                .collect(),
        };
        for file in files {
            let path = self.folder.join(file);
            let mut options = File::options();
            let opened =
                options.read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(&path);
            self.pipes.push(opened.map_err(|error| format!("{}: {error}", path.display()))?);
        }
        Ok(())
    }

    /// Enables an event, with `filter` unless that is empty.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn enable(&self, event: &str, filter: &str) -> io::Result<()> {
        if !filter.is_empty() {
            self.set(&format!("events/{event}/filter"), filter)?;
        }
        self.set(&format!("events/{event}/enable"), "1")
    }

    /// Whether the kernel has an event.
    pub fn has(&self, event: &str) -> bool {
        self.folder.join("events").join(event).is_dir()
    }

    /// Moves the contents of the buffer to the end of `text`.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn read(&mut self, text: &mut Vec<u8>) -> io::Result<()> {
        self.pipes.iter_mut().try_for_each(|pipe| match pipe.read_to_end(text) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
        })
    }

    /// Passes the pages of each processor to `take`, in order, and removes them from the buffer.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn pages(&mut self, mut take: impl FnMut(&[u8])) -> io::Result<()> {
        let mut page = vec![0; PAGE_BYTES_MAX];
        for pipe in &mut self.pipes {
            loop {
                match pipe.read(&mut page) {
                    Ok(0) => break,
                    Ok(bytes) => take(&page[..bytes]),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Reads a file of the instance.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn get(&self, file: &str) -> io::Result<String> {
        fs::read_to_string(self.folder.join(file))
    }

    /// Writes a file of the instance.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn set(&self, file: &str, value: &str) -> io::Result<()> {
        fs::write(self.folder.join(file), value)
    }

    /// Appends to a file of the instance that holds a list.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn add(&self, file: &str, value: &str) -> io::Result<()> {
        File::options().append(true).open(self.folder.join(file))?.write_all(value.as_bytes())
    }

    /// Reads a file that all instances share; None if it cannot be read.
    pub fn shared(&self, file: &str) -> Option<String> {
        let mut file = File::open(self.tracefs.folder().join(file)).ok()?;
        let mut text = Vec::new();
        // Some of these files return text only for the first read, however small its buffer is.
        let mut piece = vec![0; PAGE_BYTES_MAX];
        loop {
            match file.read(&mut piece).ok()? {
                0 => return String::from_utf8(text).ok(),
                bytes => text.extend_from_slice(&piece[..bytes]),
            }
        }
    }

    /// Events that found the buffer full.
    pub fn lost(&self) -> u64 {
        let processors = self.processors();
        let texts =
            processors.iter().filter_map(|cpu| self.get(&format!("per_cpu/{cpu}/stats")).ok());
        texts.map(|text| lost_of(&text)).sum()
    }

    /// The names of the folders of all processors' buffers.
    fn processors(&self) -> Vec<String> {
        Root::at(&self.folder).list("per_cpu").unwrap_or_default()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.set("tracing_on", "0");
        // An instance with an open pipe cannot be removed.
        self.pipes.clear();
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

/// Waits for the end of standard input, which is the end of the recorder, and removes the instance. A killed
/// recorder closes its files one by one, and the instance cannot be removed while the trace pipe is open, so
/// the shell tries for some seconds.
const GUARD: &str = "trap '' INT TERM HUP; read _; for _ in 1 2 3 4 5 6 7 8 9; do \
                     rmdir \"$0\" && break; test -d \"$0\" || break; sleep 0.5; done";

/// Starts the shell that removes the instance `folder` when the recorder ends.
fn guard(folder: &Path) -> io::Result<Child> {
    let (instances, name) = (folder.parent(), folder.file_name());
    Command::new("sh")
        .args(["-c", GUARD])
        .args(name)
        .current_dir(instances.unwrap_or(folder))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
}

/// The number of lost events in the statistics of one processor.
fn lost_of(text: &str) -> u64 {
    let count = |line: &str| -> Option<u64> {
        let (name, count) = line.split_once(": ")?;
        matches!(name, "overrun" | "dropped events").then(|| count.trim().parse().ok())?
    };
    text.lines().filter_map(count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overruns_and_drops_are_losses() {
        let text =
            "entries: 7497\noverrun: 3\ncommit overrun: 0\ndropped events: 4\nread events: 9\n";
        assert_eq!(lost_of(text), 7);
    }

    #[test]
    fn without_tracefs_the_reason_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let refusal = Instance::make(&Root::at(folder.path()), 1 << 20).unwrap_err();
        assert!(refusal.contains("without tracefs"), "{refusal}");
    }
}
