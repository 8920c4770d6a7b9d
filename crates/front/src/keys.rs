//! Which keys there are and what each allows. A key is `sb_<id>_<secret>` with 256 random bits; only its SHA-256 is kept. It is looked up by
//! its id and compared in constant time, so that neither the text nor the time of an answer tells how near a guess was.
//!
//! Besides the keys of the store there may be one that the installation chose itself (`SWITCHBOARD_KEY`). The command line
//! of the same user has the id of a key and no secret: it is known by the control socket. Workers have tokens for calling
//! tools.

mod limits;
mod revocation;
mod tree;
mod worker;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use store::{NoRandomness, SecretHash, random_hex};
use workers::WorkerTokens;

pub use limits::KeyLimits;
pub(crate) use revocation::Revocation;
use revocation::Revoker;
use tree::KeyTree;
pub(crate) use tree::{ANCESTORS_MAX, KeyOrigin};
pub(crate) use worker::WORKER;

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
    /// To create and revoke keys.
    Keys,
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
    /// The key as whose own its requests count.
    pub principal: Arc<str>,
    /// The keys whose limits its requests count against: itself, and those that it descends from. Empty if it has none.
    pub limited_keys: Arc<[LimitedKey]>,
    /// When it ends.
    pub revocation: Revocation,
}

/// A key with limits that a request counts against.
#[derive(Clone, Debug)]
pub(crate) struct LimitedKey {
    /// The id of the key.
    pub key: Arc<str>,
    /// How much it may use, together with all keys that descend from it.
    pub limits: KeyLimits,
    /// When it ends.
    pub revocation: Revocation,
}

/// All keys that are valid now.
#[derive(Default)]
pub struct Keys {
    registry: RwLock<Registry>,
    chosen: Option<Known>,
    workers: WorkerTokens,
}

/// The valid keys of the store and of this process, and where all keys come from.
#[derive(Default)]
struct Registry {
    by_id: HashMap<Box<str>, Known>,
    tree: KeyTree,
}

/// A key without its secret.
#[derive(Clone, Debug)]
pub struct Known {
    /// Its id.
    pub id: Arc<str>,
    /// The SHA-256 of its text.
    pub hash: SecretHash,
    /// What it allows.
    pub grant: Grant,
    revoker: Revoker,
}

/// The text of a key, which only its owner has. It is never part of a log.
pub struct Secret(String);

/// The id of the key that an installation chose itself.
pub const CHOSEN: &str = "chosen";
/// The id under which the command line of the same user acts.
pub const LOCAL: &str = "local";

/// The fewest characters of a key that an installation chooses: a key of this length is taken for one that cannot be guessed.
pub const CHOSEN_CHARS_MIN: usize = 32;

impl Keys {
    /// Keys besides which the installation's own one, if it chose one, is valid for everything.
    #[must_use]
    pub fn new(chosen: Option<&str>) -> Self {
        let chosen = chosen.map(|text| Known::new(CHOSEN, SecretHash::of(text), Grant::of(Scopes::ALL)));
        Self { registry: RwLock::default(), chosen, workers: WorkerTokens::default() }
    }

    /// Makes a key valid that no other key created.
    pub fn add(&self, key: Known) {
        self.write().by_id.insert((*key.id).into(), key);
    }

    /// Makes a new key of the store valid. `false`, and it is not, if the key that created it has been revoked meanwhile.
    pub(crate) fn add_created(&self, key: Known, origin: KeyOrigin) -> bool {
        let mut registry = self.write();
        let is_valid = |parent: &Arc<str>| **parent == *CHOSEN || registry.by_id.contains_key(&**parent);
        let is_added = origin.parent.as_ref().is_none_or(is_valid);
        registry.tree.insert(Arc::clone(&key.id), origin);
        if is_added {
            registry.by_id.insert((*key.id).into(), key);
        }
        is_added
    }

    /// Takes up the keys of the store. A key with an ancestor that is revoked, or cannot be read, is not valid either.
    pub(crate) fn add_stored(&self, valid: &HashMap<Arc<str>, Known>, origins: Vec<(Arc<str>, KeyOrigin)>) {
        let mut registry = self.write();
        for (id, origin) in origins {
            registry.tree.insert(id, origin);
        }
        for (id, key) in valid {
            let is_valid = |id: &Arc<str>| **id == *CHOSEN || valid.contains_key(id);
            if registry.tree.ancestors(id).all(is_valid) {
                registry.by_id.insert((**id).into(), key.clone());
            }
        }
    }

    /// Makes a key and those that descend from it invalid, ends the streams that are open in their names, and gives the ids
    /// of the descendants.
    pub(crate) fn remove(&self, id: &str) -> Vec<Arc<str>> {
        let mut registry = self.write();
        let descendants = registry.tree.descendants(id);
        for id in std::iter::once(id).chain(descendants.iter().map(|id| &**id)) {
            if let Some(key) = registry.by_id.remove(id) {
                key.revoker.revoke();
            }
        }
        descendants
    }

    /// Where a key of the store comes from.
    pub(crate) fn origin(&self, id: &str) -> Option<KeyOrigin> {
        self.read().tree.get(id).cloned()
    }

    /// Whether what one key asks counts as asked by the other.
    pub(crate) fn is_same_principal(&self, one: &str, other: &str) -> bool {
        let registry = self.read();
        registry.tree.principal(one) == registry.tree.principal(other)
    }

    /// Whether the key is `ancestor` or descends from it.
    pub(crate) fn descends(&self, key: &str, ancestor: &str) -> bool {
        key == ancestor || self.read().tree.ancestors(key).any(|id| **id == *ancestor)
    }

