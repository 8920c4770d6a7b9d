//! What a thread's agent may read, write and load: pure, from the profile, the paths that are private to Switchboard, and
//! where the thread works.
//!
//! Workers since 0.145 enforce a permission profile, also after an approved escalation. Older ones only have a sandbox,
//! which lets commands read every file of their user: they serve operators, and profiles that accept it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use codex::abilities::{Abilities, Ability};
use codex::permissions::special;
use codex::{PathAccess, PermissionProfile, Sandbox, ThreadOptions};
use serde_json::{Value, json};

use crate::workspace::Workspace;

/// Everything that decides how a thread is confined.
pub(crate) struct Confinement<'a> {
    /// Paths that no agent may read or write. All paths are real: a link would make the worker's sandbox fail.
    pub(crate) private: &'a [PathBuf],
    /// The directory of the profile.
    pub(crate) base: &'a Path,
    /// If set, everything else is hidden, but for the workspace and the system's programs.
    pub(crate) readable: Option<&'a [PathBuf]>,
    /// What the worker itself needs to see where everything else is hidden.
    pub(crate) programs: &'a [PathBuf],
    /// Projects whose own configuration may be loaded.
    pub(crate) trusted: &'a [PathBuf],
    /// Whether commands may use the network.
    pub(crate) network: bool,
    /// What the worker can be relied on to enforce.
    pub(crate) worker: Enforcement,
    /// What follows if that is too little.
    pub(crate) if_unconfined: UnconfinedPolicy,
}

/// What becomes of a thread that its worker cannot confine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnconfinedPolicy {
    /// An operator asks for it, or the profile accepts it.
    Allow,
    /// It is refused.
    Refuse,
}

/// What a worker can be relied on to enforce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Enforcement {
    /// Permission profiles.
    Profiles,
    /// The same, but a plain model keeps a tool that reads images of the system.
    ProfilesWithViewImage,
    /// A sandbox for writes; everything can be read.
    WritesOnly,
    /// The same, and it runs commands that the project's configuration names.
    RunsProjectConfig,
}

impl Enforcement {
    pub(crate) fn of(abilities: &Abilities) -> Self {
        if abilities.has(Ability::PermissionProfiles) && abilities.always_offers_view_image() {
            Self::ProfilesWithViewImage
        } else if abilities.has(Ability::PermissionProfiles) {
            Self::Profiles
        } else if abilities.always_loads_project_config() {
            Self::RunsProjectConfig
        } else {
            Self::WritesOnly
        }
    }

    pub(crate) fn hides_private_paths(self) -> bool {
        matches!(self, Self::Profiles | Self::ProfilesWithViewImage)
    }
}

/// Why a thread is not opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotConfinable {
    /// The worker cannot keep an agent from reading Switchboard's own files.
    #[error(
        "this Codex is older than 0.145 and cannot confine agents: update it, use an operator's key, or set `allow_unconfined = true` in the profile"
    )]
    TooOld,
    /// The worker lets a plain model look at images of the system.
    #[error(
        "this Codex is older than 0.150 and lets plain models look at images of the machine: update it, use an operator's key, or set `allow_unconfined = true` in the profile"
    )]
    ViewImage,
    /// The worker runs what a workspace names.
    #[error(
        "this Codex runs commands from a workspace's own configuration, so that it serves read-only profiles alone: update it to 0.145 or newer"
    )]
    RunsProjectConfig,
    /// The directory is private, or inside of a private one.
    #[error("the directory {} is private to Switchboard: choose another `cwd`", .0.display())]
    Private(PathBuf),
    /// Something private is in the directory, which the agent may write to.
    #[error("the directory {} contains files that are private to Switchboard: choose another `cwd`, or a read-only profile", .0.display())]
    HoldsPrivate(PathBuf),
    /// A path that must be named to the worker cannot be written as JSON.
    #[error("the path {} is not UTF-8, so that it cannot be named to Codex: rename it", .0.display())]
    NotUtf8(PathBuf),
    /// The directory is not the profile's.
    #[error("the directory {} is outside the profile's `cwd`: only an operator may choose it", .0.display())]
    Outside(PathBuf),
    /// The profile runs on the workers of another group, which may have another user and other rights.
    #[error(
        "the profile does not run on the workers of the group {0:?}: leave `group` out, or use a profile of that group"
    )]
    OtherGroup(Box<str>),
    /// The directory is gone, or another one has taken its place.
    #[error("the directory {} of the thread cannot be used: {reason}", path.display())]
    Gone {
        /// The path.
        path: PathBuf,
        /// Why not.
        reason: Box<str>,
    },
}

