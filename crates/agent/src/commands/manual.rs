//! `pagewise-agent manual`: writes the man pages of pagewise-agent.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory};

use crate::Outcome;
use crate::exit::Exit;

/// Write the man pages into a folder.
#[derive(Args)]
#[command(after_help = "Example: pagewise-agent manual /usr/local/share/man/man1")]
pub struct Arguments {
    /// The folder; created if it does not exist.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub fn run(arguments: &Arguments) -> Outcome {
    std::fs::create_dir_all(&arguments.folder)
        .and_then(|()| clap_mangen::generate_to(crate::Arguments::command(), &arguments.folder))
        .map_err(|error| Exit::Refused(format!("{}: {error}", arguments.folder.display())))?;
    Ok(ExitCode::SUCCESS)
}
