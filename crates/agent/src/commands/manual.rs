//! `pagewise-agent manual`: writes the man pages of pagewise-agent.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Command};

use crate::exit::{Exit, ExitOutcome};

/// Write the man pages into a folder.
#[derive(Args)]
#[command(after_help = "Example: pagewise-agent manual /usr/local/share/man/man1")]
pub struct Arguments {
    /// The folder; created if it does not exist.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Writes the man pages of `program`.
pub fn run(arguments: &Arguments, program: Command) -> ExitOutcome {
    std::fs::create_dir_all(&arguments.folder)
        .and_then(|()| clap_mangen::generate_to(program, &arguments.folder))
        .map_err(|error| Exit::Refused(format!("{}: {error}", arguments.folder.display())))?;
    Ok(ExitCode::SUCCESS)
}
