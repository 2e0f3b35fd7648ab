//! The backends for kills: tracepoints and BPF programs.

use linux::Root;
use trace::kills::{About, KillsBlock};
use trace::recording::Missing;

use super::BackendChoice;
use super::btf::Programs;
use super::tracepoints::Tracepoints;
use crate::Error;
use crate::bpf::Object;

/// The backend in use.
pub enum Backend<'object> {
    /// Tracepoints of a trace instance, read as pages.
    Tracepoints(Box<Tracepoints>),
    /// Events of BPF programs.
    Btf(Box<Programs<'object>>),
}

impl<'object> Backend<'object> {
    /// Enables the events that this kernel has. `object` is the storage of the BPF programs.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn attach(
        root: &Root,
        choice: BackendChoice,
        object: &'object mut Object,
        buffer_bytes: u32,
    ) -> Result<Backend<'object>, Error> {
        let tracepoints =
            |has_functions| Tracepoints::attach(root, has_functions, buffer_bytes).map(Box::new);
        let btf = |object: &'object mut Object| {
            Programs::attach(root, object, buffer_bytes).map(Box::new)
        };
        match choice {
            BackendChoice::Btf => btf(object).map(Backend::Btf),
            BackendChoice::Tracepoints => tracepoints(false).map(Backend::Tracepoints),
            BackendChoice::Function => tracepoints(true).map(Backend::Tracepoints),
            BackendChoice::Any => match tracepoints(false) {
                Err(Error::Tracefs(refusal)) => match btf(object) {
                    Ok(mut programs) => {
                        programs.absent.push(Missing { what: "tracefs".to_owned(), why: refusal });
                        Ok(Backend::Btf(programs))
                    }
                    Err(error) => Err(Error::Neither(Box::new([Error::Tracefs(refusal), error]))),
                },
                attached => attached.map(Backend::Tracepoints),
            },
        }
    }

    /// The header of a recording with the name of the backend, the formats of events and pages if it has any, and
    /// the parts that are absent.
    pub fn forms(&self) -> About {
        match self {
            Backend::Tracepoints(tracepoints) => tracepoints.forms(),
            Backend::Btf(programs) => About {
                backend: "btf".to_owned(),
                absent: programs.absent.clone(),
                ..About::default()
            },
        }
    }

    /// Passes the events since the last call to `take`.
    ///
    /// # Errors
    /// The kernel refuses, or `take` fails.
    pub fn drain(
        &mut self,
        mut take: impl FnMut(KillsBlock) -> Result<(), Error>,
    ) -> Result<(), Error> {
        match self {
            Backend::Tracepoints(tracepoints) => {
                tracepoints.drain(|page| take(KillsBlock::Page(page.to_vec())))
            }
            Backend::Btf(programs) => take(KillsBlock::Events(programs.drain()?)),
        }
    }

    /// The name of a thread that has ended, if the kernel remembers it.
    pub fn name(&self, thread: u32) -> Option<String> {
        match self {
            Backend::Tracepoints(tracepoints) => tracepoints.name(thread),
            Backend::Btf(_) => None,
        }
    }

    /// Disables the events that matter only while a process dies.
    pub fn disarm(&mut self) {
        match self {
            Backend::Tracepoints(tracepoints) => tracepoints.disarm(),
            Backend::Btf(programs) => programs.disarm(),
        }
    }

    /// Events that found the buffer full so far.
    pub fn lost(&self) -> u64 {
        match self {
            Backend::Tracepoints(tracepoints) => tracepoints.lost(),
            Backend::Btf(programs) => programs.lost(),
        }
    }
}
