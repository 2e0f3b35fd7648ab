//! The swap of mode tiers: `pagewise-agent swapd`, in a process of its own. Its result, its recording and its moves are
//! RUNDIR/swapd.json, swapd.pgr and moves.csv.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use linux::process;
use serde::{Deserialize, Serialize};

use types::Bytes;

use crate::{Error, size};

/// Only one run is made at a time, so the socket has one path: that of a folder may be too long.
const SOCKET: &str = "/run/pagewise/launch-swapd.sock";
const RESULT: &str = "swapd.json";
const RECORDING: &str = "swapd.pgr";
const MOVES: &str = "moves.csv";
const LOG: &str = "swapd.txt";
/// A swapd that does not start in this time hangs: it writes its whole slow tier first.
const BEGINS_WITHIN: Duration = Duration::from_secs(600);
/// How long swapd may take to read its pages back, which an emulated device makes slow.
const ENDS_WITHIN: Duration = Duration::from_secs(600);
/// How long an answer may take.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The carriers for which swapd counts the reads and writes of each tier.
const CARRIERS: [&str; 4] = ["any", "ublk", "nbd", "fuse"];

/// The swap area of mode tiers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tiers {
    /// The policy: the name of a swap architecture.
    pub policy: String,
    /// The size of the fast tier.
    #[serde(with = "size")]
    pub fast: Bytes,
    /// How swapd compresses the fast tier; None to keep whole pages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compress: Option<String>,
    /// How the kernel reaches swapd.
    #[serde(default = "any")]
    pub through: String,
    /// Options of the policy.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// The devices that the tiers are slowed to, by tier: `fast` and `slow`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub emulate: BTreeMap<String, String>,
    /// Whether swapd records its events and moves.
    #[serde(default = "yes")]
    pub record: bool,
}

fn any() -> String {
    "any".to_owned()
}

fn yes() -> bool {
    true
}

impl Tiers {
    /// The first invalid entry, and what was expected. swapd checks the rest before it changes anything.
    pub(crate) fn check(&self) -> Result<(), String> {
        if !CARRIERS.contains(&self.through.as_str()) {
            let through = &self.through;
            // Through zram, swapd knows neither the requests nor the tiers of their pages.
            return Err(format!("tiers.through: {through}: expected any, ublk, nbd or fuse"));
        }
        match self.emulate.keys().find(|tier| !["fast", "slow"].contains(&tier.as_str())) {
            Some(tier) => Err(format!("tiers.emulate: {tier}: expected fast or slow")),
            None => Ok(()),
        }
    }

    /// The command of a swap area of `size`, with files in `folder`.
    fn command(&self, folder: &Path, size: Bytes, priority: i32) -> Command {
        let mut command = Command::new("/proc/self/exe");
        command.args(["swapd", "--json", "--only-swap", "--size", &size.exact()]);
        command.args(["--fast", &self.fast.exact(), "--policy", &self.policy]);
        command.args(["--through", &self.through, "--priority", &priority.to_string()]);
        command.args(["--socket", SOCKET]).arg("--slow").arg(folder.join("swap"));
        if let Some(compressor) = &self.compress {
            command.args(["--compress", compressor]);
        }
        for (name, value) in &self.options {
            command.arg("--option").arg(format!("{name}={value}"));
        }
        for (tier, device) in &self.emulate {
            command.arg("--emulate").arg(format!("{tier}={device}"));
        }
        if self.record {
            command.arg("--record").arg(folder.join(RECORDING));
            command.arg("--moves").arg(folder.join(MOVES));
        }
        command
    }
}

/// A running swapd. When dropped, it is ended, and reads its pages back first. It also ends with this program, however
/// that ends.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
}

