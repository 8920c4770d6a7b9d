//! Stores that are damaged, and disks that are full.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::faults::{Fault, Rounds};

use super::server::Server;
use super::until;
use crate::command::State;

const STORE: &str = "switchboard.db";

#[test]
fn a_damaged_store_is_refused_and_left_as_it_is() {
    let mut fault = Fault::play("store damaged", Rounds::PerUnit(2));
    for _ in 0..fault.rounds {
        let state = State::new();
        let server = Server::start(&state, "[[workers]]\nname = \"main\"\ncommand = \"demo\"\n");
        server.check_caller("main", 0);
        server.stop();
        let file = state.path().join(STORE);
        assert!(!state.path().join(format!("{STORE}-wal")).exists(), "a stop leaves everything in one file");
        let whole = fs::read(&file).unwrap();
        let cut = whole[..fault.random.usize(0..whole.len())].to_vec();
        let mut spoiled = whole.clone();
        let at = fault.random.usize(100..spoiled.len() - 4096);
        spoiled[at..at + 4096].fill(0xa5);
        let foreign = b"a shopping list: milk, bread".to_vec();
        for (what, bytes) in [("it is cut off", cut), ("it is spoiled", spoiled), ("it is another's", foreign)] {
            fs::write(&file, &bytes).unwrap();
            let run = state.run_with(&["serve", "--worker", "demo", "--listen", "127.0.0.1:0"], &[]);
            let ended = run.end();
            assert_eq!(ended.code(), Some(1), "{what}: {}", ended.stderr);
            let says = |words: &str| ended.stderr.contains(words);
            assert!(says(&file.display().to_string()) && !says("panicked"), "{what}: {}", ended.stderr);
            assert!(fs::read(&file).unwrap() == bytes, "{what}: the file is left as it is");
            fault.count("refused", 1);
        }
        fs::write(&file, &whole).unwrap();
        Server::start(&state, "[[workers]]\nname = \"main\"\ncommand = \"demo\"\n").stop();
    }
    fault.held();
}

#[test]
fn a_server_on_a_full_disk_goes_on_and_recovers() {
    let mut fault = Fault::play("small disk", Rounds::Once);
    let disk = match Disk::mount("1536k") {
        Ok(disk) => disk,
        Err(why) => return fault.skip(format!("no disk can be mounted here: {why}")),
    };
    let state = State::new();
    let worker = state.worker("", "");
    let config = format!(
        "[[workers]]\nname = \"main\"\ncommand = \"{worker}\"\n\n[profiles.codex]\napproval_policy = \"untrusted\"\n"
    );
    let server = Server::start_on(disk.path(), &state, &config);
    let mut responses = vec![respond(&server)];
    let running = server.turn("main", "[[slow 200 5]]");
    let filler = disk.path().join("filler");
    // As much as fits; the error is the point.
    fs::write(&filler, vec![0; 4 << 20]).unwrap_err();
    let command = "x".repeat(50_000);
    let asked = server.turn("main", &format!("[[shell touch {command}]]"));
    let heard = server.hear(&asked);
    assert_eq!(heard.commands, ["declined"], "what cannot be recorded is not approved");
    assert_eq!(server.get("/healthz").body["status"], "degraded");
    assert_eq!(server.hear(&running).status, "completed", "what runs goes on");
    responses.extend((0..3).map(|_| respond(&server)));
    check_stored(&server, &responses);
    let background = server.post("/v1/responses", &json!({"model": "codex", "input": "[[text]]", "background": true}));
    assert_eq!((background.status, &background.body["error"]["code"]), (503, &json!("store_unavailable")));
    fs::remove_file(&filler).unwrap();
    fault.slowest("well again", until("it is well again", || server.get("/healthz").body["status"] == "ok"));
    let waiting = server.turn("main", "[[shell touch x]]");
    until("an approval is accepted again", || server.approvals("pending").len() == 1);
    let interrupt = format!("/api/turns/{}/interrupt", super::server::text(&waiting["turn"]));
    server.post(&interrupt, &json!({}));
    assert_eq!(server.hear(&waiting).ends, 1);
    responses.push(respond(&server));
    let stored = responses.iter().filter(|response| response["store"] == true).count();
    assert!((2..responses.len()).contains(&stored), "some were stored and some were not: {responses:?}");
    check_stored(&server, &responses);
    server.stop();
    let server = Server::start_on(disk.path(), &state, &config);
    check_stored(&server, &responses);
    fault.count("responses told as stored", stored as u64);
    server.stop();
    fault.held();
}

/// A response with a request that is longer than what room a full disk may have left.
fn respond(server: &Server<'_>) -> Value {
    let request = json!({"model": "codex", "input": "[[text]]", "instructions": "x".repeat(50_000)});
    let answer = server.post("/v1/responses", &request);
    assert_eq!((answer.status, &answer.body["status"]), (200, &json!("completed")), "{}", answer.body);
    answer.body
}

/// Whatever was told as stored is found, and nothing else is.
fn check_stored(server: &Server<'_>, responses: &[Value]) {
    for response in responses {
        let status = if response["store"] == true { 200 } else { 404 };
        assert_eq!(server.get(&format!("/v1/responses/{}", super::server::text(&response["id"]))).status, status);
    }
}

/// A disk of its own in memory, which needs the rights to mount one.
struct Disk {
    directory: TempDir,
}

impl Disk {
    fn mount(size: &str) -> Result<Self, String> {
        let directory = TempDir::new().unwrap();
        let options = format!("mode=0700,size={size}");
        run("mount", &["-t", "tmpfs", "-o", &options, "tmpfs", &directory.path().display().to_string()])?;
        Ok(Self { directory })
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        _ = run("umount", &["-l", &self.path().display().to_string()]);
    }
}

#[expect(clippy::disallowed_methods, reason = "the test plays the machine's administrator")]
fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(arguments).output().map_err(|error| error.to_string())?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()) }
}
