//! `/api/approvals`: what waits for a decision, and deciding it. A decision brings back the hash of what was shown.
//! A decision link shows with GET what it would decide and decides with POST alone: programs open links by themselves.

use std::sync::Arc;

use approvals::{DecideError, Decided, Filter, LinkError, ListOrder, Person, Powers, Stamp, Step, Verdict, View};
use axum::Json;
use axum::extract::{Path, State};
use serde::{Deserialize, Serialize};
use store::ApprovalState;

use super::{Asked, rows_max};
use crate::Desk;
use crate::body::Posted;
use crate::error::{Code, Error};
use crate::keys::{Caller, Scope};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    state: Option<String>,
    group: Option<String>,
    worker: Option<String>,
    thread: Option<String>,
    order: Option<String>,
    before: Option<String>,
    after: Option<String>,
    limit: Option<u32>,
}

#[derive(Serialize)]
pub(crate) struct Listed {
    approvals: Vec<View>,
    /// What `before` of the next page is, or `after` if the oldest come first; `null` after the last.
    next: Option<String>,
    /// How many there are on all pages.
    total: u32,
}

#[derive(Serialize)]
pub(crate) struct Shown {
    #[serde(flatten)]
    approval: View,
    /// Every step it has taken.
    history: Vec<Step>,
}

/// A verdict, and what it is about.
#[derive(Deserialize)]
pub(crate) struct Decision {
    shown_hash: String,
    #[serde(flatten)]
    verdict: Verdict,
}

#[derive(Serialize)]
pub(crate) struct Outcome {
    verdict: &'static str,
    reason: Option<String>,
    #[serde(flatten)]
    by: approvals::By,
    at: Stamp,
}

/// What a link would decide.
#[derive(Serialize)]
pub(crate) struct Link {
    verdict: &'static str,
    approval: View,
}

pub(crate) async fn list(State(desk): State<Arc<Desk>>, Asked(wanted): Asked<Wanted>) -> Result<Json<Listed>, Error> {
    let rows_max = rows_max(wanted.limit)?;
    let filter = Filter {
        state: wanted.state.as_deref().map(state_named).transpose()?,
        group: wanted.group,
        worker: wanted.worker,
        thread: wanted.thread,
        order: order_named(wanted.order.as_deref())?,
        before: wanted.before,
        after: wanted.after,
        // One more than a page holds tells whether there is another.
        rows_max: Some(rows_max + 1),
        ..Filter::default()
    };
    let total = desk.approvals.count(filter.clone()).await?;
    let mut approvals = desk.approvals.list(filter).await?;
    let is_more = approvals.len() > rows_max as usize;
    approvals.truncate(rows_max as usize);
    let next = approvals.last().filter(|_| is_more).map(|approval| approval.id.clone());
    Ok(Json(Listed { approvals, next, total }))
}

pub(crate) async fn get(State(desk): State<Arc<Desk>>, Path(id): Path<String>) -> Result<Json<Shown>, Error> {
    let approval = desk.approvals.get(&id).await?.ok_or(DecideError::NotFound)?;
    let history = desk.approvals.history(&id).await?;
    Ok(Json(Shown { approval, history }))
}

pub(crate) async fn decide(
    State(desk): State<Arc<Desk>>,
    caller: Caller,
    Path(id): Path<String>,
    Posted(decision, _memory): Posted<Decision>,
) -> Result<Json<Outcome>, Error> {
    let powers = Powers {
        for_session: caller.scopes.has(Scope::ForSession),
        own_turns: caller.scopes.has(Scope::OwnTurns),
        operator: caller.scopes.has(Scope::Operate),
    };
    let asker = desk.approvals.get(&id).await?.and_then(|approval| approval.key);
    // Whoever could create a second key could decide with it what it asked with the first.
    let is_own = |asker: &String| desk.guard.keys().is_same_principal(asker, &caller.key);
    let key = asker.filter(is_own).unwrap_or_else(|| caller.key.to_string());
    let person = Person { name: format!("key {}", caller.key), key: Some(key), powers };
    let decided = desk.approvals.decide(&id, &decision.shown_hash, decision.verdict, person).await?;
    Ok(Json(decided.into()))
}

pub(crate) async fn read_link(State(desk): State<Arc<Desk>>, Path(token): Path<String>) -> Result<Json<Link>, Error> {
    let link = desk.approvals.read_token(&token).await?;
    Ok(Json(Link { verdict: link.verdict.name(), approval: link.approval }))
}

pub(crate) async fn use_link(State(desk): State<Arc<Desk>>, Path(token): Path<String>) -> Result<Json<Outcome>, Error> {
    Ok(Json(desk.approvals.decide_by_token(&token).await?.into()))
}

fn order_named(name: Option<&str>) -> Result<ListOrder, Error> {
    match name {
        None | Some("desc") => Ok(ListOrder::NewestFirst),
        Some("asc") => Ok(ListOrder::OldestFirst),
        Some(_) => Err(Error::new(Code::InvalidValue, "`order` must be asc or desc")),
    }
}

fn state_named(name: &str) -> Result<ApprovalState, Error> {
    ApprovalState::ALL.iter().find(|state| state.as_str() == name).copied().ok_or_else(|| {
        let names: Vec<_> = ApprovalState::ALL.iter().map(|state| state.as_str()).collect();
        Error::new(Code::InvalidValue, format!("`state` must be one of {}", names.join(", ")))
    })
}

impl From<Decided> for Outcome {
    fn from(decided: Decided) -> Self {
        let Decided { verdict, by, at } = decided;
        Self { reason: verdict.reason().map(str::to_owned), verdict: verdict.name(), by, at }
    }
}

impl From<DecideError> for Error {
    fn from(error: DecideError) -> Self {
        let message = error.to_string();
        match error {
            DecideError::NotFound => Self::new(Code::ApprovalNotFound, message),
            DecideError::AlreadyDecided { .. } => Self::new(Code::ApprovalDecided, message),
            DecideError::ShownChanged => Self::new(Code::ApprovalChanged, message),
            DecideError::NotOffered(_) => Self::new(Code::VerdictNotOffered, message),
            DecideError::NotAllowed(_) | DecideError::LiftsRestrictions => Self::new(Code::ScopeMissing, message),
            DecideError::TooLarge { .. } => Self::new(Code::BodyTooLarge, message),
            DecideError::Store(_) | DecideError::Read(_) => Self::new(
                Code::StoreUnavailable,
                "the decision could not be recorded and does not stand; see /healthz, then decide again",
            )
            .caused_by(message),
            DecideError::Closed => Self::new(Code::Draining, "this server is stopping; decide again when it is back"),
        }
    }
}

impl From<LinkError> for Error {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::Token(error) => Self::new(Code::LinkNotValid, error.to_string()),
            LinkError::Decide(error) => error.into(),
        }
    }
}
