//! `/api/turns`: starting a turn, reading what it says, interrupting and steering it.

use std::collections::BTreeMap;
use std::path::{Component, Path};
use std::sync::Arc;
use std::time::Duration;

use approvals::Stamp;
use axum::Json;
use axum::extract::{Path as Named, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use codex::{CallError, Input, ThreadOptions, Trap, TurnOptions};
use serde::{Deserialize, Serialize};
use workers::{Afterwards, NotConfinable, Order, Profile, Refused, ThreadChoice, TurnPermit, TurnView, input_tokens};

use super::cursor;
use crate::Desk;
use crate::body::Posted;
use crate::error::{Code, Error};
use crate::hide_paths::hide_paths;
use crate::keys::{Caller, Scope};
use crate::metrics::group_of;
use crate::quota::{Claim, Permit};
use crate::ring::Cursor;
use crate::sse::Reader;
use crate::turns::{Followed, TurnSummary, WishError};

/// How soon to come back to what is only busy for the moment.
const BUSY_RETRY: Duration = Duration::from_secs(1);

/// How soon to come back to a server that is stopping: about what a restart takes.
const DRAINING_RETRY: Duration = Duration::from_secs(5);
/// The worker's codes for calls that it cannot take, such as one with a prompt that is too long, or with a reserved name.
const BAD_CALLS: [i64; 2] = [-32602, -32600];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    prompt: Option<String>,
    input: Option<Vec<Part>>,
    profile: Option<String>,
    group: Option<String>,
    thread: Option<String>,
    cwd: Option<String>,
    model: Option<String>,
    effort: Option<String>,
}

/// One part of what is said. Files are not among them: a caller must not make the worker read what it could not.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum Part {
    Text { text: String },
    Image { url: String },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Said {
    prompt: Option<String>,
    input: Option<Vec<Part>>,
}

#[derive(Serialize)]
pub(crate) struct Started {
    turn: Arc<str>,
    thread: Arc<str>,
    worker: Arc<str>,
    /// Where its events are.
    events: String,
}

#[derive(Serialize)]
pub(crate) struct Listed {
    turns: Vec<TurnSummary>,
}

#[derive(Serialize)]
pub(crate) struct Passed {
    turn: Arc<str>,
}

pub(crate) async fn start(
    State(desk): State<Arc<Desk>>,
    caller: Caller,
    Posted(wanted, memory): Posted<Wanted>,
) -> Result<Response, Error> {
    let known = match &wanted.thread {
        Some(thread) => known(&desk, thread).await?,
        None => None,
    };
    let order = order(wanted, known, &desk.profiles, &caller)?;
    let permit = desk.quotas.admit(&caller, Claim::turns(1, input_tokens(&order.turn.input))).await?;
    let left = permit.headers();
    let turn = desk.pool.start_turn(Order { permit: permit.turn(), memory: Some(Arc::new(memory)), ..order }).await?;
    let at = desk.turns.follow(turn, Some(permit)).at.clone();
    let events = format!("/api/turns/{}/events", at.turn);
    let location = [(header::LOCATION, format!("/api/turns/{}", at.turn))];
    let started = Started { turn: at.turn, thread: at.thread, worker: at.worker, events };
    let mut response = (StatusCode::CREATED, location, Json(started)).into_response();
    response.headers_mut().extend(left);
    Ok(response)
}

/// Those that can be read, and those that others run; the newest first.
pub(crate) async fn list(State(desk): State<Arc<Desk>>, caller: Caller) -> Json<Listed> {
    let held = desk.pool.turns();
    let mut turns: BTreeMap<Arc<str>, TurnSummary> = BTreeMap::new();
    turns.extend(held.iter().filter_map(summary_of).map(|turn| (Arc::clone(&turn.turn), turn)));
    for read in desk.turns.all() {
        let is_found_again = read.is_over() && turns.get(&read.at.turn).is_some_and(TurnSummary::is_parked);
        if !is_found_again {
            turns.insert(Arc::clone(&read.at.turn), read.summary());
        }
    }
    let orderer = caller.orderer();
    let reached = turns.into_values().rev().filter(|turn| orderer.reaches(&turn.key));
    Json(Listed { turns: reached.collect() })
}

