//! Plays every script of `transcripts/` against a worker, two at a time; each worker is played once a test run.

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use testkit::codex;
use testkit::driver::{self, Launch};
use testkit::redact::redact;
use testkit::script::Script;
use testkit::transcript::Transcript;
use testkit::workplace::Workplace;

const AT_ONCE: usize = 2;

/// The demo worker asks no model provider.
const NO_PROVIDER: &str = "http://127.0.0.1:9/v1";

/// A script and what came of it.
pub(crate) struct Play {
    pub script: String,
    pub outcome: Result<Transcript, String>,
}

/// All scripts played against the demo worker.
pub(crate) fn demo() -> &'static [Play] {
    static PLAYS: OnceLock<Vec<Play>> = OnceLock::new();
    PLAYS.get_or_init(|| play_all(play_demo))
}

fn play_demo(script: &Script) -> Result<Transcript, String> {
    let workplace = Workplace::new().map_err(|error| error.to_string())?;
    codex::configure(&workplace, NO_PROVIDER).map_err(|error| error.to_string())?;
    let launch = Launch {
        argv: vec![env!("CARGO_BIN_EXE_demo-worker").into(), "--listen".into(), "stdio://".into()],
        environment: workplace.environment(),
        cwd: workplace.project(),
    };
    let transcript = driver::play(script, &launch, &workplace).map_err(|error| error.to_string())?;
    Ok(redact(transcript, &workplace))
}

/// Plays every script with `play`, in the order of their names.
pub(crate) fn play_all(play: impl Fn(&Script) -> Result<Transcript, String> + Sync) -> Vec<Play> {
    let names = names("script");
    let plays: Vec<_> = names.iter().map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let index = names.iter().position(|other| other == name).expect("it is one of them");
                    let script = Script::load(&path(name, "script")).map_err(|error| error.to_string());
                    let _ = plays[index].set(script.and_then(|script| play(&script)));
                }
            });
        }
    });
    let outcomes = plays.into_iter().map(|play| play.into_inner().expect("every script was played"));
    names.iter().zip(outcomes).map(|(name, outcome)| Play { script: name.clone(), outcome }).collect()
}

/// The transcript of `script` that was kept from the real worker.
pub(crate) fn kept(script: &str) -> Result<Transcript, String> {
    let path = path(script, "jsonl");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Transcript::parse(&text).map_err(|error| format!("{}: {error}", path.display()))
}

/// The names of the files of `transcripts/` with this ending, sorted.
pub(crate) fn names(ending: &str) -> Vec<String> {
    let files = fs::read_dir(directory()).expect("transcripts/ is there");
    let paths = files.map(|file| file.expect("transcripts/ can be read").path());
    let stems = paths.filter(|path| path.extension().is_some_and(|extension| extension == ending));
    let mut names: Vec<_> = stems.filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned())).collect();
    names.sort();
    names
}

/// A file of `transcripts/`.
pub(crate) fn path(name: &str, ending: &str) -> PathBuf {
    directory().join(format!("{name}.{ending}"))
}

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../transcripts")
}
