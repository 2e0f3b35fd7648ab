//! `dlopen` as the program calls it. A library that is opened with `RTLD_DEEPBIND` calls libc's `malloc` and `free`
//! past this library, and may be given blocks of the program's to free. So the library serves nothing from then on.

use libc::c_int;

use crate::front_attributes::retire_if_served;
use crate::function::Function;

type Dlopen = unsafe extern "C" fn(*const libc::c_char, c_int) -> *mut libc::c_void;

static DLOPEN: Function<Dlopen> = Function::new(c"dlopen");

/// Goes on to libc's function by a jump, with the program's return address: libc looks for libraries where the library
/// that calls says so (`DT_RUNPATH`).
#[cfg(all(not(test), target_arch = "x86_64"))]
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn dlopen(path: *const libc::c_char, mode: c_int) -> *mut libc::c_void {
    std::arch::naked_asm!(
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "mov edi, esi",
        "call {before}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "jmp rax",
        before = sym before,
    )
}

/// See the other one.
#[cfg(all(not(test), target_arch = "aarch64"))]
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn dlopen(path: *const libc::c_char, mode: c_int) -> *mut libc::c_void {
    std::arch::naked_asm!(
        "stp x29, x30, [sp, #-32]!",
        "stp x0, x1, [sp, #16]",
        "mov w0, w1",
        "bl {before}",
        "mov x16, x0",
        "ldp x0, x1, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        "br x16",
        before = sym before,
    )
}

/// What is done before the call; gives the function to go on to.
extern "C" fn before(mode: c_int) -> Dlopen {
    if mode & libc::RTLD_DEEPBIND != 0 {
        retire_if_served();
    }
    DLOPEN.get().or_else(|| DLOPEN.find()).unwrap_or(refuse)
}

unsafe extern "C" fn refuse(_: *const libc::c_char, _: c_int) -> *mut libc::c_void {
    std::ptr::null_mut()
}