pub(crate) async fn get(
    State(desk): State<Arc<Desk>>,
    caller: Caller,
    Named(turn): Named<String>,
) -> Result<Json<TurnSummary>, Error> {
    let read = find(&desk, &caller, &turn).map(|followed| followed.summary());
    let held = desk.pool.turns();
    let mut summaries = held.iter().filter_map(summary_of);
    let held = summaries.find(|held| *held.turn == *turn && caller.orderer().reaches(&held.key));
    match (read, held) {
        (Ok(read), Some(held)) if read.ended_at.is_some() && held.is_parked() => Ok(Json(held)),
        (Ok(read), _) => Ok(Json(read)),
        (Err(missing), held) => held.map(Json).ok_or(missing),
    }
}

/// From the beginning, or after the `Last-Event-ID`.
pub(crate) async fn events(
    State(desk): State<Arc<Desk>>,
    caller: Caller,
    Named(turn): Named<String>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let log = Arc::clone(&find_or_claim(&desk, &caller, &turn).await?.log);
    let cursor = cursor(&headers, &log, Cursor::After(0))?;
    let reader =
        Reader { log, cursor, heartbeat: desk.heartbeat, revocation: caller.revocation, counted: desk.count_reader() };
    Ok(reader.into_response())
}

pub(crate) async fn interrupt(
    State(desk): State<Arc<Desk>>,
    caller: Caller,
    Named(turn): Named<String>,
) -> Result<Json<Passed>, Error> {
    if !desk.pool.waiting_calls(&turn).is_empty()
        && let Some(parked) = desk.pool.parked_turn(&turn, &caller.orderer())
    {
        let turn = Arc::clone(&parked.at().turn);
        parked.cancel();
        return Ok(Json(Passed { turn }));
    }
    if desk.responses.cancel_turn(&turn, &caller.orderer()) {
        return Ok(Json(Passed { turn: turn.into() }));
    }
    match find_or_claim(&desk, &caller, &turn).await {
        Ok(followed) => followed.interrupt()?,
        // One whose reader went with an earlier run of the server has nobody else to end it.
        Err(error) => desk.pool.unread_turn(&turn, &caller.orderer()).await.ok_or(error)?.cancel(),
    }
    Ok(Json(Passed { turn: turn.into() }))
}

pub(crate) async fn steer(
    State(desk): State<Arc<Desk>>,
    caller: Caller,
    Named(turn): Named<String>,
    Posted(said, memory): Posted<Said>,
) -> Result<Json<Passed>, Error> {
    let input = input(said.prompt, said.input)?;
    let followed = find_or_claim(&desk, &caller, &turn).await?;
    desk.quotas.admit(&caller, Claim::beside_a_turn()).await?;
    followed.steer(input, memory).await?;
    Ok(Json(Passed { turn: Arc::clone(&followed.at.turn) }))
}

fn find(desk: &Desk, caller: &Caller, turn: &str) -> Result<Arc<Followed>, Error> {
    let found = desk.turns.find(turn).filter(|followed| caller.orderer().reaches(&followed.at.key));
    found.ok_or_else(|| missing(desk, caller, turn))
}

