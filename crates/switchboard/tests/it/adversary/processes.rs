//! Processes that outlive whoever started them, and files that lead elsewhere.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::KEY;
use crate::command::{Ended, State};
use crate::served::Served;

fn executable(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// An installation as npm makes it: a script that must not be run, and the native program in the package of the platform.
fn npm_installation(state: &State) -> Option<String> {
    let (triple, package) = match std::env::consts::ARCH {
        "x86_64" => ("x86_64-unknown-linux-musl", "codex-linux-x64"),
        "aarch64" => ("aarch64-unknown-linux-musl", "codex-linux-arm64"),
        _ => return None,
    };
    let modules = state.path().join("node_modules/@openai");
    executable(&modules.join("codex/bin/codex.js"), "#!/bin/sh\nexit 7\n");
    fs::write(modules.join("codex/package.json"), r#"{"name": "@openai/codex"}"#).unwrap();
    let worker = fs::read_to_string(state.worker("", "")).unwrap();
    executable(&modules.join(package).join("vendor").join(triple).join("bin/codex"), &worker);
    let link = state.path().join("codex");
    symlink(modules.join("codex/bin/codex.js"), &link).unwrap();
    Some(link.to_str().unwrap().into())
}

#[test]
fn the_native_process_is_tracked_and_not_the_script_of_npm() {
    let state = State::new();
    let Some(codex) = npm_installation(&state) else {
        eprintln!("skipped: npm has no codex for {}", std::env::consts::ARCH);
        return;
    };
    let served = Served::start_with(&state, &["--worker", &codex], &[]);
    let workers = served.json(&["workers"]);
    let pid = workers["workers"][0]["pid"].as_u64().unwrap_or_else(|| panic!("no process id in {workers}"));
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap();
    let has = |variable: &str| environment.split(|byte| *byte == 0).any(|other| other == variable.as_bytes());
    assert!(has("CODEX_MANAGED_BY_NPM=1"), "what the script would have set");
    let executable = fs::read_link(format!("/proc/{pid}/exe")).unwrap();
    assert_eq!(executable, Path::new(env!("CARGO_BIN_EXE_switchboard")), "no script is between");
    served.stop();
}

fn refused_with_link(name: &str) -> (Ended, String) {
    let state = State::new();
    let directory = state.path().join("state");
    fs::create_dir(&directory).unwrap();
    let canary = state.path().join("canary");
    fs::write(&canary, "canary").unwrap();
    symlink(&canary, directory.join(name)).unwrap();
    let variables = [("SWITCHBOARD_STATE_DIR", directory.to_str().unwrap())];
    let ended = state.run_with(&["serve", "--worker", "demo", "--listen", "127.0.0.1:0"], &variables).end();
    (ended, fs::read_to_string(&canary).unwrap())
}

#[test]
fn state_files_that_are_links_keep_the_server_from_starting() {
    for name in ["lock", "ledger.json", "groups.json", "switchboard.db"] {
        let (ended, canary) = refused_with_link(name);
        assert_eq!(ended.code(), Some(1), "{name}: {}", ended.stderr);
        assert!(ended.stderr.contains("symbolic link"), "{name}: {}", ended.stderr);
        assert_eq!(canary, "canary", "{name}");
    }
}

fn examine(state: &State, directory: &Path, variables: &[(&str, &str)]) -> Ended {
    let given = [
        ("SWITCHBOARD_LISTEN", "127.0.0.1:0"),
        ("SWITCHBOARD_WORKERS_MAIN_COMMAND", "demo"),
        ("SWITCHBOARD_STATE_DIR", directory.to_str().unwrap()),
    ];
    state.run_with(&["doctor", "--json"], &[&given, variables].concat()).end()
}

#[test]
fn doctor_refuses_the_state_directory_that_serve_refuses() {
    let state = State::new();
    let directory = state.path().join("state");
    fs::create_dir(&directory).unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).unwrap();
    let why = "other users may write to it";
    let doctor = examine(&state, &directory, &[]);
    assert_eq!(doctor.code(), Some(1), "{}", doctor.stdout);
    assert!(doctor.stdout.contains(why), "{}", doctor.stdout);
    let variables = [("SWITCHBOARD_STATE_DIR", directory.to_str().unwrap())];
    let serve = state.run_with(&["serve", "--worker", "demo", "--listen", "127.0.0.1:0"], &variables).end();
    assert_eq!(serve.code(), Some(1));
    assert!(serve.stderr.contains(why), "{}", serve.stderr);
}

#[test]
fn doctor_names_who_holds_the_socket_of_a_worker() {
    let state = State::new();
    let _listener = UnixListener::bind(state.path().join("main-0.sock")).unwrap();
    let doctor = examine(&state, state.path(), &[("SWITCHBOARD_WORKERS_MAIN_TRANSPORT", "unix")]);
    let named = format!("PID {} ", std::process::id());
    assert!(doctor.stdout.contains(&named), "{}", doctor.stdout);
    assert!(doctor.stdout.contains("holds the socket of worker main-0"), "{}", doctor.stdout);
}

/// A place that another user can enter, with a worker that notes who it is and whether it can read the state directory.
struct OtherUser {
    place: tempfile::TempDir,
    state: State,
}

const OTHER_USER: &str = "nobody";

impl OtherUser {
    /// None where nobody can become another user.
    fn new() -> Option<Self> {
        let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let user = passwd.lines().find_map(|line| line.strip_prefix(&format!("{OTHER_USER}:x:")));
        let uid: u32 = user.and_then(|rest| rest.split(':').next()).and_then(|uid| uid.parse().ok())?;
        if !rustix::process::geteuid().is_root() || !Path::new("/usr/bin/setpriv").exists() {
            return None;
        }
        let (place, state) = (tempfile::tempdir().unwrap(), State::new());
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let binary = place.path().join("switchboard");
        fs::copy(env!("CARGO_BIN_EXE_switchboard"), &binary).unwrap();
        let home = place.path().join("home");
        fs::create_dir(&home).unwrap();
        std::os::unix::fs::chown(&home, Some(uid), None).unwrap();
        let script = format!(
            "#!/bin/sh\n\
             (id -u; echo $HOME; ls '{state}' || echo closed; cat '{state}/lock' || echo unread) >$CODEX_HOME/seen 2>/dev/null\n\
             for last; do :; done\n\
             case $last in unix://*) exec '{binary}' demo-worker --listen $last;; *) exec '{binary}' demo-worker;; esac\n",
            state = state.path().display(),
            binary = binary.display(),
        );
        executable(&place.path().join("codex"), &script);
        Some(Self { place, state })
    }

    /// A command as that user, in a directory that it can enter.
    #[expect(clippy::disallowed_methods, reason = "the test plays the user's shell")]
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("/usr/bin/setpriv");
        command.args(["--reuid", OTHER_USER, "--regid", "65534", "--clear-groups", "--"]).args(words);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", self.place.path().join("home"));
        command.current_dir(self.place.path());
        command
    }

    fn start(&self, transport: &str) -> Served<'_> {
        let place = self.place.path().display();
        let config = self.state.path().join("config.toml");
        let text = format!(
            "[[workers]]\nname = \"main\"\nuser = \"{OTHER_USER}\"\ntransport = \"{transport}\"\n\
             command = \"{place}/codex\"\ncodex_home = \"{place}/home\"\ncwd = \"{place}\"\n"
        );
        fs::write(&config, text).unwrap();
        Served::start_with(&self.state, &["--config", config.to_str().unwrap()], &[])
    }
}

