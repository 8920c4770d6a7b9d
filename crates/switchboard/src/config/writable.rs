//! What agents may write to, and what of Switchboard's own must not lie in it: the configuration file, the state directory
//! and every `codex_home`. An agent that could change one of them would decide what the server runs, outside every sandbox.

mod resolved_path;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{env, fs, path};

use codex::Sandbox;
use tools::Reach;
use workers::Profile;

use super::problem::{Problem, Source};
use super::{Config, Group, Problems};
use crate::worker::Worker;
use resolved_path::ResolvedPath;

/// The directories up to this many names below the root, such as `/etc/ssl`, are shared by many programs.
const SHARED_DEPTH: usize = 3;

/// Writable in every workspace-write sandbox of Codex.
const SHARED_TEMPORARY: &str = "/tmp";

/// Agents that may write on one side, what they must not reach on the other.
#[derive(Debug)]
pub(crate) struct Boundaries {
    roots: Vec<WritableRoot>,
    own: Vec<PrivatePath>,
    programs: Vec<Program>,
    trusted: Vec<PathBuf>,
    full_access: Vec<FullAccess>,
    /// What agents must be able to reach.
    needed: Vec<PathBuf>,
    /// Whether there are agents: the demo worker runs nothing.
    runs_codex: bool,
}

/// A directory that the agents of a profile may write to.
#[derive(Debug)]
struct WritableRoot {
    profile: String,
    path: PathBuf,
    /// Why it is writable.
    reason: &'static str,
}

/// A profile without a sandbox.
#[derive(Debug)]
struct FullAccess {
    profile: String,
    is_accepted: bool,
}

/// A path of Switchboard's own.
#[derive(Debug)]
struct PrivatePath {
    /// What it is, with the key that moves it.
    name: String,
    moved_by: &'static str,
    path: PathBuf,
    kind: PrivateKind,
}

/// What a path of Switchboard's own leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PrivateKind {
    Directory,
    ConfigFile,
    TlsKey,
}

/// A file that is run outside every sandbox, or read by what is.
#[derive(Debug)]
struct Program {
    /// Whose it is.
    name: String,
    path: PathBuf,
}

impl Boundaries {
    /// The boundaries of a configuration that was, or would be, read from `file`.
    pub(crate) fn of(config: &Config, file: Option<&Path>) -> Self {
        let ours = env::var_os("TMPDIR").filter(|directory| !directory.is_empty()).map(PathBuf::from);
        let temporary: Vec<PathBuf> = [SHARED_TEMPORARY.into()].into_iter().chain(ours).collect();
        Self::with_temporary(config, file, &temporary)
    }

    /// Workers have our own `TMPDIR` or none, whether their group lists it in `env` or not.
    pub(super) fn with_temporary(config: &Config, file: Option<&Path>, temporary: &[PathBuf]) -> Self {
        let agents = || config.profiles.iter().filter(|profile| !profile.is_plain);
        let full_access = agents().filter(|profile| profile.sandbox == Sandbox::FullAccess);
        let full_access = full_access
            .map(|profile| FullAccess { profile: profile.name.to_string(), is_accepted: profile.allow_unconfined });
        let writing = agents().filter(|profile| profile.sandbox == Sandbox::WorkspaceWrite);
        Self {
            roots: writing.flat_map(|profile| roots_of(profile, &config.groups, temporary)).collect(),
            own: own_paths(config, file),
            programs: programs(config),
            trusted: agents().flat_map(|profile| profile.trusted_projects.clone()).collect(),
            full_access: full_access.collect(),
            needed: needed(config),
            runs_codex: config.groups.iter().any(|group| group.command != Worker::Demo),
        }
    }

    /// The paths that no agent may read or write. Of a file, its directory if nothing else is there: Codex hides a file by
    /// a mount upon it, and whoever replaces the file by renaming another takes the mount away.
    pub(crate) fn private_paths(&self) -> Vec<PathBuf> {
        self.own.iter().flat_map(|own| self.hidden(own)).collect()
    }

    fn hidden(&self, own: &PrivatePath) -> Vec<PathBuf> {
        // Both ends of a link: a certificate is renewed by leading it to another file.
        let real = own.path.canonicalize().unwrap_or_else(|_| own.path.clone());
        let hide = |path: &PathBuf| match path.parent() {
            Some(directory) if self.is_dedicated(directory, own.kind) => directory.to_owned(),
            _ => path.clone(),
        };
        [&own.path, &real].map(hide).into()
    }

