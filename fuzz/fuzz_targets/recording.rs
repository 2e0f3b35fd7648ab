//! The target of every format: the bytes are a recording of the format that the binary is named
//! after. Whatever they are, reading ends without a panic, and columns have one length.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| trace::replay::replay(env!("CARGO_BIN_NAME"), bytes));
