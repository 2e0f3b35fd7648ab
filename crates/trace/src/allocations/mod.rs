//! The history of a program's large allocations, from a recording of `pagewise-agent record
//! --allocations`: which blocks the program allocated, which of their pages it touched, and when it freed
//! them. Blocks have no addresses here, because each allocator places them differently.

mod builder;
mod history;
mod info;
mod lives;
mod read;

#[cfg(test)]
mod tests;

pub use history::{
    Action, Block, History, HistoryStep, PageExtent, ProcessHistory, SOURCE, Small, StepParts,
    Usage,
};
pub use info::{Info, SizeClass, info};
pub use read::{is_allocations, is_head, read, read_input};
