//! Which worker to start, and what it may see of our environment.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{self, Path, PathBuf};
use std::{env, fmt};

use anyhow::{Context, Result};
use codex::native::NativeProgram;
use supervise::{Launch, OsUser, Owner, RequiredAccess, Rlimits};

use crate::config::Group;

/// A worker as it is named on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Worker {
    /// The one in this binary.
    Demo,
    /// A codex binary, by name or path.
    Codex(PathBuf),
}

/// A program, as far as it is the worker's own.
pub(crate) struct Start {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<OsString>,
    /// Variables that it needs to be itself.
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) home: Option<PathBuf>,
}

impl From<&str> for Worker {
    fn from(name: &str) -> Self {
        match name {
            "demo" => Self::Demo,
            other => Self::Codex(other.into()),
        }
    }
}

impl fmt::Display for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Demo => f.write_str("demo"),
            Self::Codex(program) => write!(f, "{}", program.display()),
        }
    }
}

impl Worker {
    /// How to start it; a codex uses that home, and its own choice without one.
    pub(crate) fn start(&self, codex_home: Option<&Path>, state_dir: &Path) -> Result<Start> {
        match self {
            Self::Demo => Ok(Start {
                program: env::current_exe().context("cannot find this binary")?,
                args: vec!["demo-worker".into()],
                env: Vec::new(),
                home: Some(demo_home(state_dir)?),
            }),
            Self::Codex(program) => {
                // Codex makes its usual home itself; one that it is told of must be there.
                let usual = env::home_dir().map(|home| home.join(".codex"));
                let is_unmade = |home: &Path| usual.as_deref() == Some(home) && !home.exists();
                let home = codex_home.filter(|home| !is_unmade(home)).map(absolute).transpose()?;
                let NativeProgram { binary, env } = native(program)?;
                let args = ["app-server".into()].into_iter().chain(workers::mark_arguments()).collect();
                Ok(Start { program: binary, args, env, home })
            }
        }
    }
}

impl Start {
    /// The same as a process in `cwd`, with these variables besides its home.
    pub(crate) fn launch(self, cwd: &Path, mut env: Vec<(OsString, OsString)>) -> Launch {
        env.extend(self.env);
        env.extend(self.home.map(|home| ("CODEX_HOME".into(), home.into())));
        Launch {
            program: self.program.into(),
            args: self.args,
            cwd: cwd.into(),
            env,
            owner: Owner::generate(),
            rlimits: Rlimits::default(),
        }
    }
}

impl Group {
    /// How to start one worker of the group, by itself.
    pub(crate) fn launch(&self, state_dir: &Path) -> Result<Launch> {
        let start = self.command.start(self.codex_home.as_deref(), state_dir)?;
        let user = self.os_user(&start)?;
        let launch = start.launch(&self.cwd, self.variables()?);
        Ok(match user {
            Some(user) => user.wrap(launch),
            None => launch,
        })
    }

    /// The user that its workers run as, if not ours; refused if that user cannot use what they need.
    pub(crate) fn os_user(&self, start: &Start) -> Result<Option<OsUser>> {
        let Some(name) = &self.user else { return Ok(None) };
        let context = || format!("`user` of the group {}", self.name);
        let user = OsUser::find(name).with_context(context)?;
        let home = start.home.as_deref().map(|home| (home, RequiredAccess::Write));
        for (path, need) in
            [(&*start.program, RequiredAccess::Enter), (&*self.cwd, RequiredAccess::Enter)].into_iter().chain(home)
        {
            user.check(path, need).with_context(context)?;
        }
        Ok(Some(user))
    }

    /// What its workers see of our environment, besides what every child does.
    pub(crate) fn variables(&self) -> Result<Vec<(OsString, OsString)>> {
        variables_of_ours(&self.env).with_context(|| format!("`env` of the group {}", self.name))
    }
}

/// These variables of our own environment.
pub(crate) fn variables_of_ours(names: &[String]) -> Result<Vec<(OsString, OsString)>> {
    let pair = |name: &String| {
        let value = env::var_os(name).with_context(|| format!("{name}: there is no such variable to pass on"))?;
        Ok((name.into(), value))
    };
    names.iter().map(pair).collect()
}

/// The program to start in place of a codex: the native one, if npm has put a script before it.
pub(crate) fn native(program: &Path) -> Result<NativeProgram> {
    Ok(codex::native::locate(&located(program)?, env::var_os("PATH").as_deref()))
}

/// A path is meant from where the user stands, not from where the worker will; a bare name is left for PATH.
pub(crate) fn located(program: &Path) -> Result<PathBuf> {
    if program.components().count() == 1 && !program.is_absolute() {
        return Ok(program.into());
    }
    absolute(program)
}

fn absolute(path: &Path) -> Result<PathBuf> {
    path::absolute(path).with_context(|| format!("cannot find {}", path.display()))
}

/// A home of its own: the demo worker must never write into a real codex's home.
fn demo_home(state_dir: &Path) -> Result<PathBuf> {
    let home = absolute(state_dir)?.join("demo");
    // What the state directory holds is nobody else's business, whoever makes it first.
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&home)
        .with_context(|| format!("cannot make {} for the demo worker", home.display()))?;
    Ok(home)
}
