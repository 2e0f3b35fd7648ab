//! The file of a recording of kills. If the disk becomes full, the file ends with its last complete block; if not
//! even the header fits, the file is removed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use trace::kills::{About, KillsBlock, Writer};

use crate::Error;
use crate::session::create;

/// A file that is being written, until a write fails.
pub struct Kept {
    writing: Option<Writing>,
    failure: Option<String>,
}

struct Writing {
    path: PathBuf,
    /// A second handle of the file, to cut off an incomplete block.
    file: File,
    writer: Writer<File>,
    has_about: bool,
}

impl Kept {
    /// Creates the file and writes the header. Without a `path`, nothing is kept.
    ///
    /// # Errors
    /// The file exists, or the operating system refuses.
    pub fn begin(path: Option<&Path>, about: &About) -> Result<Kept, Error> {
        let writing = path.map(Writing::begin).transpose()?;
        let mut kept = Kept { writing, failure: None };
        kept.keep(&KillsBlock::About(Box::new(about.clone())));
        Ok(kept)
    }

    /// Appends a block. After a failed write, later blocks are dropped.
    pub fn keep(&mut self, block: &KillsBlock) {
        let Some(writing) = &mut self.writing else { return };
        match writing.writer.write(block) {
            Ok(()) => writing.has_about = true,
            Err(error) => {
                self.failure = Some(Error::Write(error).to_string());
                self.writing.take().into_iter().for_each(Writing::cut);
            }
        }
    }

    /// Why the file is incomplete, or None.
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

    /// Cuts off an incomplete block, or removes a file without a complete header.
    fn cut(self) {
        // If this fails, an incomplete block stays, which readers skip.
        let _ = match self.has_about {
            true => self.file.set_len(self.writer.bytes()),
            false => fs::remove_file(&self.path),
        };
    }
}
