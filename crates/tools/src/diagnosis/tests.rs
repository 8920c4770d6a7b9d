//! Lives of servers as text, and what is told of them.
//!
//! A life is a line for each frame (`->` ours, `<-` the server's, `<~` the server's and too late) and a line for each
//! other fact, as `Life::fact` reads them.

use std::time::Duration;

use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::Value;

use crate::evidence::{Ended, Evidence, Listed, Phase, Silence, Stop};
use crate::finding::Severity;
use crate::frame::{Frame, Speaker, Verdict};
use crate::report::Report;
use crate::settings::Dialect;

use super::diagnose;

fn check(life: &str, expected: &Expect) {
    let findings: Vec<String> = diagnose(&evidence(life)).iter().map(ToString::to_string).collect();
    expected.assert_eq(&findings.join("\n"));
}

fn check_report(server: &str, life: &str, expected: &Expect) {
    let report = Report::of(server, &evidence(life));
    expected.assert_eq(&format!("{report}\nexit code {}\n", report.exit_code()));
}

/// The codes alone, each with how bad it is.
fn codes(life: &str) -> String {
    let shown = |finding: &crate::Finding| format!("{} {}", finding.code, finding.severity);
    let mut codes: Vec<String> = diagnose(&evidence(life)).iter().map(shown).collect();
    codes.dedup();
    codes.join(", ")
}

const DISCOVER: &str = r#"-> {"jsonrpc":"2.0","id":1,"method":"server/discover","params":{}}"#;
const UNKNOWN: &str = r#"<- {"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}"#;
const INITIALIZE: &str = r#"-> {"jsonrpc":"2.0","id":2,"method":"initialize","params":{}}"#;
const INITIALIZED: &str = r#"-> {"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const LIST: &str = r#"-> {"jsonrpc":"2.0","id":3,"method":"tools/list"}"#;
const GOOD: &str = r#"<- {"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"secure-filesystem-server","version":"0.2.0"}},"jsonrpc":"2.0","id":2}"#;