    /// Whether agents lose nothing if they cannot see the directory of one of our files.
    fn is_dedicated(&self, directory: &Path, kind: PrivateKind) -> bool {
        let is_named_for_us =
            || directory.file_name().is_some_and(|name| name.to_string_lossy().contains("switchboard"));
        let is_deep = || directory.components().count() > SHARED_DEPTH;
        let real = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
        let is_needed = |path: &PathBuf| path.starts_with(directory) || path.starts_with(&real);
        let is_ours_alone = match kind {
            PrivateKind::Directory => false,
            PrivateKind::ConfigFile => is_named_for_us(),
            PrivateKind::TlsKey => is_named_for_us() || is_deep(),
        };
        is_ours_alone && !self.needed.iter().any(is_needed)
    }

    /// Warnings of files that can only be hidden by a mount upon them. They change only with a restart, unlike those of
    /// [`check`](Self::check).
    pub(crate) fn warnings_of_files(&self) -> impl Iterator<Item = String> {
        let is_beside_others = |own: &&PrivatePath| {
            let (hidden, real) = (self.hidden(own), own.path.canonicalize());
            let is_hidden_alone = hidden.contains(&own.path) || real.is_ok_and(|real| hidden.contains(&real));
            own.kind != PrivateKind::Directory && is_hidden_alone
        };
        let others = self.own.iter().filter(move |own| self.runs_codex && is_beside_others(own));
        others.map(|PrivatePath { name, moved_by, path, .. }| {
            format!(
                "{name} ({}) is in a directory that agents can read: one that runs while the file is replaced can read it; \
                 move it with {moved_by} to a directory whose name contains \"switchboard\", such as ~/.config/switchboard",
                path.display()
            )
        })
    }

    /// Follows all paths as they are now; returns warnings if nothing is exposed.
    pub(crate) fn check(&self) -> Result<Vec<String>, Problems> {
        let own: Vec<_> = self.own.iter().map(|own| (own, ResolvedPath::of(&own.path))).collect();
        let programs: Vec<_> = self.programs.iter().map(|program| (program, ResolvedPath::of(&program.path))).collect();
        let (mut problems, mut warnings) = (Vec::new(), Vec::new());
        for root in &self.roots {
            let resolved = ResolvedPath::of(&root.path);
            let exposed = own.iter().filter(|(_, own)| resolved_path::can_change(&resolved, own));
            problems.extend(exposed.map(|(own, resolved)| root.exposes(own, resolved.as_ref().err())));
            let exposed = programs.iter().filter(|(_, program)| resolved_path::can_change(&resolved, program));
            warnings.extend(exposed.map(|(program, _)| root.warning(program)));
            let exposed = self
                .trusted
                .iter()
                .filter(|project| resolved_path::can_change_below(&resolved, &ResolvedPath::of(project)));
            problems.extend(exposed.map(|project| root.exposes_trusted(project)));
        }
        let (accepted, refused): (Vec<_>, Vec<_>) = self.full_access.iter().partition(|full| full.is_accepted);
        problems.extend(refused.into_iter().map(FullAccess::refusal));
        if problems.is_empty() {
            warnings.extend(accepted.into_iter().map(FullAccess::warning));
            return Ok(warnings);
        }
        problems.dedup();
        Err(Problems(problems.into_iter().map(|what| Problem { source: Source::Default, what }).collect()))
    }
}

fn roots_of(profile: &Profile, groups: &[Group], temporary: &[PathBuf]) -> Vec<WritableRoot> {
    let group = match &profile.group {
        Some(name) => groups.iter().find(|group| *group.name == **name),
        None => groups.first(),
    };
    let configured = group.and_then(|group| group.codex_home.as_deref()).map(codex_writable_roots).unwrap_or_default();
    let root = |path: &Path, reason| WritableRoot {
        profile: profile.name.to_string(),
        // A root that cannot even be named resolves to nothing, and so contains everything.
        path: path::absolute(path).unwrap_or_default(),
        reason,
    };
    let cwd = profile.cwd.as_deref().map(|cwd| root(Path::new(cwd), "its `cwd`"));
    cwd.into_iter()
        .chain(temporary.iter().map(|directory| root(directory, "/tmp and TMPDIR are part of every workspace")))
        .chain(configured.iter().map(|path| root(path, "`writable_roots` in the config.toml of its codex_home")))
        .collect()
}

/// What Codex's own configuration adds to each workspace-write sandbox.
fn codex_writable_roots(codex_home: &Path) -> Vec<PathBuf> {
    let text = fs::read_to_string(codex_home.join("config.toml")).unwrap_or_default();
    // Codex itself reports a file that is not TOML.
    let table = text.parse::<toml::Table>().unwrap_or_default();
    let roots = table.get("sandbox_workspace_write").and_then(|section| section.get("writable_roots"));
    let roots = roots.and_then(toml::Value::as_array).map(Vec::as_slice).unwrap_or_default();
    roots.iter().filter_map(toml::Value::as_str).map(|root| codex_home.join(root)).collect()
}

