//! `/v1/models`: what callers can name as their model.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use serde::Serialize;
use workers::{GroupView, Profile};

use crate::Desk;
use crate::error::{Code, Error};
use crate::keys::Caller;
use crate::openai::models::{self, Chosen, Model};

/// How soon to come back when no worker is there yet.
const WORKER_RETRY: Duration = Duration::from_secs(2);

/// What a model's name means, held.
pub(crate) struct Meaning {
    pub profile: Profile,
    model: Option<Box<str>>,
    effort: Option<Box<str>>,
}

impl Meaning {
    /// The same without an agent around the model.
    pub(crate) fn as_plain(&self) -> Self {
        let profile = Profile { is_plain: true, ..self.profile.clone() };
        Self { profile, model: self.model.clone(), effort: self.effort.clone() }
    }

    pub(crate) fn as_ref(&self) -> Chosen<'_> {
        Chosen { profile: &self.profile, model: self.model.as_deref(), effort: self.effort.as_deref() }
    }
}

impl From<Chosen<'_>> for Meaning {
    fn from(chosen: Chosen<'_>) -> Self {
        Self {
            profile: chosen.profile.clone(),
            model: chosen.model.map(Into::into),
            effort: chosen.effort.map(Into::into),
        }
    }
}

#[derive(Serialize)]
pub(crate) struct Listed {
    object: &'static str,
    data: Vec<Model>,
}

pub(crate) async fn list(State(desk): State<Arc<Desk>>, caller: Caller) -> Json<Listed> {
    Json(Listed { object: "list", data: all(&desk, &caller).await })
}

pub(crate) async fn get(
    State(desk): State<Arc<Desk>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Model>, Error> {
    let chosen = choose(&desk, &caller, &id).await?;
    let of_name = chosen.model.as_deref().unwrap_or(&chosen.profile.name);
    let model = all(&desk, &caller).await.into_iter().find(|model| *model.id == *of_name);
    model.map(|model| Json(Model { id: id.as_str().into(), ..model })).ok_or_else(|| not_found(&id))
}

/// What a caller means by a model's name, if it may use that.
pub(crate) async fn choose(desk: &Desk, caller: &Caller, name: &str) -> Result<Meaning, Error> {
    let of_profiles = models::choose(name, &desk.profiles, &[]).map(Meaning::from);
    let chosen = match of_profiles {
        Some(chosen) => Some(chosen),
        None => models::choose(name, &desk.profiles, &of_workers(desk).await).map(Meaning::from),
    };
    let chosen = chosen.ok_or_else(|| missing(desk, name))?;
    if caller.may_use_profile(&chosen.profile.name) {
        Ok(chosen)
    } else {
        let profile = &chosen.profile.name;
        let why = format!(
            "this key may not use the profile {profile:?}, which {name:?} runs with; GET /v1/models lists what it may"
        );
        Err(Error::new(Code::ProfileRefused, why).about("model"))
    }
}

async fn all(desk: &Desk, caller: &Caller) -> Vec<Model> {
    let may_use = |profile: &&Profile| caller.may_use_profile(&profile.name);
    let models = match desk.profiles.first() {
        Some(default) if may_use(&default) => of_workers(desk).await,
        _ => Vec::new(),
    };
    models::list(desk.profiles.iter().filter(may_use), &models, desk.started)
}

/// Those of the workers behind the default profile.
async fn of_workers(desk: &Desk) -> Vec<Box<str>> {
    let group = desk.profiles.first().and_then(|profile| profile.group.as_deref());
    desk.pool.models(group).await.into_iter().map(|model| model.id).collect()
}

/// Which models the workers have is not known before one is there.
fn missing(desk: &Desk, name: &str) -> Error {
    let group = desk.profiles.first().and_then(|profile| profile.group.as_deref());
    let groups = desk.pool.readiness();
    let is_meant = |view: &&GroupView| group.is_none_or(|group| *view.name == *group);
    match groups.iter().find(is_meant) {
        Some(view) if !view.is_ready => {
            let why = format!("no worker is there yet that could know the model {name:?}; try again soon");
            Error::new(Code::NotReady, why).about("model").retry_after(WORKER_RETRY)
        }
        _ => not_found(name),
    }
}

fn not_found(name: &str) -> Error {
    Error::new(Code::ModelNotFound, format!("there is no model {name:?}; GET /v1/models lists them")).about("model")
}
