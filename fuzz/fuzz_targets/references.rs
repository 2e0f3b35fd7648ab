//! The target of every file of memory references: the bytes are of the format that the binary is
//! named after. Whatever they are, reading ends without a panic, and no reference counts twice.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    trace::references::replay(env!("CARGO_BIN_NAME"), bytes);
});
