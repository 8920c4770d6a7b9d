//! A real codex: the native binary, never the Node script in front of it.
//! Versions come from npm into `target/codex/VERSION`, once each; nothing is installed globally. An installation comes
//! to its place whole and proven, so that several commands may want one version at once, and one that is broken is made
//! anew.

use std::env::consts::{ARCH, OS};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tempfile::TempDir;

use crate::run;
use crate::workspace::{self, Workspace};

/// Names the binary to the tests that need one.
pub(crate) const PATH_VARIABLE: &str = "SWITCHBOARD_CODEX";

const INSTALL_TIMEOUT: Duration = Duration::from_secs(10 * 60);
const NPM_LINES_MAX: usize = 4;
const VERSION_TIMEOUT: Duration = Duration::from_secs(30);

/// A binary that has told its version.
#[derive(Debug, Clone)]
pub(crate) struct Codex {
    pub(crate) binary: PathBuf,
    pub(crate) version: String,
}

impl Codex {
    /// The binary at a path.
    pub(crate) fn at(binary: &Path) -> Result<Self> {
        if is_script(binary).with_context(|| format!("cannot read {}", binary.display()))? {
            bail!("{} is a script: name the native binary behind it (…/vendor/TARGET/…/codex)", binary.display());
        }
        let home = tempfile::tempdir()?;
        let mut ask = run::program(binary);
        ask.arg("--version").env("CODEX_HOME", home.path());
        let answer = run::stdout_of(&mut ask, VERSION_TIMEOUT)?;
        let version = version_in(&answer).with_context(|| format!("{} --version said {answer:?}", binary.display()))?;
        Ok(Self { binary: binary.to_owned(), version })
    }

    /// The binary of a published version, installed on first use.
    pub(crate) fn published(version: &str) -> Result<Self> {
        let versions = Workspace::load()?.target_directory.join("codex");
        let place = versions.join(version);
        if let Some(codex) = Self::installed_in(&place, version) {
            return Ok(codex);
        }
        println!("installing @openai/codex@{version} into {}", place.display());
        fs::create_dir_all(&versions)?;
        let making = tempfile::Builder::new().prefix(".").tempdir_in(&versions)?;
        install(version, making.path())?;
        if Self::installed_in(making.path(), version).is_none() {
            bail!("npm installed @openai/codex@{version} without a working binary for {OS} {ARCH}");
        }
        if let Some(codex) = Self::installed_in(&place, version) {
            return Ok(codex); // Somebody else was faster, and may be using it.
        }
        settle(making, &place).with_context(|| format!("cannot put codex {version} into {}", place.display()))?;
        Self::installed_in(&place, version).with_context(|| format!("{} holds no codex {version}", place.display()))
    }

    /// The binary of the version that `schema/VERSION` names.
    pub(crate) fn committed() -> Result<Self> {
        Self::published(&committed_version()?)
    }

    fn installed_in(place: &Path, version: &str) -> Option<Self> {
        let codex = native_binary(&place.join("node_modules")).and_then(|binary| Self::at(&binary).ok());
        codex.filter(|codex| codex.version == version)
    }
}

/// The version that the committed schema was taken from.
pub(crate) fn committed_version() -> Result<String> {
    let path = workspace::root().join("schema/VERSION");
    let text = fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}: run `cargo xtask schema --version X.Y.Z`", path.display()))?;
    Ok(text.trim().to_owned())
}

/// The older versions that every change is tested with, oldest first, as `schema/TESTED` names them.
pub(crate) fn older_versions() -> Result<Vec<String>> {
    let path = workspace::root().join("schema/TESTED");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// The older versions and the committed one.
pub(crate) fn tested_versions() -> Result<Vec<String>> {
    let mut versions = older_versions()?;
    versions.push(committed_version()?);
    Ok(versions)
}

/// Moves a finished installation to its place; what is broken there makes way, and one that came first may stay.
fn settle(making: TempDir, place: &Path) -> io::Result<()> {
    let broken = tempfile::Builder::new().prefix(".").tempdir_in(place.parent().unwrap_or(place))?;
    match fs::rename(place, broken.path().join("broken")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    match fs::rename(making.path(), place) {
        Ok(()) => {
            _ = making.keep();
            Ok(())
        }
        Err(error) if matches!(error.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists) => Ok(()),
        Err(error) => Err(error),
    }
}

fn install(version: &str, place: &Path) -> Result<()> {
    let mut npm = run::program("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"]);
    npm.arg(place).arg(format!("@openai/codex@{version}"));
    match run::stdout_of(&mut npm, INSTALL_TIMEOUT) {
        Ok(_) => Ok(drop_foreign(&place.join("node_modules/@openai/codex/vendor"))?),
        Err(run::Failure::Exit { stderr, .. }) => {
            bail!("npm could not install @openai/codex@{version}: {}", npm_complaint(&stderr))
        }
        Err(failure) if failure.is_missing_program() => {
            bail!("npm was not found: install Node 16 or newer")
        }
        Err(failure) => Err(failure).with_context(|| format!("npm could not install @openai/codex@{version}")),
    }
}

/// Today each platform's binary is a package of its own; older releases carried all platforms in one.
fn native_binary(node_modules: &Path) -> Option<PathBuf> {
    let scope = node_modules.join("@openai");
    let own_package = scope.join(format!("codex-{}-{}", npm_system(), npm_processor()));
    [own_package, scope.join("codex")]
        .iter()
        .filter_map(|package| fs::read_dir(package.join("vendor")).ok())
        .flat_map(Iterator::flatten)
        .filter(|target| is_our_target(&target.file_name().to_string_lossy()))
        .flat_map(|target| [target.path().join("bin/codex"), target.path().join("codex/codex")])
        .find(|binary| binary.is_file())
}

/// Older releases carry the binaries of six platforms, some 250 MB that nobody here can run.
fn drop_foreign(vendor: &Path) -> io::Result<()> {
    for target in fs::read_dir(vendor).into_iter().flatten() {
        let target = target?;
        if target.path().is_dir() && !is_our_target(&target.file_name().to_string_lossy()) {
            fs::remove_dir_all(target.path())?;
        }
    }
    Ok(())
}

/// The first lines of npm's own report, without its stack trace and warnings.
fn npm_complaint(stderr: &str) -> String {
    let lines = stderr.lines().filter_map(|line| line.strip_prefix("npm error ").or(line.strip_prefix("npm ERR! ")));
    let lines: Vec<&str> = lines.filter(|line| !line.starts_with(' ')).take(NPM_LINES_MAX).collect();
    lines.join("; ")
}

fn is_our_target(triple: &str) -> bool {
    triple.starts_with(ARCH) && triple.contains(npm_system())
}

fn npm_system() -> &'static str {
    match OS {
        "macos" => "darwin",
        other => other,
    }
}

