//! The target of every format: reads arbitrary bytes as a recording of the format that the binary is
//! named after. Reading ends without a panic, and all columns have the same length.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| trace::replay::replay(env!("CARGO_BIN_NAME"), bytes));
