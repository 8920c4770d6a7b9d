//! Which worker to start, and what it may see of our environment.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use anyhow::{Context, Result};
use supervise::{Launch, Owner};

/// Variables that a worker gets from ours, besides those that every process gets.
const KEPT: [&str; 1] = ["CODEX_HOME"];

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
        let mut launch = Launch {
            program: OsString::new(),
            args: Vec::new(),
            cwd: cwd.into(),
            env: Vec::new(),
            owner: Owner::generate(),
        };
        match self {
            Self::Demo => {
                launch.program = env::current_exe()
                    .context("cannot find this binary")?
                    .into();
                launch.args = vec!["demo-worker".into()];
                launch.env = vec![("CODEX_HOME".into(), demo_home()?.into())];
            }
            Self::Codex(program) => {
                launch.program = program.into();
                launch.args = vec!["app-server".into()];
                let names = KEPT
                    .iter()
                    .copied()
                    .chain(variables.iter().map(String::as_str));
                launch.env = names
                    .filter_map(|name| Some((name.into(), env::var_os(name)?)))
                    .collect();
            }
        }
        Ok(launch)
    }
}

/// A home of its own: the demo worker must never write into a real codex's home.
fn demo_home() -> Result<PathBuf> {
    let home = state_dir()?.join("demo");
    fs::create_dir_all(&home)
        .with_context(|| format!("cannot make {} for the demo worker", home.display()))?;
    Ok(home)
}

fn state_dir() -> Result<PathBuf> {
    let set = |name| {
        env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    set("SWITCHBOARD_STATE_DIR")
        .or_else(|| Some(set("XDG_STATE_HOME")?.join("switchboard")))
        .or_else(|| Some(set("HOME")?.join(".local/state/switchboard")))
        .ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
        .context("neither SWITCHBOARD_STATE_DIR, XDG_STATE_HOME nor HOME says where to keep state: set one")
}
