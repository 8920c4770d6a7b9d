//! The commands against a running server: the same answers as from one's own worker, and decisions that reach it.

mod adversary;

use rustix::process::Signal;
use serde_json::Value;

use crate::command::State;
use crate::served::Served;

#[test]
fn without_a_server_every_command_says_so() {
    let state = State::new();
    for command in [
        &["workers"][..],
        &["threads", "list"],
        &["approvals"],
        &["approvals", "allow", "x"],
        &["approvals", "answer", "x", "{}"],
        &["keys"],
        &["keys", "add", "x"],
        &["usage"],
    ] {
        let ended = state.run_with(command, &[]).end();
        assert_eq!(ended.code(), Some(3), "{command:?}");
        assert!(ended.stderr.contains("start one with `switchboard serve`"), "{}", ended.stderr);
    }
}

#[test]
fn the_same_events_come_through_a_server_as_from_a_worker_of_ones_own() {
    let (state, alone) = (State::new(), State::new());
    let served = Served::start(&state);
    for prompt in ["[[text]]", "[[reason]]", "[[ctx]]", "[[shell echo hi]]"] {
        let through = served.command(&["ask", "--json", prompt]);
        let own = alone.ask(&["--json", prompt]).end();
        assert_eq!(through.event_names(), own.event_names(), "{prompt}\n{}\n{}", through.stderr, own.stderr);
        assert_eq!(through.code(), own.code(), "{prompt}");
    }
    let (through, own) = (served.command(&["ask", "hello"]), alone.ask(&["hello"]).end());
    assert_eq!(through.stdout, own.stdout);
    served.stop();
}

#[test]
fn a_worker_that_is_named_is_started_beside_the_server() {
    let state = State::new();
    let served = Served::start(&state);
    let own = served.command(&["ask", "--worker", "demo", "[[text]]"]);
    assert_eq!((own.code(), own.stdout.as_str()), (Some(0), "Hello from mock.\n"), "{}", own.stderr);
    let threads = served.json(&["threads"]);
    assert_eq!(threads["threads"], Value::Array(Vec::new()));
    let refused = served.command(&["ask", "--env", "HOME", "[[text]]"]);
    assert!(refused.stderr.contains("--env is for a worker of your own"), "{}", refused.stderr);
    served.stop();
}

