//! Keeps the examples of help texts whole: clap wraps them like prose, and a command broken across lines cannot be
//! pasted.

use std::env;
use std::io::{self, IsTerminal, Write};

use clap::{Command, Error};

/// How an example begins.
const PROGRAM: &str = "pagewise-agent ";
/// Stands for a blank at which no line may end, until the text is printed.
const GLUE: char = '\u{a0}';

/// The command and its subcommands, with examples that are not wrapped once [`exit`] prints them.
pub fn examples(command: Command) -> Command {
    let text = command.get_after_help().map(ToString::to_string);
    let command = command.mut_subcommands(examples);
    match text {
        Some(text) => command.after_help(unbroken(&text)),
        None => command,
    }
}

/// The text with [`GLUE`] for the blanks of each example, which ends with a line that has no `\\` at its end.
fn unbroken(text: &str) -> String {
    let mut is_continued = false;
    let glued = |line: &str| {
        let command = line.trim_start();
        if !is_continued && !command.trim_start_matches("Example: ").starts_with(PROGRAM) {
            return line.to_owned();
        }
        is_continued = line.ends_with('\\');
        let indent = line.len() - command.len();
        format!("{}{}", &line[..indent], command.replace(' ', &GLUE.to_string()))
    };
    text.split('\n').map(glued).collect::<Vec<_>>().join("\n")
}

/// Prints the help or the error, and exits with its status.
pub fn exit(error: Error) -> ! {
    let is_terminal =
        if error.use_stderr() { io::stderr().is_terminal() } else { io::stdout().is_terminal() };
    let has_color = is_terminal && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let text = error.render();
    let text = if has_color { text.ansi().to_string() } else { text.to_string() };
    let text = text.replace(GLUE, " ");
    // There is no other place to report a failure of this.
    let _ = if error.use_stderr() {
        io::stderr().write_all(text.as_bytes())
    } else {
        io::stdout().write_all(text.as_bytes())
    };
    std::process::exit(error.exit_code())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_examples_are_unbroken() {
        let glue = |text: &str| text.replace('_', &GLUE.to_string());
        assert_eq!(unbroken("Example: pagewise-agent a b"), glue("Example:_pagewise-agent_a_b"));
        let text = "What pagewise-agent does.\n\nExamples:\n  pagewise-agent a \\\n      b c\n  other words";
        let expected = "What pagewise-agent does.\n\nExamples:\n  pagewise-agent_a_\\\n      b_c\n  other words";
        assert_eq!(unbroken(text), glue(expected));
    }

    #[test]
    fn help_has_each_example_on_its_line_at_any_width() {
        let program = Command::new("pagewise-agent").subcommand(
            Command::new("a")
                .after_help("Examples:\n  pagewise-agent a --with many --words of all kinds"),
        );
        let mut program = examples(program).term_width(20);
        let help = program.find_subcommand_mut("a").unwrap().render_help().to_string();
        let shown = help.replace(GLUE, " ");
        assert!(shown.contains("  pagewise-agent a --with many --words of all kinds\n"), "{shown}");
    }
}
