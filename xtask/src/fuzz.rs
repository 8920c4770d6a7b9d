//! `cargo xtask fuzz`: looks for inputs that break what `docs/fuzzing.md` lists, with the committed corpus to begin with.
//! What it finds lies below `target/fuzz`, until `--keep` puts a minimal set that reaches as much code into `fuzz/corpus`.

use std::cmp::Reverse;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

mod statistics;

use crate::workspace::{self, Workspace};
use crate::{install, run};
use statistics::Statistics;

const CARGO_FUZZ: (&str, &str) = ("cargo-fuzz", "0.13.2");
const TOOLCHAIN: &str = "nightly";

/// Everything that is fuzzed; each is a file of `fuzz/targets`.
const TARGETS: [&str; 6] =
    ["framing", "chat_request", "response_request", "config_file", "server_events", "websocket_frames"];

/// What no input may need: a longer run or more memory is a finding too. The time is the clock's, and must be no finding on a machine
/// that has other things to do.
const INPUT_SECONDS_MAX: u32 = 60;
const MEMORY_MEBIBYTES_MAX: u32 = 1024;
const INPUT_BYTES_MAX: u32 = 4096;

/// What is committed of each target: every run of the tests replays it.
const KEPT_INPUTS_MAX: usize = 100;

/// Instrumented, and with all that the targets depend on.
const BUILD_TIMEOUT: Duration = Duration::from_secs(60 * 60);
const MERGE_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// For a run to end by itself after its time.
const END_GRACE: Duration = Duration::from_secs(5 * 60);
const QUESTION_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Fuzz these targets alone
    #[arg(value_name = "TARGET", value_parser = TARGETS)]
    targets: Vec<String>,
    /// How long to fuzz each target
    #[arg(long, value_name = "N", default_value_t = 20)]
    minutes: u32,
    /// Afterwards put a minimal set of all inputs into `fuzz/corpus`
    #[arg(long)]
    keep: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let fuzzer = Fuzzer::installed()?;
    let is_wanted = |target: &&str| arguments.targets.is_empty() || arguments.targets.iter().any(|name| name == target);
    let targets: Vec<&str> = TARGETS.into_iter().filter(is_wanted).collect();
    for target in &targets {
        run::to_end(fuzzer.command("build").arg(target), BUILD_TIMEOUT)?;
    }
    let mut failed = Vec::new();
    for target in targets {
        println!("{target}: {} min", arguments.minutes);
        let ended = fuzzer.fuzz(target, arguments.minutes)?;
        println!("{target}: {ended}");
        if arguments.keep && ended.findings.is_empty() {
            fuzzer.keep(target)?;
        }
        failed.extend((!ended.findings.is_empty()).then_some(target));
    }
    if failed.is_empty() {
        return Ok(());
    }
    bail!("{} failed; docs/fuzzing.md says what to do with an input that was found", failed.join(", "))
}

/// cargo-fuzz, and where it works.
struct Fuzzer {
    program: PathBuf,
    place: PathBuf,
}

impl Fuzzer {
    fn installed() -> Result<Self> {
        let mut question = run::program("rustup");
        question.args(["run", TOOLCHAIN, "rustc", "--version"]);
        run::stdout_of(&mut question, QUESTION_TIMEOUT)
            .with_context(|| format!("fuzzing needs a {TOOLCHAIN} toolchain: rustup toolchain install {TOOLCHAIN}"))?;
        let (name, version) = CARGO_FUZZ;
        let program = install::for_cargo(name, version)?;
        let place = Workspace::load()?.target_directory.join("fuzz");
        Ok(Self { program, place })
    }

    /// A command of cargo-fuzz, which is to use the toolchain that it needs whichever of them runs us.
    fn command(&self, name: &str) -> Command {
        let mut command = run::program(&self.program);
        command.env("RUSTUP_TOOLCHAIN", TOOLCHAIN).env_remove("CARGO").env_remove("RUSTC");
        command.args(["fuzz", name, "--fuzz-dir", "fuzz", "--target-dir"]).arg(self.place.join("build"));
        command
    }

    fn fuzz(&self, target: &str, minutes: u32) -> Result<Statistics> {
        let (found, findings) = (self.found(target), self.place.join("findings").join(target));
        fs::create_dir_all(&found)?;
        fs::create_dir_all(&findings)?;
        let log = self.place.join(target).with_extension("log");
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let before = files_in(&findings)?;
        let mut command = self.command("run");
        command.arg(target).arg(&found).arg(committed(target)).arg("--");
        command.arg(format!("-max_total_time={}", minutes * 60));
        command.arg(format!("-timeout={INPUT_SECONDS_MAX}")).arg(format!("-rss_limit_mb={MEMORY_MEBIBYTES_MAX}"));
        command.arg(format!("-max_len={INPUT_BYTES_MAX}")).arg("-print_final_stats=1");
        command.arg(format!("-artifact_prefix={}/", findings.display()));
        let limit = Duration::from_secs(u64::from(minutes) * 60) + END_GRACE;
        let ended = run::to_end(command.stdout(file.try_clone()?).stderr(file), limit);
        let new: Vec<PathBuf> = files_in(&findings)?.into_iter().filter(|file| !before.contains(file)).collect();
        match ended {
            Err(failure) if new.is_empty() => Err(failure).with_context(|| format!("see {}", log.display())),
            _ => Ok(Statistics::of(&fs::read_to_string(&log)?, new)),
        }
    }

    /// Puts the fewest inputs that reach as much code as all of them into the committed corpus, if they are not too many.
    fn keep(&self, target: &str) -> Result<()> {
        let kept = self.place.join("kept").join(target);
        if kept.exists() {
            fs::remove_dir_all(&kept)?;
        }
        fs::create_dir_all(&kept)?;
        let mut command = self.command("run");
        command.arg(target).arg(&kept).arg(committed(target)).arg(self.found(target));
        // How often code is reached is not counted: that would keep thousands.
        command.args(["--", "-set_cover_merge=1", "-use_counters=0"]).arg(format!("-max_len={INPUT_BYTES_MAX}"));
        run::to_end(&mut command, MERGE_TIMEOUT)?;
        fs::remove_dir_all(committed(target))?;
        fs::create_dir_all(committed(target))?;
        let mut files = files_in(&kept)?;
        // The longest reach most.
        files.sort_by_cached_key(|file| Reverse(fs::metadata(file).map_or(0, |file| file.len())));
        for file in files.iter().take(KEPT_INPUTS_MAX) {
            fs::copy(file, committed(target).join(file.file_name().unwrap_or_default()))?;
        }
        Ok(())
    }

    /// What was found in earlier runs and this one.
    fn found(&self, target: &str) -> PathBuf {
        self.place.join("corpus").join(target)
    }
}

fn committed(target: &str) -> PathBuf {
    workspace::root().join("fuzz/corpus").join(target)
}

fn files_in(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?;
    entries.map(|entry| Ok(entry?.path())).collect()
}
