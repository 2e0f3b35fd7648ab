//! Names of processes that are safe in a line of the log.

/// The name of a process as it is logged: at most 15 bytes, padded with zeros; letters with a meaning in the
/// log are replaced by `?`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name(pub [u8; 16]);

impl Name {
    pub(super) fn of(name: &[u8]) -> Name {
        let mut kept = [0; 16];
        for (to, &from) in kept.iter_mut().zip(name).take(15) {
            *to = if from.is_ascii_graphic() && !b"\"'\\:,=".contains(&from) { from } else { b'?' };
        }
        Name(kept)
    }

    /// Its letters.
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
}