#[test]
fn a_worker_of_another_user_cannot_read_the_state_directory() {
    let Some(other) = OtherUser::new() else {
        eprintln!("skipped: needs root, the user {OTHER_USER} and setpriv");
        return;
    };
    for transport in ["stdio", "unix"] {
        let served = other.start(transport);
        let workers = served.json(&["workers"]);
        let pid = workers["workers"][0]["pid"].as_u64().unwrap();
        let seen = fs::read_to_string(other.place.path().join("home/seen")).unwrap();
        let seen: Vec<&str> = seen.lines().collect();
        assert_ne!(seen[0], "0");
        assert_ne!(seen[1], std::env::var("HOME").unwrap_or_default());
        assert_eq!(seen[2..], ["closed", "unread"], "{transport}");
        if transport == "stdio" {
            served.stop();
            assert!(!testkit::processes::is_running(pid.try_into().unwrap()), "it can be stopped");
            continue;
        }
        served.run.signal(rustix::process::Signal::TERM);
        served.run.end_beside_others();
        let pid = pid.try_into().unwrap();
        assert!(testkit::processes::is_running(pid), "it goes on");
        let entry = &fs::read_to_string(other.state.path().join("ledger.json")).unwrap();
        let ledger: serde_json::Value = serde_json::from_str(entry).unwrap();
        let socket = Path::new(ledger["detached"][0]["socket"].as_str().unwrap());
        let directory = socket.parent().unwrap();
        let metadata = directory.metadata().unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o700);
        assert_eq!(std::os::unix::fs::MetadataExt::uid(&metadata).to_string(), seen[0]);
        rustix::process::kill_process(
            rustix::process::Pid::from_raw(pid.cast_signed()).unwrap(),
            rustix::process::Signal::KILL,
        )
        .unwrap();
        fs::remove_dir_all(directory.parent().unwrap()).unwrap();
    }
}

