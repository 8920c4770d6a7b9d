//! Which keys there are and what each allows. A key is `sb_<id>_<secret>` with 256 random bits; only its SHA-256 is kept. It is looked up by
//! its id and compared in constant time, so that neither the text nor the time of an answer tells how near a guess was.
//!
//! Besides the keys of the store there may be one that the installation chose itself (`SWITCHBOARD_KEY`), and one for the
//! command line of the same user on the same machine, which lives as long as the process.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use subtle::ConstantTimeEq;

/// What a key allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// To start turns and see one's own.
    Use,
    /// To see everything, decide approvals and restart workers.
    Operate,
    /// To allow something for the rest of a thread's life, or with an amended policy.
    ForSession,
    /// To allow what a turn asks that the same key started.
    OwnTurns,
}

/// A set of scopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scopes(u8);

/// Who sends a request.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// The id of the key.
    pub key: Arc<str>,
    /// What it allows.
    pub scopes: Scopes,
}

/// All keys that are valid now.
#[derive(Default)]
pub struct Keys {
    by_id: RwLock<HashMap<Box<str>, Known>>,
    chosen: Option<Known>,
}

/// A key without its secret.
#[derive(Clone, Debug)]
pub struct Known {
    /// Its id.
    pub id: Arc<str>,
    /// The SHA-256 of its text.
    pub hash: [u8; 32],
    /// What it allows.
    pub scopes: Scopes,
}

/// The text of a key, which only its owner has. It is never part of a log.
pub struct Secret(String);

/// The id of the key that an installation chose itself.
pub const CHOSEN: &str = "chosen";
/// The id of the key that the command line of the same user finds.
pub const LOCAL: &str = "local";

/// A chosen key of this length is taken for one that cannot be guessed.
const UNGUESSABLE_CHARS_MIN: usize = 32;

impl Keys {
    /// Keys besides which the installation's own one, if it chose one, is valid for everything.
    #[must_use]
    pub fn new(chosen: Option<&str>) -> Self {
        let chosen = chosen.map(|text| Known { id: CHOSEN.into(), hash: sha256(text), scopes: Scopes::ALL });
        Self { by_id: RwLock::default(), chosen }
    }

    /// Makes a key valid.
    pub fn add(&self, key: Known) {
        self.write().insert((*key.id).into(), key);
    }

    /// Makes a key invalid: at once for requests, at their next heartbeat for open streams.
    pub fn revoke(&self, id: &str) {
        self.write().remove(id);
    }

    /// Makes the key for the command line of the same user.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn add_local(&self) -> Result<Secret, NoRandomness> {
        let (secret, key) = make(LOCAL, Scopes::ALL)?;
        self.add(key);
        Ok(secret)
    }

    /// Whether this is the text of a key.
    #[must_use]
    pub fn is_valid(&self, text: &str) -> bool {
        self.find(text).is_some()
    }

    /// Whose key this is.
    pub(crate) fn find(&self, text: &str) -> Option<Caller> {
        let hash = sha256(text);
        let is_right = |key: &&Known| bool::from(key.hash.ct_eq(&hash));
        let made = || self.read().get(id_of(text)?).filter(is_right).map(Known::caller);
        self.chosen.as_ref().filter(is_right).map(Known::caller).or_else(made)
    }

    /// Whether the key is valid still.
    pub(crate) fn has(&self, id: &str) -> bool {
        self.chosen.as_ref().is_some_and(|key| *key.id == *id) || self.read().contains_key(id)
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<Box<str>, Known>> {
        self.by_id.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<Box<str>, Known>> {
        self.by_id.write().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Makes a key; `id` must not hold an underscore.
///
/// # Errors
/// If the system has no random numbers.
pub fn make(id: &str, scopes: Scopes) -> Result<(Secret, Known), NoRandomness> {
    let text = format!("sb_{id}_{}", random_hex::<32>()?);
    let key = Known { id: id.into(), hash: sha256(&text), scopes };
    Ok((Secret(text), key))
}

/// An id for a new key.
///
/// # Errors
/// If the system has no random numbers.
pub fn new_id() -> Result<String, NoRandomness> {
    random_hex::<5>()
}

/// The system has no random numbers.
#[derive(Debug, thiserror::Error)]
#[error("the system gives no random numbers; a key cannot be made")]
pub struct NoRandomness;

/// Whether a text has the form of our keys, or the length of one: then there is no point in guessing it.
pub(crate) fn is_unguessable(text: &str) -> bool {
    text.len() >= UNGUESSABLE_CHARS_MIN
}

fn id_of(text: &str) -> Option<&str> {
    text.strip_prefix("sb_")?.split_once('_').map(|(id, _)| id)
}

fn sha256(text: &str) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, text.as_bytes()).as_ref());
    hash
}

