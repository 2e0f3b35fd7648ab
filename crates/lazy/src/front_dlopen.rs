//! `dlopen` for the program. A library opened with `RTLD_DEEPBIND` calls libc's `malloc` and `free`
//! past this library, and may free blocks of the program's. So the library serves nothing from then on.

use libc::c_int;

use crate::front_attributes::retire_if_served;
use crate::function::Function;

type Dlopen = unsafe extern "C" fn(*const libc::c_char, c_int) -> *mut libc::c_void;

static DLOPEN: Function<Dlopen> = Function::new(c"dlopen");

/// Jumps to libc's function with the program's return address: libc searches for libraries where the
/// calling library specifies (`DT_RUNPATH`).
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

/// Jumps to libc's function with the program's return address, on aarch64.
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

/// Runs before the call; returns the function to jump to.
extern "C" fn before(mode: c_int) -> Dlopen {
    if mode & libc::RTLD_DEEPBIND != 0 {
        retire_if_served();
    }
    DLOPEN.get().or_else(|| DLOPEN.find()).unwrap_or(refuse)
}

unsafe extern "C" fn refuse(_: *const libc::c_char, _: c_int) -> *mut libc::c_void {
    std::ptr::null_mut()
}
