//! What people are shown before they decide, and what of a decision stays on disk.

use std::fs;

use crate::command::State;
use crate::served::Served;

#[test]
fn a_command_that_the_list_shortens_is_allowed_only_with_the_hash_of_all_of_it() {
    let state = State::new();
    let served = Served::start(&state);
    let script = format!("echo {} ; touch middle ; echo {}", "x".repeat(4_000), "y".repeat(4_000));
    let asking = state.run_with(&["ask", &format!("[[shellesc {script}]]")], &[]);
    served.wait_until("asked", |served| served.json(&["approvals"])["total"] == 1);
    let id = served.json(&["approvals"])["approvals"][0]["id"].as_str().unwrap().to_owned();
    let table = served.command(&["approvals"]).stdout;
    assert!(table.contains(&format!("shortened: `switchboard approvals show {id}`")), "{table}");
    assert!(!table.contains("touch middle"), "{table}");

    let refused = served.command(&["approvals", "allow", &id]);
    assert_eq!(refused.code(), Some(1));
    assert!(refused.stderr.contains("allow it with --shown-hash"), "{}", refused.stderr);
    let shown = served.command(&["approvals", "show", &id]).stdout;
    assert!(shown.starts_with("ESCALATION: runs outside the sandbox\n"), "{shown}");
    assert!(shown.contains(&script), "all of it can be read");
    let hash = shown.lines().find_map(|line| line.strip_prefix("shown_hash")).unwrap().trim();
    let allowed = served.command(&["approvals", "allow", &id, "--shown-hash", hash]);
    assert_eq!(allowed.code(), Some(0), "{}", allowed.stderr);
    assert_eq!(asking.end_beside_others().code(), Some(0));
    served.stop();
}

#[test]
fn a_flood_of_requests_hides_none_and_a_limit_says_what_it_hides() {
    let state = State::new();
    let served = Served::start(&state);
    let asking: Vec<_> = (0..3)
        .map(|number| {
            let run = state.run_with(&["ask", &format!("[[shellesc touch {number}]]")], &[]);
            served.wait_until("asked", |served| served.json(&["approvals"])["total"] == number + 1);
            run
        })
        .collect();
    let listed = served.command(&["approvals", "list", "--limit", "2"]).stdout;
    assert!(listed.contains("touch 0") && listed.contains("touch 1"), "the oldest are shown: {listed}");
    assert!(listed.ends_with("showing 2 of 3; `--limit 3` shows all\n"), "{listed}");
    let limited = served.json(&["approvals", "list", "--limit", "2"]);
    assert_eq!((limited["approvals"].as_array().unwrap().len(), &limited["total"]), (2, &3.into()));
    assert!(limited["next"].is_string());
    for approval in served.json(&["approvals"])["approvals"].as_array().unwrap() {
        served.command(&["approvals", "deny", approval["id"].as_str().unwrap()]);
    }
    for run in asking {
        run.end_beside_others();
    }
    served.stop();
}

#[test]
fn no_key_of_decision_links_stays_in_the_state_directory() {
    let state = State::new();
    let started = Served::start(&state);
    let find = || {
        let entries = fs::read_dir(state.path()).unwrap().map(|entry| entry.unwrap().file_name());
        entries.filter(|name| name.to_string_lossy().contains("links")).collect::<Vec<_>>()
    };
    assert_eq!(find(), [] as [&str; 0]);
    started.stop();
    fs::write(state.path().join("links.key"), [7; 32]).unwrap();
    let served = Served::start(&state);
    assert_eq!(find(), [] as [&str; 0], "one of an earlier version is removed");
    served.stop();
}
