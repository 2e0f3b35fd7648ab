//! Relaunch prefetch in a plan with `prefetch = true`: `pagewise-agent relaunchd` freezes and thaws the applications of
//! the run. Its settings and its log are RUNDIR/relaunchd.toml and RUNDIR/relaunchd.log.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use linux::groups::Layout;
use linux::process;
use relaunch::{Answer, Order, Request, ask};
use serde::Serialize;

use crate::Error;
use crate::plan::Plan;

const SETTINGS: &str = "relaunchd.toml";
const LOG: &str = "relaunchd.log";
/// Only one run is made at a time, so its control socket has one path: that of a folder may be too long.
const CONTROL: &str = "/run/pagewise/launch-relaunchd.sock";
/// A relaunchd that does not start in this time hangs.
const BEGINS_WITHIN: Duration = Duration::from_secs(60);
/// A relaunchd that does not end in this time is killed.
const ENDS_WITHIN: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A running relaunchd. When dropped, it is ended, and thaws what it froze. It also ends with this program, however
/// that ends.
pub(crate) struct Relaunchd {
    child: Child,
    control: PathBuf,
}

#[derive(Serialize)]
struct Settings {
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<Order>,
    page_out: bool,
    cold: bool,
    app: Vec<App>,
    sockets: Sockets,
}

#[derive(Serialize)]
struct App {
    name: String,
    cgroup: PathBuf,
}

#[derive(Serialize)]
struct Sockets {
    control: PathBuf,
}

impl Settings {
    fn of(plan: &Plan, layout: &dyn Layout) -> Settings {
        let app = |name: &String| App { name: name.clone(), cgroup: layout.programs().join(name) };
        let app = plan.applications.keys().map(app).collect();
        Settings {
            order: plan.prefetch_order,
            page_out: plan.prefetch_page_out,
            cold: plan.prefetch_cold,
            app,
            sockets: Sockets { control: PathBuf::from(CONTROL) },
        }
    }
}

impl Relaunchd {
    /// Starts relaunchd for the applications of a plan, whose groups exist. Its settings and log are in `folder`, its
    /// other output is in `logs`.
    ///
    /// # Errors
    /// The operating system refuses.
    pub(crate) fn start(
        plan: &Plan,
        layout: &dyn Layout,
        folder: &Path,
        logs: &Path,
    ) -> Result<Relaunchd, Error> {
        let (settings, log) = (folder.join(SETTINGS), folder.join(LOG));
        let create = |path: &Path| {
            File::create_new(path).map_err(|error| Error::file("created", path, &error))
        };
        let text = toml::to_string(&Settings::of(plan, layout))
            .map_err(|error| Error::Refused(format!("{SETTINGS} cannot be written: {error}")))?;
        create(&settings)?
            .write_all(text.as_bytes())
            .map_err(|error| Error::file("written", &settings, &error))?;
        let mut command = Command::new("/proc/self/exe");
        command.arg("relaunchd").arg("--config").arg(&settings).stdin(Stdio::null());
        command.stdout(create(&log)?).stderr(create(&logs.join("relaunchd.txt"))?);
        let child = process::start_bound(&mut command)?;
        let mut relaunchd = Relaunchd { child, control: PathBuf::from(CONTROL) };
        relaunchd.wait_until_started(&log)?;
        Ok(relaunchd)
    }

    /// Waits for the event in its log that it has started.
    fn wait_until_started(&mut self, log: &Path) -> Result<(), Error> {
        let late = Instant::now() + BEGINS_WITHIN;
        while !fs::read_to_string(log).is_ok_and(|text| text.contains("event=start ")) {
            if self.has_ended() || Instant::now() > late {
                let what = "relaunchd did not start; its output is in logs/relaunchd.txt";
                return Err(Error::Refused(what.to_owned()));
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// Whether relaunchd has ended, although the run continues.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Prefetches for an application and thaws it; returns the number of pages that were read.
    pub(crate) fn thaw(&self, application: &str) -> Result<u64, String> {
        self.ask(&Request::Thaw(application.to_owned())).map(|answer| answer.prefetched_pages)
    }

    /// Freezes an application.
    pub(crate) fn freeze(&self, application: &str) -> Result<(), String> {
        self.ask(&Request::Freeze(application.to_owned())).map(drop)
    }

    fn ask(&self, request: &Request) -> Result<Answer, String> {
        let answer = ask(&self.control, request).map_err(|error| error.to_string())?;
        match answer.ok {
            true => Ok(answer),
            false => Err(answer.why.unwrap_or_default()),
        }
    }
}

impl Drop for Relaunchd {
    fn drop(&mut self) {
        process::terminate(self.child.id());
        let late = Instant::now() + ENDS_WITHIN;
        while !self.has_ended() && Instant::now() < late {
            std::thread::sleep(LOOK_EVERY);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linux::groups::V1;

    #[test]
    fn relaunchd_watches_the_group_of_each_application() {
        let plan: Plan = toml::from_str(
            "name = 'a'\norder = ['notes']\nmode = 'swap-file'\nbudget = '1GiB'\nswap_size = '2GiB'\n\
             prefetch = true\nprefetch_order = 'use'\nprefetch_page_out = true\nprefetch_cold = true\n\
             [applications.notes]\ncommand = ['cat']\ninterface = 'line'\n",
        )
        .unwrap();
        let layout = V1::new(Path::new("/memory"), Path::new("/freezer"), "launch");
        let text = toml::to_string(&Settings::of(&plan, &layout)).unwrap();
        assert!(text.contains("page_out = true") && text.contains("cold = true"), "{text}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(SETTINGS);
        fs::write(&path, text).unwrap();
        let config = relaunch::Config::load(&[path]).unwrap();
        assert_eq!(config.apps[0].cgroup, Path::new("/freezer/launch/notes"));
        assert_eq!(config.order, Order::Use);
        assert_eq!(config.sockets.control, Path::new(CONTROL));
    }
}