/// A parked turn that nobody reads, such as one of an earlier run, is taken over by the first who asks for it. So is one
/// that was told to be lost with the connection to its worker, and then found again.
async fn find_or_claim(desk: &Desk, caller: &Caller, turn: &str) -> Result<Arc<Followed>, Error> {
    let found = find(desk, caller, turn);
    if found.as_ref().is_ok_and(|followed| !followed.is_over()) {
        return found;
    }
    // One that waits for its caller's tools is part of a conversation, which goes on with their results.
    if !desk.pool.waiting_calls(turn).is_empty() {
        return Err(missing(desk, caller, turn));
    }
    let Some(mut parked) = desk.pool.parked_turn(turn, &caller.orderer()) else {
        return found;
    };
    // What it uses from here on counts, if the key that started it is valid still.
    let permit = match desk.guard.keys().owner(&parked.at().key) {
        Some(owner) => Some(desk.quotas.resume(&owner).await?),
        None => None,
    };
    parked.set_permit(permit.as_ref().map(Permit::turn).unwrap_or_default());
    Ok(desk.turns.follow(parked, permit))
}

/// A turn that is there, but is read by the caller whose request it answers.
fn missing(desk: &Desk, caller: &Caller, turn: &str) -> Error {
    let held = desk.pool.turns();
    let is_meant = |held: &&TurnView| held.turn.as_deref() == Some(turn) && caller.orderer().reaches(&held.key);
    match held.iter().find(is_meant) {
        Some(_) => Error::new(
            Code::TurnIsRead,
            format!("turn {turn:?} answers a chat request: its caller reads it, and stops it by leaving"),
        ),
        None => not_found(turn),
    }
}

fn not_found(turn: &str) -> Error {
    Error::new(Code::TurnNotFound, format!("there is no turn {turn:?} of yours that can be read; it may be forgotten"))
}

/// What is written down of a thread, whoever it belongs to.
async fn known(desk: &Desk, thread: &str) -> Result<Option<store::Thread>, Error> {
    let find = |id: String| desk.store.read(move |reader| reader.thread(&id));
    match find(thread.into()).await? {
        Some(known) => Ok(Some(known)),
        None => {
            // What was noted a moment ago may not be readable yet; if it cannot be written, it is not known.
            desk.store.flush().await.ok();
            Ok(find(thread.into()).await?)
        }
    }
}

/// A thread goes on as it began, unless its caller says otherwise.
fn order(wanted: Wanted, known: Option<store::Thread>, profiles: &[Profile], caller: &Caller) -> Result<Order, Error> {
    let began = known.as_ref().and_then(|known| known.profile.as_deref());
    let profile = profile_for(profiles, wanted.profile.as_deref().or(began), caller)?;
    admit_group(wanted.group.as_deref(), profile, caller)?;
    let own = profile.map(Profile::thread_options).unwrap_or_default();
    if let Some(cwd) = &wanted.cwd {
        admit_cwd(cwd, own.cwd.as_deref(), caller)?;
    }
    let (cwd, model) = known.map(|known| (known.cwd, known.model)).unwrap_or_default();
    let cwd = wanted.cwd.or(Some(cwd).filter(|cwd| !cwd.is_empty()));
    let model = wanted.model.clone().or(model);
    let options = ThreadOptions { cwd: cwd.or(own.cwd), model: model.or(own.model), ..own };
    let thread = match wanted.thread {
        Some(thread) => ThreadChoice::Existing(thread.into(), options),
        None => ThreadChoice::New(options),
    };
    let turn = TurnOptions {
        input: input(wanted.prompt, wanted.input)?,
        model: wanted.model,
        effort: wanted.effort.or_else(|| profile.and_then(|profile| profile.effort.clone())),
        ..TurnOptions::default()
    };
    Ok(Order {
        caller: caller.orderer(),
        group: wanted.group.map(Into::into).or_else(|| profile.and_then(|profile| profile.group.clone())),
        thread,
        after: None,
        history: Vec::new(),
        turn,
        afterwards: Afterwards::Stays,
        queue_timeout: None,
        decision_timeout: profile.and_then(|profile| profile.decision_timeout),
        profile: profile.map(|profile| profile.name.clone()),
        permit: TurnPermit::default(),
        memory: None,
    })
}

