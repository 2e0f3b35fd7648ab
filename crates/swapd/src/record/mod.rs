//! Records events and moves as they are decided and end. The serving thread only stores numbers in a ring; another
//! thread writes them to files. A full ring makes the server wait, so nothing is lost.

mod entry;
mod files;
mod ring;

pub use entry::Entry;
pub use files::{MovesFile, RecordingFile, about};
pub use ring::{Recorder, RecordingThread, Sink, begin};
