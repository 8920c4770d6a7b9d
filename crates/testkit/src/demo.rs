//! Where the demo worker's binary is, for tests of other crates that need a worker process.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

const NAME: &str = "demo-worker";

/// The demo worker's binary, beside the test that asks for it. A test of the whole workspace has built it already;
/// otherwise it is built now, with the same profile.
#[must_use]
pub fn binary() -> PathBuf {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(found_or_built).clone()
}

fn found_or_built() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    // target/PROFILE/deps/it-0123 or target/PROFILE/examples/name
    let profile_directory = test.ancestors().nth(2).expect("cargo puts tests two levels below their profile");
    let binary = profile_directory.join(NAME);
    if !binary.is_file() {
        build(profile_directory);
    }
    binary
}

#[expect(clippy::disallowed_methods, reason = "cargo is no worker, and this is no product")]
fn build(profile_directory: &Path) {
    let directory_name = profile_directory.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let profile = if directory_name == "debug" { "dev" } else { directory_name };
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--quiet", "--package", "demo", "--bin", NAME, "--profile", profile, "--target-dir"])
        .arg(profile_directory.parent().expect("a profile has its directory below the target"))
        .status();
    assert!(status.as_ref().is_ok_and(std::process::ExitStatus::success), "cannot build {NAME}: {status:?}");
}
