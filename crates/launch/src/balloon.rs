//! What makes memory scarce in mode minfree: `pagewise-agent balloon` in a group of its own inside
//! that of the run, which neither the killer nor a visit touches.

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

/// One that is not filled or does not end in this time hangs.
const WAITED_FOR: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The part of the budget that nobody is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Balloon {
    /// How much it holds, all the time.
    #[serde(with = "size")]
    pub size: Bytes,
}

/// A balloon that holds memory. Dropped, it is gone; it goes with this program, too, however that
/// ends.
#[derive(Debug)]
pub(crate) struct Held {
    child: Child,
    log: PathBuf,
}

impl Balloon {
    /// Fills one in the group of `layout`; what it says is in `logs`.
    ///
    /// # Errors
    /// What the operating system refuses, and a balloon that ended.
    pub(crate) fn fill(self, layout: &dyn Layout, logs: &Path) -> Result<Held, Error> {
        let log = logs.join("balloon.txt");
        let file = File::create_new(&log).map_err(|error| Error::file("made", &log, &error))?;
        let errors = file.try_clone().map_err(|error| Error::file("made", &log, &error))?;
        let mut command = Command::new("/proc/self/exe");
        // As important as who is visited: the killer of the run spares both.
        command.arg("balloon").arg(self.size.exact()).args(["--adj", "0", "--within"]);
        command.arg(layout.memory()).stdin(Stdio::null()).stdout(file).stderr(errors);
        let mut held = Held { child: process::start_bound(&mut command)?, log };
        let late = Instant::now() + WAITED_FOR;
        while !held.said().contains("event=filled ") {
            if held.has_ended() || Instant::now() > late {
                return Err(held.failure());
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(held)
    }
}

impl Held {
    /// Whether it has ended, which nobody asked it for.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// What to say of one that has ended.
    pub(crate) fn failure(&self) -> Error {
        let said = self.said();
        let last = said.lines().last().unwrap_or("it said nothing");
        Error::Refused(format!(
            "the balloon does not hold its memory: {last}: make it smaller, or the budget larger"
        ))
    }

    fn said(&self) -> String {
        let mut text = Vec::new();
        let read = File::open(&self.log).and_then(|mut file| file.read_to_end(&mut text));
        read.map(|_| String::from_utf8_lossy(&text).into_owned()).unwrap_or_default()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Told so, it removes its group before it ends.
        process::terminate(self.child.id());
        let late = Instant::now() + WAITED_FOR;
        while !self.has_ended() && Instant::now() < late {
            std::thread::sleep(LOOK_EVERY);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
