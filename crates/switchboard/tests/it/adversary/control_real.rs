//! The control socket against the real codex: a command that a person has allowed runs outside of the sandbox, as the user
//! of the server, and does not even see the socket. What could see it is refused by its ancestry (`control.rs`).

use std::fs;

use tempfile::TempDir;

use crate::command::State;
use crate::real::Real;
use crate::served::Served;
use crate::tools_real::allowed_turn;
use crate::tools_served::KEY;

#[test]
fn an_allowed_escalation_does_not_reach_the_control_socket() {
    let (real, state) = (Real::new(), State::new());
    let variables = [("CODEX_HOME", real.home.as_str()), ("SWITCHBOARD_KEY", KEY)];
    let served = Served::start_with(&state, &["--worker", &real.binary], &variables);
    let outside = TempDir::new().unwrap();
    let (binary, home) = (env!("CARGO_BIN_EXE_switchboard"), state.path().display());
    for (number, disguise) in ["", "env -i ", "setsid -w env -i "].into_iter().enumerate() {
        let said = outside.path().join(format!("said-{number}"));
        let (file, new) = (said.display(), said.with_extension("new"));
        // Not read from the turn: codex stops waiting for a command after some seconds.
        let command = format!(
            "{disguise}env SWITCHBOARD_STATE_DIR={home} XDG_CONFIG_HOME={home} {binary} keys --json >{new} 2>&1; \
             echo code=$? >>{new}; mv {new} {file}",
            new = new.display()
        );
        let asked = allowed_turn(&served, &format!("[[shellesc {command}]]"));
        assert_eq!(asked["kind"], "command", "{asked}");
        served.wait_until("it has tried", |_| said.exists());
        let said = fs::read_to_string(said).unwrap();
        assert!(said.contains("code=1") && !said.contains("scopes"), "{disguise}: {said}");
    }
    assert_eq!(served.command(&["keys"]).code(), Some(0), "the user is not refused");
    assert_eq!(served.stop().code(), Some(0));
}
