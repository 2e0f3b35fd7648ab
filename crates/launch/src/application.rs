//! An application of a run: starts it, sends it requests, freezes and thaws it, and ends it.

use std::error::Error;
use std::fs::{self, File, OpenOptions};
use std::io::BufReader;
use std::net::TcpListener;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use linux::groups::{self, Layout};
use linux::{Root, process};
use rustix::fs::OFlags;

use crate::interface::{Conversation, DEVTOOLS_FLAGS, Devtools, Http, Line};
use crate::plan::{self, Interface};

/// The folders and cgroups in which applications run.
pub(crate) struct Place<'run> {
    pub(crate) root: &'run Root,
    pub(crate) layout: &'run dyn Layout,
    /// The file by which an application's process joins the group whose reads are slowed down, if that is a group
    /// of its own.
    pub(crate) slowed: Option<PathBuf>,
    /// The folder that replaces `{lab}`.
    pub(crate) lab: PathBuf,
    /// The folder of the applications' scratch folders.
    pub(crate) data: PathBuf,
    /// The folder of the applications' logs.
    pub(crate) logs: PathBuf,
}

/// An application, running or not.
pub(crate) struct Application<'run> {
    name: String,
    plan: &'run plan::Application,
    place: &'run Place<'run>,
    running: Option<Running>,
}

struct Running {
    child: Child,
    conversation: Box<dyn Conversation>,
}

impl<'run> Application<'run> {
    pub(crate) fn new(
        name: &str,
        plan: &'run plan::Application,
        place: &'run Place<'run>,
    ) -> Application<'run> {
        Application { name: name.to_owned(), plan, place, running: None }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether the program of the application runs.
    pub(crate) fn is_alive(&mut self) -> bool {
        let running = self.running.as_mut();
        running.is_some_and(|running| matches!(running.child.try_wait(), Ok(None)))
    }

    /// Starts its program.
    pub(crate) fn start(&mut self) -> Result<(), String> {
        self.end()?;
        self.spawn().map_err(|error| format!("cannot start: {error}"))
    }

    /// Waits until it is ready, or `is_over`.
    pub(crate) fn wait_until_ready(&mut self, is_over: &dyn Fn() -> bool) -> Result<(), String> {
        self.conversation()?.wait_until_ready(is_over)
    }

    /// Sends the request of a round and waits for the answer.
    pub(crate) fn ask(&mut self, round: u32) -> Result<(), String> {
        self.conversation()?.ask(round)
    }

    pub(crate) fn freeze(&self) -> Result<(), String> {
        let Place { root, layout, .. } = self.place;
        groups::freeze(root, *layout, &self.name).map(drop).map_err(|error| error.to_string())
    }

    pub(crate) fn thaw(&self) -> Result<(), String> {
        let Place { root, layout, .. } = self.place;
        layout.freeze(&self.name, false).apply(root).map_err(|error| error.to_string())
    }

    /// Kills all its processes, and waits for them.
    pub(crate) fn end(&mut self) -> Result<(), String> {
        let Place { root, layout, .. } = self.place;
        let ended = groups::end(root, *layout, &self.name);
        if let Some(mut running) = self.running.take() {
            let _ = running.child.wait();
        }
        ended.map_err(|error| error.to_string())
    }

    fn conversation(&mut self) -> Result<&mut Box<dyn Conversation>, String> {
        let running = self.running.as_mut().ok_or("it is not running")?;
        Ok(&mut running.conversation)
    }

    fn spawn(&mut self) -> Result<(), Box<dyn Error>> {
        let Place { root, layout, slowed, lab, data, logs } = self.place;
        // The files that it wrote before it was killed are still there, as on a phone.
        let data = data.join(&self.name);
        fs::create_dir_all(&data)?;
        let path = logs.join(format!("{}.txt", self.name));
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .custom_flags(OFlags::NOFOLLOW.bits() as i32)
            .open(&path)?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let start = Start { lab, data: &data, port, log_from: log.metadata()?.len(), log: path };
        let mut command = start.command(self.plan, log)?;
        let mut entrances = groups::entrances(*layout, &self.name);
        entrances.extend(slowed.clone());
        let mut child = process::start(root, &mut command, &entrances)?;
        let conversation = start.conversation(self.plan, &mut child)?;
        self.running = Some(Running { child, conversation });
        Ok(())
    }
}

/// The parameters of a start of an application's program.
struct Start<'run> {
    lab: &'run Path,
    data: &'run Path,
    port: u16,
    log: PathBuf,
    /// The offset in the log at which this start's part begins.
    log_from: u64,
}

impl Start<'_> {
    /// Replaces the placeholders in `text`, except for `{round}`.
    fn fill(&self, text: &str) -> String {
        text.replace("{lab}", &self.lab.display().to_string())
            .replace("{data}", &self.data.display().to_string())
            .replace("{port}", &self.port.to_string())
    }

    fn command(&self, plan: &plan::Application, log: File) -> Result<Command, Box<dyn Error>> {
        let (program, arguments) = plan.command.split_first().ok_or("no command")?;
        let mut command = Command::new(self.fill(program));
        command.args(arguments.iter().map(|argument| self.fill(argument)));
        command.envs(plan.environment.iter().map(|(name, value)| (name, self.fill(value))));
        command.current_dir(self.data).stdin(Stdio::null()).stderr(log.try_clone()?).stdout(log);
        match plan.interface {
            Interface::Line => command.stdin(Stdio::piped()).stdout(Stdio::piped()),
            Interface::Http => &mut command,
            Interface::Devtools => command.args(DEVTOOLS_FLAGS.map(|flag| self.fill(flag))),
        };
        Ok(command)
    }

    fn conversation(
        &self,
        plan: &plan::Application,
        child: &mut Child,
    ) -> Result<Box<dyn Conversation>, Box<dyn Error>> {
        let entry = |value: &Option<String>| self.fill(value.as_deref().unwrap_or_default());
        Ok(match plan.interface {
            Interface::Line => Box::new(Line {
                input: child.stdin.take().ok_or("no standard input")?,
                output: BufReader::new(child.stdout.take().ok_or("no standard output")?),
                ready: entry(&plan.ready),
                request: entry(&plan.request),
                answer: entry(&plan.answer),
            }),
            Interface::Http => {
                let ready_url = if plan.ready_url.is_some() { &plan.ready_url } else { &plan.url };
                Box::new(Http::new(entry(&plan.url), entry(ready_url)))
            }
            Interface::Devtools => {
                let (page, request) = (entry(&plan.page), entry(&plan.request));
                Box::new(Devtools::new(self.log.clone(), self.log_from, &page, request))
            }
        })
    }
}

impl Drop for Application<'_> {
    fn drop(&mut self) {
        // Removing the groups ends processes that this leaves.
        let _ = self.end();
    }
}
