//! `pagewise-agent completions`: the script with which a shell completes commands and options.

use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::Shell;

use crate::exit::ExitOutcome;
use crate::output;

/// Print the completion script for a shell.
#[derive(Args)]
#[command(after_help = "Example: pagewise-agent completions bash > \
                        /etc/bash_completion.d/pagewise-agent")]
pub struct Arguments {
    /// The shell.
    shell: Shell,
}

/// Prints the completions of `program`.
pub fn run(arguments: &Arguments, mut program: Command) -> ExitOutcome {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut program, "pagewise-agent", &mut script);
    output::print(String::from_utf8_lossy(&script).trim_end())?;
    Ok(ExitCode::SUCCESS)
}
