//! A text file that appears complete or not at all.

use std::fmt::Arguments;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::Aside;
use super::writer::{aside, named, refuse_existing};
use crate::{Error, ErrorKind};

/// A text file that has no name until it is complete. If it is dropped before `finish`, no file remains.
pub struct TextFile {
    target: PathBuf,
    replaces: bool,
    file: BufWriter<Aside>,
}

impl TextFile {
    /// A new file at `path`, which must not exist unless `replaces`.
    ///
    /// # Errors
    /// `Usage` if `path` exists and `replaces` is false, or is no regular file; `Io` if the folder is not writable.
    pub fn create(path: &Path, replaces: bool) -> Result<TextFile, Error> {
        refuse_existing(path, replaces)?;
        Ok(TextFile { target: path.to_owned(), replaces, file: BufWriter::new(aside(path)?) })
    }

    /// Appends text.
    ///
    /// # Errors
    /// `Io` if the operating system refuses the write.
    pub fn write(&mut self, text: Arguments<'_>) -> Result<(), Error> {
        self.file.write_fmt(text).map_err(|error| self.refused(&error))
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// `Io` if the operating system refuses the write; `Usage` if another file has the name by now.
    pub fn finish(mut self) -> Result<(), Error> {
        self.file.flush().map_err(|error| self.refused(&error))?;
        let (file, _) = self.file.into_parts();
        named(file, &self.target, self.replaces)
    }

    fn refused(&self, error: &io::Error) -> Error {
        Error::new(ErrorKind::Io, &self.target, error.to_string())
    }
}