impl Server {
    /// Starts swapd for an area of `size`, and waits until the area is in use.
    ///
    /// # Errors
    /// swapd refuses, with its reason.
    pub(crate) fn start(
        tiers: &Tiers,
        folder: &Path,
        size: Bytes,
        priority: i32,
    ) -> Result<Server, Error> {
        let create = |path: &Path| {
            File::create_new(path).map_err(|error| Error::file("created", path, &error))
        };
        let log = folder.join("logs").join(LOG);
        let mut command = tiers.command(folder, size, priority);
        command.stdin(Stdio::null());
        command.stdout(create(&folder.join(RESULT))?).stderr(create(&log)?);
        let mut server = Server { child: process::start_bound_gently(&mut command)? };
        let late = Instant::now() + BEGINS_WITHIN;
        while Counters::now().is_err() {
            if server.has_ended() || Instant::now() > late {
                let reason = reason(&log);
                // Nothing was served, so nothing is left of it.
                for path in [&log, &folder.join(RESULT)] {
                    let _ = std::fs::remove_file(path);
                }
                return Err(Error::Refused(reason));
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(server)
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        process::terminate(self.child.id());
        let late = Instant::now() + ENDS_WITHIN;
        while !self.has_ended() && Instant::now() < late {
            std::thread::sleep(LOOK_EVERY);
        }
        // One that still serves goes on: killed, it would lose the pages.
    }
}

/// Why swapd did not start: its own words.
fn reason(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    match text.trim().strip_prefix("pagewise-agent: ").unwrap_or(text.trim()) {
        "" => "swapd did not start, and gave no reason".to_owned(),
        words => format!("swapd: {words}"),
    }
}

/// Pages that the tiers read and wrote since the start of swapd, or in between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Pages read from the fast tier.
    pub fast_reads: u64,
    /// Pages read from the slow tier.
    pub slow_reads: u64,
    /// Pages written to the slow tier.
    pub slow_writes: u64,
}

#[derive(Deserialize)]
struct Answer {
    fast: Operations,
    slow: Operations,
}

#[derive(Deserialize)]
struct Operations {
    reads: u64,
    writes: u64,
}

impl Counters {
    /// What swapd has counted since its start.
    ///
    /// # Errors
    /// swapd has ended.
    pub(crate) fn now() -> Result<Counters, Error> {
        let refused = |error: std::io::Error| {
            let what = "swapd does not answer: it has ended during the run";
            Error::Refused(format!("{what} ({error}); its output is in logs/{LOG}"))
        };
        let answer = || {
            let mut stream = UnixStream::connect(PathBuf::from(SOCKET))?;
            stream.set_read_timeout(Some(ANSWERS_WITHIN))?;
            stream.write_all(b"\n")?;
            let mut text = String::new();
            stream.read_to_string(&mut text)?;
            Ok(text)
        };
        let answer: Answer = serde_json::from_str(&answer().map_err(refused)?)
            .map_err(|error| refused(error.into()))?;
        Ok(Counters {
            fast_reads: answer.fast.reads,
            slow_reads: answer.slow.reads,
            slow_writes: answer.slow.writes,
        })
    }

    /// The difference to the earlier `before`.
    pub(crate) fn since(self, before: Counters) -> Counters {
        Counters {
            fast_reads: self.fast_reads.saturating_sub(before.fast_reads),
            slow_reads: self.slow_reads.saturating_sub(before.slow_reads),
            slow_writes: self.slow_writes.saturating_sub(before.slow_writes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_has_every_entry_of_the_plan() {
        let tiers: Tiers = toml::from_str(
            "policy = 'hybrid'\nfast = '256MiB'\ncompress = 'lz4'\noptions = { entry_bit = '0' }\n\
             emulate = { slow = 'emmc-5.1' }\n",
        )
        .unwrap();
        let command = tiers.command(Path::new("/run/1"), Bytes(1 << 30), 5);
        let words: Vec<&str> = command.get_args().filter_map(|word| word.to_str()).collect();
        for pair in [
            ["--size", "1GiB"],
            ["--fast", "256MiB"],
            ["--policy", "hybrid"],
            ["--compress", "lz4"],
            ["--through", "any"],
            ["--priority", "5"],
            ["--slow", "/run/1/swap"],
            ["--option", "entry_bit=0"],
            ["--emulate", "slow=emmc-5.1"],
            ["--record", "/run/1/swapd.pgr"],
            ["--moves", "/run/1/moves.csv"],
        ] {
            assert!(words.windows(2).any(|found| found == pair), "{pair:?} in {words:?}");
        }
    }

    #[test]
    fn only_the_two_tiers_can_be_slowed() {
        let text = "policy = 'flash'\nfast = '4MiB'\nemulate = { disk = 'hdd' }\n";
        let tiers: Tiers = toml::from_str(text).unwrap();
        assert_eq!(tiers.check().unwrap_err(), "tiers.emulate: disk: expected fast or slow");
    }
}
