//! The official conformance suite against `/mcp`, behind which stands the fixture that the suite wants.
//! A fixture of one era shows whether the eras are bridged: callers of the older one find the same with either.

use std::net::TcpListener;
use std::thread::park_timeout;
use std::time::{Duration, Instant};

use testkit::HANG_TIMEOUT;

use super::proxy::Proxy;
use super::{Place, table, told};
use crate::command::State;
use crate::served::Served;

const LOOK_INTERVAL: Duration = Duration::from_millis(20);

#[test]
fn the_suite_of_2025_11_25_finds_no_fault_before_a_modern_server() {
    judge("2025-11-25", "modern");
}

#[test]
fn the_suite_of_2025_11_25_finds_no_fault_before_a_legacy_server() {
    judge("2025-11-25", "legacy");
}

#[test]
fn the_suite_of_2026_07_28_finds_no_fault_before_a_modern_server() {
    judge("2026-07-28", "modern");
}

/// What a server of old cannot be made to do: it names its questions itself, and asks one after the other.
const BEYOND_A_LEGACY_SERVER: [&str; 2] =
    ["input-required-result-basic-elicitation", "input-required-result-multiple-input-requests"];

#[test]
fn the_suite_of_2026_07_28_finds_before_a_legacy_server_only_what_such_a_server_cannot_do() {
    judge("2026-07-28", "legacy");
}

/// What the suite asks of a client that has no OAuth.
const AS_A_CLIENT: [(&str, &[&str]); 2] = [
    (
        "2025-11-25",
        &[
            "initialize",
            "tools_call",
            "elicitation-sep1034-client-defaults",
            "sse-retry",
            "json-schema-2020-12-preservation",
        ],
    ),
    (
        "2026-07-28",
        &[
            "tools_call",
            "request-metadata",
            "sep-2322-client-request-state",
            "http-standard-headers",
            "http-custom-headers",
            "http-invalid-tool-headers",
            "json-schema-ref-no-deref",
            "json-schema-2020-12-preservation",
        ],
    ),
];

#[test]
fn the_suite_finds_no_fault_in_the_host_as_a_client() {
    let (place, state) = (Place::find(), State::new());
    let script = place.in_node("node_modules/@modelcontextprotocol/conformance/dist/index.js");
    let client = place.example("conformance_client");
    for (version, scenarios) in AS_A_CLIENT {
        for scenario in scenarios {
            let arguments =
                [&script, "client", "--command", &client, "--scenario", scenario, "--spec-version", version];
            let ended = state.run_program(&place.node(), &arguments, &[]).end_beside_others();
            let said = format!("{}\n{}", ended.stdout, ended.stderr);
            let passed = said.lines().find(|line| line.starts_with("Passed:")).unwrap_or("it counted nothing");
            println!("{version} {scenario}: {passed}");
            assert_eq!(ended.code(), Some(0), "{version} {scenario}\n{said}");
        }
    }
}

fn judge(version: &str, era: &str) {
    let (place, state) = (Place::find(), State::new());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // The suite comes as a page of the very place that it asks.
    let origins = format!("cors_origins = [\"http://{address}\"]\n\n");
    let command = [place.example("fixture"), "--era".to_owned(), era.to_owned()];
    state.configure(&(origins + &table("fixture", &command, "prefix = \"\"")));
    let served = Served::start(&state);
    let started = Instant::now();
    while told(&served).iter().any(|server| server["state"] != "ready") {
        assert!(started.elapsed() < HANG_TIMEOUT, "{:#?}", told(&served));
        park_timeout(LOOK_INTERVAL);
    }
    let _proxy = Proxy::start(listener, served.url(), served.key());
    let script = place.in_node("node_modules/@modelcontextprotocol/conformance/dist/index.js");
    let results = state.path().join("results");
    let (url, results) = (format!("http://{address}/mcp"), results.to_str().unwrap());
    let baseline = state.path().join("expected.yml");
    let expected = if (version, era) == ("2026-07-28", "legacy") { &BEYOND_A_LEGACY_SERVER[..] } else { &[] };
    let list: String = expected.iter().map(|scenario| format!("  - {scenario}\n")).collect();
    std::fs::write(&baseline, if list.is_empty() { "server: []\n".to_owned() } else { format!("server:\n{list}") })
        .unwrap();
    let baseline = baseline.to_str().unwrap();
    let arguments = [
        &script,
        "server",
        "--url",
        &url,
        "--requirements",
        version,
        "--expected-failures",
        baseline,
        "--output-dir",
        results,
    ];
    let ended = state.run_program(&place.node(), &arguments, &[]).end_beside_others();
    let total = ended.stdout.lines().find(|line| line.starts_with("Total:")).unwrap_or("it counted nothing");
    println!("{version} before a {era} server: {total}");
    // The verdict counts what the version demands, and nothing that was added later or belongs to an extension.
    assert_eq!(ended.code(), Some(0), "{}\n{}", ended.stdout, ended.stderr);
    assert_eq!(served.stop().code(), Some(0));
}
