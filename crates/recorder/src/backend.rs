//! The two backends, which receive events from the kernel: BPF programs and text events.

use std::time::Duration;

use linux::cgroup::MemoryGroup;
use trace::recording::Missing;

use crate::batch::Batch;
use crate::bpf::{Object, Programs};
use crate::notices::Notice;
use crate::sources::Source;
use crate::tracefs::Text;
use crate::{Error, EventFilter};

/// How often text events are read.
const TEXT_EVERY: Duration = Duration::from_millis(20);

/// The backend that the user requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackendChoice {
    /// BPF, or text events if the kernel refuses BPF.
    #[default]
    Any,
    /// BPF programs: every page by owner and address.
    Bpf,
    /// Text events: swapped pages by their swap slot.
    Tracefs,
}

/// The backend in use.
pub enum Backend<'object> {
    /// BPF programs.
    Bpf(Box<Programs<'object>>),
    /// Text events.
    Text(Box<Text>),
}

impl<'object> Backend<'object> {
    /// Starts recording `sources`; from now on no event is missed. `noted` is the group whose memory is in notices
    /// of kills, `object` is the storage of BPF programs.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn attach(
        choice: BackendChoice,
        object: &'object mut Object,
        sources: &[&Source],
        filter: &EventFilter,
        noted: Option<&MemoryGroup>,
        buffer_bytes: u32,
    ) -> Result<Backend<'object>, Error> {
        let text = || Text::attach(sources, filter, buffer_bytes).map(Box::new);
        if choice == BackendChoice::Tracefs {
            return text().map(Backend::Text);
        }
        match Programs::attach(object, sources, filter, noted, buffer_bytes) {
            Ok(programs) => Ok(Backend::Bpf(Box::new(programs))),
            Err(Error::Bpf(refusal)) if choice == BackendChoice::Any => match text() {
                Ok(mut text) => {
                    text.absent.push(Missing { what: "BPF".to_owned(), why: refusal });
                    Ok(Backend::Text(text))
                }
                Err(error) => Err(Error::Neither(Box::new([Error::Bpf(refusal), error]))),
            },
            Err(error) => Err(error),
        }
    }

    /// The name of the backend in recordings.
    pub fn name(&self) -> &'static str {
        match self {
            Backend::Bpf(_) => "bpf",
            Backend::Text(_) => "tracefs",
        }
    }

    /// Parts that the recording lacks because of the backend.
    pub fn absent(&self) -> &[Missing] {
        match self {
            Backend::Bpf(programs) => &programs.absent,
            Backend::Text(text) => &text.absent,
        }
    }

    /// Whether page-outs of pages of zeros are marked.
    pub fn marks_zeros(&self) -> bool {
        match self {
            Backend::Bpf(programs) => programs.marks_zeros,
            Backend::Text(_) => false,
        }
    }

    /// Passes the contents of the buffer to `take`, and empties it.
    ///
    /// # Errors
    /// The kernel refuses, or `take` fails.
    pub fn drain(&mut self, take: impl FnMut(&Batch) -> Result<(), Error>) -> Result<(), Error> {
        match self {
            Backend::Bpf(programs) => programs.drain(take),
            Backend::Text(text) => text.drain(take),
        }
    }

    /// Waits until it is time to drain it or, with BPF, until a notice of a kill comes.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn wait(&mut self) -> Result<(), Error> {
        match self {
            Backend::Bpf(programs) => programs.wait(),
            Backend::Text(_) => {
                std::thread::sleep(TEXT_EVERY);
                Ok(())
            }
        }
    }

    /// The notices of kills since the last call, oldest first. With text events they come with the records.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn notices(&mut self) -> Result<Vec<Notice>, Error> {
        match self {
            Backend::Bpf(programs) => programs.notices(),
            Backend::Text(text) => Ok(text.notices()),
        }
    }

    /// Events that found the buffer full so far.
    pub fn lost(&self) -> u64 {
        match self {
            Backend::Bpf(programs) => programs.lost(),
            Backend::Text(text) => text.lost(),
        }
    }
}
