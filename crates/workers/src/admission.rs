//! Which directory a thread works in, checked before every turn, and how the thread is confined when it is opened.

use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use codex::{Client, ThreadOptions};
use rustix::process::geteuid;
use supervise::OsUser;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::confinement::{Confinement, Enforcement, NotConfinable, UnconfinedPolicy};
use crate::plan::{Group, Profile, Reach, Transport};
use crate::post::{Link, Post};
use crate::shared::Shared;
use crate::workspace::Workspace;

/// How long the file system may take to tell what a directory is.
const OPEN_TIMEOUT: Duration = Duration::from_secs(20);

/// Directories that are looked at at once. The runtime has 512 threads for what blocks, which the store needs too.
const OPENINGS_MAX: usize = 64;

/// For whom, and where, a thread is to be opened.
pub(crate) struct Admission<'a> {
    pub(crate) post: &'a Post,
    pub(crate) link: &'a Link,
    /// The name of its profile.
    pub(crate) profile: Option<&'a str>,
    /// What its caller may reach: operators choose any directory that is not private.
    pub(crate) reach: Reach,
}

impl Shared {
    /// The options with which a thread is opened: in a directory that it may use, and confined.
    pub(crate) async fn admit(
        &self,
        admission: &Admission<'_>,
        options: &ThreadOptions,
    ) -> Result<ThreadOptions, NotConfinable> {
        self.check_group(admission)?;
        let (group, profile) = (self.group(admission.post), self.profile(admission.profile));
        let options = group.opened(options);
        let cwd = options.cwd.as_deref().map_or(group.cwd.as_path(), Path::new);
        let own = RealPaths {
            private: private_of(&admission.link.client, &self.plan.private),
            readable: profile.map(|profile| profile.readable.clone()).unwrap_or_default(),
            programs: programs(Path::new(&group.program)),
            trusted: profile.map(|profile| profile.trusted_projects.clone()).unwrap_or_default(),
            codex_socket_dirs: codex_socket_directories(
                self.plan.groups.iter().filter_map(|group| group.user.as_ref()),
            ),
        };
        let mut paths = open_off_runtime(cwd, move |_| Ok(own.resolve())).await?;
        if is_remote(group) {
            // A link of this machine must not move the home of a worker on another one.
            paths.private.extend(codex_home(&admission.link.client));
        }
        let (workspace, instructions, base) = if is_remote(group) {
            // The paths are those of the machine that the worker runs on.
            (Workspace::remote(cwd), None, base(profile, group))
        } else {
            let hidden = paths.private.clone();
            let opened = open_off_runtime(cwd, move |cwd| Workspace::with_instructions(cwd, &hidden)).await?;
            let base = check_place(&opened.0, base(profile, group), admission.reach).await?;
            (opened.0, opened.1, base)
        };
        let confinement = Confinement {
            private: &paths.private,
            base: &base,
            // Where none of the listed paths exists, nothing but the workspace is readable.
            readable: profile.is_some_and(|profile| !profile.readable.is_empty()).then_some(&*paths.readable),
            programs: &paths.programs,
            trusted: &paths.trusted,
            network: profile.is_some_and(|profile| profile.network),
            worker: Enforcement::of(admission.link.client.abilities()),
            if_unconfined: self.unconfined_policy(admission),
        };
        confinement.apply(&options, &workspace, instructions)
    }

    fn unconfined_policy(&self, admission: &Admission<'_>) -> UnconfinedPolicy {
        let is_allowed = self.profile(admission.profile).is_some_and(|profile| profile.allow_unconfined);
        if is_allowed || admission.reach == Reach::All { UnconfinedPolicy::Allow } else { UnconfinedPolicy::Refuse }
    }

