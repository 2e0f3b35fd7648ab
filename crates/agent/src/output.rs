//! Prints the output of commands. A failed write never panics: the command's work is done by then.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

use crate::exit::Exit;

/// Writes a line to standard output.
///
/// # Errors
/// The line cannot be written, such as on a full disk. A closed pipe, as after `head`, is no error.
pub fn print(line: impl Display) -> Result<(), Exit> {
    match writeln!(io::stdout(), "{line}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Exit::Refused(format!("standard output: cannot be written: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes a text to standard output, on a terminal with at most its width in each line unless a word, or a command in
/// backticks, is longer. All lines but the first are indented by `indent`.
///
/// # Errors
/// As for [`print`].
pub fn print_wrapped(text: &str, indent: usize) -> Result<(), Exit> {
    let width = linux::terminal::columns().unwrap_or(usize::MAX);
    wrapped(text, indent, width).into_iter().try_for_each(print)
}

/// The lines of `text` at this width. Blanks within a line stay as they are.
fn wrapped(text: &str, indent: usize, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut rest = text.trim_end();
    while !rest.is_empty() {
        let blanks = rest.len() - rest.trim_start().len();
        let end = blanks + word_bytes(&rest[blanks..]);
        let (word, later) = rest.split_at(end);
        let is_first = lines.len() == 1;
        let line = lines.last_mut().expect("there is a first line");
        // The first word of a line stays in it: a new line would have no more room.
        let has_word = line.len() > if is_first { 0 } else { indent };
        if has_word && line.chars().count() + word.chars().count() > width {
            lines.push(format!("{:indent$}{}", "", &word[blanks..]));
        } else {
            line.push_str(word);
        }
        rest = later;
    }
    lines
}

/// Bytes until the first blank that is not within backticks.
fn word_bytes(text: &str) -> usize {
    let mut is_quoted = false;
    let is_end = |letter: char| {
        is_quoted ^= letter == '`';
        letter == ' ' && !is_quoted
    };
    text.find(is_end).unwrap_or(text.len())
}

/// Writes a line to standard error and ignores failures: a run of hours can outlive its terminal.
pub fn say(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_wrap_between_words_and_lose_none() {
        let text = "yes  name   a reason of several words";
        assert_eq!(wrapped(text, 12, usize::MAX), [text]);
        let narrow = wrapped(text, 12, 24);
        assert_eq!(narrow, ["yes  name   a reason of", "            several", "            words"]);
        for width in 0..60 {
            let lines = wrapped(text, 12, width);
            let words: Vec<&str> = lines.iter().flat_map(|line| line.split_whitespace()).collect();
            assert_eq!(words, text.split_whitespace().collect::<Vec<_>>());
            let is_short =
                |line: &String| line.len() <= width || line.split_whitespace().count() < 2;
            assert!(lines.iter().all(is_short), "{width}: {lines:?}");
        }
        assert_eq!(wrapped("", 4, 10), [""]);
        assert_eq!(wrapped("a `make it so` b", 1, 4), ["a", " `make it so`", " b"]);
    }
}
