//! Replaces bpf.rs if pagewise was built without BPF: attaching returns the reason as an error.

use std::convert::Infallible;
use std::marker::PhantomData;

use linux::cgroup::MemoryGroup;
use trace::recording::Missing;

use crate::batch::Batch;
use crate::notices::Notice;
use crate::sources::Source;
use crate::{Error, EventFilter};

/// The reason why there are no programs.
pub const BUILT_WITHOUT: &str = "this pagewise-agent was built without BPF, because clang or libelf was missing; \
                                 install clang, libelf-dev and zlib1g-dev and build again";

/// Programs that cannot exist.
pub struct Programs<'object> {
    never: Infallible,
    object: PhantomData<&'object ()>,
    /// Never read.
    pub marks_zeros: bool,
    /// Never read.
    pub absent: Vec<Missing>,
}

/// An empty storage.
pub struct Object;

/// An empty storage.
pub fn object() -> Object {
    Object
}

/// Refuses.
///
/// # Errors
/// Always.
pub fn probe_function_entry() -> Result<(), Error> {
    Err(Error::Bpf(BUILT_WITHOUT.to_owned()))
}

impl<'object> Programs<'object> {
    /// Refuses.
    ///
    /// # Errors
    /// Always.
    pub fn attach(
        _object: &'object mut Object,
        _sources: &[&Source],
        _filter: &EventFilter,
        _noted: Option<&MemoryGroup>,
        _buffer_bytes: u32,
    ) -> Result<Programs<'object>, Error> {
        Err(Error::Bpf(BUILT_WITHOUT.to_owned()))
    }

    /// Never called.
    ///
    /// # Errors
    /// Never returned.
    pub fn drain(&mut self, _take: impl FnMut(&Batch) -> Result<(), Error>) -> Result<(), Error> {
        match self.never {}
    }

    /// Never called.
    ///
    /// # Errors
    /// Never returned.
    pub fn wait(&mut self) -> Result<(), Error> {
        match self.never {}
    }

    /// Never called.
    ///
    /// # Errors
    /// Never returned.
    pub fn notices(&mut self) -> Result<Vec<Notice>, Error> {
        match self.never {}
    }

    /// Never called.
    pub fn lost(&self) -> u64 {
        match self.never {}
    }
}
