//! Keeps the unwinder out of the preload library, which has no path that panics. Rust's own linker
//! takes the table of unwinding for a use of everything that could panic, 260 KiB of it; GNU's does
//! not. What the standard library asks of the unwinder comes from the static one, where what nobody
//! calls is left out, so that no program has to load the shared one.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-fuse-ld=bfd");
    println!("cargo:rustc-link-lib=static:-bundle=gcc_eh");
}
