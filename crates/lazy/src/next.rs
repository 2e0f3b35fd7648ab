//! Functions of the same names in the libraries loaded after this one: libc, another allocator, a
//! sanitizer's runtime. Requests that this library does not serve go there, so that a program with another
//! `malloc` than libc's keeps it whole.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::Relaxed};

use libc::{c_int, c_void, size_t};

use crate::definitions::is_any_before;
use crate::function::find;
use crate::objects::{Object, object_at};

unsafe extern "C" {
    fn __libc_malloc(size: size_t) -> *mut c_void;
    fn __libc_calloc(count: size_t, size: size_t) -> *mut c_void;
    fn __libc_realloc(pointer: *mut c_void, size: size_t) -> *mut c_void;
    fn __libc_memalign(alignment: size_t, size: size_t) -> *mut c_void;
    fn __libc_free(pointer: *mut c_void);
}

/// The memory that this library occupies.
pub fn own_object() -> Option<Object> {
    object_at((&raw const IS_FOUND).addr())
}

/// A function of the `malloc` family: initially a function that looks up the whole family.
struct Member {
    name: &'static CStr,
    function: AtomicPtr<()>,
}

impl Member {
    const fn new(name: &'static CStr, first: *mut ()) -> Member {
        Member { name, function: AtomicPtr::new(first) }
    }

    /// # Safety
    /// `F` is the type of the function.
    #[inline(always)]
    unsafe fn get<F: Copy>(&self) -> F {
        // SAFETY: upheld by the caller.
        unsafe { std::mem::transmute_copy(&self.function.load(Relaxed)) }
    }
}

type Malloc = unsafe extern "C" fn(size_t) -> *mut c_void;
type Pair = unsafe extern "C" fn(size_t, size_t) -> *mut c_void;
type Realloc = unsafe extern "C" fn(*mut c_void, size_t) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void);
type Place = unsafe extern "C" fn(*mut *mut c_void, size_t, size_t) -> c_int;
type Size = unsafe extern "C" fn(*mut c_void) -> size_t;

static MALLOC: Member = Member::new(c"malloc", first_malloc as *mut ());
static CALLOC: Member = Member::new(c"calloc", first_calloc as *mut ());
static REALLOC: Member = Member::new(c"realloc", first_realloc as *mut ());
static FREE: Member = Member::new(c"free", first_free as *mut ());
static MEMALIGN: Member = Member::new(c"memalign", first_memalign as *mut ());
static ALIGNED_ALLOC: Member = Member::new(c"aligned_alloc", first_aligned_alloc as *mut ());
static POSIX_MEMALIGN: Member = Member::new(c"posix_memalign", first_posix_memalign as *mut ());
static VALLOC: Member = Member::new(c"valloc", first_valloc as *mut ());
static PVALLOC: Member = Member::new(c"pvalloc", first_pvalloc as *mut ());
static USABLE_SIZE: Member = Member::new(c"malloc_usable_size", first_usable_size as *mut ());
static FAMILY: [&Member; 10] = [
    &MALLOC,
    &CALLOC,
    &REALLOC,
    &FREE,
    &MEMALIGN,
    &ALIGNED_ALLOC,
    &POSIX_MEMALIGN,
    &VALLOC,
    &PVALLOC,
    &USABLE_SIZE,
];

static IS_FOUND: AtomicBool = AtomicBool::new(false);

/// Looks up the family, once. The loader asks for memory first, long before there are threads.
pub fn find_family() {
    if IS_FOUND.swap(true, Relaxed) {
        return;
    }
    // The look-up itself may allocate.
    MALLOC.function.store(__libc_malloc as *mut (), Relaxed);
    CALLOC.function.store(__libc_calloc as *mut (), Relaxed);
    REALLOC.function.store(__libc_realloc as *mut (), Relaxed);
    MEMALIGN.function.store(__libc_memalign as *mut (), Relaxed);
    FREE.function.store(__libc_free as *mut (), Relaxed);
    for member in FAMILY {
        let address = find(member.name.as_ptr());
        if address != 0 {
            member.function.store(address as *mut (), Relaxed);
        }
    }
}

/// Whether the program's calls of the family come to this library: no program or library before it defines
/// any of the functions.
pub fn is_family_ours() -> bool {
    !is_any_before((&raw const IS_FOUND).addr(), &FAMILY.map(|member| member.name))
}

/// Whether every next function of the family is libc's.
pub fn is_family_of_libc() -> bool {
    find_family();
    // Other allocators define `__libc_malloc`, too. The address of a function of libc's may lie in the program.
    let libc = object_at(find(c"gnu_get_libc_version".as_ptr()));
    let is_libcs =
        |libc: Object| FAMILY.iter().all(|member| libc.has(member.function.load(Relaxed).addr()));
    libc.is_some_and(is_libcs)
}

extern "C" fn first_malloc(size: size_t) -> *mut c_void {
    find_family();
    malloc(size)
}

extern "C" fn first_calloc(count: size_t, size: size_t) -> *mut c_void {
    find_family();
    calloc(count, size)
}

