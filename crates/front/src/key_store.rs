//! Keys and the store: which there are at the start, and how one is made. The first start makes the first key.

use approvals::Stamp;
use store::{Change, ReadError, Store, WriteError};

use crate::keys::{
    Grant, KeyLimits, Keys, Known, LOCAL, NoRandomness, Scopes, Secret, WORKER, from_hex, make, new_id, to_hex,
};

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
}

impl Keys {
    /// The keys of the store, and the one that the installation chose. If there is none at all, one is made, which is to
    /// be shown to whoever starts Switchboard.
    ///
    /// # Errors
    /// [`KeyError`].
    pub async fn open(store: &Store, chosen: Option<&str>) -> Result<(Self, Option<NewKey>), KeyError> {
        let keys = Self::new(chosen);
        #[expect(clippy::redundant_closure_for_method_calls, reason = "the method itself fits one lifetime only")]
        let rows = store.read(|reader| reader.keys()).await?;
        let is_first = rows.is_empty() && chosen.is_none();
        for row in rows.iter().filter(|row| row.revoked_at.is_none()) {
            match known(row) {
                Some(key) => keys.add(key),
                None => tracing::warn!(key = row.id, "a key of the store cannot be read and is not valid"),
            }
        }
        let first = if is_first { Some(keys.create(store, "first", Grant::of(Scopes::ALL)).await?) } else { None };
        Ok((keys, first))
    }

    /// Makes a key that is valid once it is durable.
    ///
    /// # Errors
    /// [`KeyError`].
    pub async fn create(&self, store: &Store, name: &str, grant: Grant) -> Result<NewKey, KeyError> {
        let (secret, key) = make(&new_id()?, grant)?;
        let Grant { scopes, profiles, limits } = &key.grant;
        let row = store::Key {
            id: key.id.to_string(),
            name: name.into(),
            hash: to_hex(&key.hash),
            scopes: serde_json::json!(scopes.names()).to_string(),
            profiles: serde_json::json!(profiles).to_string(),
            limits: serde_json::json!(limits).to_string(),
            created_at: Stamp::now().0,
            last_used_at: None,
            revoked_at: None,
        };
        store.commit(vec![Change::Key(row.clone())]).await?;
        self.add(key);
        Ok(NewKey { row, secret })
    }

    /// Makes a key of the store invalid for ever: at once, whatever the disk does, then on the disk too. `None` if there is
    /// no such key.
    ///
    /// # Errors
    /// [`KeyError`].
    pub async fn revoke(&self, store: &Store, id: &str) -> Result<Option<store::Key>, KeyError> {
        if id == LOCAL || id.starts_with(WORKER) {
            return Ok(None);
        }
        self.remove(id);
        let wanted = id.to_owned();
        let row = store.read(move |reader| reader.key(&wanted)).await;
        let row = match row.map_err(|error| KeyError::Unrevoked(error.into()))? {
            Some(row) if row.revoked_at.is_none() => store::Key { revoked_at: Some(Stamp::now().0), ..row },
            gone => return Ok(gone),
        };
        let written = store.commit(vec![Change::Key(row.clone())]).await;
        written.map(|()| Some(row)).map_err(|error| KeyError::Unrevoked(error.into()))
    }
}

/// What cannot be read is not taken for a key without limits.
fn known(row: &store::Key) -> Option<Known> {
    Some(Known::new(&row.id, from_hex(&row.hash)?, grant(row)?))
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
