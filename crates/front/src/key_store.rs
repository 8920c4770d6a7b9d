//! Keys and the store: which there are at the start, and how one is made. The first start makes the first key.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use approvals::Stamp;
use store::{Change, NoRandomness, ReadError, SecretHash, Store, WriteError};

use crate::keys::{
    ANCESTORS_MAX, CHOSEN, Caller, Grant, KeyLimits, KeyOrigin, Keys, Known, LOCAL, Scope, Scopes, Secret, WORKER,
    make, new_id,
};

/// The name of the key that the first start makes.
const FIRST: &str = "first";

/// What a key's owner is shown once.
#[derive(Debug)]
pub struct NewKey {
    /// What is kept of it.
    pub row: store::Key,
    /// Its text, which is nowhere else.
    pub secret: Secret,
}

/// Why keys could not be read or made.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The store could not be read.
    #[error("the keys cannot be read: {0}")]
    Read(#[from] ReadError),
    /// The store could not be written.
    #[error("the key cannot be kept, so it is not valid: {0}")]
    Write(#[from] WriteError),
    /// It is not valid any more, but the next start would not know.
    #[error("the key is not valid any more, but that cannot be kept; revoke it again before the next start: {0}")]
    Unrevoked(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// There are no random numbers.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
    /// The key that asked for it is too far from the first of its line.
    #[error("there are {ANCESTORS_MAX} keys above this one already: create the key with one of those")]
    TooDeep,
    /// It is not valid, because the key that asked for it is not any more.
    #[error("this key was revoked a moment ago")]
    CreatorRevoked,
}

/// A key that is not valid any more.
#[derive(Debug)]
pub struct RevokedKey {
    /// What is kept of it.
    pub row: store::Key,
    /// The ids of the keys that were revoked with it, or before.
    pub descendants: Vec<Arc<str>>,
}

impl Keys {
    /// The keys of the store, and the one that the installation chose. If there is none at all, one is made, which is to
    /// be shown to whoever starts Switchboard.
    ///
    /// # Errors
    /// [`KeyError`].
    pub async fn open(store: &Store, chosen: Option<&str>) -> Result<(Self, Option<NewKey>), KeyError> {
        let keys = Self::new(chosen);
        let (mut rows, mut origins) = store.read(|reader| Ok((reader.keys()?, reader.key_origins()?))).await?;
        let is_first = rows.is_empty() && chosen.is_none();
        let upgrade = upgrade(&mut rows, &mut origins);
        if !upgrade.is_empty() {
            store.commit(upgrade).await?;
        }
        let mut valid = HashMap::new();
        for row in rows.iter().filter(|row| row.revoked_at.is_none()) {
            match known(row) {
                Some(key) => _ = valid.insert(Arc::clone(&key.id), key),
                None => tracing::warn!(key = row.id, "a key of the store cannot be read and is not valid"),
            }
        }
        keys.add_stored(&valid, origins.into_iter().map(origin).collect());
        let first = if is_first { Some(keys.create(store, FIRST, Grant::of(Scopes::ALL)).await?) } else { None };
        Ok((keys, first))
    }

    /// Creates a key without a parent. It is valid once it is durable.
    ///
    /// # Errors
    /// [`KeyError`].
    pub async fn create(&self, store: &Store, name: &str, grant: Grant) -> Result<NewKey, KeyError> {
        let (secret, key) = make(&new_id()?, grant)?;
        let origin = KeyOrigin::root(&key.id);
        self.keep(store, name, (secret, key), origin).await
    }

    /// Makes a key in the name of a caller: it is valid as long as the caller's own, counts against the caller's limits,
    /// and what it asks counts as asked by the caller. Only a caller that may decide its own requests anyway makes keys
    /// that count as somebody else's, and so does the command line.
    pub(crate) async fn create_for(
        &self,
        store: &Store,
        name: &str,
        grant: Grant,
        caller: &Caller,
    ) -> Result<NewKey, KeyError> {
        if *caller.key == *LOCAL {
            return self.create(store, name, grant).await;
        }
        if self.generation(&caller.key) + 1 > ANCESTORS_MAX {
            return Err(KeyError::TooDeep);
        }
        let (secret, key) = make(&new_id()?, grant)?;
        let is_own = caller.scopes.has(Scope::OwnTurns);
        let principal = Arc::clone(if is_own { &key.id } else { &caller.principal });
        let origin = KeyOrigin { parent: Some(Arc::clone(&caller.key)), principal };
        self.keep(store, name, (secret, key), origin).await
    }

    async fn keep(
        &self,
        store: &Store,
        name: &str,
        (secret, key): (Secret, Known),
        origin: KeyOrigin,
    ) -> Result<NewKey, KeyError> {
        let Grant { scopes, profiles, limits } = &key.grant;
        let row = store::Key {
            id: key.id.to_string(),
            name: name.into(),
            hash: key.hash.to_hex(),
            scopes: serde_json::json!(scopes.names()).to_string(),
            profiles: serde_json::json!(profiles).to_string(),
            limits: serde_json::json!(limits).to_string(),
            created_at: Stamp::now().0,
            last_used_at: None,
            revoked_at: None,
        };
        let origin_row = store::KeyOrigin {
            key: row.id.clone(),
            parent: origin.parent.as_deref().map(str::to_owned),
            principal: origin.principal.to_string(),
        };
        store.commit(vec![Change::Key(row.clone()), Change::KeyOrigin(origin_row)]).await?;
        if !self.add_created(key, origin) {
            return Err(KeyError::CreatorRevoked);
        }
        Ok(NewKey { row, secret })
    }

    /// Makes a key of the store, and all that descend from it, invalid for ever: at once, whatever the disk does, then on
    /// the disk too. `None` if there is no such key.
    ///
    /// # Errors
    /// [`KeyError`].
    pub async fn revoke(&self, store: &Store, id: &str) -> Result<Option<RevokedKey>, KeyError> {
        if id == CHOSEN || id == LOCAL || id.starts_with(WORKER) {
            return Ok(None);
        }
        let descendants = self.remove(id);
        let ids: Vec<String> = std::iter::once(id.into()).chain(descendants.iter().map(ToString::to_string)).collect();
        let read = store.read(move |reader| ids.iter().map(|id| reader.key(id)).collect::<Result<Vec<_>, _>>());
        let rows = read.await.map_err(|error| KeyError::Unrevoked(error.into()))?;
        let mut rows = rows.into_iter();
        let Some(mut row) = rows.next().flatten() else { return Ok(None) };
        let now = Stamp::now().0;
        let mut changes = Vec::new();
        let mut end = |row: &mut store::Key| {
            if row.revoked_at.is_none() {
                row.revoked_at = Some(now);
                changes.push(Change::Key(row.clone()));
            }
        };
        end(&mut row);
        rows.flatten().for_each(|mut row| end(&mut row));
        if !changes.is_empty() {
            store.commit(changes).await.map_err(|error| KeyError::Unrevoked(error.into()))?;
        }
        Ok(Some(RevokedKey { row, descendants }))
    }
}

/// What a store of 0.1.0 lacks: where its keys come from. Of them, only the first key of an installation keeps the right to
/// create keys, which each key with `operate` had.
fn upgrade(rows: &mut [store::Key], origins: &mut Vec<store::KeyOrigin>) -> Vec<Change> {
    const SCOPES_BEFORE: [Scope; 5] = [Scope::Use, Scope::Operate, Scope::ForSession, Scope::OwnTurns, Scope::Tools];
    let known: HashSet<String> = origins.iter().map(|origin| origin.key.clone()).collect();
    let mut changes = Vec::new();
    for (number, row) in rows.iter_mut().enumerate().filter(|(_, row)| !known.contains(&row.id)) {
        let scopes = grant(row).map(|grant| grant.scopes);
        if number == 0 && row.name == FIRST && scopes == Some(Scopes::of(&SCOPES_BEFORE)) {
            row.scopes = serde_json::json!(Scopes::of(&SCOPES_BEFORE).with(Scope::Keys).names()).to_string();
            changes.push(Change::Key(row.clone()));
        }
        let origin = store::KeyOrigin { key: row.id.clone(), parent: None, principal: row.id.clone() };
        changes.push(Change::KeyOrigin(origin.clone()));
        origins.push(origin);
    }
    changes
}

fn origin(row: store::KeyOrigin) -> (Arc<str>, KeyOrigin) {
    (row.key.into(), KeyOrigin { parent: row.parent.map(Arc::from), principal: row.principal.into() })
}

/// What cannot be read is not taken for a key without limits.
fn known(row: &store::Key) -> Option<Known> {
    Some(Known::new(&row.id, SecretHash::from_hex(&row.hash)?, grant(row)?))
}

/// What a key of the store allows.
pub(crate) fn grant(row: &store::Key) -> Option<Grant> {
    let names: Vec<String> = serde_json::from_str(&row.scopes).ok()?;
    let limits: Option<KeyLimits> = serde_json::from_str(&row.limits).ok()?;
    Some(Grant {
        scopes: Scopes::parse(&names.join(" "))?,
        profiles: serde_json::from_str(&row.profiles).ok()?,
        limits: limits.unwrap_or_default(),
    })
}