fn random_hex<const BYTES: usize>() -> Result<String, NoRandomness> {
    let mut bytes = [0; BYTES];
    SystemRandom::new().fill(&mut bytes).map_err(|_| NoRandomness)?;
    Ok(to_hex(&bytes))
}

/// Bytes as the store keeps a hash.
#[must_use]
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The hash that [`to_hex`] wrote.
#[must_use]
pub fn from_hex(text: &str) -> Option<[u8; 32]> {
    let mut hash = [0; 32];
    if text.len() != 2 * hash.len() || !text.is_ascii() {
        return None;
    }
    for (byte, at) in hash.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
    }
    Some(hash)
}

impl Known {
    fn caller(&self) -> Caller {
        Caller { key: Arc::clone(&self.id), scopes: self.scopes }
    }
}

impl Secret {
    /// The text, to be shown once.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(…)")
    }
}

impl Scope {
    const EACH: [Self; 4] = [Self::Use, Self::Operate, Self::ForSession, Self::OwnTurns];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Use => "use",
            Self::Operate => "operate",
            Self::ForSession => "approvals:session",
            Self::OwnTurns => "approvals:own",
        }
    }

    fn bit(self) -> u8 {
        match self {
            Self::Use => 1,
            Self::Operate => 2,
            Self::ForSession => 4,
            Self::OwnTurns => 8,
        }
    }
}

impl Scopes {
    /// Everything.
    pub const ALL: Self = Self(15);

    /// These and no others.
    #[must_use]
    pub fn of(scopes: &[Scope]) -> Self {
        Self(scopes.iter().fold(0, |bits, scope| bits | scope.bit()))
    }

    /// Their names, as [`fmt::Display`] writes them; `None` if one is unknown.
    #[must_use]
    pub fn parse(names: &str) -> Option<Self> {
        let named = |name: &str| Scope::EACH.into_iter().find(|scope| scope.name() == name);
        names.split_whitespace().map(named).collect::<Option<Vec<_>>>().map(|scopes| Self::of(&scopes))
    }

    /// Whether this is among them.
    #[must_use]
    pub fn has(self, scope: Scope) -> bool {
        self.0 & scope.bit() != 0
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = Scope::EACH.into_iter().filter(|scope| self.has(*scope)).map(Scope::name).collect();
        formatter.write_str(&names.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::{Keys, Scope, Scopes, from_hex, make, to_hex};

    #[test]
    fn a_key_is_found_by_its_whole_text_alone() {
        let keys = Keys::new(None);
        let (secret, key) = make("abc", Scopes::of(&[Scope::Use])).unwrap();
        keys.add(key);
        let text = secret.reveal();
        assert_eq!(&*keys.find(text).unwrap().key, "abc");
        let last = if text.ends_with('0') { '1' } else { '0' };
        let near = format!("{}{last}", &text[..text.len() - 1]);
        for wrong in [near.as_str(), "", "sb_", "sb_abc", "sb_abc_", "sb__", &text[1..], &format!("{text} "), "🦀"] {
            assert!(keys.find(wrong).is_none(), "{wrong:?}");
        }
    }

    #[test]
    fn a_revoked_key_is_nobodys() {
        let keys = Keys::new(Some("chosen by hand"));
        let (secret, key) = make("abc", Scopes::ALL).unwrap();
        keys.add(key);
        keys.revoke("abc");
        assert!(keys.find(secret.reveal()).is_none() && !keys.has("abc"));
        assert_eq!(&*keys.find("chosen by hand").unwrap().key, "chosen");
    }

    #[test]
    fn keys_differ_and_hold_256_bits() {
        let [(one, _), (other, _)] = [(); 2].map(|()| make("a", Scopes::ALL).unwrap());
        assert_ne!(one.reveal(), other.reveal());
        assert_eq!(one.reveal().len(), "sb_a_".len() + 64);
    }

    #[test]
    fn no_debug_output_holds_a_secret() {
        let (secret, key) = make("a", Scopes::ALL).unwrap();
        let shown = format!("{secret:?} {key:?}");
        assert!(!shown.contains(&secret.reveal()[5..]), "{shown}");
    }

    #[test]
    fn hashes_and_scopes_are_read_back() {
        let (_, key) = make("a", Scopes::of(&[Scope::Use, Scope::ForSession])).unwrap();
        assert_eq!(from_hex(&to_hex(&key.hash)), Some(key.hash));
        assert!(from_hex("zz").is_none() && from_hex(&"é".repeat(32)).is_none());
        assert_eq!(key.scopes.to_string(), "use approvals:session");
        assert_eq!(Scopes::parse("use approvals:session"), Some(key.scopes));
        assert!(Scopes::parse("use everything").is_none());
    }
}
