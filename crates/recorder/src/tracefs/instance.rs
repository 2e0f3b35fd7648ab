//! A trace buffer of our own in tracefs, which leaves the machine's own tracing alone. It is read as text
//! or as the pages that the kernel keeps. It goes with the recorder on every way out: a shell that waits
//! for our end removes it. The shell stays in the folder of instances, since our own mount of tracefs has
//! no path.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use linux::Root;
use linux::tracefs::Tracefs;
use rustix::fs::OFlags;

/// Room for a page of the buffer; kernels make them of 4 to 64 KiB.
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
    /// Makes one that records nothing yet, with a buffer of `bytes` in all.
    ///
    /// # Errors
    /// What the operating system refuses, in words.
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
        // Without it a line names its thread, which for most is their process.
        let _ = instance.set("options/record-tgid", "1");
        Ok(instance)
    }

    /// Opens the text of all processors, or with `pages` the pages of each of them.
    ///
    /// # Errors
    /// What the operating system refuses, in words.
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

    /// Switches an event on, of those only what passes `filter`, unless that is empty.
    ///
    /// # Errors
    /// What the operating system refuses.
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

    /// Appends what the buffer holds to `text` and takes it out.
    ///
    /// # Errors
    /// What the operating system refuses.
    pub fn read(&mut self, text: &mut Vec<u8>) -> io::Result<()> {
        self.pipes.iter_mut().try_for_each(|pipe| match pipe.read_to_end(text) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
        })
    }

    /// Hands the pages of each processor to `take`, in their order, and takes them out.
    ///
    /// # Errors
    /// What the operating system refuses.
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

    /// What a file of the instance says.
    ///
    /// # Errors
    /// What the operating system refuses.
    pub fn get(&self, file: &str) -> io::Result<String> {
        fs::read_to_string(self.folder.join(file))
    }

    /// Sets a file of the instance.
    ///
    /// # Errors
    /// What the operating system refuses.
    pub fn set(&self, file: &str, value: &str) -> io::Result<()> {
        fs::write(self.folder.join(file), value)
    }

    /// Adds to a file of the instance that holds a list.
    ///
    /// # Errors
    /// What the operating system refuses.
    pub fn add(&self, file: &str, value: &str) -> io::Result<()> {
        File::options().append(true).open(self.folder.join(file))?.write_all(value.as_bytes())
    }

    /// What a file says that all instances share; none where it cannot be read.
    pub fn shared(&self, file: &str) -> Option<String> {
        let mut file = File::open(self.tracefs.folder().join(file)).ok()?;
        let mut text = Vec::new();
        // Some of these files give their text to the first read alone, however small that is.
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

    /// The folders of all processors' buffers, by name.
    fn processors(&self) -> Vec<String> {
        Root::at(&self.folder).list("per_cpu").unwrap_or_default()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.set("tracing_on", "0");
        // An instance whose pipe is open cannot be removed.
        self.pipes.clear();
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

/// Waits for the end of its input, which comes with ours. A killed recorder closes its files one by
/// one, and while the trace pipe is open the instance stays; so it tries for some seconds.
const GUARD: &str = "trap '' INT TERM HUP; read _; for _ in 1 2 3 4 5 6 7 8 9; do \
                     rmdir \"$0\" && break; test -d \"$0\" || break; sleep 0.5; done";

/// A shell that removes the instance `folder` at our end.
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

/// Lost events in the statistics of one processor.
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
