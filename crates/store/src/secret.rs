//! A secret in a file of its own, beside the store. Like the store it is whole or not there, and whoever makes it at the same
//! time as somebody else ends with the same one.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use ring::rand::{SecureRandom as _, SystemRandom};

use crate::create::{draft_of, place};

/// How long a secret is: as much as nobody can guess.
pub const SECRET_BYTES: usize = 32;

/// The random bytes in a file, which is made for its owner alone if it is not there; `what` is kept there stands in the error
/// if it is something else.
///
/// # Errors
/// It cannot be read or made, or is none.
pub fn load_or_create_secret(path: &Path, what: &str) -> io::Result<[u8; SECRET_BYTES]> {
    let found = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            create(path)?;
            // Another process may have been first, and its secret counts.
            fs::read(path)?
        }
        found => found?,
    };
    found.try_into().map_err(|_| {
        let why = format!("{} is no {what}: remove it, and a new one is made", path.display());
        io::Error::new(io::ErrorKind::InvalidData, why)
    })
}

fn create(path: &Path) -> io::Result<()> {
    let mut bytes = [0; SECRET_BYTES];
    SystemRandom::new().fill(&mut bytes).map_err(|_| io::Error::other("there are no random numbers"))?;
    let draft = draft_of(path);
    // In a container every process has the same number, so that one which was killed may have left it.
    let _ = fs::remove_file(&draft);
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft);
    let placed = made.and_then(|mut file| file.write_all(&bytes)).and_then(|()| place(&draft, path));
    // Whether or not it was placed, this name of it goes.
    let _ = fs::remove_file(&draft);
    placed
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::Barrier;

    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_secret_is_made_once_for_its_owner_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.key");
        let first = load_or_create_secret(&path, "secret").unwrap();
        assert_eq!(load_or_create_secret(&path, "secret").unwrap(), first);
        assert_ne!(load_or_create_secret(&directory.path().join("b.key"), "secret").unwrap(), first);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn all_who_make_it_at_once_have_the_same() {
        const MAKERS: usize = 8;
        for _ in 0..20 {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("a.key");
            let start = Barrier::new(MAKERS);
            let make = || {
                start.wait();
                load_or_create_secret(&path, "secret").unwrap()
            };
            let made: HashSet<_> = std::thread::scope(|scope| {
                let makers: Vec<_> = (0..MAKERS).map(|_| scope.spawn(make)).collect();
                makers.into_iter().map(|maker| maker.join().unwrap()).collect()
            });
            assert_eq!(made.len(), 1);
            assert_eq!(names(directory.path()), ["a.key"]);
        }
    }

    #[test]
    fn a_draft_that_was_never_placed_is_no_hindrance() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.key");
        for number in 0..1_000 {
            let draft = format!("a.key.{}.{number}.new", std::process::id());
            fs::write(directory.path().join(draft), "").unwrap();
        }
        load_or_create_secret(&path, "secret").unwrap();
        assert_eq!(names(directory.path()).len(), 1_000, "the secret, and one draft less");
    }

    #[test]
    fn a_file_that_holds_something_else_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.key");
        for other in ["", "something else"] {
            fs::write(&path, other).unwrap();
            let why = load_or_create_secret(&path, "key of ours").unwrap_err().to_string();
            assert!(why.ends_with("a.key is no key of ours: remove it, and a new one is made"), "{why}");
            assert_eq!(fs::read(&path).unwrap(), other.as_bytes());
        }
    }
}
