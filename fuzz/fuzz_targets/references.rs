//! The target of every format of memory references: reads arbitrary bytes as the format that the binary
//! is named after. Reading ends without a panic, and no reference counts twice.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    trace::references::replay(env!("CARGO_BIN_NAME"), bytes);
});
