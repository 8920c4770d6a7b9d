//! What a process is given at its start, and what is said when it cannot be started.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use expect_test::{Expect, expect};
use rustix::io::Errno;
use supervise::{CHILD_VARIABLE, EndReason, Limits, OWNER_VARIABLE, Rlimits, SpawnError};
use tempfile::TempDir;

use crate::support::{everything, launch, marked, run, run_alone, spawn, until};

#[test]
fn the_environment_is_exactly_the_allow_list_the_named_variables_and_the_marks() {
    run(async {
        assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some(), "there must be something to leave out");
        let mut launch = launch("env", &[]);
        launch.env = vec![("CODEX_HOME".into(), "/srv/codex".into()), ("TERM".into(), "dumb".into())];
        let mut child = launch.spawn(Limits::default()).unwrap();
        let mut seen: Vec<String> = everything(&mut child.stdout).await.lines().map(String::from).collect();
        seen.sort();

        let kept = ["HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "SSL_CERT_DIR", "SSL_CERT_FILE"]
            .into_iter()
            .chain(["TMPDIR", "TZ", "USER"])
            .filter_map(|name| Some(format!("{name}={}", std::env::var(name).ok()?)));
        let named = ["CODEX_HOME=/srv/codex".into(), "TERM=dumb".into()];
        let mark = format!("{OWNER_VARIABLE}={}", launch.owner);
        let child_mark = seen.iter().find(|line| line.starts_with(CHILD_VARIABLE)).unwrap().clone();
        assert_eq!(child_mark.len(), format!("{CHILD_VARIABLE}={}", launch.owner).len());
        let mut expected: Vec<String> = kept.chain(named).chain([mark, child_mark]).collect();
        expected.sort();
        assert_eq!(seen, expected);
    });
}

#[test]
fn arguments_arrive_as_they_were_given() {
    run(async {
        let mut child = spawn("printf", &["[%s]", "two words", "\"quoted\"", "it's", "$HOME", "", "a\nb", "*"]);
        let seen = everything(&mut child.stdout).await;
        assert_eq!(seen, "[two words][\"quoted\"][it's][$HOME][][a\nb][*]");
    });
}

#[test]
fn it_starts_in_its_directory_as_the_leader_of_its_own_group() {
    run(async {
        let home = TempDir::new().unwrap();
        let mut launch = launch("sh", &["-c", "pwd -P; cut -d' ' -f5 /proc/$$/stat"]);
        launch.cwd = home.path().into();
        let mut child = launch.spawn(Limits::default()).unwrap();
        let seen = everything(&mut child.stdout).await;
        let lines: Vec<&str> = seen.lines().collect();
        let directory = home.path().canonicalize().unwrap();
        assert_eq!(lines, [directory.to_str().unwrap(), &child.process.pid().to_string()]);
    });
}

#[test]
fn limits_hold_for_the_process_and_what_it_starts() {
    run(async {
        let mut launch =
            launch("sh", &["-c", "read go; sh -c 'ulimit -n; ulimit -Hn; ulimit -v; ulimit -c; ulimit -s'"]);
        launch.rlimits = Rlimits {
            open_files: Some(64),
            address_space_bytes: Some(1 << 30),
            core_bytes: Some(0),
            ..Rlimits::default()
        };
        let mut child = launch.spawn(Limits::default()).unwrap();
        // The limits were set when the spawn returned, and the script reads on only then.
        child.stdin.send(b"go\n").await.unwrap();
        let seen = everything(&mut child.stdout).await;
        assert_eq!(seen.lines().take(4).collect::<Vec<_>>(), ["64", "64", "1048576", "0"]);
    });
}

#[test]
fn a_limit_that_the_system_refuses_is_an_error() {
    run(async {
        let mut launch = launch("sleep", &["1000"]);
        // More than the kernel gives to anyone (`fs.nr_open`).
        launch.rlimits.open_files = Some(u64::from(u32::MAX));
        let Err(error) = launch.spawn(Limits::default()) else { panic!("it was started") };
        assert!(error.to_string().contains("cannot be limited: Operation not permitted"), "{error}");
        until("it is gone", || marked(launch.owner) == 0).await;
    });
}

