//! Finds the native Codex behind the Node script that `npm install -g @openai/codex` puts on the `PATH`.
//!
//! The script only spawns the native binary. Whoever starts the script tracks the wrong process: a killed script leaves the
//! native one running. [`locate`] returns the native binary and the variables that the script would have set for it.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf, absolute};

/// The npm package of the script.
const PACKAGE: &str = "@openai/codex";
/// The script, relative to its package.
const SCRIPT: &str = "bin/codex.js";
/// How much of a `package.json` is read; a real one has about 1 KB.
const MANIFEST_BYTES_MAX: u64 = 64 * 1024;

/// A program to start, and what to add to its environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeProgram {
    /// Absolute, unless the program was not found.
    pub binary: PathBuf,
    /// The variables that the script would have set; empty for every other program.
    pub env: Vec<(OsString, OsString)>,
}

/// The native binary that `program` runs: a path, or a name that is looked up on `path_variable`.
///
/// A native binary is returned with its symbolic links resolved, unless they rename it, because a program may act by its
/// name. Another script is returned by its absolute path. A program that is not found is returned as it is, so that starting
/// it gives the reason.
#[must_use]
pub fn locate(program: &Path, path_variable: Option<&OsStr>) -> NativeProgram {
    let unchanged = |binary: PathBuf| NativeProgram { binary, env: Vec::new() };
    let Some(found) = find(program, path_variable) else { return unchanged(program.into()) };
    let Ok(real) = found.canonicalize() else { return unchanged(found) };
    if let Some(package) = package_of(&real) {
        return native_of(&package, path_variable).unwrap_or_else(|| unchanged(found));
    }
    let keeps_name = real.file_name() == found.file_name();
    unchanged(if keeps_name && is_elf(&real) { real } else { found })
}

/// The file that the name means. Relative entries of `PATH` are skipped: they would find programs in a workspace.
fn find(program: &Path, path_variable: Option<&OsStr>) -> Option<PathBuf> {
    if program.as_os_str().as_encoded_bytes().contains(&b'/') {
        return absolute(program).ok().filter(|file| file.is_file());
    }
    let directories = env::split_paths(path_variable?).filter(|directory| directory.is_absolute());
    directories.map(|directory| directory.join(program)).find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

fn is_elf(file: &Path) -> bool {
    let mut magic = [0; 4];
    File::open(file).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && magic == *b"\x7fELF"
}

/// The directory of the npm package whose script this is.
fn package_of(script: &Path) -> Option<PathBuf> {
    let package = script.ends_with(SCRIPT).then(|| script.parent()?.parent())??;
    let mut manifest = String::new();
    File::open(package.join("package.json")).ok()?.take(MANIFEST_BYTES_MAX).read_to_string(&mut manifest).ok()?;
    let manifest: serde_json::Value = serde_json::from_str(&manifest).ok()?;
    (manifest["name"] == PACKAGE).then(|| package.into())
}

fn native_of(package: &Path, path_variable: Option<&OsStr>) -> Option<NativeProgram> {
    let (triple, platform_package) = platform()?;
    let root = vendor_directories(package, platform_package)
        .map(|vendor| vendor.join(triple))
        .find(|root| Layout::of(root).is_some())?;
    let layout = Layout::of(&root)?;
    let manager = if package.to_string_lossy().contains(".bun/install/global") { "BUN" } else { "NPM" };
    let mut env = vec![(format!("CODEX_MANAGED_BY_{manager}").into(), "1".into())];
    match layout {
        Layout::Bin => env.push(("CODEX_MANAGED_PACKAGE_ROOT".into(), package.into())),
        Layout::Codex => env.extend(extended_path(&root.join("path"), path_variable)),
    }
    Some(NativeProgram { binary: root.join(layout.binary()), env })
}

/// Where the native binary lies below the directory of its platform.
#[derive(Clone, Copy)]
enum Layout {
    /// Newer versions, which find their tools by themselves. Checked with 0.145 to 0.169.
    Bin,
    /// Older versions, whose script puts the directory `path` with `rg` on the `PATH`. Checked with 0.58 to 0.120.
    Codex,
}

impl Layout {
    fn of(root: &Path) -> Option<Self> {
        [Self::Bin, Self::Codex].into_iter().find(|layout| is_executable(&root.join(layout.binary())))
    }

    fn binary(self) -> &'static str {
        match self {
            Self::Bin => "bin/codex",
            Self::Codex => "codex/codex",
        }
    }
}

/// Where Node finds the package of the platform, nearest first; versions up to 0.98 have the binaries in the package itself.
fn vendor_directories<'a>(package: &'a Path, platform_package: &'a str) -> impl Iterator<Item = PathBuf> + 'a {
    let modules = package.ancestors().filter(|directory| directory.file_name() != Some(OsStr::new("node_modules")));
    let installed = modules.map(move |directory| directory.join("node_modules").join(platform_package).join("vendor"));
    installed.chain([package.join("vendor")])
}

