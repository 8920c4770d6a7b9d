//! Where cargo has put the demo worker and the examples, for tests of other crates that run them as processes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// The demo worker's binary.
#[must_use]
pub fn demo_worker() -> PathBuf {
    found_or_built("demo-worker", "demo", &["--bin", "demo-worker"])
}

/// An example of a package.
#[must_use]
pub fn example(package: &str, name: &str) -> PathBuf {
    found_or_built(&format!("examples/{name}"), package, &["--example", name])
}

/// Beside the test that asks. A test of the whole workspace has built it already; otherwise, or if the package has
/// changed since, it is built now, with the same profile.
fn found_or_built(path: &str, package: &str, target: &[&str]) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    // target/PROFILE/deps/it-0123
    let profile_directory = test.ancestors().nth(2).expect("cargo puts tests two levels below their profile");
    let binary = profile_directory.join(path);
    let package_directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(package);
    let sources = ["src", "examples"].map(|directory| newest(&package_directory.join(directory)));
    if changed(&binary) < sources.into_iter().max().flatten() {
        build(profile_directory, package, target);
    }
    binary
}

fn changed(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}

/// When a file below the directory was last changed.
fn newest(directory: &Path) -> Option<SystemTime> {
    let entries = fs::read_dir(directory).ok()?.flatten().map(|entry| entry.path());
    entries.filter_map(|path| if path.is_dir() { newest(&path) } else { changed(&path) }).max()
}

#[expect(clippy::disallowed_methods, reason = "cargo is no worker, and this is no product")]
fn build(profile_directory: &Path, package: &str, target: &[&str]) {
    let directory_name = profile_directory.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let profile = if directory_name == "debug" { "dev" } else { directory_name };
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // What cargo told of the test's own package would make it build `ring`, and all above it, anew.
    let of_a_package = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os().filter(|(name, _)| of_a_package(&name.to_string_lossy())) {
        cargo.env_remove(name);
    }
    let status = cargo
        .args(["build", "--quiet", "--profile", profile, "--package", package])
        .args(target)
        .arg("--target-dir")
        .arg(profile_directory.parent().expect("a profile has its directory below the target"))
        .status();
    assert!(status.as_ref().is_ok_and(std::process::ExitStatus::success), "cannot build {target:?}: {status:?}");
}
