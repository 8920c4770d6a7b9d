//! An agent that can write Switchboard's own configuration. The test writes the file in its place: the demo worker runs no
//! commands.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::command::State;
use crate::served::Served;

/// Has the program of a tool server leave a trace.
fn evil(marker: &Path) -> String {
    format!("[tools.evil]\ncommand = [\"/bin/sh\", \"-c\", \"id > {}\"]\nrestart = \"never\"\n", marker.display())
}

/// Agents that may write to this directory.
fn profile(cwd: &Path) -> String {
    format!("[profiles.codex]\ncwd = {cwd:?}\nsandbox = \"workspace-write\"\n")
}

/// What `serve` and `doctor` say of a configuration that must not be served.
fn refusal(state: &State, arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let serve = ["serve", "--worker", "demo", "--listen", "127.0.0.1:0"];
    let ended = state.run_with(&[&serve, arguments].concat(), variables).end();
    assert_eq!(ended.code(), Some(1), "{}{}", ended.stdout, ended.stderr);
    assert!(!state.path().join("switchboard.db").exists(), "nothing was opened");
    let free = [("SWITCHBOARD_LISTEN", "127.0.0.1:0"), ("SWITCHBOARD_WORKERS_MAIN_COMMAND", "demo")];
    let doctor = state.run_with(&[&["doctor", "--json"], arguments].concat(), &[&free, variables].concat()).end();
    assert_eq!(doctor.code(), Some(1), "{}", doctor.stdout);
    let findings: Vec<Value> = serde_json::from_str(&doctor.stdout).unwrap();
    let finding = findings.iter().find(|finding| finding["check"] == "confinement").unwrap();
    let said = ended.stderr.strip_prefix("switchboard: ").unwrap().trim_end();
    assert_eq!((&finding["state"], &finding["what"]), (&json!("problem"), &json!(said)), "both say the same");
    said.to_owned()
}

