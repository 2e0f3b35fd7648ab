//! Stands for the BPF programs where pagewise was built without them: refuses, and says why.

use std::convert::Infallible;
use std::marker::PhantomData;

use linux::cgroup::MemoryGroup;
use trace::recording::Missing;

use crate::batch::Batch;
use crate::notices::Notice;
use crate::sources::Source;
use crate::{Error, Filter};

/// Why there are none.
pub const BUILT_WITHOUT: &str = "this pagewise-agent was built without it, since clang or libelf was missing; \
                                 install clang, libelf-dev and zlib1g-dev and build again";

/// Never attached.
pub struct Programs<'object> {
    never: Infallible,
    object: PhantomData<&'object ()>,
    /// Is never read.
    pub marks_zeros: bool,
    /// Is never read.
    pub absent: Vec<Missing>,
}

/// Nothing lives in it.
pub struct Object;

/// No room, for nothing.
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
        _filter: &Filter,
        _noted: Option<&MemoryGroup>,
        _buffer_bytes: u32,
    ) -> Result<Programs<'object>, Error> {
        Err(Error::Bpf(BUILT_WITHOUT.to_owned()))
    }

    /// Is never called, since nothing is attached.
    ///
    /// # Errors
    /// None.
    pub fn drain(&mut self, _take: impl FnMut(&Batch) -> Result<(), Error>) -> Result<(), Error> {
        match self.never {}
    }

    /// Is never called, since nothing is attached.
    ///
    /// # Errors
    /// None.
    pub fn wait(&mut self) -> Result<(), Error> {
        match self.never {}
    }

    /// Is never called, since nothing is attached.
    ///
    /// # Errors
    /// None.
    pub fn notices(&mut self) -> Result<Vec<Notice>, Error> {
        match self.never {}
    }

    /// Is never called, since nothing is attached.
    pub fn lost(&self) -> u64 {
        match self.never {}
    }
}