fn extended_path(tools: &Path, path_variable: Option<&OsStr>) -> Option<(OsString, OsString)> {
    let rest = path_variable.map(|path| env::split_paths(path).filter(|entry| !entry.as_os_str().is_empty()));
    let entries = [tools.to_path_buf()].into_iter().chain(rest.into_iter().flatten());
    tools.is_dir().then(|| Some(("PATH".into(), env::join_paths(entries).ok()?)))?
}

/// The target triple and the npm package of this machine.
fn platform() -> Option<(&'static str, &'static str)> {
    match env::consts::ARCH {
        "x86_64" => Some(("x86_64-unknown-linux-musl", "@openai/codex-linux-x64")),
        "aarch64" => Some(("aarch64-unknown-linux-musl", "@openai/codex-linux-arm64")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    fn place(file: &Path, text: &str, mode: u32) {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
        fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// An installation by npm, with the binary at `vendor` below `node_modules`; returns its `.bin` directory.
    fn install(root: &Path, binary: &str) -> PathBuf {
        let modules = root.join("node_modules");
        let package = modules.join(PACKAGE);
        place(&package.join("package.json"), r#"{"name": "@openai/codex", "type": "module"}"#, 0o644);
        place(&package.join(SCRIPT), "#!/usr/bin/env node\n", 0o755);
        place(&modules.join(binary), "\x7fELF", 0o755);
        fs::create_dir_all(modules.join(".bin")).unwrap();
        symlink("../@openai/codex/bin/codex.js", modules.join(".bin/codex")).unwrap();
        modules.join(".bin")
    }

    fn home() -> (TempDir, PathBuf) {
        let home = TempDir::new().unwrap();
        let real = home.path().canonicalize().unwrap();
        (home, real)
    }

    fn names(program: &NativeProgram) -> Vec<&str> {
        program.env.iter().map(|(name, _)| name.to_str().unwrap()).collect()
    }

    #[test]
    fn the_binary_of_the_platform_package_is_found_on_the_path() {
        let (_home, root) = home();
        let (triple, package) = platform().unwrap();
        let binary = format!("{package}/vendor/{triple}/bin/codex");
        let directory = install(&root, &binary);
        let path = env::join_paths(["relative".as_ref(), root.join("empty").as_path(), &directory]).unwrap();
        let found = locate(Path::new("codex"), Some(&path));
        assert_eq!(found.binary, root.join("node_modules").join(binary));
        assert_eq!(names(&found), ["CODEX_MANAGED_BY_NPM", "CODEX_MANAGED_PACKAGE_ROOT"]);
        assert_eq!(found.env[1].1, root.join("node_modules/@openai/codex"));
    }

    #[test]
    fn older_packages_have_the_binary_inside_and_their_tools_on_the_path() {
        let (_home, root) = home();
        let (triple, _) = platform().unwrap();
        let directory = install(&root, &format!("@openai/codex/vendor/{triple}/codex/codex"));
        let vendor = root.join("node_modules/@openai/codex/vendor").join(triple);
        place(&vendor.join("path/rg"), "", 0o755);
        let found = locate(&directory.join("codex"), Some(OsStr::new("/usr/bin:/bin")));
        assert_eq!(found.binary, vendor.join("codex/codex"));
        assert_eq!(names(&found), ["CODEX_MANAGED_BY_NPM", "PATH"]);
        assert_eq!(found.env[1].1, *format!("{}:/usr/bin:/bin", vendor.join("path").display()));
    }

    #[test]
    fn an_installation_without_its_binary_is_left_to_the_script_to_explain() {
        let (_home, root) = home();
        let directory = install(&root, "@openai/other/file");
        let script = directory.join("codex");
        assert_eq!(locate(&script, None), NativeProgram { binary: script, env: Vec::new() });
    }

    #[test]
    fn other_programs_are_returned_by_their_own_path() {
        let (_home, root) = home();
        place(&root.join("real/codex"), "\x7fELF", 0o755);
        place(&root.join("real/shim"), "\x7fELF", 0o755);
        place(&root.join("bin/script"), "#!/bin/sh\n", 0o755);
        place(&root.join("other/bin/codex.js"), "#!/usr/bin/env node\n", 0o755);
        symlink(root.join("real/codex"), root.join("bin/codex")).unwrap();
        symlink(root.join("real/shim"), root.join("bin/codex-next")).unwrap();
        let path = root.join("bin").into_os_string();
        let binary = |name: &str| locate(Path::new(name), Some(&path)).binary;
        assert_eq!(binary("codex"), root.join("real/codex"), "a native binary, with its links resolved");
        assert_eq!(binary("codex-next"), root.join("bin/codex-next"), "a program that may act by its name");
        assert_eq!(binary("script"), root.join("bin/script"));
        let other = root.join("other/bin/codex.js");
        assert_eq!(binary(other.to_str().unwrap()), other, "a script of another package");
        assert_eq!(binary("missing"), Path::new("missing"));
        assert_eq!(binary("/missing/codex"), Path::new("/missing/codex"));
    }
}