    /// Whether a thread that is loaded may have another turn: its directory must still be the one that the worker was given,
    /// and its profile must still allow a worker that cannot confine it.
    pub(crate) async fn admit_loaded(
        &self,
        admission: &Admission<'_>,
        record: &store::Thread,
    ) -> Result<(), NotConfinable> {
        self.check_group(admission)?;
        if !Enforcement::of(admission.link.client.abilities()).hides_private_paths()
            && self.unconfined_policy(admission) == UnconfinedPolicy::Refuse
        {
            return Err(NotConfinable::TooOld);
        }
        let group = self.group(admission.post);
        if is_remote(group) || record.cwd.is_empty() {
            return Ok(());
        }
        let cwd = Path::new(&record.cwd);
        let workspace = open_off_runtime(cwd, Workspace::open).await?;
        if workspace.path != cwd {
            return Err(unusable(cwd, "another directory has taken its place"));
        }
        check_place(&workspace, base(self.profile(admission.profile), group), admission.reach).await.map(drop)
    }

    /// A profile runs on the workers of its own group, or of the first: the user of another group and what its worker
    /// enforces may be quite different. Operators may choose.
    fn check_group(&self, admission: &Admission<'_>) -> Result<(), NotConfinable> {
        let group = self.group(admission.post);
        let own = self.profile(admission.profile).and_then(|profile| profile.group.as_deref());
        let own = own.or_else(|| self.plan.groups.first().map(|first| &*first.name));
        if admission.reach == Reach::All || own == Some(&*group.name) {
            return Ok(());
        }
        Err(NotConfinable::OtherGroup(group.name.clone()))
    }

    fn profile(&self, name: Option<&str>) -> Option<&Profile> {
        self.plan.profiles.iter().find(|profile| Some(&*profile.name) == name)
    }
}

/// The options with which the user of this machine opens a thread on a worker of their own: no pool keeps it, and no profile
/// applies. It is confined as far as the worker can.
///
/// # Errors
/// [`NotConfinable`], if its directory cannot be used.
pub async fn confine(
    client: &Client,
    options: &ThreadOptions,
    private: &[PathBuf],
) -> Result<ThreadOptions, NotConfinable> {
    let cwd = options.cwd.as_deref().map_or(Path::new("."), Path::new);
    let (private, codex_socket_dirs) = (private_of(client, private), codex_socket_directories([]));
    let own = RealPaths { private, codex_socket_dirs, ..RealPaths::default() };
    let open = move |cwd: &Path| {
        let paths = own.resolve();
        Workspace::with_instructions(cwd, &paths.private).map(|(workspace, text)| (paths, workspace, text))
    };
    let (paths, workspace, instructions) = open_off_runtime(cwd, open).await?;
    let confinement = Confinement {
        private: &paths.private,
        base: &workspace.path,
        readable: None,
        programs: &[],
        trusted: &[],
        network: false,
        worker: Enforcement::of(client.abilities()),
        if_unconfined: UnconfinedPolicy::Allow,
    };
    confinement.apply(options, &workspace, instructions)
}

/// What no agent of this worker may read or write.
fn private_of(client: &Client, private: &[PathBuf]) -> Vec<PathBuf> {
    private.iter().cloned().chain(codex_home(client)).collect()
}

fn codex_home(client: &Client) -> Option<PathBuf> {
    client.greeting().codex_home.as_deref().map(PathBuf::from)
}

fn is_remote(group: &Group) -> bool {
    matches!(group.transport, Transport::Ws(_))
}

/// The directory that callers of a profile stay in.
fn base(profile: Option<&Profile>, group: &Group) -> PathBuf {
    profile.and_then(|profile| profile.cwd.as_deref()).map_or_else(|| group.cwd.clone(), PathBuf::from)
}

/// Off the runtime, and with a deadline: a file system may hang.
async fn open_off_runtime<T: Send + 'static>(
    path: &Path,
    open: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
) -> Result<T, NotConfinable> {
    open_within(OPEN_TIMEOUT, path, open).await
}

/// What hangs keeps its thread and its permit.
async fn open_within<T: Send + 'static>(
    open_timeout: Duration,
    path: &Path,
    open: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
) -> Result<T, NotConfinable> {
    static PERMITS: Semaphore = Semaphore::const_new(OPENINGS_MAX);
    let at = path.to_owned();
    let opening = async {
        let permit = PERMITS.acquire().await.map_err(io::Error::other)?;
        let opened = spawn_blocking(move || {
            let opened = open(&at);
            drop(permit);
            opened
        });
        opened.await.unwrap_or_else(|error| Err(io::Error::other(error)))
    };
    let opened = timeout(open_timeout, opening).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    opened.map_err(|error| unusable(path, &error.to_string()))
}

