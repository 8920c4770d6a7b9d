//! The API against its own description: schemathesis makes requests of `/api/openapi.json`, right ones and wrong ones, and holds the
//! answers against it.
//!
//! `cargo xtask schemathesis` installs it, and names where.

use crate::command::State;
use crate::served::Served;

/// Names the program.
const PROGRAM: &str = "SWITCHBOARD_SCHEMATHESIS";
/// Cannot be revoked, as a key of the store would be in the course of this.
const KEY: &str = "the-key-of-the-schema-run-0123456789abcdef";

const EXAMPLES_MAX: &str = "20";
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance";
/// Streams without an end, and MCP, which has a conformance suite of its own.
const EXCLUDED: &str = "^/mcp/?$|/events$";

#[test]
fn every_answer_is_as_the_description_says() {
    let program =
        std::env::var(PROGRAM).unwrap_or_else(|_| panic!("{PROGRAM} is not set: run `cargo xtask schemathesis`"));
    let state = State::new();
    // Whatever is asked is answered at once.
    let worker = state.worker("", "[[turns]]\nmatch = \"\"\nsteps = [\"say Done.\"]\n");
    state.configure(&format!("[[workers]]\nname = \"main\"\ncommand = \"{worker}\"\n"));
    let served = Served::start_with(&state, &[], &[("SWITCHBOARD_KEY", KEY), ("SWITCHBOARD_LOG", "error")]);
    let (description, header) = (format!("{}/api/openapi.json", served.url()), format!("authorization: Bearer {KEY}"));
    let arguments = [
        &["run", &description, "--header", &header, "--checks", CHECKS, "--exclude-path-regex", EXCLUDED][..],
        &["--phases", "examples,coverage,fuzzing,stateful", "--max-examples", EXAMPLES_MAX],
        &["--generation-deterministic", "--generation-with-security-parameters", "false"],
        &["--warnings", "off", "--no-color"],
    ];
    let ended = state.run_program(&program, &arguments.concat(), &[]).end_beside_others();
    println!("{}{}", ended.stdout, ended.stderr);
    assert_eq!(ended.code(), Some(0), "see above");
    served.stop();
}
