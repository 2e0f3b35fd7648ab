//! Functions by name in whatever was loaded after this library.

use std::ffi::CStr;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use libc::c_char;

/// A function of type `F`, or another symbol of that type, in what was loaded after this library.
pub struct Function<F> {
    name: &'static CStr,
    address: AtomicUsize,
    kind: PhantomData<fn() -> F>,
}

impl<F: Copy> Function<F> {
    /// The function `name`, before its look-up. `F` is the type of the C function.
    pub const fn new(name: &'static CStr) -> Function<F> {
        Function { name, address: AtomicUsize::new(0), kind: PhantomData }
    }

    /// Looks up the function. Not for signal handlers.
    pub fn find(&self) -> Option<F> {
        self.address.store(find(self.name.as_ptr()), Relaxed);
        self.get()
    }

    /// The function, if it was looked up and exists.
    #[inline]
    pub fn get(&self) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<usize>(), "F is a pointer") };
        let address = self.address.load(Relaxed);
        // SAFETY: the address is that of the C symbol `name`, whose type is `F`.
        (address != 0).then(|| unsafe { std::mem::transmute_copy(&address) })
    }
}

/// The address of the symbol in the libraries loaded after this one; 0 if none has it.
pub fn find(symbol: *const c_char) -> usize {
    // SAFETY: the symbol is a C string.
    unsafe { libc::dlsym(libc::RTLD_NEXT, symbol) as usize }
}
