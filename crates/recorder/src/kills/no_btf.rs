//! Stands for the BPF programs where pagewise was built without them: refuses, and says why.

use std::convert::Infallible;
use std::marker::PhantomData;

use linux::Root;
use trace::kills::Event;
use trace::recording::Missing;

use crate::Error;
use crate::bpf::Object;

/// Never attached.
pub struct Programs<'object> {
    never: Infallible,
    object: PhantomData<&'object ()>,
    /// Nothing.
    pub absent: Vec<Missing>,
}

impl<'object> Programs<'object> {
    /// Refuses.
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

    /// Is never called, since nothing is attached.
    ///
    /// # Errors
    /// None.
    pub fn drain(&mut self) -> Result<Vec<Event>, Error> {
        match self.never {}
    }

    /// Is never called, since nothing is attached.
    pub fn disarm(&mut self) {
        match self.never {}
    }

    /// Is never called, since nothing is attached.
    pub fn lost(&self) -> u64 {
        match self.never {}
    }
}
