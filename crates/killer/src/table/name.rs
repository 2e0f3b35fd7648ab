//! Names of processes that are safe in a line of the log.

use types::shown;

/// The name of a process as it is logged: at most 15 bytes, padded with zeros. Escape sequences are left
/// out whole; letters with a meaning in the log are replaced by `?`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name(pub [u8; 16]);

impl Name {
    pub(super) fn of(name: &[u8]) -> Name {
        let mut kept = [0; 16];
        let letters = name.utf8_chunks().flat_map(|chunk| {
            let broken = chunk.invalid().iter().map(|_| '?');
            shown(chunk.valid()).chain(broken)
        });
        for (to, letter) in kept.iter_mut().zip(letters).take(15) {
            let is_plain = letter.is_ascii_graphic() && !"\"'\\:,=".contains(letter);
            *to = if is_plain { letter as u8 } else { b'?' };
        }
        Name(kept)
    }

    /// The name as text.
    pub(crate) fn text(&self) -> &str {
        let end = self.0.iter().position(|&byte| byte == 0).unwrap_or(self.0.len());
        std::str::from_utf8(&self.0[..end]).unwrap_or("?")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_name_hides_nothing() {
        assert_eq!(Name::of(b"\") Z (\n=x").text(), "?)?Z?(??x");
        assert_eq!(Name::of(b"a name of 20 letters").text(), "a?name?of?20?le");
    }

    #[test]
    fn escape_sequences_vanish_whole() {
        for (name, logged) in [
            (&b"\x1b[31mred\x1b[0m"[..], "red"),
            (b"a\x1b]0;title\x07b", "ab"),
            (b"\xe2\x80\xaegnp.exe", "gnp.exe"),
            (b"\xff\x1b[1mx", "?x"),
            (b"se\xc3\xb1al", "se?al"),
        ] {
            assert_eq!(Name::of(name).text(), logged, "{name:?}");
        }
    }
}