/// The profile of that name, else the first that the caller may use.
fn profile_for<'a>(profiles: &'a [Profile], name: Option<&str>, caller: &Caller) -> Result<Option<&'a Profile>, Error> {
    let Some(name) = name else {
        let first = profiles.iter().find(|profile| caller.may_use_profile(&profile.name));
        let none = || Error::new(Code::ProfileRefused, "none of the profiles that this key may use is there any more");
        return if first.is_none() && caller.profiles.is_some() { Err(none()) } else { Ok(first) };
    };
    let profile = profile_named(profiles, name)?;
    caller.check_profile(&profile.name)?;
    Ok(Some(profile))
}

/// Whoever may use some profiles only may not leave their workers either.
fn admit_group(group: Option<&str>, profile: Option<&Profile>, caller: &Caller) -> Result<(), Error> {
    let own = profile.and_then(|profile| profile.group.as_deref());
    if caller.profiles.is_none() || group.is_none() || group == own {
        return Ok(());
    }
    Err(Error::new(Code::ProfileRefused, "this key may use only the groups of its profiles; leave `group` out"))
}

/// A directory is what a sandbox lets an agent write to: only an operator may choose one beyond the profile's.
fn admit_cwd(cwd: &str, profiles: Option<&str>, caller: &Caller) -> Result<(), Error> {
    if !Path::new(cwd).is_absolute() {
        return Err(Error::new(Code::InvalidValue, "`cwd` must be an absolute path"));
    }
    if caller.scopes.has(Scope::Operate) {
        return Ok(());
    }
    // By its name alone: the pool looks at what the name leads to, whenever a thread is opened there.
    let is_plain = Path::new(cwd).components().all(|part| part != Component::ParentDir);
    if is_plain && profiles.is_some_and(|directory| Path::new(cwd).starts_with(directory)) {
        return Ok(());
    }
    Err(Error::new(Code::ScopeMissing, "`cwd` must lie in the directory of the profile; another needs `operate`"))
}

fn profile_named<'a>(profiles: &'a [Profile], name: &str) -> Result<&'a Profile, Error> {
    profiles.iter().find(|profile| *profile.name == *name).ok_or_else(|| {
        let names: Vec<_> = profiles.iter().map(|profile| &*profile.name).collect();
        Error::new(Code::InvalidValue, format!("there is no profile {name:?}; there are: {}", names.join(", ")))
    })
}

fn input(prompt: Option<String>, parts: Option<Vec<Part>>) -> Result<Vec<Input>, Error> {
    let input: Vec<_> = match (prompt, parts) {
        (Some(prompt), None) => vec![Input::Text(prompt)],
        (None, Some(parts)) => parts.into_iter().map(Input::from).collect(),
        _ => return Err(Error::new(Code::InvalidValue, "send either `prompt` (a text) or `input` (a list of parts)")),
    };
    let is_empty = |part: &Input| matches!(part, Input::Text(text) if text.trim().is_empty());
    if input.iter().all(is_empty) {
        return Err(Error::new(Code::InvalidValue, "there is nothing to say; send a text that is not empty"));
    }
    if input.iter().any(|part| matches!(part, Input::Image { url } if !url.starts_with("data:"))) {
        return Err(Error::new(
            Code::InvalidValue,
            "the `url` of an image must be a data URL (data:image/png;base64,…)",
        ));
    }
    Ok(input)
}

impl From<Part> for Input {
    fn from(part: Part) -> Self {
        match part {
            Part::Text { text } => Self::Text(text),
            Part::Image { url } => Self::Image { url },
        }
    }
}