/// Refuses a directory outside of the profile's, and returns the real path of that one. Operators may leave it.
async fn check_place(workspace: &Workspace, base: PathBuf, reach: Reach) -> Result<PathBuf, NotConfinable> {
    // A profile directory that does not resolve contains no workspace.
    match open_off_runtime(&base, Path::canonicalize).await {
        Ok(base) if workspace.path.starts_with(&base) => Ok(base),
        _ if reach == Reach::All => Ok(workspace.path.clone()),
        _ => Err(NotConfinable::Outside(workspace.path.clone())),
    }
}

fn unusable(path: &Path, reason: &str) -> NotConfinable {
    NotConfinable::Gone { path: path.into(), reason: reason.into() }
}

/// The worker's binary, which starts itself inside its sandbox, and the programs that are shipped with it.
fn programs(binary: &Path) -> Vec<PathBuf> {
    let package = binary.parent().and_then(Path::parent).unwrap_or(binary);
    vec![binary.into(), package.join("codex-path")]
}

/// The paths of a permission profile. The worker's sandbox fails every command if one of them is a link.
#[derive(Default)]
struct RealPaths {
    private: Vec<PathBuf>,
    readable: Vec<PathBuf>,
    programs: Vec<PathBuf>,
    trusted: Vec<PathBuf>,
    /// Private too, where they exist.
    codex_socket_dirs: Vec<PathBuf>,
}

impl RealPaths {
    /// Follows all links. What does not exist cannot be read, run or trusted, but may be private: then the worker's sandbox
    /// fails every command, and nothing is exposed when it comes back.
    fn resolve(self) -> Self {
        let existing = |paths: Vec<PathBuf>| paths.into_iter().filter_map(|path| path.canonicalize().ok()).collect();
        let private = self.private.into_iter().map(|path| path.canonicalize().unwrap_or(path));
        Self {
            private: private.chain(existing(self.codex_socket_dirs)).collect(),
            readable: existing(self.readable),
            programs: existing(self.programs),
            trusted: existing(self.trusted),
            codex_socket_dirs: Vec::new(),
        }
    }
}

/// Where every Codex of these users and of ours listens, whatever link leads there. Its socket takes any command, without a
/// sandbox. Codex hides the directory from its own agents only since 0.160.
fn codex_socket_directories<'a>(users: impl IntoIterator<Item = &'a OsUser>) -> Vec<PathBuf> {
    let users: Vec<u32> = users.into_iter().map(OsUser::uid).chain([geteuid().as_raw()]).collect();
    let directories = ["/tmp".into(), env::temp_dir()];
    let of_user = |directory: &PathBuf, user: &u32| directory.join(format!("codex-daemon-{user}"));
    directories.iter().flat_map(|directory| users.iter().map(move |user| of_user(directory, user))).collect()
}

#[cfg(test)]
mod adversary {
    use std::path::Path;

    use rustix::process::geteuid;

    use super::{RealPaths, codex_socket_directories};

    #[test]
    fn the_directory_where_codex_listens_is_private() {
        let listed = codex_socket_directories([]);
        let own = Path::new("/tmp").join(format!("codex-daemon-{}", geteuid().as_raw()));
        assert!(listed.contains(&own), "{listed:?}");
        let directory = tempfile::tempdir().unwrap();
        let existing = directory.path().canonicalize().unwrap();
        let codex_socket_dirs = vec![existing.clone(), existing.join("unmade")];
        let paths = RealPaths { codex_socket_dirs, ..RealPaths::default() }.resolve();
        assert_eq!(paths.private, [existing], "a missing one would make the sandbox fail");
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::{NotConfinable, open_within};

    #[tokio::test]
    async fn a_file_system_that_hangs_is_given_up() {
        let (release, hanging) = mpsc::sync_channel::<()>(1);
        let opened = open_within(Duration::from_millis(10), Path::new("/mnt/far"), move |_| {
            hanging.recv().ok();
            Ok(())
        });
        let refused = opened.await.unwrap_err();
        drop(release);
        assert!(matches!(&refused, NotConfinable::Gone { reason, .. } if &**reason == "timed out"), "{refused}");
    }
}