/// A life of a legacy server that answers `initialize` so and lists these tools.
fn legacy(answer: &str, tools: &str) -> String {
    let listed = format!(r#"<- {{"jsonrpc":"2.0","id":3,"result":{{"tools":[{tools}]}}}}"#);
    [DISCOVER, UNKNOWN, INITIALIZE, answer, INITIALIZED, LIST, &listed].join("\n")
}

/// A good life of a legacy server that lists these tools.
fn listing(tools: &str) -> String {
    legacy(GOOD, tools)
}

const MOVE: &str = r#"{"name":"move_file","description":"Move or rename a file","inputSchema":{"type":"object","properties":{"source":{"type":"string"}},"required":["source"]}}"#;

// Good servers.

#[test]
fn a_good_legacy_server_yields_nothing() {
    check(&listing(MOVE), &expect![[""]]);
}

#[test]
fn a_good_modern_server_yields_nothing() {
    let life = r#"
-> {"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}
<- {"jsonrpc":"2.0","id":1,"result":{"cacheScope":"private","capabilities":{"tools":{"listChanged":true}},"resultType":"complete","supportedVersions":["2026-07-28"],"ttlMs":0,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"mcp-time","version":"2026.10.19"}}}}
-> {"jsonrpc":"2.0","id":2,"method":"tools/list","params":{}}
<- {"jsonrpc":"2.0","id":2,"result":{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"get_current_time","description":"Get current time in a specific timezone","inputSchema":{"type":"object","properties":{"timezone":{"type":"string"}},"required":["timezone"],"title":"get_current_timeArguments"},"outputSchema":{"type":"object","properties":{"result":{"type":"string"}}},"annotations":{"readOnlyHint":true},"_meta":{"_fastmcp":{"tags":[]}}},{"name":"now","description":"The time here","inputSchema":{"type":"object","properties":{}}}]}}
stopped 400
"#;
    check_report(
        "time",
        life,
        &expect![[r#"
            time: ready (modern, 2026-07-28), 2 tools, no fault found

            exit code 0
        "#]],
    );
}

#[test]
fn a_reference_server_yields_notes_at_most() {
    let life = r#"
-> {"jsonrpc":"2.0","id":1,"method":"server/discover","params":{}}
<- {"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}
-> {"jsonrpc":"2.0","id":2,"method":"tools/list"}
<- {"result":{"tools":[]},"jsonrpc":"2.0","id":2}
-> {"jsonrpc":"2.0","id":3,"method":"initialize","params":{}}
<- {"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"logging":{}},"serverInfo":{"name":"mcp-servers/everything","title":"Everything","version":"2.0.0"},"instructions":"…"},"jsonrpc":"2.0","id":3}
-> {"jsonrpc":"2.0","method":"notifications/initialized"}
-> {"jsonrpc":"2.0","id":4,"method":"tools/list"}
<- {"method":"notifications/tools/list_changed","jsonrpc":"2.0"}
<- {"method":"roots/list","jsonrpc":"2.0","id":0}
<- {"result":{"tools":[{"name":"echo","title":"Echo Tool","description":"Echoes back the input string","inputSchema":{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"message":{"type":"string","description":"Message to echo"}},"required":["message"]},"execution":{"taskSupport":"forbidden"}},{"name":"get-env","title":"Print Environment Tool","description":"Returns all environment variables","inputSchema":{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{}}}]},"jsonrpc":"2.0","id":4}
stopped 30
"#;
    check_report(
        "everything",
        life,
        &expect![[r#"
            everything: ready (legacy, 2025-11-25), 2 tools, no fault, 2 notes

            D13 note: it answered `tools/list` before the handshake
              frame: {"result":{"tools":[]},"jsonrpc":"2.0","id":2}
              fix:   nothing has to be done; whoever relies on it will find other servers that refuse

            D19 note: schemas are written in draft-07, not in 2020-12: those of `echo`, `get-env`
              frame: …{"name":"echo","title":"Echo Tool","description":"Echoes back the input string","inputSchema":{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"message":{"type":"string","description":"Message to echo"}},"required":["message"]},"execution":{"taskSupport":"forbidden"}},{"name":"get-env","title":"Print Environment Tool","description":"Returns all environment variabl…
              at:    $.result.tools[0].inputSchema.$schema
              fix:   write them in 2020-12, the dialect of MCP, and leave `$schema` out

            exit code 0
        "#]],
    );
}

#[test]
fn silence_to_the_probe_alone_is_no_fault() {
    assert_eq!(codes(&listing(MOVE).replace(UNKNOWN, "")), "");
}

#[test]
fn a_legacy_server_may_log_before_it_answers() {
    let log = r#"<- {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"hello"}}"#;
    assert_eq!(codes(&listing(MOVE).replace(UNKNOWN, &format!("{log}\n{UNKNOWN}"))), "");
}

// D1, D2, D4, D9, D20: single frames.

#[test]
fn a_message_at_the_start_is_told() {
    let life = listing(MOVE).replace(
        DISCOVER,
        &format!(
            "{}\n{DISCOVER}\n{}",
            r#"<- {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"up"}}"#,
            r#"<- {"jsonrpc":"2.0","id":"init","result":{"serverInfo":{"name":"fs","version":"1.0.0"}}}"#
        ),
    );
    check(
        &life,
        &expect![[r#"
            D1 warning: it sent `notifications/message` before it had answered anything
              frame: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"up"}}
              at:    $.method
              fix:   send `notifications/message` after the handshake, and nothing before the first request

            D1 warning: it sent a message with id "init" before it had answered anything; nobody asked for it
              frame: {"jsonrpc":"2.0","id":"init","result":{"serverInfo":{"name":"fs","version":"1.0.0"}}}
              at:    $.id
              fix:   send nothing at the start: wait for `initialize` or `server/discover`, and answer with its id
        "#]],
    );
}

#[test]
fn a_request_before_the_first_answer_is_told() {
    let life = listing(MOVE)
        .replace(UNKNOWN, &format!("{}\n{UNKNOWN}", r#"<- {"jsonrpc":"2.0","id":7,"method":"roots/list"}"#));
    check(
        &life,
        &expect![[r#"
            D1 warning: it sent `roots/list` before it had answered anything
              frame: {"jsonrpc":"2.0","id":7,"method":"roots/list"}
              at:    $.method
              fix:   send `roots/list` after the handshake, and nothing before the first request
        "#]],
    );
}

#[test]
fn ids_of_another_type_are_told_and_the_silence_that_they_cause_is_not() {
    let life = [
        DISCOVER,
        r#"<- {"jsonrpc":"2.0","id":"1","error":{"code":-32601,"message":"Method not found"}}"#,
        INITIALIZE,
        r#"<- {"jsonrpc":"2.0","id":2.0,"result":{"protocolVersion":"2025-11-25"}}"#,
        "silent initialize 10000 processor 20",
    ]
    .join("\n");
    check(
        &life,
        &expect![[r#"
            D2 error: it answered `server/discover` with id "1", where the request had 1
              frame: {"jsonrpc":"2.0","id":"1","error":{"code":-32601,"message":"Method not found"}}
              at:    $.id
              fix:   keep the `id` of a request as it came, number or string, and send it back unchanged

            D2 error: it answered `initialize` with id 2.0, where the request had 2
              frame: {"jsonrpc":"2.0","id":2.0,"result":{"protocolVersion":"2025-11-25"}}
              at:    $.id
              fix:   keep the `id` of a request as it came, number or string, and send it back unchanged
        "#]],
    );
}

#[test]
fn answers_to_no_request_and_second_answers_are_told() {
    let life = format!(
        "{}\n{}\n{}",
        listing(MOVE).replace(INITIALIZED, ""),
        r#"<- {"jsonrpc":"2.0","id":99,"result":{}}"#,
        r#"<- {"jsonrpc":"2.0","id":3,"result":{"tools":[]}}"#
    );
    check(
        &life,
        &expect![[r#"
            D2 warning: it sent an answer with id 99, which no request had
              frame: {"jsonrpc":"2.0","id":99,"result":{}}
              at:    $.id
              fix:   answer each request once, with exactly the `id` that it had

            D2 warning: it answered `tools/list` with id 3 more than once
              frame: {"jsonrpc":"2.0","id":3,"result":{"tools":[]}}
              at:    $.id
              fix:   answer each request once
        "#]],
    );
}

#[test]
fn answers_to_notifications_are_told_with_and_without_an_id() {
    let cancelled = r#"-> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    let life = format!(
        "{}\n{cancelled}\n{}\n{}",
        listing(MOVE),
        r#"<- {"jsonrpc":"2.0","id":0,"error":{"code":-32601,"message":"Unknown method: notifications/cancelled"}}"#,
        r#"<- {"jsonrpc":"2.0","error":{"code":-32601,"message":"Unknown method"}}"#,
    );
    check(
        &life,
        &expect![[r#"
            D4 warning: it answered the notification `notifications/cancelled`, with a message with id 0
              frame: {"jsonrpc":"2.0","id":0,"error":{"code":-32601,"message":"Unknown method: notifications/cancelled"}}
              fix:   answer only what has an `id`, and take `notifications/cancelled` without a word

            D4 warning: it answered the notification `notifications/initialized`, with a message without an id
              frame: {"jsonrpc":"2.0","error":{"code":-32601,"message":"Unknown method"}}
              fix:   answer only what has an `id`, and take `notifications/initialized` without a word
        "#]],
    );
}

#[test]
fn what_is_no_message_is_told_with_what_it_looks_like() {
    let life = format!(
        "{}\n{}",
        listing(MOVE),
        "<- Server running on stdio\n<- Content-Length: 52\n<- {\n<- \n<- {\"half\n<- {\"level\":30,\"msg\":\"listening\"}"
    );
    check(
        &life,
        &expect![[r#"
            D9 warning: it wrote a line to stdout that is no JSON
              frame: Server running on stdio
              fix:   write logs and banners to stderr: stdout is for messages alone

            D9 warning: it wrote a line to stdout that is no JSON
              frame: Content-Length: 52
              fix:   send each message as one line of JSON, without the headers that language servers use

            D9 warning: it wrote a line to stdout that is no JSON
              frame: {
              fix:   write each message on one line: a line break ends it

            D9 warning: it wrote a line to stdout that is no JSON
              frame: {"half
              fix:   write each message as one line of valid JSON, and flush only whole lines; write logs to stderr

            D9 warning: it wrote JSON to stdout that is no message of JSON-RPC: it has no method, no result and no error
              frame: {"level":30,"msg":"listening"}
              fix:   write logs to stderr, and messages with `"jsonrpc": "2.0"` to stdout
        "#]],
    );
}

#[test]
fn late_answers_are_told_and_only_noted_of_the_probe() {
    let life = [
        DISCOVER,
        "at 5000",
        INITIALIZE,
        "at 6200",
        &UNKNOWN.replace("<-", "<~"),
        GOOD,
        INITIALIZED,
        LIST,
        "at 30000",
        &format!(r#"<~ {{"jsonrpc":"2.0","id":3,"result":{{"tools":[{MOVE}]}}}}"#),
    ]
    .join("\n");
    check(
        &life,
        &expect![[r#"
            D20 note: its answer to `server/discover` came 6.2 s after it was asked, when nobody waited for it any more
              frame: {"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}
              fix:   answer sooner, or raise `discover_timeout` in its configuration

            D20 warning: its answer to `tools/list` came 23.8 s after it was asked, when nobody waited for it any more
              frame: {"jsonrpc":"2.0","id":3,"result":{"tools":[{"name":"move_file","description":"Move or rename a file","inputSchema":{"type":"object","properties":{"source":{"type":"string"}},"required":["source"]}}]}}
              fix:   answer sooner, or raise `list_timeout` in its configuration
        "#]],
    );
}

// D3, D5, D6, D13, D15: the handshake.

#[test]
fn a_server_without_a_handshake_is_told() {
    let life = [
        DISCOVER,
        UNKNOWN,
        INITIALIZE,
        r#"<- {"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"Unknown method: initialize"}}"#,
    ]
    .join("\n");
    check(
        &life,
        &expect![[r#"
            D3 error: it knows neither `initialize` nor `server/discover`: it answered -32601: Unknown method: initialize
              frame: {"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"Unknown method: initialize"}}
              at:    $.error
              fix:   answer the request `initialize`, with its own `id`, with `protocolVersion`, `capabilities` and `serverInfo`; a server must not announce itself in place of that
        "#]],
    );
}

#[test]
fn a_handshake_that_fails_otherwise_is_told() {
    let life =
        [DISCOVER, UNKNOWN, INITIALIZE, r#"<- {"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"boom"}}"#]
            .join("\n");
    check(
        &life,
        &expect![[r#"
            D5 error: it answered `initialize` with error -32603: boom
              frame: {"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"boom"}}
              at:    $.error
              fix:   take the parameters that MCP has for `initialize` (`protocolVersion`, `capabilities`, `clientInfo`), and answer with `protocolVersion`, `capabilities` and `serverInfo`
        "#]],
    );
}

#[test]
fn missing_and_misnamed_fields_of_the_handshake_are_told() {
    let answer = r#"<- {"jsonrpc":"2.0","id":2,"result":{"server_info":{"name":"x"},"protocol_version":"2025-11-25"}}"#;
    check(
        &legacy(answer, MOVE),
        &expect![[r#"
            D5 error: its answer to `initialize` has `protocol_version` where `protocolVersion` must be
              frame: {"jsonrpc":"2.0","id":2,"result":{"server_info":{"name":"x"},"protocol_version":"2025-11-25"}}
              at:    $.result.protocol_version
              fix:   rename `protocol_version` to `protocolVersion`, and write it as a string, such as "2025-11-25"

            D5 warning: its answer to `initialize` has no `capabilities`
              frame: {"jsonrpc":"2.0","id":2,"result":{"server_info":{"name":"x"},"protocol_version":"2025-11-25"}}
              at:    $.result
              fix:   add `"capabilities": {"tools": {}}` to the result

            D5 warning: its answer to `initialize` has `server_info` where `serverInfo` must be
              frame: {"jsonrpc":"2.0","id":2,"result":{"server_info":{"name":"x"},"protocol_version":"2025-11-25"}}
              at:    $.result.server_info
              fix:   rename `server_info` to `serverInfo`, and write it as an object, such as {"name": …, "version": …}
        "#]],
    );
}

#[test]
fn fields_of_another_type_undeclared_tools_and_a_nameless_server_are_told() {
    let answer =
        r#"<- {"jsonrpc":"2.0","id":2,"result":{"protocolVersion":1,"capabilities":{},"serverInfo":{"name":"x"}}}"#;
    check(
        &legacy(answer, MOVE),
        &expect![[r#"
            D5 error: `protocolVersion` in its answer to `initialize` is not a string
              frame: {"jsonrpc":"2.0","id":2,"result":{"protocolVersion":1,"capabilities":{},"serverInfo":{"name":"x"}}}
              at:    $.result.protocolVersion
              fix:   write it as a string, such as "2025-11-25"

            D5 warning: `serverInfo` has no `version`
              frame: {"jsonrpc":"2.0","id":2,"result":{"protocolVersion":1,"capabilities":{},"serverInfo":{"name":"x"}}}
              at:    $.result.serverInfo
              fix:   add `"version"` to `serverInfo`, as a string

            D5 warning: it has tools, but its answer to `initialize` does not say so
              frame: {"jsonrpc":"2.0","id":2,"result":{"protocolVersion":1,"capabilities":{},"serverInfo":{"name":"x"}}}
              at:    $.result.capabilities
              fix:   add `"tools": {}` to `capabilities`: hosts ask for `tools/list` only then
        "#]],
    );
}

#[test]
fn a_result_that_is_no_object_is_told() {
    check(
        &legacy(r#"<- {"jsonrpc":"2.0","id":2,"result":"ok"}"#, MOVE),
        &expect![[r#"
            D5 error: its answer to `initialize` has "ok" for a result, which is no object
              frame: {"jsonrpc":"2.0","id":2,"result":"ok"}
              at:    $.result
              fix:   answer `initialize` with an object that has `protocolVersion`, `capabilities`, `serverInfo`
        "#]],
    );
}

#[test]
fn a_modern_server_that_says_too_little_of_itself_is_told() {
    let life =
        [DISCOVER, r#"<- {"jsonrpc":"2.0","id":1,"result":{"versions":["2026-07-28"],"capabilities":{}}}"#].join("\n");
    check(
        &life,
        &expect![[r#"
            D5 error: its answer to `server/discover` has `versions` where `supportedVersions` must be
              frame: {"jsonrpc":"2.0","id":1,"result":{"versions":["2026-07-28"],"capabilities":{}}}
              at:    $.result.versions
              fix:   rename `versions` to `supportedVersions`, and write it as an array, such as ["2026-07-28"]

            D5 warning: its answer to `server/discover` has no `resultType`
              frame: {"jsonrpc":"2.0","id":1,"result":{"versions":["2026-07-28"],"capabilities":{}}}
              at:    $.result
              fix:   add `"resultType": "complete"` to the result

            D5 warning: its answer to `server/discover` has no `ttlMs`
              frame: {"jsonrpc":"2.0","id":1,"result":{"versions":["2026-07-28"],"capabilities":{}}}
              at:    $.result
              fix:   add `"ttlMs": 0` to the result

            D5 warning: its answer to `server/discover` has no `cacheScope`
              frame: {"jsonrpc":"2.0","id":1,"result":{"versions":["2026-07-28"],"capabilities":{}}}
              at:    $.result
              fix:   add `"cacheScope": "private"` to the result
        "#]],
    );
}

#[test]
fn tools_in_the_handshake_are_told_with_the_name_of_the_dialect() {
    let answer = GOOD.replace(r#""serverInfo""#, &format!(r#""tools":[{MOVE}],"serverInfo""#));
    check(
        &legacy(&answer, MOVE),
        &expect![[r#"
            D6 warning: it sent its tools (1) with the answer to `initialize`: this is the dialect of LocalCowork's servers, not MCP
              frame: {"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"tools":[{"name":"move_file","description":"Move or rename a file","inputSchema":{"type":"object","properties":{"source":{"type":"string"}},"required":["source"]}}],"serverInfo":{"name":"secure-filesystem-server","version":"0.2.0"}},"jsonrpc":"2.0","id":2}
              at:    $.result.tools
              fix:   leave `tools` out of this answer and give them to `tools/list`; or, if it is a server of LocalCowork, set `dialect = "localcowork"` in its configuration, and it can be used as it is
        "#]],
    );
}

#[test]
fn tools_without_a_handshake_are_noted() {
    let early = r#"-> {"jsonrpc":"2.0","id":9,"method":"tools/list"}
<- {"jsonrpc":"2.0","id":9,"result":{"tools":[]}}"#;
    check(
        &listing(MOVE).replace(INITIALIZE, &format!("{early}\n{INITIALIZE}")),
        &expect![[r#"
            D13 note: it answered `tools/list` before the handshake
              frame: {"jsonrpc":"2.0","id":9,"result":{"tools":[]}}
              fix:   nothing has to be done; whoever relies on it will find other servers that refuse
        "#]],
    );
}

#[test]
fn a_server_of_no_known_version_is_told() {
    let life = [
        DISCOVER,
        r#"<- {"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2027-03-01"],"requested":"2026-07-28"}}}"#,
    ]
    .join("\n");
    check(
        &life,
        &expect![[r#"
            D15 error: no version of MCP is common to both: it speaks 2027-03-01
              frame: {"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2027-03-01"],"requested":"2026-07-28"}}}
              at:    $.error.data.supported
              fix:   let it speak one of 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25, 2026-07-28
        "#]],
    );
    assert_eq!(codes(&legacy(&GOOD.replace("2025-11-25", "2023-01-01"), MOVE)), "D15 error");
    assert_eq!(codes(&life.replace("2027-03-01", "2025-11-25")), "");
    assert_eq!(codes(&life.replace(r#""supported":["2027-03-01"],"#, "")), "D15 error");
}

// D7, D8, D14, D16, D19: the tools.

#[test]
fn tools_without_a_usable_schema_are_told_one_by_one() {
    let life = listing(
        r##"{"name":"a","params_schema":{"type":"object"}},{"name":"b"},{"name":"c","inputSchema":"none"},{"name":"d","inputSchema":{"properties":{}}},{"name":"e","inputSchema":{"type":"string"}},{"name":"f","inputSchema":{"type":"object","properties":{"x y":{"type":"text"}}}},{"name":"g","inputSchema":{"type":"object","properties":{"x":{"$ref":"#/$defs/gone"}}}},7"##,
    );
    check(
        &life,
        &expect![[r##"
            D7 error: tool `a` has `params_schema` where `inputSchema` must be
              frame: …{"name":"a","params_schema":{"type":"object"}},{"name":"b"},{"name":"c","inputSchema":"none"},{"name":"d","inputSchema":{"properties":{}}},{"name":"e","inputSchema":{"type":"string"}},{"name":"f","inputSchema":{"type":"object","properties":{"x y":{"type":"text"}}}},{"name":"g","inputSchema":{"type":"object","properties":{"x":{"$ref":"#/$defs/gone"}}}},7]}}
              at:    $.result.tools[0].params_schema
              fix:   rename `params_schema` to `inputSchema`

            D7 error: tool `b` has no `inputSchema`
              frame: …{"name":"b"},{"name":"c","inputSchema":"none"},{"name":"d","inputSchema":{"properties":{}}},{"name":"e","inputSchema":{"type":"string"}},{"name":"f","inputSchema":{"type":"object","properties":{"x y":{"type":"text"}}}},{"name":"g","inputSchema":{"type":"object","properties":{"x":{"$ref":"#/$defs/gone"}}}},7]}}
              at:    $.result.tools[1].inputSchema
              fix:   add a JSON Schema of its arguments as `inputSchema`; `{"type": "object", "additionalProperties": false}` if it takes none

            D7 error: `inputSchema` of tool `c` is no object
              frame: …{"name":"c","inputSchema":"none"},{"name":"d","inputSchema":{"properties":{}}},{"name":"e","inputSchema":{"type":"string"}},{"name":"f","inputSchema":{"type":"object","properties":{"x y":{"type":"text"}}}},{"name":"g","inputSchema":{"type":"object","properties":{"x":{"$ref":"#/$defs/gone"}}}},7]}}
              at:    $.result.tools[2].inputSchema
              fix:   write it as a JSON Schema with `"type": "object"`

            D7 error: `inputSchema` of tool `d` has no type
              frame: …{"name":"d","inputSchema":{"properties":{}}},{"name":"e","inputSchema":{"type":"string"}},{"name":"f","inputSchema":{"type":"object","properties":{"x y":{"type":"text"}}}},{"name":"g","inputSchema":{"type":"object","properties":{"x":{"$ref":"#/$defs/gone"}}}},7]}}
              at:    $.result.tools[3].inputSchema
              fix:   set `"type": "object"`, and describe the arguments under `properties`

            D7 error: `inputSchema` of tool `e` has type "string"
              frame: …{"name":"e","inputSchema":{"type":"string"}},{"name":"f","inputSchema":{"type":"object","properties":{"x y":{"type":"text"}}}},{"name":"g","inputSchema":{"type":"object","properties":{"x":{"$ref":"#/$defs/gone"}}}},7]}}
              at:    $.result.tools[4].inputSchema.type
              fix:   set `"type": "object"`, and describe the arguments under `properties`

            D7 error: `inputSchema` of tool `f` is no valid JSON Schema: "text" is not valid under any of the schemas listed in the 'anyOf' keyword
              frame: …{"name":"f","inputSchema":{"type":"object","properties":{"x y":{"type":"text"}}}},{"name":"g","inputSchema":{"type":"object","properties":{"x":{"$ref":"#/$defs/gone"}}}},7]}}
              at:    $.result.tools[5].inputSchema.properties["x y"].type
              fix:   write it in JSON Schema 2020-12, with every `$ref` inside of it

            D7 error: `inputSchema` of tool `g` is no valid JSON Schema: Pointer '/$defs/gone' does not exist
              frame: …{"name":"g","inputSchema":{"type":"object","properties":{"x":{"$ref":"#/$defs/gone"}}}},7]}}
              at:    $.result.tools[6].inputSchema
              fix:   write it in JSON Schema 2020-12, with every `$ref` inside of it

            D7 error: 7 stands where a tool must be
              frame: {"jsonrpc":"2.0","id":3,"result":{"tools":[{"name":"a","params_schema":{"type":"object"}},{"name":"b"},{"name":"c","inputSchema":"none"},{"name":"d","inputSchema":{"properties":{}}},{"name":"e","inputSchema":{"type":"string"}},{"name":"f","inputSchema":{"type":"object","properties":{"x y":{"type":"text"}}}},{"name":"g","inputSchema":{"type":"object","properties":{"x":{"$ref":"#/$defs/gone"}}}},7]}…
              at:    $.result.tools[7]
              fix:   describe each tool as an object with `name`, `description` and `inputSchema`
        "##]],
    );
}

#[test]
fn a_list_that_is_none_is_told() {
    let list = |answer: &str| [DISCOVER, UNKNOWN, INITIALIZE, GOOD, INITIALIZED, LIST, answer].join("\n");
    let bare = list(r#"<- {"jsonrpc":"2.0","id":3,"result":{"functions":[]}}"#);
    check(
        &bare,
        &expect![[r#"
            D7 error: its answer to `tools/list` has no array `tools`
              frame: {"jsonrpc":"2.0","id":3,"result":{"functions":[]}}
              at:    $.result
              fix:   rename `functions` to `tools`, and make it an array
        "#]],
    );
    let refused = list(r#"<- {"jsonrpc":"2.0","id":3,"error":{"code":-32603,"message":"boom"}}"#);
    check(
        &refused,
        &expect![[r#"
            D7 error: it says that it has tools, and answered `tools/list` with error -32603: boom
              frame: {"jsonrpc":"2.0","id":3,"error":{"code":-32603,"message":"boom"}}
              at:    $.error
              fix:   answer `tools/list` with the tools, or leave `tools` out of `capabilities`
        "#]],
    );
}

#[test]
fn schemas_that_say_nothing_are_told_at_once_if_all_are_so() {
    let life = listing(
        r#"{"name":"list_dir","description":"List files","inputSchema":{"type":"object"}},{"name":"move_file","description":"Move or rename a file","inputSchema":{"type":"object"}}"#,
    );
    check(
        &life,
        &expect![[r#"
            D8 warning: no tool says what its arguments are (`list_dir`, `move_file`): a model can only guess them
              frame: {"jsonrpc":"2.0","id":3,"result":{"tools":[{"name":"list_dir","description":"List files","inputSchema":{"type":"object"}},{"name":"move_file","description":"Move or rename a file","inputSchema":{"type":"object"}}]}}
              at:    $.result.tools[0].inputSchema
              fix:   describe each argument under `properties` with its type and what it means, and the necessary ones under `required`; a converter that gives only `{"type": "object"}` is a stub. A tool without arguments has `"additionalProperties": false`
        "#]],
    );
}

#[test]
fn a_schema_that_says_nothing_is_told_where_the_description_says_more() {
    let tool = |description: &str, schema: &str| {
        listing(&format!(r#"{MOVE},{{"name":"x","description":"{description}","inputSchema":{schema}}}"#))
    };
    let bare = r#"{"type":"object"}"#;
    check(
        &tool("Read the file at `path`", bare),
        &expect![[r#"
            D8 warning: the schema of tool `x` has no arguments, and its description speaks of `path`
              frame: {"jsonrpc":"2.0","id":3,"result":{"tools":[{"name":"move_file","description":"Move or rename a file","inputSchema":{"type":"object","properties":{"source":{"type":"string"}},"required":["source"]}},{"name":"x","description":"Read the file at `path`","inputSchema":{"type":"object"}}]}}
              at:    $.result.tools[1].inputSchema
              fix:   describe each argument under `properties` with its type and what it means, and the necessary ones under `required`; a converter that gives only `{"type": "object"}` is a stub. A tool without arguments has `"additionalProperties": false`
        "#]],
    );
    assert_eq!(codes(&tool("The time in the given zone", bare)), "D8 warning");
    assert_eq!(codes(&tool("The time", bare)), "");
    assert_eq!(codes(&tool("The time. Takes no arguments.", bare)), "");
    assert_eq!(codes(&tool("The time in the given zone", r#"{"type":"object","properties":{}}"#)), "");
    assert_eq!(codes(&tool("The given time", r#"{"type":"object","additionalProperties":false}"#)), "");
}

#[test]
fn fields_that_are_dropped_are_told_once_for_all_tools() {
    let tool = |name: &str, confirmed: bool| {
        format!(
            r#"{{"name":"{name}","inputSchema":{{"type":"object","properties":{{}}}},"metadata":{{"confirmationRequired":{confirmed},"undoSupported":true}},"annotations":{{"destructive":true}}}}"#
        )
    };
    check(
        &listing(&format!("{},{}", tool("read_file", false), tool("delete_file", true))),
        &expect![[r#"
            D14 warning: MCP knows no `metadata.confirmationRequired` in a tool, so hosts drop it: it is in `read_file`, `delete_file`, and `true` in `delete_file`
              frame: {"jsonrpc":"2.0","id":3,"result":{"tools":[{"name":"read_file","inputSchema":{"type":"object","properties":{}},"metadata":{"confirmationRequired":false,"undoSupported":true},"annotations":{"destructive":true}},{"name":"delete_file","inputSchema":{"type":"object","properties":{}},"metadata":{"confirmationRequired":true,"undoSupported":true},"annotations":{"destructive":true}}]}}
              at:    $.result.tools[1].metadata.confirmationRequired
              fix:   say it as `"annotations": {"destructiveHint": true}`, which hosts ask a person about, or name these tools under `confirm_tools` in its configuration

            D14 warning: MCP knows no `metadata.undoSupported` in a tool, so hosts drop it: it is in `read_file`, `delete_file`
              frame: {"jsonrpc":"2.0","id":3,"result":{"tools":[{"name":"read_file","inputSchema":{"type":"object","properties":{}},"metadata":{"confirmationRequired":false,"undoSupported":true},"annotations":{"destructive":true}},{"name":"delete_file","inputSchema":{"type":"object","properties":{}},"metadata":{"confirmationRequired":true,"undoSupported":true},"annotations":{"destructive":true}}]}}
              at:    $.result.tools[0].metadata.undoSupported
              fix:   put it under `_meta`, as `"com.example/undoSupported"` with a domain of your own

            D14 warning: MCP knows no `annotations.destructive` in a tool, so hosts drop it: it is in `read_file`, `delete_file`
              frame: {"jsonrpc":"2.0","id":3,"result":{"tools":[{"name":"read_file","inputSchema":{"type":"object","properties":{}},"metadata":{"confirmationRequired":false,"undoSupported":true},"annotations":{"destructive":true}},{"name":"delete_file","inputSchema":{"type":"object","properties":{}},"metadata":{"confirmationRequired":true,"undoSupported":true},"annotations":{"destructive":true}}]}}
              at:    $.result.tools[0].annotations.destructive
              fix:   rename `annotations.destructive` to `annotations.destructiveHint`
        "#]],
    );
}

#[test]
fn names_that_clash_or_are_refused_are_told() {
    let tool = |name: &str| format!(r#"{{"name":"{name}","inputSchema":{{"type":"object","properties":{{}}}}}}"#);
    let names = ["a", "a", "files.move", "two words", &"x".repeat(65), ""].map(tool);
    check(
        &listing(&names.join(",")),
        &expect![[r#"
            D16 error: two tools are called `a`: this one, and the one at $.result.tools[0]
              frame: …{"name":"a","inputSchema":{"type":"object","properties":{}}},{"name":"a","inputSchema":{"type":"object","properties":{}}},{"name":"files.move","inputSchema":{"type":"object","properties":{}}},{"name":"two words","inputSchema":{"type":"object","properties":{}}},{"name":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx","inputSchema":{"type":"object","properties":{}}},{"name":"","in…
              at:    $.result.tools[1].name
              fix:   give each tool a name of its own: only one of the two can be called

            D16 warning: the name `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx` is longer than the 64 characters that every model takes
              frame: …{"name":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx","inputSchema":{"type":"object","properties":{}}},{"name":"","inputSchema":{"type":"object","properties":{}}}]}}
              at:    $.result.tools[4].name
              fix:   shorten it

            D16 error: a tool has no name
              frame: …{"name":"","inputSchema":{"type":"object","properties":{}}}]}}
              at:    $.result.tools[5].name
              fix:   give it a `name` of letters, digits, `_` and `-`

            D16 warning: names of tools have a character that several models refuse: `files.move`, `two words`
              frame: …{"name":"files.move","inputSchema":{"type":"object","properties":{}}},{"name":"two words","inputSchema":{"type":"object","properties":{}}},{"name":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx","inputSchema":{"type":"object","properties":{}}},{"name":"","inputSchema":{"type":"object","properties":{}}}]}}
              at:    $.result.tools[2].name
              fix:   use letters, digits, `_` and `-` alone, as in `files_move`
        "#]],
    );
}

#[test]
fn too_many_tools_are_told() {
    let tools: Vec<String> =
        (0..129).map(|i| format!(r#"{{"name":"t{i}","inputSchema":{{"type":"object","properties":{{}}}}}}"#)).collect();
    check(
        &listing(&tools.join(",")),
        &expect![[r#"
            D16 warning: it has 129 tools, and several models take at most 128
              fix:   split it into several servers, or name those that are needed under `enabled_tools` in its configuration
        "#]],
    );
}

#[test]
fn other_drafts_are_told_and_only_noted_of_the_common_one() {
    let tool = |name: &str, draft: &str| {
        format!(r#"{{"name":"{name}","inputSchema":{{"$schema":"{draft}","type":"object","properties":{{}}}}}}"#)
    };
    let tools = [
        tool("a", "http://json-schema.org/draft-07/schema#"),
        tool("b", "http://json-schema.org/draft-04/schema#"),
        tool("c", "https://example.com/mine"),
        tool("d", "https://json-schema.org/draft/2020-12/schema"),
    ];
    check(
        &listing(&tools.join(",")),
        &expect![[r#"
            D19 note: schemas are written in draft-07, not in 2020-12: those of `a`
              frame: …{"name":"a","inputSchema":{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{}}},{"name":"b","inputSchema":{"$schema":"http://json-schema.org/draft-04/schema#","type":"object","properties":{}}},{"name":"c","inputSchema":{"$schema":"https://example.com/mine","type":"object","properties":{}}},{"name":"d","inputSchema":{"$schema":"https://json-schema.org/draft/2020-12/…
              at:    $.result.tools[0].inputSchema.$schema
              fix:   write them in 2020-12, the dialect of MCP, and leave `$schema` out

            D19 warning: schemas are written in draft-04, not in 2020-12: those of `b`
              frame: …{"name":"b","inputSchema":{"$schema":"http://json-schema.org/draft-04/schema#","type":"object","properties":{}}},{"name":"c","inputSchema":{"$schema":"https://example.com/mine","type":"object","properties":{}}},{"name":"d","inputSchema":{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{}}}]}}
              at:    $.result.tools[1].inputSchema.$schema
              fix:   write them in 2020-12, the dialect of MCP, and leave `$schema` out

            D19 warning: schemas are written in "https://example.com/mine", which is unknown, not in 2020-12: those of `c`
              frame: …{"name":"c","inputSchema":{"$schema":"https://example.com/mine","type":"object","properties":{}}},{"name":"d","inputSchema":{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{}}}]}}
              at:    $.result.tools[2].inputSchema.$schema
              fix:   write them in 2020-12, the dialect of MCP, and leave `$schema` out
        "#]],
    );
}

// D10, D11, D12, D17, D18: the process.

#[test]
fn an_end_before_the_answer_is_told_with_its_stderr() {
    let life = format!(
        "{DISCOVER}\nended exited with code 1 after 210\nstderr Traceback (most recent call last):\nstderr ModuleNotFoundError: No module named 'pandas'"
    );
    check_report(
        "ocr",
        &life,
        &expect![[r#"
            ocr: unusable, 0 tools, 1 fault

            D10 error: it exited with code 1 after 210 ms, before it answered `server/discover`; its stderr ends with: ModuleNotFoundError: No module named 'pandas'
              fix:   install the Python module that is missing, into the environment that it is started with

            its stderr ended with:
              | Traceback (most recent call last):
              | ModuleNotFoundError: No module named 'pandas'

            exit code 2
        "#]],
    );
    let later = format!("{}\nended was killed by SIGSEGV after 4000", listing(MOVE));
    check(
        &later,
        &expect![[r#"
            D10 error: it was killed by SIGSEGV after 4.0 s, though nobody asked it to
              fix:   run its command by hand, and mend what its stderr says
        "#]],
    );
}

#[test]
fn silence_is_told_with_what_the_processor_did() {
    let idle = format!("{DISCOVER}\n{INITIALIZE}\nsilent initialize 10000 processor 20");
    check(
        &idle,
        &expect![[r#"
            D11 error: it was alive and gave no answer to `initialize` for 10.0 s, and had used 20 ms of processor time
              fix:   read stdin line by line without waiting for its end, answer each request, and flush stdout after each line
        "#]],
    );
    let busy = format!("{DISCOVER}\n{INITIALIZE}\nsilent initialize 10000 processor 9800");
    check(
        &busy,
        &expect![[r#"
            D11 error: it was alive and gave no answer to `initialize` for 10.0 s, and had used 9.8 s of processor time
              fix:   it is at work: do less before the first answer, or raise the timeout of this phase
        "#]],
    );
}

#[test]
fn a_slow_start_is_noted_and_lateness_with_it() {
    let life =
        [DISCOVER, INITIALIZE, "at 8700", &UNKNOWN.replace("<-", "<~"), &GOOD.replace("<-", "<~"), "first byte 8700"]
            .join("\n");
    check(
        &life,
        &expect![[r#"
            D12 note: its first byte came 8.7 s after its start
              fix:   import and connect to things when they are first needed, or raise `first_byte_timeout`

            D20 note: its answer to `server/discover` came 8.7 s after it was asked, when nobody waited for it any more
              frame: {"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}
              fix:   answer sooner, or raise `discover_timeout` in its configuration

            D20 note: its answer to `initialize` came 8.7 s after it was asked, when nobody waited for it any more
              frame: {"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"secure-filesystem-server","version":"0.2.0"}},"jsonrpc":"2.0","id":2}
              fix:   answer sooner, or raise `initialize_timeout` in its configuration
        "#]],
    );
}

#[test]
fn a_server_that_will_not_end_and_what_it_leaves_are_told() {
    let life = format!("{}\nstopped 3000 SIGTERM\nleft 1", listing(MOVE));
    check(
        &life,
        &expect![[r#"
            D17 warning: it was still there 3.0 s after its stdin was closed, until SIGTERM
              fix:   end when reading stdin gives end of file, also while a call is under way

            D18 warning: it left 1 process behind when it ended
              fix:   end what it starts before it ends, and start it in its own process group
        "#]],
    );
}

// Whole servers.

#[test]
fn the_three_faults_of_the_adr_are_told_in_one_pass() {
    let life = r#"
-> {"jsonrpc":"2.0","id":1,"method":"server/discover","params":{}}
<- {"jsonrpc":"2.0","id":"init","result":{"serverInfo":{"name":"filesystem","version":"1.0.0"},"tools":[{"name":"filesystem.list_dir","description":"List files","inputSchema":{"type":"object"}}]}}
<- {"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Unknown method: server/discover"}}
-> {"jsonrpc":"2.0","id":2,"method":"initialize","params":{}}
<- {"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"Unknown method: initialize"}}
-> {"jsonrpc":"2.0","id":3,"method":"tools/list"}
<- {"jsonrpc":"2.0","id":3,"result":{"tools":[{"name":"list_dir","description":"List files","inputSchema":{"type":"object"}},{"name":"move_file","description":"Move or rename a file","inputSchema":{"type":"object"}}]}}
stopped 20
"#;
    check_report(
        "filesystem",
        life,
        &expect![[r#"
            filesystem: unusable, 2 tools, 3 faults

            D1 warning: it sent a message with id "init" before it had answered anything; nobody asked for it
              frame: {"jsonrpc":"2.0","id":"init","result":{"serverInfo":{"name":"filesystem","version":"1.0.0"},"tools":[{"name":"filesystem.list_dir","description":"List files","inputSchema":{"type":"object"}}]}}
              at:    $.id
              fix:   send nothing at the start: wait for `initialize` or `server/discover`, and answer with its id

            D3 error: it knows neither `initialize` nor `server/discover`: it answered -32601: Unknown method: initialize
              frame: {"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"Unknown method: initialize"}}
              at:    $.error
              fix:   answer the request `initialize`, with its own `id`, with `protocolVersion`, `capabilities` and `serverInfo`; a server must not announce itself in place of that

            D8 warning: no tool says what its arguments are (`list_dir`, `move_file`): a model can only guess them
              frame: {"jsonrpc":"2.0","id":3,"result":{"tools":[{"name":"list_dir","description":"List files","inputSchema":{"type":"object"}},{"name":"move_file","description":"Move or rename a file","inputSchema":{"type":"object"}}]}}
              at:    $.result.tools[0].inputSchema
              fix:   describe each argument under `properties` with its type and what it means, and the necessary ones under `required`; a converter that gives only `{"type": "object"}` is a stub. A tool without arguments has `"additionalProperties": false`

            exit code 2
        "#]],
    );
}

const LOCALCOWORK_PYTHON: &str = r#"
-> {"jsonrpc":"2.0","id":1,"method":"server/discover","params":{}}
<- {"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "Unknown method: server/discover"}}
-> {"jsonrpc":"2.0","id":2,"method":"initialize","params":{}}
<- {"jsonrpc": "2.0", "id": 2, "result": {"server_info": {"name": "security", "version": "1.0.0"}, "tools": [{"name": "scan_for_pii", "description": "Scan files for personal data", "params_schema": {"type": "object", "properties": {"path": {"type": "string"}}}, "confirmation_required": false, "undo_supported": false}], "capabilities": {}}}
-> {"jsonrpc":"2.0","method":"notifications/initialized"}
<- {"jsonrpc": "2.0", "id": 0, "error": {"code": -32601, "message": "Unknown method: notifications/initialized"}}
-> {"jsonrpc":"2.0","id":3,"method":"tools/list"}
<- {"jsonrpc": "2.0", "id": 3, "result": {"tools": [{"name": "scan_for_pii", "description": "Scan files for personal data", "params_schema": {"type": "object", "properties": {"path": {"type": "string"}}}, "confirmation_required": false, "undo_supported": false}]}}
"#;

#[test]
fn the_dialect_of_localcowork_is_told_where_mcp_is_expected() {
    check_report(
        "security",
        LOCALCOWORK_PYTHON,
        &expect![[r#"
            security: unusable, 1 tool (0 usable), 8 faults

            D4 warning: it answered the notification `notifications/initialized`, with a message with id 0
              frame: {"jsonrpc": "2.0", "id": 0, "error": {"code": -32601, "message": "Unknown method: notifications/initialized"}}
              fix:   answer only what has an `id`, and take `notifications/initialized` without a word

            D5 error: its answer to `initialize` has no `protocolVersion`
              frame: {"jsonrpc": "2.0", "id": 2, "result": {"server_info": {"name": "security", "version": "1.0.0"}, "tools": [{"name": "scan_for_pii", "description": "Scan files for personal data", "params_schema": {"type": "object", "properties": {"path": {"type": "string"}}}, "confirmation_required": false, "undo_supported": false}], "capabilities": {}}}
              at:    $.result
              fix:   add `"protocolVersion": "2025-11-25"` to the result

            D5 warning: its answer to `initialize` has `server_info` where `serverInfo` must be
              frame: {"jsonrpc": "2.0", "id": 2, "result": {"server_info": {"name": "security", "version": "1.0.0"}, "tools": [{"name": "scan_for_pii", "description": "Scan files for personal data", "params_schema": {"type": "object", "properties": {"path": {"type": "string"}}}, "confirmation_required": false, "undo_supported": false}], "capabilities": {}}}
              at:    $.result.server_info
              fix:   rename `server_info` to `serverInfo`, and write it as an object, such as {"name": …, "version": …}

            D5 warning: it has tools, but its answer to `initialize` does not say so
              frame: {"jsonrpc": "2.0", "id": 2, "result": {"server_info": {"name": "security", "version": "1.0.0"}, "tools": [{"name": "scan_for_pii", "description": "Scan files for personal data", "params_schema": {"type": "object", "properties": {"path": {"type": "string"}}}, "confirmation_required": false, "undo_supported": false}], "capabilities": {}}}
              at:    $.result.capabilities
              fix:   add `"tools": {}` to `capabilities`: hosts ask for `tools/list` only then

            D6 warning: it sent its tools (1) with the answer to `initialize`: this is the dialect of LocalCowork's servers, not MCP
              frame: {"jsonrpc": "2.0", "id": 2, "result": {"server_info": {"name": "security", "version": "1.0.0"}, "tools": [{"name": "scan_for_pii", "description": "Scan files for personal data", "params_schema": {"type": "object", "properties": {"path": {"type": "string"}}}, "confirmation_required": false, "undo_supported": false}], "capabilities": {}}}
              at:    $.result.tools
              fix:   leave `tools` out of this answer and give them to `tools/list`; or, if it is a server of LocalCowork, set `dialect = "localcowork"` in its configuration, and it can be used as it is

            D7 error: tool `scan_for_pii` has `params_schema` where `inputSchema` must be
              frame: {"jsonrpc": "2.0", "id": 3, "result": {"tools": [{"name": "scan_for_pii", "description": "Scan files for personal data", "params_schema": {"type": "object", "properties": {"path": {"type": "string"}}}, "confirmation_required": false, "undo_supported": false}]}}
              at:    $.result.tools[0].params_schema
              fix:   rename `params_schema` to `inputSchema`

            D14 warning: MCP knows no `confirmation_required` in a tool, so hosts drop it: it is in `scan_for_pii`
              frame: {"jsonrpc": "2.0", "id": 3, "result": {"tools": [{"name": "scan_for_pii", "description": "Scan files for personal data", "params_schema": {"type": "object", "properties": {"path": {"type": "string"}}}, "confirmation_required": false, "undo_supported": false}]}}
              at:    $.result.tools[0].confirmation_required
              fix:   say it as `"annotations": {"destructiveHint": true}`, which hosts ask a person about, or name these tools under `confirm_tools` in its configuration

            D14 warning: MCP knows no `undo_supported` in a tool, so hosts drop it: it is in `scan_for_pii`
              frame: {"jsonrpc": "2.0", "id": 3, "result": {"tools": [{"name": "scan_for_pii", "description": "Scan files for personal data", "params_schema": {"type": "object", "properties": {"path": {"type": "string"}}}, "confirmation_required": false, "undo_supported": false}]}}
              at:    $.result.tools[0].undo_supported
              fix:   put it under `_meta`, as `"com.example/undo_supported"` with a domain of your own

            exit code 2
        "#]],
    );
}

#[test]
fn the_dialect_of_localcowork_is_no_fault_where_it_is_configured() {
    check_report(
        "security",
        &format!("{LOCALCOWORK_PYTHON}\ndialect localcowork"),
        &expect![[r#"
            security: ready (the dialect of LocalCowork), 1 tool, no fault, 1 note

            D6 note: it sent its tools (1) with the answer to `initialize`: this is the dialect of LocalCowork's servers, not MCP
              frame: {"jsonrpc": "2.0", "id": 2, "result": {"server_info": {"name": "security", "version": "1.0.0"}, "tools": [{"name": "scan_for_pii", "description": "Scan files for personal data", "params_schema": {"type": "object", "properties": {"path": {"type": "string"}}}, "confirmation_required": false, "undo_supported": false}], "capabilities": {}}}
              at:    $.result.tools
              fix:   nothing: its configuration says that it speaks this dialect

            exit code 0
        "#]],
    );
}

#[test]
fn one_bad_tool_leaves_a_server_usable_and_none_that_is_good_does_not() {
    check_report(
        "one",
        &listing(&format!(r#"{MOVE},{{"name":"b"}}"#)),
        &expect![[r#"
            one: usable (legacy, 2025-11-25), 2 tools (1 usable), 1 fault

            D7 error: tool `b` has no `inputSchema`
              frame: {"jsonrpc":"2.0","id":3,"result":{"tools":[{"name":"move_file","description":"Move or rename a file","inputSchema":{"type":"object","properties":{"source":{"type":"string"}},"required":["source"]}},{"name":"b"}]}}
              at:    $.result.tools[1].inputSchema
              fix:   add a JSON Schema of its arguments as `inputSchema`; `{"type": "object", "additionalProperties": false}` if it takes none

            exit code 1
        "#]],
    );
    let none = Report::of("none", &evidence(&listing(r#"{"name":"b"}"#)));
    assert_eq!(none.exit_code(), 2);
}

// How it is told.

#[test]
fn many_findings_of_one_kind_are_counted() {
    let tools: Vec<String> = (0..30).map(|i| format!(r#"{{"name":"t{i}"}}"#)).collect();
    let findings = diagnose(&evidence(&listing(&tools.join(","))));
    assert_eq!(findings.len(), 9);
    assert_eq!(findings[8].what, "there are 22 more findings of this kind");
    assert_eq!(findings[8].severity, Severity::Error);
}

#[test]
fn long_frames_are_shown_from_the_tool_on() {
    let tools: Vec<String> = (0..30)
        .map(|i| format!(r#"{{"name":"tool_{i}","inputSchema":{{"type":"object","properties":{{}}}}}}"#))
        .collect();
    let life = listing(&format!(r#"{},{{"name":"bad","description":"{}"}}"#, tools.join(","), "long ".repeat(200)));
    let findings = diagnose(&evidence(&life));
    expect![[r#"…{"name":"bad","description":"long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long l…"#]].assert_eq(findings[0].frame.as_deref().unwrap());
}

#[test]
fn what_a_server_wrote_cannot_deceive_who_reads_it() {
    let life = format!("{}\n<- \u{1b}[2J\u{202e}evil", listing(MOVE));
    check(
        &life,
        &expect![[r#"
            D9 warning: it wrote a line to stdout that is no JSON
              frame: <U+001B>[2J<U+202E>evil
              fix:   write logs and banners to stderr: stdout is for messages alone
        "#]],
    );
}

#[test]
fn a_report_is_json_too() {
    let life = format!("{}\nstopped 3000 SIGTERM", listing(MOVE));
    let report = serde_json::to_string_pretty(&Report::of("files", &evidence(&life))).unwrap();
    expect![[r#"
        {
          "server": "files",
          "verdict": "usable",
          "speaks": {
            "era": "legacy",
            "version": "2025-11-25"
          },
          "tools": 1,
          "tools_usable": 1,
          "findings": [
            {
              "code": "D17",
              "severity": "warning",
              "what": "it was still there 3.0 s after its stdin was closed, until SIGTERM",
              "frame": null,
              "path": null,
              "fix": "end when reading stdin gives end of file, also while a call is under way"
            }
          ],
          "stderr": ""
        }"#]]
    .assert_eq(&report);
}

proptest! {
    #[test]
    fn whatever_a_server_says_is_told_the_same_way_twice(
        answer in any_json(),
        tools in prop::collection::vec(any_json(), 0..4),
        line in "\\PC{0,80}",
    ) {
        let tools: Vec<String> = tools.iter().map(ToString::to_string).collect();
        let answer = format!(r#"<- {{"jsonrpc":"2.0","id":2,"result":{answer}}}"#);
        let evidence = evidence(&format!("{}\n<- {line}", legacy(&answer, &tools.join(","))));
        prop_assert_eq!(Report::of("any", &evidence).to_string(), Report::of("any", &evidence).to_string());
    }
}

/// JSON made of the words that are looked for.
fn any_json() -> impl Strategy<Value = Value> {
    const WORDS: [&str; 20] = [
        "name",
        "type",
        "object",
        "inputSchema",
        "params_schema",
        "properties",
        "$schema",
        "$ref",
        "#",
        "#/properties",
        "pattern",
        "(",
        "metadata",
        "annotations",
        "destructive",
        "tools",
        "protocolVersion",
        "capabilities",
        "serverInfo",
        "ü\u{202e}",
    ];
    let word = || prop::sample::select(&WORDS[..]).prop_map(str::to_owned);
    let leaf = prop_oneof![word().prop_map(Value::from), any::<i8>().prop_map(Value::from), Just(Value::Null)];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::btree_map(word(), inner.clone(), 0..5).prop_map(|map| map.into_iter().collect()),
            prop::collection::vec(inner, 0..3).prop_map(Value::from),
        ]
    })
}

// Text to evidence.

#[derive(Default)]
struct Life {
    evidence: Evidence,
    at: Duration,
    asked: Vec<(Value, String)>,
}

fn evidence(text: &str) -> Evidence {
    let mut life = Life::default();
    for line in text.lines() {
        match line.split_at_checked(2) {
            Some(("->", text)) => life.ours(text.trim()),
            Some(("<-", text)) => life.theirs(text.trim(), false),
            Some(("<~", text)) => life.theirs(text.trim(), true),
            _ if line.is_empty() => {}
            _ => life.fact(&line.split(' ').collect::<Vec<_>>()),
        }
    }
    life.evidence
}

impl Life {
    fn push(&mut self, from: Speaker, text: &str, verdict: Verdict) {
        let frame = Frame { at: self.at, from, text: text.to_owned(), bytes: text.len(), verdict };
        self.evidence.frames.push(frame);
    }

    fn ours(&mut self, text: &str) {
        let json: Value = serde_json::from_str(text).unwrap();
        if let Some(id) = json.get("id") {
            self.asked.push((id.clone(), json["method"].as_str().unwrap().to_owned()));
        }
        self.push(Speaker::Us, text, Verdict::Sent);
    }

    fn theirs(&mut self, text: &str, is_late: bool) {
        let verdict = match serde_json::from_str::<Value>(text) {
            Err(_) => Verdict::NotJson,
            Ok(json) if json.get("method").is_some() => Verdict::Taken,
            Ok(json) if json.get("result").or(json.get("error")).is_none() => {
                Verdict::NotRpc { why: "it has no method, no result and no error".into() }
            }
            Ok(json) => self.answer(text, &json, is_late),
        };
        self.push(Speaker::Server, text, verdict);
    }

    fn answer(&mut self, text: &str, json: &Value, is_late: bool) -> Verdict {
        let Some(id) = json.get("id").filter(|id| !id.is_null()) else { return Verdict::NoId };
        let Some(at) = self.asked.iter().position(|(asked, _)| asked == id) else { return Verdict::UnknownId };
        let (_, method) = self.asked.remove(at);
        if method == "tools/list"
            && let Some(tools) = json["result"]["tools"].as_array()
        {
            self.evidence.tools.extend(tools.iter().enumerate().map(|(i, tool)| Listed {
                frame: text.into(),
                path: format!("$.result.tools[{i}]"),
                tool: tool.clone(),
            }));
        }
        let method = method.into();
        if is_late {
            Verdict::Late { method }
        } else {
            Verdict::Answer { method, is_error: json.get("error").is_some() }
        }
    }

    fn fact(&mut self, words: &[&str]) {
        let millis = |word: &str| Duration::from_millis(word.parse().unwrap());
        match words {
            ["at", at] => self.at = millis(at),
            ["first", "byte", at] => self.evidence.first_byte_at = Some(millis(at)),
            ["ended", how @ .., "after", after] => {
                self.evidence.ended = Some(Ended { how: how.join(" "), after: millis(after) });
            }
            ["stderr", text @ ..] => self.evidence.stderr.push_str(&format!("{}\n", text.join(" "))),
            ["silent", "initialize", lasted, "processor", used] => {
                let (lasted, processor) = (millis(lasted), Some(millis(used)));
                self.evidence.silent = Some(Silence { phase: Phase::Initialize, lasted, processor });
            }
            ["stopped", took, force @ ..] => {
                let forced_by = force.first().map(|force| (*force).to_owned());
                self.evidence.stop = Some(Stop { took: millis(took), forced_by, left_behind: 0 });
            }
            ["left", count] => self.evidence.stop.get_or_insert_default().left_behind = count.parse().unwrap(),
            ["dialect", "localcowork"] => self.evidence.dialect = Dialect::LocalCowork,
            other => panic!("no fact of a life: {other:?}"),
        }
    }
}
