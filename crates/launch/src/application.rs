//! An application of a run: it starts, answers, is frozen and thawed, and ends.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::BufReader;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use linux::groups::{self, Layout};
use linux::{Root, process};

use crate::interface::{Conversation, DEVTOOLS_FLAGS, Devtools, Http, Line};
use crate::plan::{self, Interface};

/// Where applications run.
pub(crate) struct Place<'run> {
    pub(crate) root: &'run Root,
    pub(crate) layout: &'run dyn Layout,
    /// What `{lab}` stands for.
    pub(crate) lab: PathBuf,
    /// A scratch folder per application.
    pub(crate) data: PathBuf,
    /// What applications write beside their answers.
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

    /// Whether its program lives.
    pub(crate) fn is_alive(&mut self) -> bool {
        let running = self.running.as_mut();
        running.is_some_and(|running| matches!(running.child.try_wait(), Ok(None)))
    }

    /// Starts its program.
    pub(crate) fn start(&mut self) -> Result<(), String> {
        self.end()?;
        self.spawn().map_err(|error| format!("cannot start: {error}"))
    }

    /// Waits until it can be used, or `is_over`.
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

    /// Ends every process of it, and waits for them.
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

    fn spawn(&mut self) -> Result<(), Box<dyn std::error::Error>> {
        let Place { root, layout, lab, data, logs } = self.place;
        let data = data.join(&self.name);
        fs::create_dir_all(&data)?;
        // A folder that a killed program wrote is kept, as a phone keeps it.
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let names = BTreeMap::from([
            ("{lab}", lab.display().to_string()),
            ("{data}", data.display().to_string()),
            ("{port}", port.to_string()),
        ]);
        let filled = |text: &str| {
            names.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
        };
        let entry = |value: &Option<String>| filled(value.as_deref().unwrap_or_default());
        let log_path = logs.join(format!("{}.txt", self.name));
        let log = OpenOptions::new().create(true).append(true).open(&log_path)?;
        let log_from = log.metadata()?.len();
        let (program, arguments) = self.plan.command.split_first().ok_or("no command")?;
        let mut command = Command::new(filled(program));
        command.args(arguments.iter().map(|argument| filled(argument)));
        command.envs(self.plan.environment.iter().map(|(name, value)| (name, filled(value))));
        command.current_dir(&data).stderr(log.try_clone()?);
        match self.plan.interface {
            Interface::Line => command.stdin(Stdio::piped()).stdout(Stdio::piped()),
            Interface::Http => command.stdin(Stdio::null()).stdout(log),
            Interface::Devtools => {
                command.args(DEVTOOLS_FLAGS.map(filled));
                command.stdin(Stdio::null()).stdout(log)
            }
        };
        let entrances = groups::entrances(*layout, &self.name);
        let mut child = process::start(root, &mut command, &entrances)?;
        let conversation: Box<dyn Conversation> = match self.plan.interface {
            Interface::Line => Box::new(Line {
                input: child.stdin.take().ok_or("no standard input")?,
                output: BufReader::new(child.stdout.take().ok_or("no standard output")?),
                ready: entry(&self.plan.ready),
                request: entry(&self.plan.request),
                answer: entry(&self.plan.answer),
            }),
            Interface::Http => {
                let ready_url = self.plan.ready_url.as_ref().or(self.plan.url.as_ref());
                let ready_url = filled(ready_url.map_or("", String::as_str));
                Box::new(Http::new(entry(&self.plan.url), ready_url))
            }
            Interface::Devtools => Box::new(Devtools::new(
                log_path,
                log_from,
                &entry(&self.plan.page),
                entry(&self.plan.request),
            )),
        };
        self.running = Some(Running { child, conversation });
        Ok(())
    }
}

impl Drop for Application<'_> {
    fn drop(&mut self) {
        // What this leaves, the undoing of the groups ends.
        let _ = self.end();
    }
}

/// Whether `program` can be run: a path, or a name found in PATH.
pub(crate) fn is_there(program: &str) -> bool {
    let is_file = |path: &Path| {
        File::open(path).is_ok_and(|file| file.metadata().is_ok_and(|metadata| metadata.is_file()))
    };
    if program.contains('/') {
        return is_file(Path::new(program));
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| is_file(&folder.join(program)))
}
