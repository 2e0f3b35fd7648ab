//! Keeps the unwinder out of the preload library, which has no path that panics. Rust's own linker
//! treats the unwind tables as uses of everything that could panic, 260 KiB of code; GNU's linker does
//! not. What the standard library needs of the unwinder comes from the static library, where the linker
//! omits unused functions, so that no program has to load the shared one.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-fuse-ld=bfd");
    println!("cargo:rustc-link-lib=static:-bundle=gcc_eh");
}
