//! Which worker to start, and what it may see of our environment.

use std::ffi::OsString;
use std::path::{self, Path, PathBuf};
use std::{env, fs, io};

use anyhow::{Context, Result};
use supervise::{Launch, Owner, Rlimits};

/// A worker as it is named on the command line.
#[derive(Clone, Debug)]
pub(crate) enum Worker {
    /// The one in this binary.
    Demo,
    /// A codex binary, by name or path.
    Codex(PathBuf),
}

impl From<&str> for Worker {
    fn from(name: &str) -> Self {
        match name {
            "demo" => Self::Demo,
            other => Self::Codex(other.into()),
        }
    }
}

impl Worker {
    /// How to start it in `cwd`, with the named variables of ours.
    pub(crate) fn launch(&self, cwd: &Path, variables: &[String]) -> Result<Launch> {
        let mut env = Vec::new();
        for name in variables {
            let value =
                env::var_os(name).with_context(|| format!("--env {name}: there is no such variable to pass on"))?;
            env.push((name.into(), value));
        }
        let (program, args) = match self {
            Self::Demo => {
                env.push(("CODEX_HOME".into(), demo_home()?.into()));
                (env::current_exe().context("cannot find this binary")?, "demo-worker")
            }
            Self::Codex(program) => {
                if let Some(home) = variable("CODEX_HOME") {
                    env.push(("CODEX_HOME".into(), absolute(&home)?.into()));
                }
                (located(program)?, "app-server")
            }
        };
        let args = vec![OsString::from(args)];
        Ok(Launch {
            program: program.into(),
            args,
            cwd: cwd.into(),
            env,
            owner: Owner::generate(),
            rlimits: Rlimits::default(),
        })
    }
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
fn demo_home() -> Result<PathBuf> {
    let home = absolute(&state_dir()?)?.join("demo");
    fs::create_dir_all(&home).with_context(|| format!("cannot make {} for the demo worker", home.display()))?;
    Ok(home)
}

fn state_dir() -> Result<PathBuf> {
    variable("SWITCHBOARD_STATE_DIR")
        .or_else(|| Some(variable("XDG_STATE_HOME")?.join("switchboard")))
        .or_else(|| Some(variable("HOME")?.join(".local/state/switchboard")))
        .ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
        .context("neither SWITCHBOARD_STATE_DIR, XDG_STATE_HOME nor HOME says where to keep state: set one")
}

/// A variable that holds a path; an empty one is as good as none.
fn variable(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}
