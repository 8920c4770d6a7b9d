//! `/api/keys`: which keys there are, making one and revoking one. The text of a key is told once, to whoever makes it.

use std::sync::Arc;

use approvals::Stamp;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};

use crate::Desk;
use crate::body::Posted;
use crate::error::{Code, Error};
use crate::key_store::{KeyError, RevokedKey, grant};
use crate::keys::{Caller, Grant, KeyLimits, KeyOrigin, Scope, Scopes};

/// How long the name of a key may be.
const NAME_CHARS_MAX: usize = 100;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    name: String,
    scopes: Option<Vec<String>>,
    profiles: Option<Vec<Box<str>>>,
    #[serde(default)]
    limits: KeyLimits,
}

#[derive(Serialize)]
pub(crate) struct Listed {
    keys: Vec<KeyView>,
}

/// A key as an operator sees it.
#[derive(Serialize)]
pub(crate) struct KeyView {
    id: Arc<str>,
    name: String,
    scopes: Vec<&'static str>,
    /// `null` is every one.
    profiles: Option<Arc<[Box<str>]>>,
    limits: KeyLimits,
    /// The key that created it; `null` for the first key and those of the command line.
    parent: Option<Arc<str>>,
    /// The key as whose own its requests count.
    principal: Arc<str>,
    created_at: Stamp,
    revoked_at: Option<Stamp>,
}

/// A key as whoever makes it sees it.
#[derive(Serialize)]
pub(crate) struct Made {
    #[serde(flatten)]
    view: KeyView,
    /// The key itself, which is nowhere else.
    secret: String,
}

/// A key that is not valid any more, and what went with it.
#[derive(Serialize)]
pub(crate) struct Revoked {
    #[serde(flatten)]
    view: KeyView,
    /// The ids of the keys that it created, which are not valid either.
    descendants: Vec<Arc<str>>,
}

/// All of the store, revoked ones too, the oldest first. Without `operate`, a key sees itself and its descendants.
pub(crate) async fn list(State(desk): State<Arc<Desk>>, caller: Caller) -> Result<Json<Listed>, Error> {
    #[expect(clippy::redundant_closure_for_method_calls, reason = "the method itself fits one lifetime only")]
    let rows = desk.store.read(|reader| reader.keys()).await?;
    let shown = rows.into_iter().filter(|row| reaches(&desk, &caller, &row.id));
    Ok(Json(Listed { keys: shown.map(|row| view(&desk, row)).collect() }))
}

/// Whether the caller may see and revoke this key.
fn reaches(desk: &Desk, caller: &Caller, id: &str) -> bool {
    caller.scopes.has(Scope::Operate) || desk.guard.keys().descends(id, &caller.key)
}

pub(crate) async fn make(
    State(desk): State<Arc<Desk>>,
    caller: Caller,
    Posted(wanted, _memory): Posted<Wanted>,
) -> Result<Response, Error> {
    let name = name(&wanted.name)?;
    let scopes = scopes(wanted.scopes, &caller)?;
    let profiles = profiles(wanted.profiles, &desk, &caller)?;
    let granted = Grant { scopes, profiles, limits: limits(wanted.limits, &caller)? };
    let made = desk.guard.keys().create_for(&desk.store, name, granted, &caller).await?;
    tracing::info!(key = made.row.id, by = &*caller.key, "a key was made");
    let made = Made { secret: made.secret.reveal().into(), view: view(&desk, made.row) };
    // The secret must not stay in anybody's cache.
    Ok((StatusCode::CREATED, [(header::CACHE_CONTROL, "no-store")], Json(made)).into_response())
}

