//! A short text on the stack: paths and messages, without an allocator.

use crate::confined::is_confined;
use crate::system;

/// Bytes of a path or message at most; longer text is truncated and marked so.
const ROOM: usize = 512;

pub struct Text {
    bytes: [u8; ROOM],
    length: usize,
    is_cut: bool,
}

impl Text {
    /// Concatenates the parts.
    pub fn of(parts: &[&[u8]]) -> Text {
        let mut text = Text { bytes: [0; ROOM], length: 0, is_cut: false };
        parts.iter().for_each(|part| text.push(part));
        text
    }

    pub fn push(&mut self, part: &[u8]) {
        // The last byte stays 0, so that the text is a C string too.
        for &byte in part {
            match self.bytes.get_mut(self.length) {
                Some(place) if self.length < ROOM - 1 => *place = byte,
                _ => return self.is_cut = true,
            }
            self.length += 1;
        }
    }

    /// Adds a number in decimal digits.
    pub fn push_number(&mut self, number: u64) {
        if number >= 10 {
            self.push_number(number / 10);
        }
        self.push(&[b'0' + (number % 10) as u8]);
    }

    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    /// The text as a path; none if it was truncated or contains a zero byte.
    pub fn path(&self) -> Option<*const libc::c_char> {
        let is_whole = !self.is_cut && !self.bytes().contains(&0);
        is_whole.then_some(self.bytes.as_ptr().cast())
    }
}

/// The first bytes of the file `path`, as many as fit in `room`; none if it cannot be read, or the
/// program may be forbidden to read files.
pub fn read<'a>(path: &Text, room: &'a mut [u8]) -> Option<&'a [u8]> {
    if is_confined() {
        return None;
    }
    // A pipe without a writer must not block the program.
    let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK;
    let file = system::open(path.path()?, flags).ok()?;
    let mut length = 0;
    while let Some(rest) = room.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match system::read(file, rest) {
            Ok(count) if count > 0 => length += count,
            _ => break,
        }
    }
    system::close(file);
    room.get(..length)
}

/// The number at the start of `text`, after blanks.
pub fn number(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii_start();
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(text.get(..digits)?).ok()?.parse().ok()
}

/// The lines of `text`.
pub fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&byte| byte == b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_was_cut_is_no_path() {
        let text = Text::of(&[b"/a", b"/b"]);
        assert_eq!(text.bytes(), b"/a/b");
        assert!(text.path().is_some() && Text::of(&[b"a\0b"]).path().is_none());
        let long = Text::of(&[&[b'x'; ROOM]]);
        assert_eq!((long.bytes().len(), long.path().is_none()), (ROOM - 1, true));
    }

    #[test]
    fn numbers_are_written_in_digits() {
        let mut text = Text::of(&[b"a"]);
        [0, 9, 10, u64::MAX].into_iter().for_each(|number| text.push_number(number));
        assert_eq!(text.bytes(), b"a091018446744073709551615");
    }

    #[test]
    fn numbers_are_read_up_to_what_is_none() {
        assert_eq!(number(b"  4096 kB"), Some(4096));
        assert_eq!((number(b"max\n"), number(b"")), (None, None));
        assert_eq!(number(b"99999999999999999999999"), None);
    }

    #[test]
    fn a_file_is_read_as_far_as_there_is_room() {
        let mut room = [0; 6];
        assert_eq!(read(&Text::of(&[b"/proc/self/comm"]), &mut room).map(<[u8]>::len), Some(6));
        assert_eq!(read(&Text::of(&[b"/proc/self/none"]), &mut room), None);
    }
}
