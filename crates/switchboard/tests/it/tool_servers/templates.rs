//! The templates in `examples/tool-servers`, in three languages: the same handshake, and nothing to be found in any of them.

use super::Place;
use crate::command::State;

#[test]
fn a_check_finds_nothing_in_any_template() {
    let (place, state) = (Place::find(), State::new());
    let python = place.in_repository("examples/tool-servers/python/server.py");
    for command in [
        vec![place.example("template")],
        vec![place.in_python("servers", "python"), python],
        vec![place.node(), place.in_node("server.ts")],
    ] {
        let words: Vec<&str> =
            ["tools", "check", "--json", "--"].into_iter().chain(command.iter().map(String::as_str)).collect();
        let ended = state.run_program(env!("CARGO_BIN_EXE_switchboard"), &words, &[]).end_beside_others();
        let told = format!("{command:?}\n{}\n{}", ended.stdout, ended.stderr);
        assert_eq!(ended.code(), Some(0), "{told}");
        assert!(ended.stdout.contains("\"findings\":[]"), "{told}");
    }
}
