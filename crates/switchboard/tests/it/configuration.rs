//! The configuration as the commands read it: from the places where it is looked for, and refused with every mistake.

use std::fs;

use crate::command::State;

#[test]
fn the_resolved_configuration_is_printed_and_can_be_read_again() {
    let state = State::new();
    state.configure("drain_grace = \"5s\"\n");
    let variables = [("SWITCHBOARD_KEY", "canary"), ("SWITCHBOARD_LIMITS_QUEUE_MAX", "7")];
    let printed = state.run_with(&["serve", "--print-config", "--listen", "127.0.0.1:9"], &variables).end();
    assert_eq!(printed.code(), Some(0), "{}", printed.stderr);
    for line in ["listen = \"127.0.0.1:9\"", "# --listen", "drain_grace = \"5s\"", "queue_max = 7", "# key is hidden"] {
        assert!(printed.stdout.contains(line), "{line}\n{}", printed.stdout);
    }
    assert!(!printed.stdout.contains("canary"));
    let file = state.path().join("printed.toml");
    fs::write(&file, &printed.stdout).unwrap();
    let again = state.run_with(&["serve", "--print-config", "--config", file.to_str().unwrap()], &[]).end();
    assert_eq!(again.code(), Some(0), "{}", again.stderr);
    let values = |text: &str| {
        text.lines().filter_map(|line| Some(line.split_once(" #")?.0.trim().to_owned())).collect::<Vec<_>>()
    };
    let is_value = |line: &String| !line.starts_with('#');
    let [before, after] =
        [&printed.stdout, &again.stdout].map(|text| values(text).into_iter().filter(is_value).collect::<Vec<_>>());
    assert_eq!(before, after);
}

#[test]
fn a_wrong_file_is_refused_with_every_mistake() {
    let state = State::new();
    state.configure("listn = 1\n[[workers]]\ncount = 0\n");
    for command in [&["serve"][..], &["workers"], &["ask", "hello"]] {
        let ended = state.run_with(command, &[]).end();
        assert_eq!(ended.code(), Some(1), "{command:?}");
        assert!(
            ended.stderr.contains("switchboard.toml:1: unknown key `listn` at the top: did you mean `listen`?"),
            "{}",
            ended.stderr
        );
        assert!(ended.stderr.contains("switchboard.toml:3: `count`: expected a whole number"), "{}", ended.stderr);
    }
}

#[test]
fn a_file_that_is_named_must_be_there() {
    let state = State::new();
    let ended = state.run_with(&["serve", "--config", "no.toml"], &[]).end();
    assert_eq!(
        (ended.code(), ended.stderr.as_str()),
        (Some(1), "switchboard: there is no configuration file no.toml\n")
    );
    let ended = state.run_with(&["serve"], &[("SWITCHBOARD_CONFIG", "no.toml")]).end();
    assert_eq!(ended.code(), Some(1));
}

#[test]
fn the_file_of_the_user_counts_and_never_one_that_happens_to_lie_around() {
    let state = State::new();
    state.configure("drain_grace = \"7s\"\n");
    fs::write(state.project().join("switchboard.toml"), "drain_grace = \"8s\"\n[[workers]]\ncommand = \"./theirs\"\n")
        .unwrap();
    let printed = state.run_with(&["serve", "--print-config"], &[]).end();
    assert!(printed.stdout.contains("drain_grace = \"7s\""), "{}", printed.stdout);
    assert!(!printed.stdout.contains("theirs"), "{}", printed.stdout);
    let named = state.run_with(&["serve", "--print-config", "--config", "switchboard.toml"], &[]).end();
    assert!(named.stdout.contains("drain_grace = \"8s\""), "{}", named.stdout);
}
