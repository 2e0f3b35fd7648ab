//! glibc's own allocator, under the names by which it is reached without being replaced, so that
//! nothing has to be looked up in the first moments of a program.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use libc::{c_char, c_void, size_t};

unsafe extern "C" {
    fn __libc_malloc(size: size_t) -> *mut c_void;
    fn __libc_calloc(count: size_t, size: size_t) -> *mut c_void;
    fn __libc_realloc(pointer: *mut c_void, size: size_t) -> *mut c_void;
    fn __libc_memalign(alignment: size_t, size: size_t) -> *mut c_void;
    fn __libc_free(pointer: *mut c_void);
}

pub fn malloc(size: usize) -> *mut c_void {
    // SAFETY: any size may be asked for.
    unsafe { __libc_malloc(size) }
}

pub fn calloc(count: usize, size: usize) -> *mut c_void {
    // SAFETY: any size may be asked for.
    unsafe { __libc_calloc(count, size) }
}

pub fn memalign(alignment: usize, size: usize) -> *mut c_void {
    // SAFETY: any size and alignment may be asked for.
    unsafe { __libc_memalign(alignment, size) }
}

/// # Safety
/// `pointer` is null or a live block of glibc's.
pub unsafe fn realloc(pointer: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: as the caller vouches.
    unsafe { __libc_realloc(pointer, size) }
}

/// # Safety
/// `pointer` is null or a live block of glibc's.
pub unsafe fn free(pointer: *mut c_void) {
    // SAFETY: as the caller vouches.
    unsafe { __libc_free(pointer) }
}

/// Bytes that a block of glibc's has room for.
///
/// # Safety
/// `pointer` is null or a live block of glibc's.
pub unsafe fn usable_size(pointer: *mut c_void) -> usize {
    static FUNCTION: AtomicUsize = AtomicUsize::new(0);
    let mut address = FUNCTION.load(Relaxed);
    if address == 0 {
        address = next(c"malloc_usable_size".as_ptr());
        FUNCTION.store(address, Relaxed);
    }
    if address == 0 {
        return 0;
    }
    // SAFETY: the address is that of glibc's function of this name and type.
    let function: unsafe extern "C" fn(*mut c_void) -> size_t =
        unsafe { std::mem::transmute(address) };
    // SAFETY: as the caller vouches.
    unsafe { function(pointer) }
}

/// Gives back what glibc holds free at the end of its heaps.
pub fn trim() {
    // SAFETY: may be called at any time by a thread that holds no lock of glibc's.
    unsafe { libc::malloc_trim(0) };
}

/// The address of the symbol in whatever comes after this library; 0 where there is none.
pub fn next(symbol: *const c_char) -> usize {
    // SAFETY: the symbol is a C string.
    unsafe { libc::dlsym(libc::RTLD_NEXT, symbol) as usize }
}
