//! The history of a program's large allocations, from a recording that `pagewise-agent record
//! --allocations` made: which blocks it was given, which of their pages it touched, when it gave them
//! back. Blocks have no addresses here: where they lie is what allocators differ in.

mod builder;
mod history;
mod info;
mod lives;
mod read;

#[cfg(test)]
mod tests;

pub use history::{
    Action, Block, History, PageRun, ProcessHistory, SOURCE, Small, Step, StepParts, Usage,
};
pub use info::{Info, SizeClass, info};
pub use read::{is_allocations, is_head, read, read_input};
