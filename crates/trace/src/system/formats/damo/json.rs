//! The tokens of a JSON text (RFC 8259), one after the other, in bounded memory.

use crate::Error;
use crate::input::Input;

/// Bytes of a name or a value that are kept; those after are read and dropped.
const TEXT_BYTES_MAX: usize = 64;

/// Objects and lists that may be open at once.
const DEPTH_MAX: usize = 64;

/// A part of a JSON text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token<'text> {
    /// An object or a list begins.
    Open {
        /// Whether an object begins, not a list.
        is_object: bool,
    },
    /// The innermost object or list ends.
    Close,
    /// The name of a field, with its escapes.
    Name(&'text [u8]),
    /// A text without its quotes, a number, or `true`, `false` or `null`.
    Value(&'text [u8]),
}

/// What may come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Value,
    ValueOrClose,
    Name,
    NameOrClose,
    Colon,
    CommaOrClose,
    End,
}

/// Reads the tokens of a JSON text.
pub struct Tokens {
    input: Input,
    /// Whether each open container is an object, the innermost last.
    open: Vec<bool>,
    next: Next,
    text: Vec<u8>,
}

impl Tokens {
    /// The tokens of an input at its beginning.
    pub fn new(input: Input) -> Tokens {
        Tokens { input, open: Vec::new(), next: Next::Value, text: Vec::new() }
    }

    /// Whether the text ended where it may end, after `read` returned `None`.
    pub fn is_whole(&self) -> bool {
        self.next == Next::End
    }

    /// The next token; `None` at the end of the input, also if the text is cut there.
    ///
    /// # Errors
    /// `Corrupt` at a byte that may not come here; errors of [`Input::fill`].
    pub fn read(&mut self) -> Result<Option<Token<'_>>, Error> {
        loop {
            let Some(byte) = self.peek()? else { return Ok(None) };
            let is_in_object = self.open.last() == Some(&true);
            match (self.next, byte) {
                (_, b' ' | b'\t' | b'\n' | b'\r') => self.input.consume(1),
                (Next::Colon, b':') => {
                    self.input.consume(1);
                    self.next = Next::Value;
                }
                (Next::CommaOrClose, b',') => {
                    self.input.consume(1);
                    self.next = if is_in_object { Next::Name } else { Next::Value };
                }
                (Next::CommaOrClose | Next::ValueOrClose, b']') if !is_in_object => {
                    return Ok(Some(self.close()));
                }
                (Next::CommaOrClose | Next::NameOrClose, b'}') if is_in_object => {
                    return Ok(Some(self.close()));
                }
                (Next::Name | Next::NameOrClose, b'"') => {
                    if !self.read_text()? {
                        return Ok(None);
                    }
                    self.next = Next::Colon;
                    return Ok(Some(Token::Name(&self.text)));
                }
                (Next::Value | Next::ValueOrClose, b'{' | b'[') => {
                    if self.open.len() == DEPTH_MAX {
                        return Err(self.input.corrupt("has too many JSON objects in each other"));
                    }
                    let is_object = byte == b'{';
                    self.input.consume(1);
                    self.open.push(is_object);
                    self.next = if is_object { Next::NameOrClose } else { Next::ValueOrClose };
                    return Ok(Some(Token::Open { is_object }));
                }
                (Next::Value | Next::ValueOrClose, b'"') => {
                    if !self.read_text()? {
                        return Ok(None);
                    }
                    self.next = self.after_value();
                    return Ok(Some(Token::Value(&self.text)));
                }
                (Next::Value | Next::ValueOrClose, b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => {
                    self.read_word()?;
                    self.next = self.after_value();
                    return Ok(Some(Token::Value(&self.text)));
                }
                (next, _) => return Err(self.input.corrupt(expected(next))),
            }
        }
    }

    /// The first byte that is not consumed.
    fn peek(&mut self) -> Result<Option<u8>, Error> {
        if self.input.held().is_empty() {
            self.input.fill()?;
        }
        Ok(self.input.held().first().copied())
    }

