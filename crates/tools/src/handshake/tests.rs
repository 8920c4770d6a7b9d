use std::fmt::Write;
use std::time::Duration;

use expect_test::{Expect, expect};
use rmcp::model::ErrorCode;

use super::*;

const DISCOVERED: &str = r#"{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"time","version":"1"}}}"#;
const INITIALIZED: &str =
    r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"fs","version":"0.2"}}"#;

/// Plays lines of the form `SECONDS EVENT [JSON]`, and tells what the machine does.
fn check(opening: Opening, script: &str, expect: &Expect) {
    let start = Instant::now();
    let mut machine = Handshake::new(opening, Timeouts::default(), start);
    let mut told = String::new();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let mut words = line.splitn(3, ' ');
        let at = Duration::from_secs_f64(words.next().unwrap().parse().unwrap());
        let (event, json) = (words.next().unwrap(), words.next().unwrap_or("null"));
        let now = start + at;
        let outcome = || match serde_json::from_str::<Value>(json).unwrap() {
            Value::Number(code) => {
                let code = ErrorCode(i32::try_from(code.as_i64().unwrap()).unwrap());
                Err(ErrorData::new(code, "said so", None))
            }
            result => Ok(result),
        };
        let step = match event {
            "poll" => machine.poll(now),
            "byte" => {
                machine.handle_first_byte(now);
                machine.poll(now)
            }
            "discovered" => machine.handle_discovered(outcome(), now),
            "unsupported" => {
                let data = json!({ "supported": serde_json::from_str::<Value>(json).unwrap() });
                let error = ErrorData::new(ErrorCode(-32022), "unsupported version", Some(data));
                machine.handle_discovered(Err(error), now)
            }
            "initialized" => machine.handle_initialized(outcome()),
            other => panic!("{other}"),
        };
        let said = match step {
            Step::Ask { method, .. } => format!("ask {method}"),
            Step::WaitUntil(at) => format!("wait until {:.0?}", at - start),
            Step::Agreed(agreement) => {
                format!("agreed: {:?} {} with {:?}", agreement.era, agreement.version, agreement.server)
            }
            Step::Failed(failure) => format!("failed: {failure}"),
        };
        writeln!(told, "{} {event}: {said}", at.as_secs()).unwrap();
    }
    expect.assert_eq(&told);
}

#[test]
fn a_modern_server_is_known_by_its_answer() {
    check(
        Opening::Discover,
        &format!("0 poll\n0 poll\n1 discovered {DISCOVERED}"),
        &expect![[r#"
            0 poll: ask server/discover
            0 poll: wait until 5s
            1 discovered: agreed: Modern 2026-07-28 with Some(("time", "1"))
        "#]],
    );
}

#[test]
fn any_other_error_means_the_handshake_of_old() {
    for code in ["-32601", "-32602", "-32000", "-1"] {
        check(
            Opening::Discover,
            &format!("0 poll\n1 discovered {code}\n2 initialized {INITIALIZED}"),
            &expect![[r#"
                0 poll: ask server/discover
                1 discovered: ask initialize
                2 initialized: agreed: Legacy 2025-11-25 with Some(("fs", "0.2"))
            "#]],
        );
    }
}

#[test]
fn a_slow_server_is_not_lost_by_its_late_answer() {
    check(
        Opening::Discover,
        &format!("0 poll\n5 poll\n5 poll\n11 byte\n11 discovered {DISCOVERED}\n12 initialized {INITIALIZED}"),
        &expect![[r#"
            0 poll: ask server/discover
            5 poll: ask initialize
            5 poll: wait until 30s
            11 byte: wait until 21s
            11 discovered: wait until 21s
            12 initialized: agreed: Legacy 2025-11-25 with Some(("fs", "0.2"))
        "#]],
    );
}

#[test]
fn a_slow_server_that_refuses_initialize_is_modern_after_all() {
    check(
        Opening::Discover,
        &format!("0 poll\n5 poll\n11 byte\n11 discovered {DISCOVERED}\n12 initialized -32601"),
        &expect![[r#"
            0 poll: ask server/discover
            5 poll: ask initialize
            11 byte: wait until 21s
            11 discovered: wait until 21s
            12 initialized: agreed: Modern 2026-07-28 with Some(("time", "1"))
        "#]],
    );
}

#[test]
fn silence_ends_with_the_phase_and_not_with_the_start() {
    check(
        Opening::Discover,
        "0 poll\n5 poll\n29 poll\n30 poll",
        &expect![[r#"
            0 poll: ask server/discover
            5 poll: ask initialize
            29 poll: wait until 30s
            30 poll: failed: it is alive and did not answer `initialize` in time
        "#]],
    );
}

#[test]
fn a_server_without_any_handshake_is_told_so() {
    check(
        Opening::Discover,
        "0 poll\n1 discovered -32601\n2 initialized -32601",
        &expect![[r#"
            0 poll: ask server/discover
            1 discovered: ask initialize
            2 initialized: failed: it knows neither `server/discover` (-32601 said so) nor `initialize` (-32601 said so): it has no handshake
        "#]],
    );
}

#[test]
fn a_modern_refusal_is_final_and_an_unknown_version_is_none() {
    check(
        Opening::Discover,
        "0 poll\n1 discovered -32022",
        &expect![[r#"
            0 poll: ask server/discover
            1 discovered: failed: it speaks said so, and we 2026-07-28 and 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25
        "#]],
    );
    check(
        Opening::Initialize,
        r#"0 poll
           1 initialized {"protocolVersion":"1999-01-01","capabilities":{}}"#,
        &expect![[r#"
            0 poll: ask initialize
            1 initialized: failed: it speaks 1999-01-01, and we 2026-07-28 and 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25
        "#]],
    );
}

#[test]
fn a_server_that_names_the_versions_it_takes_is_asked_in_one_of_them() {
    check(
        Opening::Discover,
        "0 poll\n1 unsupported [\"2026-07-28\"]\n1 poll\n2 unsupported [\"2026-07-28\"]",
        &expect![[r#"
            0 poll: ask server/discover
            1 unsupported: ask server/discover
            1 poll: wait until 6s
            2 unsupported: failed: it speaks 2026-07-28, and we 2026-07-28 and 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25
        "#]],
    );
    check(
        Opening::Discover,
        "0 poll\n1 unsupported [\"2025-06-18\"]",
        &expect![[r#"
        0 poll: ask server/discover
        1 unsupported: ask initialize
    "#]],
    );
}

#[test]
fn an_answer_without_what_must_be_in_it_is_named_by_its_path() {
    check(
        Opening::Initialize,
        r#"0 poll
           1 initialized {"tools":[]}"#,
        &expect![[r#"
            0 poll: ask initialize
            1 initialized: failed: its answer to `initialize` cannot be used: `$.result.protocolVersion` is missing or wrong
        "#]],
    );
}