    /// How many keys it descends from.
    pub(crate) fn generation(&self, key: &str) -> usize {
        self.read().tree.ancestors(key).count()
    }

    /// The keys that descend from it, revoked ones too.
    pub(crate) fn descendants(&self, key: &str) -> Vec<Arc<str>> {
        self.read().tree.descendants(key)
    }

    /// The key, and those that it descends from.
    pub(crate) fn with_ancestors(&self, key: &str) -> Vec<Arc<str>> {
        let registry = self.read();
        std::iter::once(Arc::from(key)).chain(registry.tree.ancestors(key).cloned()).collect()
    }

    /// Lets the command line of the same user act as [`LOCAL`], with every scope. Nobody has the secret of that key:
    /// only the control socket leads to it.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn add_local(&self) -> Result<(), NoRandomness> {
        let (_, key) = make(LOCAL, Grant::of(Scopes::ALL))?;
        self.add(key);
        Ok(())
    }

    /// Whether this is the text of a key.
    #[must_use]
    pub fn is_valid(&self, text: &str) -> bool {
        self.find(text).is_some()
    }

    /// Whose key this is.
    pub(crate) fn find(&self, text: &str) -> Option<Caller> {
        let hash = SecretHash::of(text);
        let is_right = |key: &&Known| key.hash == hash;
        let of_registry = || {
            let registry = self.read();
            registry.by_id.get(id_of(text)?).filter(is_right).map(|key| registry.caller(key))
        };
        let chosen = self.chosen.as_ref().filter(is_right).map(Known::caller);
        chosen.or_else(of_registry).or_else(|| self.worker(text))
    }

    /// Who has the key with this id, if it is valid.
    pub(crate) fn owner(&self, id: &str) -> Option<Caller> {
        let chosen = self.chosen.as_ref().filter(|key| *key.id == *id).map(Known::caller);
        let registry = self.read();
        chosen.or_else(|| registry.by_id.get(id).map(|key| registry.caller(key)))
    }

    fn read(&self) -> RwLockReadGuard<'_, Registry> {
        self.registry.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Registry> {
        self.registry.write().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Registry {
    fn caller(&self, key: &Known) -> Caller {
        let own = key.caller();
        let ancestors = self.tree.ancestors(&key.id).filter_map(|id| self.by_id.get(&**id)?.limited_key());
        Caller {
            principal: self.tree.principal(&key.id).into(),
            limited_keys: own.limited_keys.iter().cloned().chain(ancestors).collect(),
            ..own
        }
    }
}

/// Makes a key; `id` must not hold an underscore.
///
/// # Errors
/// If the system has no random numbers.
pub fn make(id: &str, grant: Grant) -> Result<(Secret, Known), NoRandomness> {
    let text = format!("sb_{id}_{}", random_hex::<32>()?);
    let key = Known::new(id, SecretHash::of(&text), grant);
    Ok((Secret(text), key))
}

/// An id for a new key.
///
/// # Errors
/// If the system has no random numbers.
pub fn new_id() -> Result<String, NoRandomness> {
    random_hex::<5>()
}

/// Whether a text has the form of our keys, or the length of one: then there is no point in guessing it.
pub(crate) fn is_unguessable(text: &str) -> bool {
    text.len() >= CHOSEN_CHARS_MIN
}

fn id_of(text: &str) -> Option<&str> {
    text.strip_prefix("sb_")?.split_once('_').map(|(id, _)| id)
}

impl Known {
    pub(crate) fn new(id: &str, hash: SecretHash, grant: Grant) -> Self {
        Self { id: id.into(), hash, grant, revoker: Revoker::new() }
    }

    /// Its owner, if no other key created it.
    fn caller(&self) -> Caller {
        let Grant { scopes, profiles, limits } = self.grant.clone();
        let (key, principal) = (Arc::clone(&self.id), Arc::clone(&self.id));
        let limited_keys = self.limited_key().into_iter().collect();
        Caller { key, scopes, profiles, limits, principal, limited_keys, revocation: self.revoker.revocation() }
    }

    fn limited_key(&self) -> Option<LimitedKey> {
        let limits = self.grant.limits;
        let revocation = || self.revoker.revocation();
        (!limits.is_empty()).then(|| LimitedKey { key: Arc::clone(&self.id), limits, revocation: revocation() })
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
    const EACH: [Self; 6] = [Self::Use, Self::Operate, Self::ForSession, Self::OwnTurns, Self::Tools, Self::Keys];

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
            Self::Keys => "keys",
        }
    }

    fn bit(self) -> u8 {
        match self {
            Self::Use => 1,
            Self::Operate => 2,
            Self::ForSession => 4,
            Self::OwnTurns => 8,
            Self::Tools => 16,
            Self::Keys => 32,
        }
    }
}

impl Scopes {
    /// Everything.
    pub const ALL: Self = Self(63);

    /// These and no others.
    #[must_use]
    pub fn of(scopes: &[Scope]) -> Self {
        Self(scopes.iter().fold(0, |bits, scope| bits | scope.bit()))
    }

    /// These and one more.
    #[must_use]
    pub(crate) fn with(self, scope: Scope) -> Self {
        Self(self.0 | scope.bit())
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
    use super::{Grant, Keys, Scope, Scopes, make};

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
    fn scopes_are_read_back() {
        let (_, key) = make("a", Grant::of(Scopes::of(&[Scope::Use, Scope::ForSession]))).unwrap();
        assert_eq!(key.grant.scopes.to_string(), "use approvals:session");
        assert_eq!(Scopes::parse("use approvals:session"), Some(key.grant.scopes));
        assert!(Scopes::parse("use everything").is_none());
    }
}
