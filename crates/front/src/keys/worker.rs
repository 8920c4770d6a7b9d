//! The keys with which workers call tools: one for each group, made of a secret that is kept, so that a worker which outlives the
//! server has the right one when it is found again. They are in no list and in no store.

use std::io;
use std::path::Path;

use ring::hmac;

use super::{Caller, Grant, Keys, Known, Scope, Scopes, Secret, sha256, to_hex};

/// What the id of such a key begins with; the name of the group follows.
pub(crate) const WORKER: &str = "worker-";

/// What the keys of workers are made of.
pub struct WorkerSecret(hmac::Key);

impl WorkerSecret {
    /// The one in a file, which is made for its owner alone if it is not there.
    ///
    /// # Errors
    /// It cannot be read or made, or is none.
    pub fn load_or_create(path: &Path) -> io::Result<Self> {
        let bytes = store::load_or_create_secret(path, "secret of ours")?;
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, &bytes)))
    }
}

impl Keys {
    /// Makes the key of a group's workers valid, which allows to call tools and nothing else. The same secret and group make
    /// the same key.
    #[must_use]
    pub fn add_worker(&self, group: &str, secret: &WorkerSecret) -> Secret {
        let id = format!("{WORKER}{group}");
        let text = format!("sb_{id}_{}", to_hex(hmac::sign(&secret.0, id.as_bytes()).as_ref()));
        self.add(Known::new(&id, sha256(&text), Grant::of(Scopes::of(&[Scope::Tools]))));
        Secret(text)
    }
}

impl Caller {
    /// The group, if it is a worker of ours.
    pub(crate) fn worker_group(&self) -> Option<&str> {
        self.key.strip_prefix(WORKER)
    }
}

#[cfg(test)]
mod tests {
    use super::{Keys, Scope, WorkerSecret};

    #[test]
    fn a_group_has_the_same_key_after_a_restart_and_another_than_its_neighbour() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("workers.key");
        let (before, after) = (Keys::new(None), Keys::new(None));
        let first = WorkerSecret::load_or_create(&path).unwrap();
        let key = before.add_worker("main", &first);
        let other = before.add_worker("other", &first);
        assert_ne!(key.reveal(), other.reveal());
        let again = after.add_worker("main", &WorkerSecret::load_or_create(&path).unwrap());
        assert_eq!(key.reveal(), again.reveal());
        let caller = after.find(key.reveal()).unwrap();
        assert_eq!((&*caller.key, caller.worker_group()), ("worker-main", Some("main")));
        assert_eq!(caller.scopes.names(), ["tools"]);
        assert!(!caller.scopes.has(Scope::Use) && caller.scopes.has(Scope::Tools));
    }

    #[test]
    fn a_file_that_holds_something_else_is_no_secret() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("workers.key");
        std::fs::write(&path, "something else").unwrap();
        let why = WorkerSecret::load_or_create(&path).err().unwrap().to_string();
        assert!(why.contains("is no secret of ours: remove it"), "{why}");
    }
}
