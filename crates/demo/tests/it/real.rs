//! The real worker still says what was recorded, and what the demo worker says.
//!
//! With `SWITCHBOARD_RECORD=1` the recordings are written anew first; with names and commas between, only those.

use std::fs;
use std::sync::OnceLock;

use testkit::codex;
use testkit::compare::compare;
use testkit::driver;
use testkit::model::StandIn;
use testkit::redact::redact;
use testkit::script::Script;
use testkit::transcript::Transcript;
use testkit::workplace::Workplace;

use crate::comparison::{differences, list, report};
use crate::plays::{self, Play};

/// How often a script is played again to the real worker before its difference counts.
const REPLAYS_MAX: usize = 2;

#[test]
fn the_recordings_are_what_the_real_worker_says() {
    if let Some(wanted) = std::env::var_os("SWITCHBOARD_RECORD") {
        write(&wanted.to_string_lossy());
    }
    let differences = differences();
    let mut report = String::new();
    for Play { script, outcome } in real() {
        match plays::kept(script).and_then(|kept| Ok((kept, outcome.clone()?))) {
            Err(reason) => list(&mut report, script, &[reason]),
            Ok((kept, said)) => list(&mut report, script, &compare(&kept, &said, &differences.races(script))),
        }
    }
    assert!(report.is_empty(), "{report}");
}

#[test]
fn the_demo_worker_says_what_the_real_worker_says() {
    let said = |name: &str| {
        let play = real().iter().find(|play| play.script == name).ok_or("the real worker did not play it")?;
        play.outcome.clone()
    };
    let report = report(&differences(), plays::demo(), said);
    assert!(report.is_empty(), "{report}");
}

/// All scripts played against the real worker.
fn real() -> &'static [Play] {
    static PLAYS: OnceLock<Vec<Play>> = OnceLock::new();
    PLAYS.get_or_init(|| plays::play_all(play_steadily))
}

/// Plays a script once more if it came out otherwise than recorded: how the real worker's own tasks race is not ours to
/// decide, and a true difference comes out every time.
fn play_steadily(script: &Script) -> Result<Transcript, String> {
    let races = differences();
    let is_as_kept = |said: &Result<Transcript, String>| match (plays::kept(&script.name), said) {
        (Ok(kept), Ok(said)) => compare(&kept, said, &races.races(&script.name)).is_empty(),
        _ => false,
    };
    let mut said = play_real(script);
    for _ in 0..REPLAYS_MAX {
        if is_as_kept(&said) {
            break;
        }
        said = play_real(script);
    }
    said
}

fn play_real(script: &Script) -> Result<Transcript, String> {
    let workplace = Workplace::new().map_err(|error| error.to_string())?;
    let model = StandIn::start().map_err(|error| error.to_string())?;
    let binary = codex::binary().map_err(|error| error.to_string())?;
    let launch = codex::launch(binary, &workplace, &model).map_err(|error| error.to_string())?;
    let transcript = driver::play(script, &launch, &workplace).map_err(|error| error.to_string())?;
    Ok(redact(transcript, &workplace))
}

fn write(wanted: &str) {
    let is_known = |name: &str| name == "1" || real().iter().any(|play| play.script == name);
    let unknown: Vec<_> = wanted.split(',').filter(|name| !is_known(name)).collect();
    assert!(unknown.is_empty(), "no such script in transcripts/: {unknown:?}");
    for Play { script, outcome } in real() {
        if wanted != "1" && !wanted.split(',').any(|name| name == script) {
            continue;
        }
        if let Ok(transcript) = outcome {
            fs::write(plays::path(script, "jsonl"), transcript.to_text()).expect("transcripts/ can be written");
        }
    }
}
