//! The steps of `cargo xtask test`, in order: the quick ones first.
//! Those before `schema` are hermetic; the others need a real codex and are skipped where it cannot be had.

use std::env;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::verdict::Outcome;
use crate::codex::{self, Codex};
use crate::workspace::Workspace;
use crate::{clients, compatibility, faults, run, schema, tidy, tool_servers};

/// One step and what its success means.
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) promise: &'static str,
    pub(super) run: fn() -> Result<Outcome>,
}

pub(super) const STEPS: [Step; 13] = [
    step("format", "the code is formatted", format),
    step("clippy", "no lint has anything to say", clippy),
    step("tidy", "the repository keeps its own rules", tidy),
    step("tests", "unit, simulation and real-process tests pass", tests),
    step("loops", "floods, loops and simulations pass, optimised and scaled", loops),
    step("faults", "every fault of docs/faults.md is survived as the page says", faults),
    step("docs", "the documentation has no broken link", docs),
    step("schema", "schema/ is what the real codex says", schema),
    step("real-codex", "the tests against the real codex pass", real_codex),
    step("adversary", "every attack of SECURITY.md fails, with the real codex where it needs one", adversary),
    step("compatibility", "docs/compatibility.md is what every tested codex does", compatibility),
    step("clients", "docs/openai-clients.md is what real OpenAI clients do", clients),
    step("tool-servers", "real tool servers and MCP clients meet at /mcp as the conformance suite wants", tool_servers),
];

const fn step(name: &'static str, promise: &'static str, run: fn() -> Result<Outcome>) -> Step {
    Step { name, promise, run }
}

/// Generous: a hung test must end in a message, a slow machine must not.
const QUICK_STEP_TIMEOUT: Duration = Duration::from_secs(5 * 60);
const BUILD_STEP_TIMEOUT: Duration = Duration::from_secs(45 * 60);

/// Tests multiply their loops by this variable; the optimised run multiplies it once more.
const SCALE: &str = "SWITCHBOARD_TEST_SCALE";
const LOOPS_SCALE: u32 = 10;

/// Packages whose tests know no scale: to build them once more would take longer than all that is gained.
const WITHOUT_LOOPS: [&str; 7] = ["approvals", "bench", "demo", "front", "testkit", "tools", "xtask"];

/// The feature that a crate gives to its tests against the real codex.
const REAL_CODEX: &str = "real-codex";

/// The part of a test's path that marks the replay of an attack.
const ADVERSARY: &str = "adversary";

pub(super) fn names() -> [&'static str; STEPS.len()] {
    STEPS.each_ref().map(|step| step.name)
}

fn format() -> Result<Outcome> {
    finished(&mut run::cargo("fmt --all --check"), QUICK_STEP_TIMEOUT)
}

/// Without `--workspace`: the default members, since the others' dependencies exist only to be measured.
fn clippy() -> Result<Outcome> {
    let mut cargo = run::cargo("clippy --all-targets --all-features -- -D warnings");
    finished(&mut cargo, BUILD_STEP_TIMEOUT)
}

fn tidy() -> Result<Outcome> {
    tidy::run().map(|()| Outcome::Passed)
}

fn tests() -> Result<Outcome> {
    finished(&mut run::cargo("test --no-fail-fast"), BUILD_STEP_TIMEOUT)
}

fn loops() -> Result<Outcome> {
    let scale = scale_of(env::var(SCALE).ok().as_deref())?;
    let mut cargo = run::cargo("test --no-fail-fast --tests --profile optimised");
    cargo.arg("--workspace");
    for name in WITHOUT_LOOPS {
        cargo.args(["--exclude", name]);
    }
    // Faults have a step of their own, where what they measure is read; attacks, examples and tool servers know no scale.
    let others = ["--", "--skip", "fault_run::", "--skip", "examples::", "--skip", "tools", "--skip", ADVERSARY];
    finished(cargo.env(SCALE, scale.to_string()).args(others), BUILD_STEP_TIMEOUT)
}

fn faults() -> Result<Outcome> {
    faults::run().map(|()| Outcome::Passed)
}