pub(crate) async fn revoke(
    State(desk): State<Arc<Desk>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Revoked>, Error> {
    let missing = || Error::new(Code::KeyNotFound, format!("there is no key {id:?} that can be revoked"));
    if !reaches(&desk, &caller, &id) {
        return Err(missing());
    }
    let keys = desk.guard.keys();
    let revoked = keys.revoke(&desk.store, &id).await;
    // One that cannot be kept revoked is so all the same until the next start.
    if !matches!(revoked, Ok(None)) {
        for id in std::iter::once(Arc::from(&*id)).chain(keys.descendants(&id)) {
            desk.pool.cancel_unread(&id);
            desk.mcp.end_of(&id);
        }
    }
    let RevokedKey { row, descendants } = revoked?.ok_or_else(missing)?;
    tracing::info!(key = id, by = &*caller.key, descendants = descendants.len(), "a key was revoked");
    Ok(Json(Revoked { view: view(&desk, row), descendants }))
}

fn name(text: &str) -> Result<&str, Error> {
    let text = text.trim();
    if text.is_empty() || text.chars().count() > NAME_CHARS_MAX {
        return Err(Error::new(Code::InvalidValue, format!("`name` must have 1 to {NAME_CHARS_MAX} characters")));
    }
    Ok(text)
}

/// Nobody gives what it does not have.
fn scopes(wanted: Option<Vec<String>>, caller: &Caller) -> Result<Scopes, Error> {
    let wanted = wanted.unwrap_or_else(|| vec![Scope::Use.name().into()]);
    let unknown = |name: &str| {
        let names = Scopes::ALL.names().join(", ");
        Error::new(Code::InvalidValue, format!("`scopes`: there is no scope {name:?}; there are: {names}"))
    };
    let scopes = wanted.iter().map(|name| Scope::named(name).ok_or_else(|| unknown(name)));
    let scopes: Vec<Scope> = scopes.collect::<Result<_, _>>()?;
    if scopes.is_empty() {
        return Err(Error::new(Code::InvalidValue, "`scopes`: a key without any would be of no use"));
    }
    match scopes.iter().find(|scope| !caller.scopes.has(**scope)) {
        Some(scope) => Err(Error::new(
            Code::ScopeMissing,
            format!("this key lacks the scope `{}` and cannot give it; use a key that has it", scope.name()),
        )),
        None => Ok(Scopes::of(&scopes)),
    }
}

/// A limit that is left out is the caller's own.
fn limits(wanted: KeyLimits, caller: &Caller) -> Result<KeyLimits, Error> {
    caller.limits.inherited_by(wanted).map_err(|limit| {
        Error::new(
            Code::InvalidValue,
            format!("`limits.{limit}` is above this key's own, which the new key counts against: choose a lower one"),
        )
    })
}

fn profiles(wanted: Option<Vec<Box<str>>>, desk: &Desk, caller: &Caller) -> Result<Option<Arc<[Box<str>]>>, Error> {
    let Some(wanted) = wanted else {
        return Ok(caller.profiles.clone());
    };
    let names: Vec<_> = desk.profiles.iter().map(|profile| &*profile.name).collect();
    if wanted.is_empty() {
        return Err(Error::new(Code::InvalidValue, "`profiles`: name at least one, or leave it out for every one"));
    }
    if let Some(unknown) = wanted.iter().find(|name| !names.contains(&&***name)) {
        let names = names.join(", ");
        return Err(Error::new(
            Code::InvalidValue,
            format!("`profiles`: there is no profile {unknown:?}; there are: {names}"),
        ));
    }
    wanted.iter().try_for_each(|name| caller.check_profile(name))?;
    Ok(Some(wanted.into()))
}

fn view(desk: &Desk, row: store::Key) -> KeyView {
    // What cannot be read is no valid key either.
    let Grant { scopes, profiles, limits } = grant(&row).unwrap_or(Grant::of(Scopes::of(&[])));
    let (id, origin) = (Arc::<str>::from(&*row.id), desk.guard.keys().origin(&row.id));
    let KeyOrigin { parent, principal } = origin.unwrap_or_else(|| KeyOrigin::root(&id));
    KeyView {
        id,
        name: row.name,
        scopes: scopes.names(),
        profiles,
        limits,
        parent,
        principal,
        created_at: Stamp(row.created_at),
        revoked_at: row.revoked_at.map(Stamp),
    }
}

impl From<KeyError> for Error {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::Read(error) => error.into(),
            KeyError::Write(error) => {
                Self::new(Code::StoreUnavailable, "the key cannot be kept, so none was made; see /healthz")
                    .caused_by(error)
            }
            KeyError::Unrevoked(error) => Self::new(
                Code::StoreUnavailable,
                "the key is not valid any more, but that cannot be kept: revoke it again before the next start; see /healthz",
            )
            .caused_by(error),
            KeyError::NoRandomness(_) => Self::new(Code::Internal, error.to_string()),
            KeyError::TooDeep => Self::new(Code::InvalidValue, error.to_string()),
            KeyError::CreatorRevoked => Self::new(Code::KeyInvalid, error.to_string()),
        }
    }
}
