//! Names and other foreign text, made safe for a terminal.

use std::ops::RangeInclusive;

/// `text` without escape sequences and without characters that change the direction of writing.
/// `printable` of python/pagewise/terminal.py does the same.
pub fn shown(text: &str) -> impl Iterator<Item = char> {
    let mut rest = text;
    std::iter::from_fn(move || {
        while let Some(after) = after_sequence(rest) {
            rest = after;
        }
        let letter = rest.chars().next()?;
        rest = &rest[letter.len_utf8()..];
        Some(letter)
    })
}

/// The text after the ECMA-48 sequence that `text` begins with; `None` if it begins with a letter.
fn after_sequence(text: &str) -> Option<&str> {
    let first = text.chars().next()?;
    let rest = &text[first.len_utf8()..];
    match first {
        '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            Some(rest)
        }
        '\u{1b}' if rest.starts_with(['[', ']', 'P', 'X', '^', '_']) => {
            Some(after_introducer(rest.as_bytes()[0], &rest[1..]))
        }
        '\u{1b}' => Some(after_final(after_any(rest, ' '..='/'), '0'..='~')),
        // A C1 control stands for ESC and the character 64 below it.
        '\u{80}'..='\u{9f}' => Some(after_introducer(first as u8 - 64, rest)),
        _ => None,
    }
}

/// The text after the sequence whose introducer was ESC and this letter.
fn after_introducer(introducer: u8, text: &str) -> &str {
    match introducer {
        b'[' => after_final(after_any(after_any(text, '0'..='?'), ' '..='/'), '@'..='~'),
        b']' | b'P' | b'X' | b'^' | b'_' => after_string(text),
        _ => text,
    }
}

/// The text after the end of a command's string: BEL, ESC \ or U+009C. If the string has no end, it
/// ends with the word, so that a name cannot hide the text after it.
fn after_string(text: &str) -> &str {
    let end = text.find(['\u{7}', '\u{1b}', '\u{9c}', '\n']).map_or("", |end| &text[end..]);
    ["\u{7}", "\u{1b}\\", "\u{9c}"]
        .iter()
        .find_map(|terminator| end.strip_prefix(*terminator))
        .unwrap_or_else(|| {
            text.trim_start_matches(|letter: char| letter != '\u{1b}' && !letter.is_whitespace())
        })
}

fn after_any(text: &str, letters: RangeInclusive<char>) -> &str {
    text.trim_start_matches(|letter: char| letters.contains(&letter))
}

fn after_final(text: &str, letters: RangeInclusive<char>) -> &str {
    text.strip_prefix(|letter: char| letters.contains(&letter)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_are_removed_whole() {
        // The same cases as in tests/test_terminal.py.
        for (text, expected) in [
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("\u{9b}1;31mred\u{9b}m", "red"),
            ("\u{1b}[38:2::1:2:3 qx", "x"),
            ("\u{1b}]8;;http://a.b/\u{1b}\\link\u{1b}]8;;\u{7}", "link"),
            ("\u{9d}0;a title\u{9c}name", "name"),
            ("\u{1b}P1$q\u{1b}\\a\u{98}b\u{9c}c", "ac"),
            ("\u{1b}]8;;http://a.b/ is missing", " is missing"),
            ("\u{1b}]0;\u{1b}[31mred", "red"),
            ("\u{1b}(Ba\u{1b}cb\u{1b}", "ab"),
            ("\u{1b}[31", ""),
            ("a\u{202e}b\u{2066}c\u{2069}\u{200f}\u{61c}d\u{85}e", "abcde"),
            ("señal 名 [31m", "señal 名 [31m"),
        ] {
            assert_eq!(shown(text).collect::<String>(), expected, "{text:?}");
        }
    }
}