/// A tool server runs as the user of the server: it must not find a key in the server's environment, or trace it.
#[test]
fn a_process_of_the_same_user_cannot_inspect_the_server() {
    let Some(other) = OtherUser::new() else {
        eprintln!("skipped: needs root, the user {OTHER_USER} and setpriv");
        return;
    };
    let home = other.place.path().join("home");
    let state = home.join("state");
    let switchboard = |arguments: &[&str]| {
        let mut command = other.command(&[other.place.path().join("switchboard").to_str().unwrap()]);
        command.args(arguments).env("SWITCHBOARD_STATE_DIR", &state).env("XDG_CONFIG_HOME", &home);
        command
    };
    let mut serve = switchboard(&["serve", "--worker", "demo", "--listen", "127.0.0.1:0"]);
    let mut server = Killed(serve.env("SWITCHBOARD_KEY", KEY).stdout(Stdio::piped()).spawn().unwrap());
    let mut serving = String::new();
    let mut stdout = BufReader::new(server.0.stdout.take().unwrap());
    while !serving.starts_with("serving ") {
        serving.clear();
        assert_ne!(stdout.read_line(&mut serving).unwrap(), 0, "it starts");
    }
    let ask = switchboard(&["ask", "[[text]]"]).output().unwrap();
    assert!(ask.status.success(), "the user is admitted at the control socket, and turns run: {ask:?}");
    let proc = format!("/proc/{}", server.0.id());
    let variables = other.command(&["cat", &format!("{proc}/environ")]).output().unwrap();
    assert!(variables.stdout.is_empty() && !variables.status.success(), "{variables:?}");
    let memory = other.command(&["head", "-c1", &format!("{proc}/mem")]).output().unwrap();
    assert!(String::from_utf8_lossy(&memory.stderr).contains("Permission denied"), "{memory:?}");
    let own = other.command(&["cat", "/proc/self/environ"]).env("CANARY", "1").output().unwrap();
    assert!(own.status.success(), "the user can read an environment: {own:?}");
}

/// Ends a process of a test, whatever comes of the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn a_group_whose_user_cannot_work_keeps_the_server_from_starting() {
    let state = State::new();
    let home = state.path().join("home");
    fs::create_dir(&home).unwrap();
    let serve = |user: &str| {
        let config = state.path().join("config.toml");
        let text = format!(
            "[[workers]]\nname = \"main\"\nuser = \"{user}\"\ncommand = \"/bin/sh\"\ncodex_home = \"{}\"\ncwd = \"/\"\n",
            home.display()
        );
        fs::write(&config, text).unwrap();
        let arguments = ["serve", "--listen", "127.0.0.1:0", "--config", config.to_str().unwrap()];
        let ended = state.run_with(&arguments, &[]).end();
        assert_eq!(ended.code(), Some(1), "{}", ended.stderr);
        ended.stderr
    };
    if rustix::process::geteuid().is_root() {
        let refusal = serve("no-such-user");
        assert!(refusal.contains("there is no user `no-such-user`"), "{refusal}");
        let refusal = serve(OTHER_USER);
        assert!(refusal.contains(&format!("the user `{OTHER_USER}` cannot use ")), "{refusal}");
    } else {
        let refusal = serve(OTHER_USER);
        assert!(refusal.contains("only root can start processes as the user"), "{refusal}");
    }
}

#[cfg(feature = "real-codex")]
mod real {

    use rustix::process::Signal;
    use testkit::processes;

    use super::*;
    use crate::real::Real;

    const CONFIG: &str = "
        [[workers]]
        name = \"main\"

        [profiles.codex]
        sandbox = \"danger-full-access\"
        allow_unconfined = true
        approval_policy = \"never\"
    ";

    #[test]
    fn commands_keep_their_marks_without_an_inherited_environment_and_do_not_outlive_the_next_start() {
        for inherit in ["core", "none"] {
            let (state, real) = (State::new(), Real::new());
            let file = Path::new(&real.home).join("config.toml");
            let text = fs::read_to_string(&file).unwrap();
            fs::write(&file, format!("{text}\n[shell_environment_policy]\ninherit = \"{inherit}\"\n")).unwrap();
            let config = state.path().join("config.toml");
            fs::write(&config, CONFIG).unwrap();
            let arguments = ["--config", config.to_str().unwrap(), "--worker", &real.binary];
            let variables =
                [("CODEX_HOME", &*real.home), ("SWITCHBOARD_KEY", "a-key-of-the-adversary-0123456789abcdef")];
            let served = Served::start_with(&state, &arguments, &variables);
            let seconds =
                format!("{}.{inherit}", 80_000 + std::process::id()).replace(".core", ".1").replace(".none", ".2");
            let seen = state.project().join("environment");
            let sleeper = format!("/usr/bin/setsid /usr/bin/nohup /bin/sleep {seconds} >/dev/null 2>&1 &");
            let prompt = format!("[[shell /usr/bin/env > {}; {sleeper}]]", seen.display());
            let body = serde_json::json!({"model": "codex", "messages": [{"role": "user", "content": prompt}]});
            let answer = served.post("/v1/chat/completions", &body.to_string());
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
            let seen = fs::read_to_string(seen).unwrap();
            assert!(seen.contains("SWITCHBOARD_OWNER=") && seen.contains("SWITCHBOARD_CHILD="), "{inherit}: {seen}");
            // Codex may have ended it with the sandbox of its command.
            let left = processes::with(&seconds);
            served.run.signal(Signal::KILL);
            served.run.end_beside_others();

            let again = Served::start_with(&state, &arguments, &variables);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let still = runtime.block_on(processes::until_gone(&left, testkit::HANG_TIMEOUT));
            assert!(still.is_empty(), "{inherit}: {still:?}");
            again.stop();
        }
    }
}