#[test]
fn a_relative_path_is_taken_from_the_child_s_directory() {
    run_alone(async {
        let home = TempDir::new().unwrap();
        script(&home.path().join("hello"), "#!/bin/sh\necho hello from here\n", 0o755);
        let mut launch = launch("./hello", &[]);
        launch.cwd = home.path().into();
        let mut child = launch.spawn(Limits::default()).unwrap();
        assert_eq!(everything(&mut child.stdout).await, "hello from here\n");
    });
}

#[test]
fn each_way_of_not_starting_has_its_own_words() {
    check(
        &[
            ("no-such-program", "/"),
            ("./no-such-program", "/"),
            ("./directory", "/"),
            ("./not-executable", "/"),
            ("./interpreter-missing", "/"),
            ("./not-a-program", "/"),
            ("./hello", "/missing"),
            ("./hello", "/hello"),
        ],
        &expect![[r#"
            no-such-program in /
              `no-such-program` is not on the PATH `:.:HOME`: install it or give its full path
            ./no-such-program in /
              `HOME/./no-such-program` does not exist: install it or correct the path
            ./directory in /
              `HOME/./directory` is a directory: name the program in it
            ./not-executable in /
              `HOME/./not-executable` may not be executed by this user: allow it with `chmod +x` or name another program
            ./interpreter-missing in /
              `HOME/./interpreter-missing` needs an interpreter that is missing: install what its `#!` line or its ELF header names
            ./not-a-program in /
              `HOME/./not-a-program` is not a program for this machine: a script needs a `#!` line, a binary the right architecture
            ./hello in /missing
              working directory `HOME/missing` does not exist: create it or name another
            ./hello in /hello
              working directory `HOME/hello` cannot be used: not a directory; name a directory that this user may enter
        "#]],
    );
}

#[test]
fn a_full_machine_is_worth_another_try_and_a_missing_program_is_not() {
    let refused = |errno: Errno| SpawnError::Refused { program: "codex".into(), error: errno.into() }.reason();
    for errno in [Errno::AGAIN, Errno::NOMEM, Errno::MFILE, Errno::NFILE, Errno::TXTBSY] {
        assert_eq!(refused(errno), EndReason::StartRefused);
    }
    assert_eq!(refused(Errno::TOOBIG), EndReason::CouldNotStart);
    assert_eq!(SpawnError::Missing("codex".into()).reason(), EndReason::CouldNotStart);
}

#[test]
fn a_name_is_looked_up_in_the_absolute_directories_of_the_path_only() {
    check(
        &[("not-executable", "/"), ("only-here", "/directory")],
        &expect![[r#"
            not-executable in /
              `HOME/not-executable` may not be executed by this user: allow it with `chmod +x` or name another program
            only-here in /directory
              `only-here` is not on the PATH `:.:HOME`: install it or give its full path
        "#]],
    );
}

/// Tries to start each program in a directory below a home that has one of everything and is the whole `PATH`, but for
/// two entries that mean the child's own directory.
fn check(attempts: &[(&str, &str)], expect: &Expect) {
    run_alone(async {
        let home = TempDir::new().unwrap();
        let at = |name: &str| home.path().join(name);
        fs::create_dir(at("directory")).unwrap();
        script(&at("hello"), "#!/bin/sh\n", 0o755);
        script(&at("not-executable"), "#!/bin/sh\n", 0o644);
        script(&at("interpreter-missing"), "#!/no/such/interpreter\n", 0o755);
        script(&at("not-a-program"), "\x7fnothing that runs", 0o755);
        script(&at("directory/only-here"), "#!/bin/sh\n", 0o755);
        let home = home.path().to_str().unwrap();

        let mut errors = String::new();
        for (program, cwd) in attempts {
            let mut launch = launch(program, &[]);
            launch.cwd = format!("{home}{cwd}").into();
            launch.env = vec![("PATH".into(), format!(":.:{home}").into())];
            let Err(error) = launch.spawn(Limits::default()) else { panic!("{program} was started") };
            errors += &format!("{program} in {cwd}\n  {error}\n").replace(home, "HOME");
        }
        expect.assert_eq(&errors);
    });
}

/// Only for tests that run alone: a child that another test starts at this moment would hold the file open for writing
/// until it executes, and meanwhile nobody may run it.
fn script(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}
