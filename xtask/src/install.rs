//! What others made and we only try, installed below `target/` in the versions that files of the repository pin.
//! A second time nothing is done, unless what is pinned has changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::run;
use crate::workspace::Workspace;

const TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// A tool is built from source, which takes minutes on a small machine.
const BUILD_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// Stands in a finished installation, and says what was installed.
const STAMP: &str = "installed";

/// A tool for cargo, below `target/tools`; its program is returned.
pub(crate) fn for_cargo(name: &str, version: &str) -> Result<PathBuf> {
    let place = Workspace::load()?.target_directory.join("tools");
    let tool = place.join("bin").join(name);
    let there = run::stdout_of(run::program(&tool).arg("--version"), TIMEOUT).unwrap_or_default();
    if there.split_whitespace().last() != Some(version) {
        println!("installing {name} {version} into {}", place.display());
        let mut cargo = run::cargo("install --locked --force --root");
        cargo.arg(place).arg(format!("{name}@{version}"));
        run::to_end(&mut cargo, BUILD_TIMEOUT)?;
    }
    Ok(tool)
}

/// An environment of Python's with these requirements; its Python is returned.
pub(crate) fn for_python(environment: &Path, requirements: &Path) -> Result<PathBuf> {
    let wanted = fs::read_to_string(requirements).with_context(|| format!("cannot read {}", requirements.display()))?;
    let python = environment.join("bin/python");
    once(environment, &wanted, || {
        let mut make = run::program("python3");
        done(make.args(["-m", "venv"]).arg(environment))?;
        let mut install = run::program(&python);
        done(install.args(["-m", "pip", "install", "--quiet", "--requirement"]).arg(requirements))
    })?;
    Ok(python)
}

/// The packages of Node's that `package.json` and its lock in `from` name, with the scripts that use them beside them: Node looks
/// nowhere else.
pub(crate) fn for_node(from: &Path, to: &Path, scripts: &[PathBuf]) -> Result<()> {
    let lock = from.join("package-lock.json");
    let wanted = fs::read_to_string(&lock).with_context(|| format!("cannot read {}", lock.display()))?;
    once(to, &wanted, || {
        fs::create_dir_all(to)?;
        for file in ["package.json", "package-lock.json"] {
            fs::copy(from.join(file), to.join(file))?;
        }
        done(run::program("npm").args(["ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"]).arg(to))
    })?;
    for script in scripts {
        let name = script.file_name().with_context(|| format!("{} is no file", script.display()))?;
        fs::copy(script, to.join(name)).with_context(|| format!("cannot copy {}", script.display()))?;
    }
    Ok(())
}

/// The scripts of a directory that Node takes.
pub(crate) fn scripts_in(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?;
    let paths: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    Ok(paths.into_iter().filter(|path| path.extension().is_some_and(|kind| kind == "mjs")).collect())
}

/// Installs anew, unless this very thing was installed before.
fn once(place: &Path, wanted: &str, install: impl FnOnce() -> Result<()>) -> Result<()> {
    let stamp = place.join(STAMP);
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    println!("installing into {}", place.display());
    if place.exists() {
        fs::remove_dir_all(place)?;
    }
    install().with_context(|| format!("nothing was installed into {}", place.display()))?;
    Ok(fs::write(stamp, wanted)?)
}

fn done(command: &mut Command) -> Result<()> {
    run::stdout_of(command, TIMEOUT)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fs;

    use super::once;

    #[test]
    fn an_installation_is_made_once_for_what_is_pinned() {
        let place = tempfile::tempdir().unwrap();
        let environment = place.path().join("openai");
        let made = Cell::new(0);
        let install = || {
            made.set(made.get() + 1);
            Ok(fs::create_dir(&environment)?)
        };
        for wanted in ["openai==1", "openai==1", "openai==2"] {
            once(&environment, wanted, install).unwrap();
        }
        assert_eq!(made.get(), 2);
    }

    #[test]
    fn an_installation_that_failed_is_made_anew() {
        let place = tempfile::tempdir().unwrap();
        let environment = place.path().join("openai");
        once(&environment, "openai==1", || {
            Ok(fs::create_dir(&environment)?).and_then(|()| anyhow::bail!("no network"))
        })
        .unwrap_err();
        once(&environment, "openai==1", || Ok(fs::create_dir(&environment)?)).unwrap();
    }
}
