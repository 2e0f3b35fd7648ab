//! libc's list of what is loaded.

use libc::{c_int, c_void, dl_phdr_info, size_t};

use crate::function::Function;

pub type Callback = unsafe extern "C" fn(*mut dl_phdr_info, size_t, *mut c_void) -> c_int;
type Iterate = unsafe extern "C" fn(Callback, *mut c_void) -> c_int;

static ITERATE: Function<Iterate> = Function::new(c"dl_iterate_phdr");

/// Looks up `dl_iterate_phdr`.
pub fn find() {
    ITERATE.find();
}

/// libc's own `dl_iterate_phdr`, or the next one before it.
///
/// # Safety
/// As for libc's `dl_iterate_phdr`.
pub unsafe fn iterate(callback: Callback, data: *mut c_void) -> c_int {
    let Some(next) = ITERATE.get().or_else(|| ITERATE.find()) else { return 0 };
    // SAFETY: upheld by the caller.
    unsafe { next(callback, data) }
}
