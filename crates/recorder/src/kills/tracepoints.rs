//! Receives the events of kills from tracepoints in a separate trace instance, as raw pages of the ring buffer.
//!
//! Events of locks and page counts come hundreds of thousands of times a second, but matter only while a process
//! dies. So these events are armed: a trigger on the signal enables them inside the kernel, and they are
//! disabled again when no process is dying. Wake-ups matter only within a call to kill.

use linux::Root;
use linux::system::Symbols;
use trace::kills::{About, CATALOG, Row, without_print};
use trace::recording::Missing;

use crate::Error;
use crate::tracefs::instance::Instance;

/// Functions on the path of a kill, in order. Kernels inline some, and rename others.
const FUNCTIONS: &[&str] = &[
    "oom_kill_process",
    "send_signal_locked",
    "__send_signal_locked",
    "__send_signal",
    "complete_signal",
    "signal_wake_up_state",
    "kick_process",
    "get_signal",
    "do_group_exit",
    "do_exit",
    "mmput",
    "__mmput",
    "exit_mmap",
    "unmap_vmas",
    "free_pgtables",
    "tlb_finish_mmu",
    "__oom_reap_task_mm",
    "__x64_sys_process_mrelease",
    "__arm64_sys_process_mrelease",
];

const SIGNAL: &str = "signal/signal_generate";
const WAKE: &str = "sched/sched_waking";
const FUNCTION: &str = "ftrace/function";

/// Enabled tracepoints.
pub struct Tracepoints {
    instance: Instance,
    /// Events that a signal enables.
    armed: Vec<&'static str>,
    forms: About,
}

impl Tracepoints {
    /// Enables the events that this kernel has; with `has_functions` also the functions on the path of a kill.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn attach(
        root: &Root,
        has_functions: bool,
        buffer_bytes: u32,
    ) -> Result<Tracepoints, Error> {
        let instance = Instance::make(root, u64::from(buffer_bytes)).map_err(Error::Tracefs)?;
        if !instance.has(SIGNAL) {
            let what = format!("this kernel has no event {SIGNAL}, which every kill needs");
            return Err(Error::Tracefs(what));
        }
        let backend = if has_functions { "function" } else { "tracepoints" }.to_owned();
        let forms = About { backend, ..About::default() };
        let mut this = Tracepoints { instance, armed: Vec::new(), forms };
        let header = this.instance.shared("events/header_page");
        this.forms.page_format =
            header.as_deref().map(without_print).unwrap_or_default().to_owned();
        // The tracer cannot be changed while a trace pipe is open.
        if has_functions {
            this.trace_functions(root)?;
        }
        this.instance.listen(true).map_err(Error::Tracefs)?;
        for row in CATALOG.iter().filter(|row| row.event != FUNCTION) {
            this.enable(row);
        }
        Ok(this)
    }

    /// The formats of events and pages, and the parts that are absent.
    pub fn forms(&self) -> About {
        self.forms.clone()
    }

    /// Passes each page of events to `take`.
    ///
    /// # Errors
    /// The kernel refuses, or `take` fails.
    pub fn drain(&mut self, mut take: impl FnMut(&[u8]) -> Result<(), Error>) -> Result<(), Error> {
        let mut taken = Ok(());
        let read = self.instance.pages(|page| {
            if taken.is_ok() {
                taken = take(page);
            }
        });
        read.map_err(|error| Error::Tracefs(format!("trace_pipe_raw: {error}")))?;
        taken
    }

    /// The name of a thread that has ended, if the kernel remembers it.
    pub fn name(&self, thread: u32) -> Option<String> {
        let saved = self.instance.shared("saved_cmdlines")?;
        saved.lines().find_map(|line| {
            let (number, name) = line.trim_start().split_once(' ')?;
            (number.parse() == Ok(thread)).then(|| name.to_owned())
        })
    }

    /// Disables the events that matter only while a process dies.
    pub fn disarm(&self) {
        for event in &self.armed {
            let file = format!("events/{event}/enable");
            if self.instance.get(&file).is_ok_and(|state| state.starts_with('1')) {
                let _ = self.instance.set(&file, "0");
            }
        }
    }

    /// Events that found the buffer full so far.
    pub fn lost(&self) -> u64 {
        self.instance.lost()
    }

    fn enable(&mut self, row: &Row) {
        let missing = |why| Missing { what: row.without_it.to_owned(), why };
        if !self.instance.has(row.event) {
            let why = format!("this kernel has no event {}", row.event);
            self.forms.absent.push(missing(why));
            return;
        }
        let switched = match row.is_armed {
            false => self.instance.enable(row.event, row.filter),
            true => self.arm(row),
        };
        let form = self.instance.get(&format!("events/{}/format", row.event));
        match switched.and(form) {
            Ok(form) => self.forms.formats.push(without_print(&form).to_owned()),
            Err(error) => {
                let why = format!("tracefs refuses the event {}: {error}", row.event);
                self.forms.absent.push(missing(why));
            }
        }
    }

    /// Sets triggers with which the kernel enables an event by itself.
    fn arm(&mut self, row: &Row) -> std::io::Result<()> {
        if !row.filter.is_empty() {
            self.instance.set(&format!("events/{}/filter", row.event), row.filter)?;
        }
        let name = row.event.replace('/', ":");
        if row.event == WAKE {
            for call in CATALOG.iter().filter(|row| row.event.starts_with("syscalls/sys_enter_")) {
                if self.instance.has(call.event) && !call.filter.is_empty() {
                    let trigger = format!("enable_event:{name} if {}", call.filter);
                    self.instance.add(&format!("events/{}/trigger", call.event), &trigger)?;
                }
            }
            return self
                .instance
                .add(&format!("events/{SIGNAL}/trigger"), &format!("disable_event:{name}"));
        }
        let trigger = format!("enable_event:{name} if sig == 9");
        self.instance.add(&format!("events/{SIGNAL}/trigger"), &trigger)?;
        self.armed.push(row.event);
        Ok(())
    }

    /// Traces the functions on the path of a kill with the function tracer.
    fn trace_functions(&mut self, root: &Root) -> Result<(), Error> {
        let refused = |error: std::io::Error| {
            Error::Tracefs(format!(
                "the kernel refuses its function tracer ({error}): it needs CONFIG_FUNCTION_TRACER, and a \
                 kernel that is not locked down (/sys/kernel/security/lockdown, boot option \
                 lockdown=); --backend tracepoints needs neither"
            ))
        };
        let named =
            FUNCTIONS.iter().filter(|name| self.instance.add("set_ftrace_filter", name).is_ok());
        let named: Vec<&str> = named.copied().collect();
        if named.is_empty() {
            // Reading the file shows the reason; adding a name fails also if the function does not exist.
            self.instance.get("set_ftrace_filter").map_err(refused)?;
        }
        self.instance.set("current_tracer", "function").map_err(refused)?;
        let form = self.instance.shared("events/ftrace/function/format").unwrap_or_default();
        self.forms.formats.push(without_print(&form).to_owned());
        self.forms.functions = Symbols::read(root)?
            .iter()
            .filter(|(_, name)| named.contains(name))
            .map(|(address, name)| (address.to_owned(), name.to_owned()))
            .collect();
        Ok(())
    }
}
