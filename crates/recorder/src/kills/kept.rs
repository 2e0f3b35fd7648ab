//! The file in which a recording of kills is kept. On a disk that becomes full it ends with its last
//! whole block, and if not even the description of the recording fits, no file stays.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use trace::kills::{About, Block, Writer};

use crate::Error;
use crate::session::create;

/// A file that is being written, until a write fails.
pub struct Kept {
    writing: Option<Writing>,
    failure: Option<String>,
}

struct Writing {
    path: PathBuf,
    /// Another handle of the file, to cut off what a failed write left.
    file: File,
    writer: Writer<File>,
    has_about: bool,
}

impl Kept {
    /// Keeps nothing where there is no `path`.
    ///
    /// # Errors
    /// What the operating system refuses, a file that exists included.
    pub fn begin(path: Option<&Path>, about: &About) -> Result<Kept, Error> {
        let writing = path.map(Writing::begin).transpose()?;
        let mut kept = Kept { writing, failure: None };
        kept.keep(&Block::About(Box::new(about.clone())));
        Ok(kept)
    }

    /// Appends a block. After a write that failed, nothing is written any more.
    pub fn keep(&mut self, block: &Block) {
        let Some(writing) = &mut self.writing else { return };
        match writing.writer.write(block) {
            Ok(()) => writing.has_about = true,
            Err(error) => {
                self.failure = Some(Error::Write(error).to_string());
                self.writing.take().into_iter().for_each(Writing::cut);
            }
        }
    }

    /// Why the file ends early, where it does.
    pub fn failure(&self) -> Option<String> {
        self.failure.clone()
    }
}

impl Writing {
    fn begin(path: &Path) -> Result<Writing, Error> {
        let file = create(path)?;
        let begun = file.try_clone().and_then(Writer::new);
        let writer = begun.map_err(|error| {
            let _ = fs::remove_file(path);
            Error::Write(error)
        })?;
        Ok(Writing { path: path.to_owned(), file, writer, has_about: false })
    }

    /// Cuts off the part of a block that found room, or removes a file that cannot be read.
    fn cut(self) {
        // What the operating system refuses now leaves a part of a block, which readers pass over.
        let _ = match self.has_about {
            true => self.file.set_len(self.writer.bytes()),
            false => fs::remove_file(&self.path),
        };
    }
}