    fn close(&mut self) -> Token<'static> {
        self.input.consume(1);
        self.open.pop();
        self.next = self.after_value();
        Token::Close
    }

    fn after_value(&self) -> Next {
        if self.open.is_empty() { Next::End } else { Next::CommaOrClose }
    }

    fn keep(&mut self, byte: u8) {
        if self.text.len() < TEXT_BYTES_MAX {
            self.text.push(byte);
        }
    }

    /// Reads a text in quotes; false if it has no end.
    fn read_text(&mut self) -> Result<bool, Error> {
        self.text.clear();
        self.input.consume(1);
        let mut is_escaped = false;
        while let Some(byte) = self.peek()? {
            self.input.consume(1);
            if byte == b'"' && !is_escaped {
                return Ok(true);
            }
            is_escaped = byte == b'\\' && !is_escaped;
            self.keep(byte);
        }
        Ok(false)
    }

    /// Reads a number or a word without quotes.
    fn read_word(&mut self) -> Result<(), Error> {
        self.text.clear();
        while let Some(byte) = self.peek()? {
            if !byte.is_ascii_alphanumeric() && !matches!(byte, b'+' | b'-' | b'.') {
                break;
            }
            self.input.consume(1);
            self.keep(byte);
        }
        Ok(())
    }
}

fn expected(next: Next) -> &'static str {
    match next {
        Next::Value => "expected a JSON value",
        Next::ValueOrClose => "expected a JSON value or `]`",
        Next::Name => "expected the name of a JSON field",
        Next::NameOrClose => "expected the name of a JSON field or `}`",
        Next::Colon => "expected `:`",
        Next::CommaOrClose => "expected `,` or the end of a JSON list or object",
        Next::End => "expected nothing after the JSON text",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Result<(Vec<String>, bool), Error> {
        let mut tokens = Tokens::new(Input::from_bytes("sample", text.as_bytes())?);
        let mut found = Vec::new();
        while let Some(token) = tokens.read()? {
            found.push(match token {
                Token::Open { is_object: true } => "{".to_owned(),
                Token::Open { is_object: false } => "[".to_owned(),
                Token::Close => "end".to_owned(),
                Token::Name(name) => format!("{}:", name.escape_ascii()),
                Token::Value(value) => value.escape_ascii().to_string(),
            });
        }
        Ok((found, tokens.is_whole()))
    }

    #[test]
    fn every_kind_of_token_is_read() {
        let text = "\n[{\"a\": -1.5e+3, \"b\" :[ ], \"c\":{}},\ttrue,null , \"x\\\"y\" ]\n";
        let found = ["[", "{", "a:", "-1.5e+3", "b:", "[", "end", "c:", "{", "end", "end"];
        let rest = ["true", "null", "x\\\\\\\"y", "end"];
        assert_eq!(
            tokens(text).unwrap(),
            (
                [&found[..], &rest[..]].concat().iter().map(|&token| token.to_owned()).collect(),
                true
            )
        );
    }

    #[test]
    fn long_texts_are_cut_and_deep_nesting_is_refused() {
        let long = format!("[\"{}\", 1]", "x".repeat(1 << 20));
        let (found, is_whole) = tokens(&long).unwrap();
        assert_eq!((found[1].len(), found[2].as_str(), is_whole), (TEXT_BYTES_MAX, "1", true));
        assert!(tokens(&"[".repeat(DEPTH_MAX)).is_ok());
        assert!(tokens(&"[".repeat(DEPTH_MAX + 1)).is_err());
    }

    #[test]
    fn a_cut_text_is_not_whole_and_a_wrong_byte_is_named() {
        let whole = "[{\"a\": [1, \"b\"]}]";
        for end in 1..whole.len() {
            assert!(!tokens(&whole[..end]).unwrap().1, "{end}");
        }
        for (text, message) in [
            ("[1 2]", "sample at byte 3: expected `,` or the end"),
            ("{\"a\" 1}", "sample at byte 5: expected `:`"),
            ("{1: 2}", "sample at byte 1: expected the name"),
            ("[1}", "sample at byte 2: expected `,`"),
            ("[,]", "sample at byte 1: expected a JSON value or `]`"),
            ("{\"a\": 1,}", "sample at byte 8: expected the name of"),
            ("[] []", "sample at byte 3: expected nothing"),
            ("x", "sample at byte 0: expected a JSON value"),
        ] {
            let error = tokens(text).unwrap_err().to_string();
            assert!(error.starts_with(message), "{text}: {error}");
        }
    }
}
