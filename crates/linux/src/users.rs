//! Users of this machine.

use crate::{Error, Root};

/// The number of the user with this name in `/etc/passwd`; None if there is no such user.
///
/// # Errors
/// The operating system refuses.
pub fn number(root: &Root, name: &str) -> Result<Option<u32>, Error> {
    let users = root.read("/etc/passwd")?.unwrap_or_default();
    Ok(users.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then(|| fields.nth(1)?.parse().ok())?
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_the_whole_name() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        assert_eq!(number(&root, "anna").unwrap(), None);
        std::fs::create_dir(root.path("/etc")).unwrap();
        let users = "root:x:0:0\nannabel:x:5:5\nanna:x:1007:100\nbroken\n";
        std::fs::write(root.path("/etc/passwd"), users).unwrap();
        assert_eq!(number(&root, "anna").unwrap(), Some(1007));
        assert_eq!(number(&root, "broken").unwrap(), None);
    }
}
