//! Which keys there are and what each allows. A key is `sb_<id>_<secret>` with 256 random bits; only its SHA-256 is kept. It is looked up by
//! its id and compared in constant time, so that neither the text nor the time of an answer tells how near a guess was.
//!
//! Besides the keys of the store there may be one that the installation chose itself (`SWITCHBOARD_KEY`), and one for the
//! command line of the same user on the same machine, which lives as long as the process. Workers have keys of their own for
//! calling tools.

mod limits;
mod revocation;
mod worker;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use subtle::ConstantTimeEq;

pub use limits::KeyLimits;
pub(crate) use revocation::Revocation;
use revocation::Revoker;
pub(crate) use worker::WORKER;
pub use worker::WorkerSecret;

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
    /// To call tools, and nothing else; whoever may start turns may do this too.
    Tools,
}

/// A set of scopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scopes(u8);

/// All that a key allows, chosen when it is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// What it may do.
    pub scopes: Scopes,
    /// The profiles that it may use; `None` is every one.
    pub profiles: Option<Arc<[Box<str>]>>,
    /// How much it may use.
    pub limits: KeyLimits,
}

/// Who sends a request.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// The id of the key.
    pub key: Arc<str>,
    /// What it allows.
    pub scopes: Scopes,
    /// The profiles that it may use; `None` is every one.
    pub profiles: Option<Arc<[Box<str>]>>,
    /// How much it may use.
    pub limits: KeyLimits,
    /// When it ends.
    pub revocation: Revocation,
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
    pub grant: Grant,
    revoker: Revoker,
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
        let chosen = chosen.map(|text| Known::new(CHOSEN, sha256(text), Grant::of(Scopes::ALL)));
        Self { by_id: RwLock::default(), chosen }
    }

    /// Makes a key valid.
    pub fn add(&self, key: Known) {
        self.write().insert((*key.id).into(), key);
    }

    /// Makes a key invalid, and ends the streams that are open in its name.
    pub(crate) fn remove(&self, id: &str) {
        let removed = self.write().remove(id);
        if let Some(key) = removed {
            key.revoker.revoke();
        }
    }

    /// Makes the key for the command line of the same user.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn add_local(&self) -> Result<Secret, NoRandomness> {
        let (secret, key) = make(LOCAL, Grant::of(Scopes::ALL))?;
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

    /// Who has the key with this id, if it is valid.
    pub(crate) fn owner(&self, id: &str) -> Option<Caller> {
        let chosen = self.chosen.as_ref().filter(|key| *key.id == *id).map(Known::caller);
        chosen.or_else(|| self.read().get(id).map(Known::caller))
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
pub fn make(id: &str, grant: Grant) -> Result<(Secret, Known), NoRandomness> {
    let text = format!("sb_{id}_{}", random_hex::<32>()?);
    let key = Known::new(id, sha256(&text), grant);
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
    pub(crate) fn new(id: &str, hash: [u8; 32], grant: Grant) -> Self {
        Self { id: id.into(), hash, grant, revoker: Revoker::new() }
    }

    fn caller(&self) -> Caller {
        let Grant { scopes, profiles, limits } = self.grant.clone();
        Caller { key: Arc::clone(&self.id), scopes, profiles, limits, revocation: self.revoker.revocation() }
    }
}

impl Grant {
    /// These scopes, with every profile and without limits.
    #[must_use]
    pub fn of(scopes: Scopes) -> Self {
        Self { scopes, profiles: None, limits: KeyLimits::default() }
    }
}

impl Caller {
    /// Whether this profile is among those that the key may use.
    pub(crate) fn may_use_profile(&self, name: &str) -> bool {
        self.profiles.as_ref().is_none_or(|profiles| profiles.iter().any(|profile| **profile == *name))
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
    const EACH: [Self; 5] = [Self::Use, Self::Operate, Self::ForSession, Self::OwnTurns, Self::Tools];

    /// The one with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::EACH.into_iter().find(|scope| scope.name() == name)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Use => "use",
            Self::Operate => "operate",
            Self::ForSession => "approvals:session",
            Self::OwnTurns => "approvals:own",
            Self::Tools => "tools",
        }
    }

    fn bit(self) -> u8 {
        match self {
            Self::Use => 1,
            Self::Operate => 2,
            Self::ForSession => 4,
            Self::OwnTurns => 8,
            Self::Tools => 16,
        }
    }
}

impl Scopes {
    /// Everything.
    pub const ALL: Self = Self(31);

    /// These and no others.
    #[must_use]
    pub fn of(scopes: &[Scope]) -> Self {
        Self(scopes.iter().fold(0, |bits, scope| bits | scope.bit()))
    }

    /// Their names, as [`fmt::Display`] writes them; `None` if one is unknown.
    #[must_use]
    pub fn parse(names: &str) -> Option<Self> {
        names.split_whitespace().map(Scope::named).collect::<Option<Vec<_>>>().map(|scopes| Self::of(&scopes))
    }

    /// Their names.
    #[must_use]
    pub fn names(self) -> Vec<&'static str> {
        Scope::EACH.into_iter().filter(|scope| self.holds(*scope)).map(Scope::name).collect()
    }

    /// Whether they allow what this one does.
    #[must_use]
    pub fn has(self, scope: Scope) -> bool {
        self.holds(scope) || (scope == Scope::Tools && self.holds(Scope::Use))
    }

    fn holds(self, scope: Scope) -> bool {
        self.0 & scope.bit() != 0
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.names().join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::{Grant, Keys, Scope, Scopes, from_hex, make, to_hex};

    #[test]
    fn a_key_is_found_by_its_whole_text_alone() {
        let keys = Keys::new(None);
        let (secret, key) = make("abc", Grant::of(Scopes::of(&[Scope::Use]))).unwrap();
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
        let (secret, key) = make("abc", Grant::of(Scopes::ALL)).unwrap();
        keys.add(key);
        keys.remove("abc");
        assert!(keys.find(secret.reveal()).is_none() && keys.owner("abc").is_none());
        assert_eq!(&*keys.find("chosen by hand").unwrap().key, "chosen");
    }

    #[test]
    fn keys_differ_and_hold_256_bits() {
        let [(one, _), (other, _)] = [(); 2].map(|()| make("a", Grant::of(Scopes::ALL)).unwrap());
        assert_ne!(one.reveal(), other.reveal());
        assert_eq!(one.reveal().len(), "sb_a_".len() + 64);
    }

    #[test]
    fn no_debug_output_holds_a_secret() {
        let (secret, key) = make("a", Grant::of(Scopes::ALL)).unwrap();
        let shown = format!("{secret:?} {key:?}");
        assert!(!shown.contains(&secret.reveal()[5..]), "{shown}");
    }

    #[test]
    fn hashes_and_scopes_are_read_back() {
        let (_, key) = make("a", Grant::of(Scopes::of(&[Scope::Use, Scope::ForSession]))).unwrap();
        assert_eq!(from_hex(&to_hex(&key.hash)), Some(key.hash));
        assert!(from_hex("zz").is_none() && from_hex(&"é".repeat(32)).is_none());
        assert_eq!(key.grant.scopes.to_string(), "use approvals:session");
        assert_eq!(Scopes::parse("use approvals:session"), Some(key.grant.scopes));
        assert!(Scopes::parse("use everything").is_none());
    }
}
