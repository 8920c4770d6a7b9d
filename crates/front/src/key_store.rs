//! Keys and the store: which there are at the start, and how one is made. The first start makes the first key.

use std::sync::Arc;

use approvals::Stamp;
use store::{Change, ReadError, Store, WriteError};

use crate::keys::{Keys, Known, NoRandomness, Scopes, Secret, from_hex, make, new_id, to_hex};

/// What a key's owner is shown once.
#[derive(Debug)]
pub struct NewKey {
    /// Its id.
    pub id: Arc<str>,
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
        let first = if is_first { Some(keys.create(store, "first", Scopes::ALL).await?) } else { None };
        Ok((keys, first))
    }

    /// Makes a key that is valid once it is durable.
    ///
    /// # Errors
    /// [`KeyError`].
    pub async fn create(&self, store: &Store, name: &str, scopes: Scopes) -> Result<NewKey, KeyError> {
        let (secret, key) = make(&new_id()?, scopes)?;
        let names: Vec<_> = scopes.to_string().split_whitespace().map(str::to_owned).collect();
        let row = store::Key {
            id: key.id.to_string(),
            name: name.into(),
            hash: to_hex(&key.hash),
            scopes: serde_json::json!(names).to_string(),
            profiles: "null".into(),
            limits: "null".into(),
            created_at: Stamp::now().0,
            last_used_at: None,
            revoked_at: None,
        };
        store.commit(vec![Change::Key(row)]).await?;
        let id = Arc::clone(&key.id);
        self.add(key);
        Ok(NewKey { id, secret })
    }
}

fn known(row: &store::Key) -> Option<Known> {
    let names: Vec<String> = serde_json::from_str(&row.scopes).ok()?;
    Some(Known { id: row.id.as_str().into(), hash: from_hex(&row.hash)?, scopes: Scopes::parse(&names.join(" "))? })
}
