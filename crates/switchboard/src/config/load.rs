//! Finds what was typed: the file, where it is looked for, and the variables.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use anyhow::{Context, Result, bail};

use super::variables::FILE;
use super::{File, Flag, Resolved, Typed, resolve};

const FILE_NAME: &str = "switchboard.toml";
/// A configuration is written by hand; anything longer is another file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Reads and resolves the configuration: the file that is named, else the user's own.
pub(crate) fn load(named: Option<&Path>, flags: Vec<Flag>) -> Result<Resolved> {
    let variables = variables();
    let cwd = env::current_dir().context("the current directory cannot be used")?;
    let file = match name(named, &variables) {
        Some(path) => Some(read(&path)?.with_context(|| format!("there is no configuration file {}", path.display()))?),
        None => of_user(&variables).map_or(Ok(None), |path| read(&path))?,
    };
    let location = location(named);
    Ok(Resolved { location, ..resolve(&Typed { file, variables, flags, cwd })? })
}

/// Where the file is looked for.
pub(super) fn location(named: Option<&Path>) -> Option<PathBuf> {
    let variables = variables();
    name(named, &variables).or_else(|| of_user(&variables))
}

/// What is not UTF-8 cannot be a value of ours.
fn variables() -> BTreeMap<String, String> {
    env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))).collect()
}

fn name(named: Option<&Path>, variables: &BTreeMap<String, String>) -> Option<PathBuf> {
    named.map(Path::to_owned).or_else(|| variables.get(FILE).map(PathBuf::from))
}

/// The file that counts where none is named. Never one of the current directory: that may be somebody else's repository,
/// and what it says would be run.
fn of_user(variables: &BTreeMap<String, String>) -> Option<PathBuf> {
    let set = |name: &str| variables.get(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let config_home = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")))?;
    Some(config_home.join("switchboard").join(FILE_NAME))
}

fn read(path: &Path) -> Result<Option<File>> {
    let too_long = || format!("{} is longer than {FILE_BYTES_MAX} bytes: it is no configuration", path.display());
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Ok(metadata) if metadata.len() > FILE_BYTES_MAX => {
            bail!(too_long())
        }
        _ => {}
    }
    // A device has no length, and may have no end.
    let mut text = String::new();
    let read = fs::File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text));
    read.with_context(|| format!("cannot read {}", path.display()))?;
    if text.len() as u64 > FILE_BYTES_MAX {
        bail!(too_long());
    }
    Ok(Some(File { path: path.into(), text }))
}