fn docs() -> Result<Outcome> {
    let mut cargo = run::cargo("doc --no-deps");
    finished(cargo.env("RUSTDOCFLAGS", "-Dwarnings"), BUILD_STEP_TIMEOUT)
}

fn schema() -> Result<Outcome> {
    with_codex(|codex| schema::check(codex).map(|()| Outcome::Passed))
}

fn real_codex() -> Result<Outcome> {
    let members = Workspace::load()?.packages_with_feature(REAL_CODEX);
    if members.is_empty() {
        return Ok(Outcome::Skipped(format!("no crate has the feature {REAL_CODEX}")));
    }
    with_codex(|codex| {
        let mut cargo = run::cargo("test --no-fail-fast");
        cargo.env(codex::PATH_VARIABLE, &codex.binary);
        for member in &members {
            cargo.args(["--package", member]);
            cargo.args(["--features", &format!("{member}/{REAL_CODEX}")]);
        }
        finished(cargo.args(["--", "--skip", ADVERSARY]), BUILD_STEP_TIMEOUT)
    })
}

/// Replays every attack, also in crates that need no codex for theirs.
fn adversary() -> Result<Outcome> {
    let members = Workspace::load()?.packages_with_feature(REAL_CODEX);
    with_codex(|codex| {
        let mut cargo = run::cargo("test --no-fail-fast --lib --bins --tests");
        cargo.env(codex::PATH_VARIABLE, &codex.binary);
        for member in &members {
            cargo.args(["--features", &format!("{member}/{REAL_CODEX}")]);
        }
        finished(cargo.args(["--", ADVERSARY]), BUILD_STEP_TIMEOUT)
    })
}

fn compatibility() -> Result<Outcome> {
    match compatibility::binaries() {
        Ok(binaries) => compatibility::check(&binaries).map(|()| Outcome::Passed),
        Err(reason) => Ok(Outcome::Skipped(format!("{reason:#}"))),
    }
}

fn clients() -> Result<Outcome> {
    with_codex(|codex| match clients::Installed::all() {
        Ok(installed) => clients::check(&installed, codex).map(|()| Outcome::Passed),
        Err(reason) => Ok(Outcome::Skipped(format!("the clients cannot be installed: {reason:#}"))),
    })
}

fn tool_servers() -> Result<Outcome> {
    match tool_servers::installed() {
        Ok(place) => tool_servers::check(&place).map(|()| Outcome::Passed),
        Err(reason) => Ok(Outcome::Skipped(format!("the tool servers cannot be installed: {reason:#}"))),
    }
}

fn finished(command: &mut Command, limit: Duration) -> Result<Outcome> {
    run::to_end(command, limit)?;
    Ok(Outcome::Passed)
}

/// The real codex is looked for once; where it cannot be had, each step that needs it is skipped for that reason.
fn with_codex(step: impl FnOnce(&Codex) -> Result<Outcome>) -> Result<Outcome> {
    static CODEX: OnceLock<Result<Codex>> = OnceLock::new();
    match CODEX.get_or_init(Codex::committed) {
        Ok(codex) => step(codex),
        Err(reason) => Ok(Outcome::Skipped(format!("no real codex: {reason:#}"))),
    }
}

fn scale_of(asked: Option<&str>) -> Result<u32> {
    let asked = asked.unwrap_or("1");
    let factor: u32 = asked.parse().with_context(|| format!("{SCALE} is {asked:?}"))?;
    Ok(factor.max(1).saturating_mul(LOOPS_SCALE))
}

#[cfg(test)]
mod tests {
    use super::scale_of;

    #[test]
    fn the_loops_are_scaled_once_more_than_asked() {
        assert_eq!(scale_of(None).unwrap(), 10);
        assert_eq!(scale_of(Some("3")).unwrap(), 30);
        assert_eq!(scale_of(Some("0")).unwrap(), 10);
        let refusal = format!("{:#}", scale_of(Some("lots")).unwrap_err());
        assert_eq!(refusal, "SWITCHBOARD_TEST_SCALE is \"lots\": invalid digit found in string");
    }
}
