//! Which models there are: the profiles, and the models of the workers behind the default one. `:EFFORT` behind any of them says
//! how hard it is to think.

use serde::Serialize;
use workers::Profile;

/// A model as callers see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Model {
    pub id: Box<str>,
    pub object: &'static str,
    pub created: u64,
    pub owned_by: &'static str,
}

/// What a model's name means.
#[derive(Clone, Debug)]
pub(crate) struct Chosen<'a> {
    pub profile: &'a Profile,
    /// Another model than the profile's.
    pub model: Option<&'a str>,
    pub effort: Option<&'a str>,
}

/// What `name` means where there are these profiles and these models of workers.
pub(crate) fn choose<'a>(name: &'a str, profiles: &'a [Profile], models: &[Box<str>]) -> Option<Chosen<'a>> {
    let whole = (name, None);
    let split = name.rsplit_once(':').map(|(model, effort)| (model, Some(effort)));
    [Some(whole), split].into_iter().flatten().find_map(|(name, effort)| {
        if let Some(profile) = profiles.iter().find(|profile| *profile.name == *name) {
            return Some(Chosen { profile, model: None, effort });
        }
        let model = models.iter().any(|model| **model == *name).then_some(name)?;
        Some(Chosen { profile: profiles.first()?, model: Some(model), effort })
    })
}

/// All models, profiles first. One that hides another is listed once.
pub(crate) fn list<'a>(profiles: impl Iterator<Item = &'a Profile>, models: &[Box<str>], created: u64) -> Vec<Model> {
    let object = "model";
    let profiles = profiles.map(|profile| Model { id: profile.name.clone(), object, created, owned_by: "switchboard" });
    let mut list: Vec<_> = profiles.collect();
    for id in models {
        if !list.iter().any(|model| model.id == *id) {
            list.push(Model { id: id.clone(), object, created, owned_by: "codex" });
        }
    }
    list
}
