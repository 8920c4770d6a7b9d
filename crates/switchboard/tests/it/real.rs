//! `switchboard ask` against the real codex, with a stand-in for its model.

use rustix::process::Signal;
use testkit::codex;
use testkit::model::StandIn;
use testkit::workplace::Workplace;

use crate::command::{Ended, Run, State};
use crate::record::{joined, pair};
use crate::served::Served;

/// A home and a project for the real codex, and its model.
pub(crate) struct Real {
    pub(crate) binary: String,
    pub(crate) home: String,
    project: String,
    _workplace: Workplace,
    pub(crate) model: StandIn,
}

impl Real {
    pub(crate) fn new() -> Self {
        let workplace = Workplace::new().unwrap();
        let model = StandIn::start().unwrap();
        let binary = codex::binary().unwrap();
        codex::launch(binary.clone(), &workplace, &model).unwrap();
        Self {
            binary: binary.to_str().unwrap().into(),
            home: workplace.codex_home().to_str().unwrap().into(),
            project: workplace.project().to_str().unwrap().into(),
            _workplace: workplace,
            model,
        }
    }

    fn ask(&self, state: &State, arguments: &[&str]) -> Run {
        let mut all = vec!["--worker", &self.binary, "--cd", &self.project];
        all.extend(arguments);
        state.ask_with(&all, &[("CODEX_HOME", &self.home)])
    }
}

/// The names of a run's events, but for those whose number depends on the model's metadata.
fn names(ended: &Ended) -> Vec<String> {
    let mut names: Vec<String> = ended.event_names().into_iter().filter(|name| name != "warning").collect();
    names.dedup();
    names
}

#[test]
fn the_real_worker_answers() {
    let state = State::new();
    let real = Real::new();
    let ended = real.ask(&state, &["[[text]]"]).end();
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
    assert_eq!(ended.stdout, "Hello from mock.\n");
}

#[test]
fn the_real_and_the_demo_worker_give_the_same_events() {
    let real = Real::new();
    for prompt in ["[[text]]", "[[reason]]", "[[ctx]]", "[[patch made.txt hello]]", "[[deltas 50]]"] {
        let state = State::new();
        let theirs = real.ask(&state, &["--json", prompt]).end();
        let ours = state.ask(&["--json", prompt]).end();
        assert_eq!(names(&ours), names(&theirs), "{prompt}\n{}\n{}", ours.stderr, theirs.stderr);
        assert_eq!(ours.code(), theirs.code(), "{prompt}");
    }
}

#[test]
fn a_recording_of_the_real_worker_replays_its_events() {
    let real = Real::new();
    for prompt in ["[[reason]]", "[[patch made.txt hello]]"] {
        let state = State::new();
        let (recorder, replayer) = pair(&state, &format!("'{}' app-server", real.binary));
        let ask = |worker: &str| {
            let arguments = ["--json", "--worker", worker, "--cd", &real.project, prompt];
            state.ask_with(&arguments, &[("CODEX_HOME", &real.home)]).end()
        };
        let (recorded, replayed) = (ask(&recorder), ask(&replayer));
        assert_eq!(joined(replayed.events()), joined(recorded.events()), "{prompt}");
        assert!(recorded.events().len() > 5, "{}", recorded.stderr);
    }
}

#[test]
fn the_real_worker_is_interrupted() {
    let state = State::new();
    let real = Real::new();
    let mut run = real.ask(&state, &["--json", "[[slow 500 20]]"]);
    run.wait_for(r#""type":"text""#);
    run.signal(Signal::INT);
    let ended = run.end();
    assert_eq!(ended.code(), Some(130), "{}", ended.stderr);
    assert_eq!(ended.end()["status"], "interrupted");
}

#[test]
fn a_thread_of_the_real_worker_goes_on() {
    let (real, state) = (Real::new(), State::new());
    let first = real.ask(&state, &["--json", "[[text]]"]).end();
    let started = first.events().into_iter().find(|event| event["type"] == "turn_started");
    let thread = started.unwrap()["thread"].clone();
    let second = real.ask(&state, &["--json", "--thread", thread.as_str().unwrap(), "[[text]]"]).end();
    assert_eq!(second.code(), Some(0), "{}", second.stderr);
    assert_eq!(names(&second), names(&first));
}

#[test]
fn a_server_with_the_real_worker_answers() {
    let (real, state) = (Real::new(), State::new());
    let served = Served::start_with(&state, &["--worker", &real.binary], &[("CODEX_HOME", &real.home)]);
    let answered = served.command(&["ask", "--cd", &real.project, "[[text]]"]);
    assert_eq!((answered.code(), answered.stdout.as_str()), (Some(0), "Hello from mock.\n"), "{}", answered.stderr);
    assert_eq!(served.json(&["workers"])["workers"][0]["dialect"], "v2");
    assert_eq!(served.stop().code(), Some(0));
}

#[test]
fn the_doctor_finds_the_real_worker_healthy() {
    let (real, state) = (Real::new(), State::new());
    let variables = [
        ("CODEX_HOME", real.home.as_str()),
        ("SWITCHBOARD_WORKERS_MAIN_COMMAND", &real.binary),
        ("SWITCHBOARD_LISTEN", "127.0.0.1:0"),
    ];
    let examined = state.run_with(&["doctor"], &variables).end();
    assert_eq!(examined.code(), Some(0), "{}", examined.stdout);
    for line in ["main: home", "speaks v2", "needs no login"] {
        assert!(examined.stdout.contains(line), "{line}\n{}", examined.stdout);
    }
}