/// A turn that has a place and a name, but is not read here.
fn summary_of(held: &TurnView) -> Option<TurnSummary> {
    let age_ms = i64::try_from(held.age_ms).unwrap_or(i64::MAX);
    Some(TurnSummary {
        turn: (**held.turn.as_ref()?).into(),
        thread: (**held.thread.as_ref()?).into(),
        group: group_of(&held.worker).into(),
        worker: (*held.worker).into(),
        key: (*held.key).into(),
        status: if held.is_parked { "parked" } else { "running" },
        error: None,
        started_at: Stamp(Stamp::now().0.saturating_sub(age_ms)),
        ended_at: None,
    })
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        let (message, may_have_run) = (refused.to_string(), refused.work_may_have_run());
        match refused {
            Refused::Busy { retry_after } => Self::new(Code::Busy, message).retry_after(retry_after),
            Refused::Draining => Self::new(Code::Draining, message).retry_after(DRAINING_RETRY),
            Refused::NoSuchGroup { .. } => Self::new(Code::InvalidValue, message),
            // The reason may quote what the worker wrote to stderr.
            Refused::NotReady { .. } => {
                let message = "no worker of the group runs; `switchboard workers` tells an operator why";
                Self::new(Code::NotReady, message).retry_after(DRAINING_RETRY)
            }
            Refused::NoSuchThread { .. } | Refused::MovedOn { .. } => Self::new(Code::ThreadNotFound, message),
            Refused::NotConfinable(
                NotConfinable::TooOld | NotConfinable::ViewImage | NotConfinable::RunsProjectConfig,
            ) => Self::new(Code::WorkerUnable, message),
            Refused::NotConfinable(NotConfinable::OtherGroup(_)) => Self::new(Code::ProfileRefused, message),
            // What a link leads to, and what the system says of it, is not for callers.
            Refused::NotConfinable(
                NotConfinable::Private(_) | NotConfinable::HoldsPrivate(_) | NotConfinable::Outside(_),
            ) => {
                let message = "the directory of the thread is outside of the profile's, or is Switchboard's own; choose another `cwd`";
                Self::new(Code::ScopeMissing, message).caused_by(refused)
            }
            Refused::NotConfinable(NotConfinable::Gone { .. } | NotConfinable::NotUtf8(_)) => {
                let message =
                    "the directory of the thread cannot be used: it is gone, or another one has taken its place";
                Self::new(Code::InvalidValue, message).caused_by(refused)
            }
            Refused::Worker(CallError::Busy(_)) => Self::new(Code::Busy, message).retry_after(BUSY_RETRY),
            Refused::Worker(error) if matches!(error.trap(), Some(Trap::NeverRan | Trap::NotLoaded)) => {
                Self::new(Code::ThreadNotFound, message)
            }
            Refused::Worker(CallError::Failed { ref error, .. }) if BAD_CALLS.contains(&error.code) => {
                Self::new(Code::InvalidValue, hide_paths(&message)).caused_by(refused)
            }
            Refused::Worker(CallError::Unable(_) | CallError::Experimental { .. }) => {
                Self::new(Code::WorkerUnable, message)
            }
            Refused::History(CallError::Unable(_)) => Self::new(Code::WorkerUnable, message),
            Refused::History(CallError::Failed { .. }) => {
                Self::new(Code::InvalidValue, hide_paths(&message)).caused_by(refused)
            }
            Refused::WorkerGone => Self::new(Code::WorkerExited, message).retry_after(BUSY_RETRY),
            Refused::Worker(_) if may_have_run => {
                let message = format!("{}; it may have begun to work", hide_paths(&message));
                Self::new(Code::WorkerFailed, message).caused_by(refused).after_work()
            }
            Refused::Worker(_) | Refused::History(_) => {
                Self::new(Code::WorkerFailed, hide_paths(&message)).caused_by(refused)
            }
        }
    }
}

impl From<WishError> for Error {
    fn from(error: WishError) -> Self {
        match error {
            WishError::Over => Self::new(Code::TurnOver, "the turn is over; start another on its thread"),
            WishError::TooMany => Self::new(Code::Busy, error.to_string()).retry_after(BUSY_RETRY),
            WishError::Worker(error) => Self::new(Code::WorkerFailed, hide_paths(&error.to_string())).caused_by(error),
        }
    }
}