#[test]
fn ctrl_c_interrupts_a_turn_of_the_server() {
    let state = State::new();
    let served = Served::start(&state);
    let mut run = state.run_with(&["ask", "--json", "[[slow 10000 20]]"], &[]);
    run.wait_for(r#""type":"text""#);
    run.signal(Signal::INT);
    let ended = run.end_beside_others();
    assert_eq!(ended.code(), Some(130), "{}", ended.stderr);
    assert_eq!(ended.end()["status"], "interrupted");
    assert_eq!(served.json(&["workers"])["workers"][0]["turns"], 0);
    served.stop();
}

#[test]
fn a_thread_goes_on_is_listed_and_shown() {
    let state = State::new();
    let served = Served::start(&state);
    let thread_of = |arguments: &[&str]| {
        let ended = served.command(&[&["ask", "--json"], arguments, &["[[text]]"]].concat());
        let started = ended.events().into_iter().find(|event| event["type"] == "turn_started").unwrap();
        started["thread"].as_str().unwrap().to_owned()
    };
    let thread = thread_of(&[]);
    assert_eq!(thread_of(&["--thread", &thread]), thread);
    served.wait_until("kept", |served| served.json(&["threads"])["threads"][0]["last_turn_state"] == "ended");
    let listed = served.command(&["threads"]).stdout;
    assert!(listed.contains(&thread) && listed.starts_with("ID "), "{listed}");
    let shown = served.command(&["threads", "show", &thread]).stdout;
    assert!(shown.contains("main-0") && shown.contains("local"), "{shown}");
    let unknown = served.command(&["threads", "show", "no/such"]);
    assert_eq!(
        (unknown.code(), unknown.stderr.as_str()),
        (Some(1), "switchboard: there is no thread \"no/such\" of yours\n")
    );
    served.stop();
}

#[test]
fn a_worker_is_restarted_by_name() {
    let state = State::new();
    let served = Served::start(&state);
    let pid = |served: &Served<'_>| served.json(&["workers"])["workers"][0]["pid"].clone();
    let before = pid(&served);
    let restarted = served.command(&["workers", "restart", "main-0"]);
    assert_eq!(restarted.stdout, "main-0 is restarting\n", "{}", restarted.stderr);
    served.wait_until("another process", |served| ![before.clone(), Value::Null].contains(&pid(served)));
    let unknown = served.command(&["workers", "restart", "main-7"]);
    assert_eq!(unknown.code(), Some(1));
    assert!(unknown.stderr.contains("there is no worker named \"main-7\""), "{}", unknown.stderr);
    served.stop();
}

#[test]
fn what_waits_is_listed_shown_and_allowed_as_it_was_shown() {
    let state = State::new();
    let served = Served::start(&state);
    let asking = state.run_with(&["ask", "[[shellesc touch \u{202e}x]]"], &[]);
    served.wait_until("asked", |served| served.json(&["approvals"])["approvals"][0]["state"] == "pending");
    let listed = served.json(&["approvals"]);
    let id = listed["approvals"][0]["id"].as_str().unwrap();
    let table = served.command(&["approvals"]).stdout;
    assert!(table.contains(id) && table.contains("command") && !table.contains('\u{202e}'), "{table}");
    let shown = served.command(&["approvals", "show", id]).stdout;
    assert!(shown.contains("U+202E") && !shown.contains('\u{202e}'), "{shown}");
    let wrong = served.command(&["approvals", "allow", id, "--shown-hash", "0"]);
    assert_eq!(wrong.code(), Some(1), "{}", wrong.stdout);
    let allowed = served.command(&["approvals", "allow", id]);
    assert_eq!(allowed.code(), Some(0), "{}", allowed.stderr);
    assert!(allowed.stdout.contains("touch") && allowed.stdout.ends_with("decided      allow\n"), "{}", allowed.stdout);
    let asked = asking.end_beside_others();
    assert_eq!(asked.code(), Some(0), "{}", asked.stderr);
    assert!(
        asked.stderr.contains("waits for a decision (command): `switchboard approvals` shows it"),
        "{}",
        asked.stderr
    );
    let late = served.command(&["approvals", "deny", id, "--reason", "too late"]);
    assert_eq!(late.code(), Some(1), "{}", late.stdout);
    assert_eq!(served.command(&["approvals"]).stdout, "nothing waits for a decision\n");
    assert_eq!(served.json(&["approvals", "list", "--all"])["approvals"][0]["state"], "allowed");
    served.stop();
}

#[test]
fn a_denial_ends_the_wait_and_a_grant_holds_for_the_thread() {
    let state = State::new();
    let served = Served::start(&state);
    for (prompt, action, state_after) in [
        ("[[shellesc make]]", &["deny", "--reason", "not here"][..], "denied"),
        ("[[patch new.txt hello]]", &["allow", "--for-session"], "allowed"),
    ] {
        let asking = state.run_with(&["ask", prompt], &[]);
        served.wait_until("asked", |served| served.json(&["approvals"])["approvals"][0]["state"] == "pending");
        let id = served.json(&["approvals"])["approvals"][0]["id"].as_str().unwrap().to_owned();
        let decided = served.json(&[&["approvals"], action, &[&id]].concat());
        assert_eq!(decided["approval"]["id"], id.as_str());
        assert_eq!(asking.end_beside_others().code(), Some(0));
        assert_eq!(served.json(&["approvals", "show", &id])["state"], state_after);
    }
    served.stop();
}

#[test]
fn a_key_is_made_shown_once_limited_listed_and_revoked() {
    let state = State::new();
    let served = Served::start(&state);
    let limits = ["--requests-per-minute", "60", "--turns-max", "2", "--tokens-per-day", "1000"];
    let made = served.command(&[&["keys", "add", "chat", "--scope", "use,operate"], &limits[..]].concat());
    assert_eq!(made.code(), Some(0), "{}", made.stderr);
    let secret = made.stdout.strip_prefix("key ").unwrap().lines().next().unwrap().to_owned();
    let asked = |arguments: &[&str]| {
        let all = [arguments, &["--server", served.url()]].concat();
        state.run_with(&all, &[("SWITCHBOARD_KEY", &secret)]).end_beside_others()
    };
    let listed = asked(&["keys"]);
    let row = listed.stdout.lines().find(|line| line.contains("chat")).unwrap();
    let row: Vec<_> = row.split_whitespace().collect();
    assert_eq!(row[1..7], ["chat", "use,operate", "all", "60", "2", "1000"], "{}", listed.stdout);
    let hidden = secret.rsplit('_').next().unwrap();
    for arguments in [&["keys"][..], &["keys", "--json"], &["usage", "--json"]] {
        assert!(!asked(arguments).stdout.contains(hidden), "{arguments:?}");
    }
    let revoked = served.command(&["keys", "revoke", row[0]]);
    assert_eq!(revoked.stdout, format!("{} is not valid any more\n", row[0]), "{}", revoked.stderr);
    let refused = asked(&["keys"]);
    assert_eq!(refused.code(), Some(1), "{}", refused.stdout);
    assert_eq!(refused.stderr, "switchboard: this key is not valid; it may have been revoked\n");
    let unknown = served.command(&["keys", "revoke", "local"]);
    assert_eq!((unknown.code(), unknown.stdout.as_str()), (Some(1), ""), "{}", unknown.stderr);
    let wrong = served.command(&["keys", "add", "chat", "--profile", "none"]);
    assert!(wrong.stderr.contains("there is no profile \"none\""), "{}", wrong.stderr);
    let logged = served.stop().stderr;
    assert!(logged.contains("a key was made") && logged.contains("a key was revoked"), "{logged}");
    assert!(!logged.contains(hidden), "{logged}");
}

#[test]
fn usage_is_shown_by_day_and_key() {
    let state = State::new();
    let served = Served::start(&state);
    assert_eq!(served.command(&["ask", "[[text]]"]).code(), Some(0));
    let told = served.json(&["usage", "--key", "local"]);
    assert_eq!((&told["usage"][0]["key"], &told["usage"][0]["turns"]), (&"local".into(), &1.into()), "{told}");
    let input = told["usage"][0]["input_tokens"].to_string();
    let table = served.command(&["usage"]).stdout;
    assert!(table.lines().nth(1).unwrap().contains(&input) && table.contains("\nall "), "{table}");
    assert_eq!(served.json(&["usage", "--to", "2000-01-01"])["usage"], Value::Array(Vec::new()));
    let wrong = served.command(&["usage", "--from", "yesterday"]);
    assert!(wrong.stderr.contains("`from` must be a day in UTC such as 20"), "{}", wrong.stderr);
    served.stop();
}

#[test]
fn a_request_that_fails_stands_in_the_log_with_its_name() {
    let state = State::new();
    let served = Served::start_with(&state, &["--worker", "demo"], &[("SWITCHBOARD_LOG", "warn,front=debug")]);
    let answer = served.get("/nowhere");
    let name = answer.lines().find_map(|line| line.strip_prefix("x-request-id: ")).unwrap().to_owned();
    let logged = served.stop().stderr;
    let line = logged.lines().find(|line| line.contains("route_not_found")).unwrap();
    assert!(line.contains(&name), "{line} has no {name}");
}
