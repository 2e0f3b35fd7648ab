//! A trace buffer of our own in tracefs, which leaves the machine's own tracing alone. It goes with
//! the recorder on every way out: a shell that waits for our end removes it where we cannot.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use linux::Root;
use rustix::fs::OFlags;

/// Where tracefs is mounted.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// A trace instance.
#[derive(Debug)]
pub struct Instance {
    folder: PathBuf,
    pipe: Option<File>,
    guard: Child,
}

impl Instance {
    /// Makes one that records nothing yet, with a buffer of `bytes` in all.
    ///
    /// # Errors
    /// What the operating system refuses, in words.
    pub fn make(root: &Root, bytes: u64) -> Result<Instance, String> {
        let place = PLACES.iter().find(|place| root.exists(format!("{place}/instances")));
        let place = place
            .ok_or("tracefs is not mounted: as root, mount -t tracefs nodev /sys/kernel/tracing")?;
        let folder = root.path(format!("{place}/instances/pagewise-{}", std::process::id()));
        let refused = |error: io::Error| format!("{}: {error}", folder.display());
        fs::create_dir(&folder).map_err(refused)?;
        let guard = guard(&folder).map_err(|error| {
            let _ = fs::remove_dir(&folder);
            format!("cannot start the shell that removes the trace instance: {error}")
        })?;
        let mut instance = Instance { folder: folder.clone(), pipe: None, guard };
        let processors = std::thread::available_parallelism().map_or(1, usize::from) as u64;
        let kibibytes = (bytes / 1024 / processors).max(4);
        instance.set("trace_clock", "mono").map_err(refused)?;
        instance.set("buffer_size_kb", &kibibytes.to_string()).map_err(refused)?;
        instance.set("options/overwrite", "0").map_err(refused)?;
        // Without it a line names its thread, which for most is their process.
        let _ = instance.set("options/record-tgid", "1");
        let mut options = File::options();
        let pipe = options
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits() as i32)
            .open(folder.join("trace_pipe"));
        instance.pipe = Some(pipe.map_err(refused)?);
        Ok(instance)
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

    /// Appends what the buffer holds to `text` and takes it out.
    ///
    /// # Errors
    /// What the operating system refuses.
    pub fn read(&mut self, text: &mut Vec<u8>) -> io::Result<()> {
        let Some(pipe) = &mut self.pipe else { return Ok(()) };
        match pipe.read_to_end(text) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Events that found the buffer full.
    pub fn lost(&self) -> u64 {
        let folders = fs::read_dir(self.folder.join("per_cpu")).into_iter().flatten();
        let texts =
            folders.filter_map(|cpu| fs::read_to_string(cpu.ok()?.path().join("stats")).ok());
        texts.map(|text| lost_of(&text)).sum()
    }

    fn set(&self, file: &str, value: &str) -> io::Result<()> {
        fs::write(self.folder.join(file), value)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.set("tracing_on", "0");
        // An instance whose pipe is open cannot be removed.
        self.pipe = None;
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

/// Waits for the end of its input, which comes with ours. A killed recorder closes its files one by
/// one, and while the trace pipe is open the instance stays; so it tries for some seconds.
const GUARD: &str = "trap '' INT TERM HUP; read _; for _ in 1 2 3 4 5 6 7 8 9; do \
                     rmdir \"$0\" && break; test -d \"$0\" || break; sleep 0.5; done";

/// A shell that removes the instance at our end.
fn guard(folder: &Path) -> io::Result<Child> {
    Command::new("sh")
        .args(["-c", GUARD])
        .arg(folder)
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
    fn without_tracefs_the_remedy_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let refusal = Instance::make(&Root::at(folder.path()), 1 << 20).unwrap_err();
        assert!(refusal.contains("mount -t tracefs"), "{refusal}");
    }
}