impl Confinement<'_> {
    /// The options with which a thread is opened there, or why it is not.
    pub(crate) fn apply(
        &self,
        options: &ThreadOptions,
        workspace: &Workspace,
        instructions: Option<String>,
    ) -> Result<ThreadOptions, NotConfinable> {
        // A plain model sees no file, wherever it runs.
        if !options.is_plain && self.private.iter().any(|private| workspace.path.starts_with(private)) {
            return Err(NotConfinable::Private(workspace.path.clone()));
        }
        // An agent that may write above a private path can move it, and what is denied is a path.
        let root = self.root(workspace);
        let holds_private = || self.private.iter().any(|private| private.starts_with(root));
        if !options.is_plain && options.sandbox == Sandbox::WorkspaceWrite && holds_private() {
            return Err(NotConfinable::HoldsPrivate(root.into()));
        }
        if let Some(path) = self.private.iter().chain([&workspace.path]).find(|path| path.to_str().is_none()) {
            return Err(NotConfinable::NotUtf8(path.clone()));
        }
        let mut options = ThreadOptions { cwd: Some(text(&workspace.path)), ..options.clone() };
        // Both run turns that belong to no key: a goal after its turn has ended, a sub-agent in a thread of its own. No limit, no
        // revocation and no rule about one's own requests would apply to them.
        for feature in ["features.goals", "features.multi_agent"] {
            options.config.insert(feature.into(), false.into());
        }
        // By default Codex tries a model provider that it cannot connect to for ever. How often it tries one that answers stays
        // as the operator has configured it.
        options.config.insert("features.unbounded_connection_retries".into(), false.into());
        let trust = self.trust(workspace);
        options.config.insert("projects".into(), projects(workspace, trust));
        match self.worker {
            Enforcement::ProfilesWithViewImage
                if options.is_plain && self.if_unconfined == UnconfinedPolicy::Refuse =>
            {
                return Err(NotConfinable::ViewImage);
            }
            Enforcement::Profiles | Enforcement::ProfilesWithViewImage => {
                options.permissions = Some(self.permissions(&options, self.root(workspace)))
            }
            Enforcement::RunsProjectConfig if options.sandbox != Sandbox::ReadOnly => {
                return Err(NotConfinable::RunsProjectConfig);
            }
            Enforcement::WritesOnly | Enforcement::RunsProjectConfig => {
                return match self.if_unconfined {
                    UnconfinedPolicy::Allow => Ok(options),
                    UnconfinedPolicy::Refuse => Err(NotConfinable::TooOld),
                };
            }
        }
        if trust == Trust::Untrusted && !options.is_plain {
            withhold_project(&mut options, instructions);
        }
        Ok(options)
    }

    fn permissions(&self, options: &ThreadOptions, root: &Path) -> PermissionProfile {
        if options.is_plain {
            // A plain model has no reason to see any file.
            return PermissionProfile::default();
        }
        let mut paths = BTreeMap::new();
        let mut add = |path: &str, access| _ = paths.insert(path.to_owned(), access);
        match (options.sandbox, self.readable) {
            (Sandbox::FullAccess, _) => add(special::ROOT, PathAccess::Write),
            (Sandbox::ReadOnly | Sandbox::WorkspaceWrite, Some(readable)) => {
                add(special::MINIMAL, PathAccess::Read);
                add(
                    &text(root),
                    if options.sandbox == Sandbox::ReadOnly { PathAccess::Read } else { PathAccess::Write },
                );
                self.programs.iter().chain(readable).for_each(|path| add(&text(path), PathAccess::Read));
            }
            (Sandbox::ReadOnly, None) => add(special::ROOT, PathAccess::Read),
            (Sandbox::WorkspaceWrite, None) => {
                add(special::ROOT, PathAccess::Read);
                add(&text(root), PathAccess::Write);
                add(special::TMPDIR, PathAccess::Write);
                add(special::SLASH_TMP, PathAccess::Write);
            }
        }
        // The worker's sandbox fails every command if one denied path lies in another.
        let is_covered =
            |path: &PathBuf| path.ancestors().skip(1).any(|above| self.private.iter().any(|one| one == above));
        self.private.iter().filter(|path| !is_covered(path)).for_each(|path| add(&text(path), PathAccess::Deny));
        let network = self.network || options.sandbox == Sandbox::FullAccess;
        PermissionProfile { paths, network }
    }

    /// What the agent may use as its workspace: the whole directory of the profile, since a thread below it could have its own
    /// swapped for a link while it runs.
    fn root<'b>(&'b self, workspace: &'b Workspace) -> &'b Path {
        if workspace.path.starts_with(self.base) { self.base } else { &workspace.path }
    }

    /// Codex loads the configuration of every directory from the top of the project down to the thread's. An agent may have
    /// written that of a directory below a trusted one.
    fn trust(&self, workspace: &Workspace) -> Trust {
        let is_listed = |directory| self.trusted.contains(directory);
        let are_listed = is_listed(&workspace.project) && is_listed(&workspace.path);
        if are_listed { Trust::Trusted } else { Trust::Untrusted }
    }
}

/// Whether a project's own configuration is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    Trusted,
    Untrusted,
}

/// Every directory above the thread's is named: the worker looks for the top of the repository by rules of its own, and a
/// stray `.git` high up is enough to move it. A worker that is told nothing would trust the directory, for ever.
fn projects(workspace: &Workspace, trust: Trust) -> Value {
    let level = |directory: &Path| match trust {
        Trust::Trusted if directory.starts_with(&workspace.project) => json!({ "trust_level": "trusted" }),
        Trust::Trusted | Trust::Untrusted => json!({ "trust_level": "untrusted" }),
    };
    workspace.path.ancestors().map(|directory| (text(directory), level(directory))).collect()
}

/// Keeps what the project brings from the agent: its skills, and its instructions as the worker would read them, behind any
/// link. The instructions are passed on by us instead.
fn withhold_project(options: &mut ThreadOptions, instructions: Option<String>) {
    options.config.insert("project_doc_max_bytes".into(), 0.into());
    options.config.insert("skills.include_instructions".into(), false.into());
    // The caller has the last word: the project may be hostile.
    let all: Vec<String> = instructions.into_iter().chain(options.developer_instructions.take()).collect();
    options.developer_instructions = (!all.is_empty()).then(|| all.join("\n\n"));
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests;