unsafe extern "C" fn first_realloc(pointer: *mut c_void, size: size_t) -> *mut c_void {
    find_family();
    // SAFETY: upheld by the caller.
    unsafe { realloc(pointer, size) }
}

unsafe extern "C" fn first_free(pointer: *mut c_void) {
    find_family();
    // SAFETY: upheld by the caller.
    unsafe { free(pointer) }
}

extern "C" fn first_memalign(alignment: size_t, size: size_t) -> *mut c_void {
    find_family();
    memalign(alignment, size)
}

// The rest of the family has no second name in libc, so each of these is called again only if the
// look-up found nothing.

extern "C" fn first_aligned_alloc(alignment: size_t, size: size_t) -> *mut c_void {
    match is_now_found(&ALIGNED_ALLOC, first_aligned_alloc as *mut ()) {
        true => aligned_alloc(alignment, size),
        false => memalign(alignment, size),
    }
}

unsafe extern "C" fn first_posix_memalign(
    place: *mut *mut c_void,
    alignment: size_t,
    size: size_t,
) -> c_int {
    match is_now_found(&POSIX_MEMALIGN, first_posix_memalign as *mut ()) {
        // SAFETY: upheld by the caller.
        true => unsafe { posix_memalign(place, alignment, size) },
        false => libc::ENOMEM,
    }
}

extern "C" fn first_valloc(size: size_t) -> *mut c_void {
    match is_now_found(&VALLOC, first_valloc as *mut ()) {
        true => valloc(size),
        false => memalign(crate::chunks::PAGE, size),
    }
}

extern "C" fn first_pvalloc(size: size_t) -> *mut c_void {
    match is_now_found(&PVALLOC, first_pvalloc as *mut ()) {
        true => pvalloc(size),
        false => memalign(crate::chunks::PAGE, size.next_multiple_of(crate::chunks::PAGE)),
    }
}

unsafe extern "C" fn first_usable_size(pointer: *mut c_void) -> size_t {
    match is_now_found(&USABLE_SIZE, first_usable_size as *mut ()) {
        // SAFETY: upheld by the caller.
        true => unsafe { usable_size(pointer) },
        false => 0,
    }
}

fn is_now_found(member: &Member, first: *mut ()) -> bool {
    find_family();
    member.function.load(Relaxed) != first
}

#[inline(always)]
pub fn malloc(size: usize) -> *mut c_void {
    // SAFETY: any size may be asked for.
    unsafe { MALLOC.get::<Malloc>()(size) }
}

#[inline(always)]
pub fn calloc(count: usize, size: usize) -> *mut c_void {
    // SAFETY: any size may be asked for.
    unsafe { CALLOC.get::<Pair>()(count, size) }
}

#[inline(always)]
pub fn memalign(alignment: usize, size: usize) -> *mut c_void {
    // SAFETY: any size and alignment may be asked for.
    unsafe { MEMALIGN.get::<Pair>()(alignment, size) }
}

#[inline(always)]
pub fn aligned_alloc(alignment: usize, size: usize) -> *mut c_void {
    // SAFETY: any size and alignment may be asked for.
    unsafe { ALIGNED_ALLOC.get::<Pair>()(alignment, size) }
}

#[inline(always)]
pub fn valloc(size: usize) -> *mut c_void {
    // SAFETY: any size may be asked for.
    unsafe { VALLOC.get::<Malloc>()(size) }
}

#[inline(always)]
pub fn pvalloc(size: usize) -> *mut c_void {
    // SAFETY: any size may be asked for.
    unsafe { PVALLOC.get::<Malloc>()(size) }
}

/// # Safety
/// `place` takes a pointer.
#[inline(always)]
pub unsafe fn posix_memalign(place: *mut *mut c_void, alignment: usize, size: usize) -> c_int {
    // SAFETY: upheld by the caller.
    unsafe { POSIX_MEMALIGN.get::<Place>()(place, alignment, size) }
}

/// # Safety
/// `pointer` is null or a live block of the next allocator's.
#[inline(always)]
pub unsafe fn realloc(pointer: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: upheld by the caller.
    unsafe { REALLOC.get::<Realloc>()(pointer, size) }
}

/// # Safety
/// `pointer` is null or a live block of the next allocator's.
#[inline(always)]
pub unsafe fn free(pointer: *mut c_void) {
    // SAFETY: upheld by the caller.
    unsafe { FREE.get::<Free>()(pointer) }
}

/// Bytes that a block of the next allocator's has room for.
///
/// # Safety
/// `pointer` is null or a live block of the next allocator's.
#[inline(always)]
pub unsafe fn usable_size(pointer: *mut c_void) -> usize {
    // SAFETY: upheld by the caller.
    unsafe { USABLE_SIZE.get::<Size>()(pointer) }
}

/// Returns free memory at the end of libc's heaps to the kernel.
pub fn trim() {
    // SAFETY: may be called at any time by a thread that holds no lock of libc's.
    unsafe { libc::malloc_trim(0) };
}
