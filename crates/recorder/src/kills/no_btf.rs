//! Replaces btf.rs if pagewise was built without BPF: attaching returns the reason as an error.

use std::convert::Infallible;
use std::marker::PhantomData;

use linux::Root;
use trace::kills::Event;
use trace::recording::Missing;

use crate::Error;
use crate::bpf::Object;

/// Programs that cannot exist.
pub struct Programs<'object> {
    never: Infallible,
    object: PhantomData<&'object ()>,
    /// Never read.
    pub absent: Vec<Missing>,
}

impl<'object> Programs<'object> {
    /// Returns an error.
    ///
    /// # Errors
    /// Always.
    pub fn attach(
        _root: &Root,
        _object: &'object mut Object,
        _buffer_bytes: u32,
    ) -> Result<Programs<'object>, Error> {
        Err(Error::Bpf(crate::bpf::BUILT_WITHOUT.to_owned()))
    }

    /// Never called.
    ///
    /// # Errors
    /// Never returned.
    pub fn drain(&mut self) -> Result<Vec<Event>, Error> {
        match self.never {}
    }

    /// Never called.
    pub fn disarm(&mut self) {
        match self.never {}
    }

    /// Never called.
    pub fn lost(&self) -> u64 {
        match self.never {}
    }
}