fn own_paths(config: &Config, file: Option<&Path>) -> Vec<PrivatePath> {
    let own = |kind, name: String, moved_by, path: &Path| {
        let path = path::absolute(path).unwrap_or_default();
        PrivatePath { name, moved_by, path, kind }
    };
    let file = file.map(|file| own(PrivateKind::ConfigFile, "the configuration file".into(), "--config", file));
    let homes = config.groups.iter().filter(|group| group.command != Worker::Demo).filter_map(|group| {
        let name = format!("codex_home of the group {:?}", group.name);
        Some(own(PrivateKind::Directory, name, "codex_home", group.codex_home.as_deref()?))
    });
    // The demo worker's home lies in the state directory.
    let state = own(PrivateKind::Directory, "the state directory".into(), "state_dir", &config.state_dir);
    let tls_key =
        config.tls.as_ref().map(|tls| own(PrivateKind::TlsKey, "the TLS key".into(), "key of [tls]", &tls.key));
    file.into_iter().chain([state]).chain(tls_key).chain(homes).collect()
}

/// What agents and their workers need: a directory that holds one of these is not ours alone.
fn needed(config: &Config) -> Vec<PathBuf> {
    let of_profiles = config.profiles.iter().flat_map(|profile| {
        let listed = profile.readable.iter().chain(&profile.trusted_projects).cloned();
        listed.chain(profile.cwd.as_deref().map(PathBuf::from))
    });
    let of_groups = config.groups.iter().flat_map(|group| {
        let program = match &group.command {
            Worker::Codex(program) => Some(PathBuf::from(program)),
            _ => None,
        };
        [group.cwd.clone()].into_iter().chain(program)
    });
    of_profiles.chain(of_groups).map(|path| path.canonicalize().unwrap_or(path)).collect()
}

/// Every word of a command that names a file: the program itself, or a script that it reads.
fn programs(config: &Config) -> Vec<Program> {
    let mut programs = Vec::new();
    let mut add = |name: String, words: &[OsString], cwd: &Path| {
        let paths = words.iter().map(|word| cwd.join(word)).filter(|path| path.is_file());
        programs.extend(paths.map(|path| Program { name: name.clone(), path }));
    };
    for server in &config.tools {
        if let Reach::Process { command, cwd, .. } = &server.reach {
            add(format!("the tool server {:?}", server.name), command, cwd);
        }
    }
    for hook in &config.approvals.hooks {
        let words: Vec<OsString> = hook.command.iter().map(OsString::from).collect();
        add(format!("the hook {:?}", hook.name), &words, &hook.cwd);
    }
    for group in &config.groups {
        if let Worker::Codex(program) = &group.command {
            add(format!("the group {:?}", group.name), &[program.into()], Path::new("/"));
        }
    }
    programs
}

impl WritableRoot {
    fn warning(&self, program: &Program) -> String {
        let (Self { profile, path: root, .. }, Program { name, path }) = (self, program);
        format!(
            "profile \"{profile}\": {name} uses {}, which can be changed from inside {}: \
             its agents can decide what runs outside their sandbox",
            path.display(),
            root.display()
        )
    }

    fn exposes_trusted(&self, project: &Path) -> String {
        let Self { profile, path: root, .. } = self;
        format!(
            "profile \"{profile}\": the trusted project {} can be changed from inside {}, which its agents may write to, and Codex \
             runs outside their sandbox what its configuration says: list only directories that no agent can write to, or the `cwd` of \
             the profile itself, whose configuration Codex protects",
            project.display(),
            root.display()
        )
    }

    fn exposes(&self, own: &PrivatePath, error: Option<&std::io::Error>) -> String {
        let Self { profile, path: root, reason } = self;
        let PrivatePath { name, moved_by, path, .. } = own;
        let (root, path) = (root.display(), path.display());
        let inside = match error {
            Some(error) => format!("{name} ({path}) cannot be resolved ({error}) and counts as inside of"),
            None => format!("{name} ({path}) can be changed from inside"),
        };
        format!(
            "profile \"{profile}\": {inside} {root}, which its agents may write to ({reason}): \
             move it with {moved_by}, or change [profiles.{profile}]"
        )
    }
}

impl FullAccess {
    fn refusal(&self) -> String {
        let profile = &self.profile;
        format!(
            "profile \"{profile}\": danger-full-access lets its agents write wherever their user can, and move the directories above Switchboard's own files: \
             set `allow_unconfined = true` in [profiles.{profile}] to accept that, or choose another `sandbox`"
        )
    }

    fn warning(&self) -> String {
        format!(
            "agents of the profile \"{}\" are not confined: they can write wherever their user can, and move the directories above Switchboard's own files",
            self.profile
        )
    }
}

#[cfg(test)]
mod adversary;
