//! The balloon makes memory scarce in mode minfree: it is `pagewise-agent balloon`, in its own group inside that
//! of the run. The killer spares it, and no visit changes it.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use linux::groups::Layout;
use linux::process;
use serde::{Deserialize, Serialize};

use types::Bytes;

use crate::{Error, size};

/// A balloon that is not filled, or does not end, in this time hangs.
const WAITED_FOR: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The part of the budget that applications cannot use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Balloon {
    /// How much memory it holds during the whole run.
    #[serde(with = "size")]
    pub size: Bytes,
}

/// A running balloon. When dropped, it ends. It also ends with this program, however that ends.
#[derive(Debug)]
pub(crate) struct Held {
    child: Child,
    log: PathBuf,
}

impl Balloon {
    /// Starts a balloon in the group of `layout`, and waits until it is filled; its output goes to `logs`.
    ///
    /// # Errors
    /// The operating system refuses, or the balloon ended.
    pub(crate) fn fill(self, layout: &dyn Layout, logs: &Path) -> Result<Held, Error> {
        let log = logs.join("balloon.txt");
        let file = File::create_new(&log).map_err(|error| Error::file("created", &log, &error))?;
        let errors = file.try_clone().map_err(|error| Error::file("created", &log, &error))?;
        let mut command = Command::new("/proc/self/exe");
        // The adj of the visited application: the killer of the run spares both.
        command.arg("balloon").arg(self.size.exact()).args(["--adj", "0", "--within"]);
        command.arg(layout.memory()).stdin(Stdio::null()).stdout(file).stderr(errors);
        let mut held = Held { child: process::start_bound(&mut command)?, log };
        let late = Instant::now() + WAITED_FOR;
        while !held.output().contains("event=filled ") {
            if held.has_ended() || Instant::now() > late {
                return Err(held.failure());
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(held)
    }
}

impl Held {
    /// Whether the balloon has ended, although the run continues.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// The error for a balloon that has ended.
    pub(crate) fn failure(&self) -> Error {
        let output = self.output();
        let last = output.lines().last().unwrap_or("it printed nothing");
        Error::Refused(format!(
            "the balloon does not hold its memory: {last}: make it smaller, or the budget larger"
        ))
    }

    fn output(&self) -> String {
        let mut text = Vec::new();
        let read = File::open(&self.log).and_then(|mut file| file.read_to_end(&mut text));
        read.map(|_| String::from_utf8_lossy(&text).into_owned()).unwrap_or_default()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // On SIGTERM it removes its group before it ends.
        process::terminate(self.child.id());
        let late = Instant::now() + WAITED_FOR;
        while !self.has_ended() && Instant::now() < late {
            std::thread::sleep(LOOK_EVERY);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