fn npm_processor() -> &'static str {
    match ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn is_script(path: &Path) -> io::Result<bool> {
    let mut head = [0; 2];
    File::open(path)?.read_exact(&mut head)?;
    Ok(&head == b"#!")
}

/// `codex-cli X.Y.Z` → `X.Y.Z`
fn version_in(answer: &str) -> Option<String> {
    let version = answer.split_whitespace().last()?;
    version.starts_with(|first: char| first.is_ascii_digit()).then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use std::env::consts::ARCH;
    use std::fs;

    use super::{
        Codex, drop_foreign, native_binary, npm_complaint, npm_processor, npm_system, settle, tested_versions,
        version_in,
    };

    #[test]
    fn the_version_is_the_last_word_of_the_answer() {
        assert_eq!(version_in("codex-cli 1.2.3\n").as_deref(), Some("1.2.3"));
        assert_eq!(version_in("codex-cli 1.2.3-alpha.4\n").as_deref(), Some("1.2.3-alpha.4"));
        assert_eq!(version_in("usage: codex"), None);
        assert_eq!(version_in(""), None);
    }

    #[test]
    fn the_binary_of_our_platform_is_found_in_both_layouts() {
        let ours = format!("{ARCH}-vendor-{}", npm_system());
        let own_package = format!("@openai/codex-{}-{}/vendor/{ours}/bin/codex", npm_system(), npm_processor());
        let shared_package = format!("@openai/codex/vendor/{ours}/codex/codex");
        let foreign = "@openai/codex/vendor/other-processor/codex/codex".to_owned();
        for (layout, found) in [(&own_package, true), (&shared_package, true), (&foreign, false)] {
            let place = tempfile::tempdir().unwrap();
            let binary = place.path().join(layout);
            fs::create_dir_all(binary.parent().unwrap()).unwrap();
            fs::write(&binary, "").unwrap();
            assert_eq!(native_binary(place.path()), found.then_some(binary), "{layout}");
        }
    }

    #[test]
    fn a_finished_installation_replaces_a_broken_one_and_leaves_nothing_else() {
        let versions = tempfile::tempdir().unwrap();
        let place = versions.path().join("1.2.3");
        for content in ["first", "second"] {
            let making = tempfile::Builder::new().prefix(".").tempdir_in(versions.path()).unwrap();
            fs::write(making.path().join("codex"), content).unwrap();
            settle(making, &place).unwrap();
            assert_eq!(fs::read_to_string(place.join("codex")).unwrap(), content);
        }
        assert_eq!(fs::read_dir(versions.path()).unwrap().count(), 1);
    }

    #[test]
    fn binaries_of_other_platforms_are_dropped() {
        let vendor = tempfile::tempdir().unwrap();
        let ours = format!("{ARCH}-vendor-{}", npm_system());
        for target in [&ours, "other-processor-system"] {
            fs::create_dir(vendor.path().join(target)).unwrap();
        }
        drop_foreign(vendor.path()).unwrap();
        drop_foreign(&vendor.path().join("none")).unwrap();
        let left: Vec<_> = fs::read_dir(vendor.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, [ours.as_str()]);
    }

    #[test]
    fn tested_versions_are_in_order_and_end_with_the_committed_one() {
        let number = |version: &String| -> Vec<u32> { version.split('.').map(|part| part.parse().unwrap()).collect() };
        let versions = tested_versions().unwrap();
        assert!(versions.len() > 1 && versions.is_sorted_by_key(number), "{versions:?}");
    }

    #[test]
    fn of_npms_report_the_first_lines_are_kept() {
        let report = "npm warn Unknown user config\nnpm error code ETARGET\nnpm error notarget No matching version.\n\
            npm error     at ClientRequest\nnpm error more\nnpm error and more\nnpm error and so on\n";
        assert_eq!(npm_complaint(report), "code ETARGET; notarget No matching version.; more; and more");
    }

    #[test]
    fn a_script_is_refused() {
        let script = tempfile::NamedTempFile::new().unwrap();
        fs::write(script.path(), "#!/usr/bin/env node\n").unwrap();
        let refusal = Codex::at(script.path()).unwrap_err().to_string();
        assert!(refusal.contains("is a script: name the native binary"), "{refusal}");
    }
}