#[test]
fn a_tool_server_that_an_agent_adds_waits_for_an_operator() {
    let state = State::outside_tmp();
    let workspace = state.path().join("workspace");
    fs::create_dir(&workspace).unwrap();
    let marker = workspace.join("marker");
    state.configure(&profile(&workspace));
    let served = Served::start(&state);
    assert_eq!(served.json(&["config"])["pending"], json!([]));

    state.configure(&format!("{}{}", profile(&workspace), evil(&marker)));
    let shown = served.json(&["config", "show"]);
    assert_eq!(shown["pending"][0]["server"], "evil");
    assert_eq!(shown["pending"][0]["command"][2], format!("id > {}", marker.display()));
    let hash = shown["hash"].as_str().unwrap();
    let nothing_starts = || {
        assert!(served.get("/api/tools/evil").starts_with("HTTP/1.1 404"));
        assert!(!marker.exists());
    };
    nothing_starts();
    assert!(served.command(&["doctor"]).stdout.contains("wait for acceptance: evil"));

    let unasked = served.command(&["config", "accept"]);
    assert_eq!(unasked.code(), Some(1));
    assert!(unasked.stderr.contains("runs /bin/sh -c") && unasked.stderr.contains("add --yes"), "{}", unasked.stderr);
    let declined = state.run_typing("n\n", &["config", "accept"]);
    assert_eq!(declined.code(), Some(1), "{}", declined.stderr);
    assert!(declined.stderr.contains("Accept? [y/N]"), "{}", declined.stderr);
    assert_eq!(served.command(&["config", "accept", "--yes", "--hash", "0"]).code(), Some(1));
    assert!(served.post("/api/config/accept", r#"{"hash":"0"}"#).starts_with("HTTP/1.1 409"));
    nothing_starts();

    // A file that has changed since it was shown is not accepted.
    state.configure(&format!("{}{}# more\n", profile(&workspace), evil(&marker)));
    let other = served.json(&["config"]);
    assert_ne!(other["hash"], hash);
    assert!(served.post("/api/config/accept", &json!({ "hash": hash }).to_string()).starts_with("HTTP/1.1 409"));
    nothing_starts();

    let accepted = state.run_typing("y\n", &["config", "accept"]);
    assert_eq!(accepted.code(), Some(0), "{}", accepted.stderr);
    assert_eq!(accepted.stdout, "accepted: evil\n");
    served.wait_until("it is started", |_| marker.exists());
    assert_eq!(served.json(&["config"])["pending"], json!([]));

    // One that is gone is stopped without a word.
    state.configure(&profile(&workspace));
    served.wait_until("it is gone", |served| served.get("/api/tools/evil").starts_with("HTTP/1.1 404"));
    let log = served.stop().stderr;
    for event in ["configuration change waits for acceptance", "configuration change accepted"] {
        assert!(log.contains(event), "{event}\n{log}");
    }
}

#[test]
fn a_file_in_the_workspace_is_not_served() {
    let state = State::outside_tmp();
    let project = state.path().join("project");
    fs::create_dir(&project).unwrap();
    let file = project.join("switchboard.toml");
    fs::write(&file, profile(&project)).unwrap();
    let arguments = ["--config", file.to_str().unwrap()];
    let codex_home = state.path().join("home");
    let said = refusal(&state, &arguments, &[("CODEX_HOME", codex_home.to_str().unwrap())]);
    let expected = format!(
        "profile \"codex\": the configuration file ({}) can be changed from inside {}, which its agents may write to \
         (its `cwd`): move it with --config, or change [profiles.codex]",
        file.display(),
        project.display()
    );
    assert_eq!(said, expected);
}

#[test]
fn state_in_tmp_or_tmpdir_is_not_served() {
    let here = State::outside_tmp();
    let in_tmp = tempfile::TempDir::new_in("/tmp").unwrap();
    let temporary = here.path().join("temporary");
    fs::create_dir(&temporary).unwrap();
    here.configure(&profile(&here.path().join("workspace")));
    for (state_dir, root) in [(in_tmp.path(), "/tmp"), (temporary.as_path(), temporary.to_str().unwrap())] {
        let variables =
            [("SWITCHBOARD_STATE_DIR", state_dir.to_str().unwrap()), ("TMPDIR", temporary.to_str().unwrap())];
        let said = refusal(&here, &[], &variables);
        let expected = format!("the state directory ({}) can be changed from inside {root},", state_dir.display());
        assert!(said.contains(&expected), "{said}");
    }
}

#[test]
fn links_hide_nothing() {
    let state = State::outside_tmp();
    for name in ["project", "config", "state"] {
        fs::create_dir(state.path().join(name)).unwrap();
    }
    let at = |name: &str| state.path().join(name);
    let codex_home = at("home");
    let variables = [("CODEX_HOME", codex_home.to_str().unwrap())];

    // The file itself lies elsewhere, but an agent could replace the link to it.
    fs::write(at("config/real.toml"), profile(&at("project"))).unwrap();
    symlink(at("config/real.toml"), at("project/link.toml")).unwrap();
    let said = refusal(&state, &["--config", at("project/link.toml").to_str().unwrap()], &variables);
    assert!(said.contains("the configuration file"), "{said}");

    // The state directory leads into the workspace, which has another name in the file.
    fs::create_dir(at("project/kept")).unwrap();
    symlink(at("project"), at("alias")).unwrap();
    symlink(at("project/kept"), at("state/link")).unwrap();
    fs::write(at("config/real.toml"), profile(&at("alias"))).unwrap();
    let linked = at("state/link");
    let state_dir = [variables[0], ("SWITCHBOARD_STATE_DIR", linked.to_str().unwrap())];
    let said = refusal(&state, &["--config", at("config/real.toml").to_str().unwrap()], &state_dir);
    assert!(said.contains("the state directory") && said.contains("alias"), "{said}");
}

#[test]
fn full_access_is_served_only_if_it_is_accepted() {
    let state = State::outside_tmp();
    let full = "[profiles.codex]\nsandbox = \"danger-full-access\"\n";
    state.configure(full);
    let said = refusal(&state, &[], &[]);
    assert!(said.contains("allow_unconfined = true"), "{said}");
    state.configure(&format!("{full}allow_unconfined = true\n"));
    let log = Served::start(&state).stop().stderr;
    assert!(log.contains("are not confined"), "{log}");
}

#[test]
fn a_hangup_signal_accepts_nothing() {
    let state = State::outside_tmp();
    let workspace = state.path().join("workspace");
    fs::create_dir(&workspace).unwrap();
    let marker = workspace.join("marker");
    state.configure(&profile(&workspace));
    let served = Served::start(&state);
    state.configure(&format!("{}{}", profile(&workspace), evil(&marker)));
    assert_eq!(served.json(&["config", "show"])["pending"][0]["server"], "evil");
    served.run.signal(Signal::HUP);
    served.run.end_beside_others();
    assert!(!marker.exists(), "the server ends, and starts nothing of the changed file");
}
