//! Servers that do what no specification foresees: none of them brings down anything but itself.

use std::time::Duration;

use serde_json::json;
use supervise::Owner;
use tools::{Limits, Server, ServerState, Timeouts, check};

use crate::house::{House, PATIENCE, server, text};

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_is_none_is_an_empty_one() {
    let house = House::start(vec![server("g", "no-list")]);
    let view = house.until("g", |view| view.state != ServerState::Starting).await;
    assert!(view.state.is_usable() && view.tools.is_empty(), "{view:?}");
    house.host.stop().await;
    let report = check(&server("g", "no-list"), Owner::generate(), &Limits::default()).await;
    assert!(report.findings.iter().any(|finding| finding.code == tools::Code::D7), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_is_no_object_is_a_failure_of_the_tool() {
    let house = House::ready(vec![server("g", "bare-result")]).await;
    let result = house.call("g__now", json!({})).await;
    assert_eq!(result["isError"], true);
    assert!(text(&result).contains("no object"), "{}", text(&result));
    assert_eq!(house.called(), ["g now failed"]);
    house.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_without_an_end_ends() {
    let house = House::start(vec![server("g", "endless-pages")]);
    let view = house.until("g", |view| view.state != ServerState::Starting).await;
    assert_eq!(view.state, ServerState::Degraded, "{view:?}");
    assert!(view.reason.unwrap().contains("pages"));
    house.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_in_one_breath_with_the_handshake_is_answered() {
    let house = House::ready(vec![server("g", "early-ping")]).await;
    assert_eq!(house.view("g").tools, ["g__move_file", "g__now"]);
    house.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_question_of_a_flood_is_answered() {
    let timeouts = Timeouts { call: Duration::from_secs(30), ..Timeouts::default() };
    let house = House::ready(vec![Server { timeouts, ..server("g", "inquisitive") }]).await;
    let result = house.call("g__now", json!({})).await;
    assert_eq!(text(&result), "20000 answers");
    house.host.stop().await;
}

/// A schema of objects in objects, so many of them.
pub(crate) fn nested_schema(levels: usize) -> String {
    r#"{"type":"object","properties":{"a":"#.repeat(levels) + r#"{"type":"string"}"# + &"}}".repeat(levels)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_that_nests_too_deeply_disables_its_own_tool_alone() {
    for levels in [62, 500] {
        let deep = format!(r#"{{"name":"deep","inputSchema":{}}},"#, nested_schema(levels));
        let server =
            edited(script("echo '{\"jsonrpc\":\"2.0\",\"id\":'$id',\"result\":{\"content\":[]}}'"), |script| {
                script.replace(r#""tools":["#, &format!(r#""tools":[{deep}"#))
            });
        let report = check(&server, Owner::generate(), &Limits::default()).await;
        let found: Vec<_> = report.findings.iter().filter(|finding| finding.code == tools::Code::D7).collect();
        assert!(matches!(&found[..], [only] if only.what.contains("`deep` nests deeper")), "{report}");
        let house = House::start(vec![server]);
        let view = house.until("g", |view| view.state != ServerState::Starting).await;
        assert_eq!((view.state, &view.tools[..]), (ServerState::Degraded, &["g__t".to_owned()][..]), "{view:?}");
        assert_eq!(view.quarantined[0].path, "$.tools[0].inputSchema");
        assert_eq!(house.call("g__t", json!({})).await["isError"], json!(null));
        let caller = tools::Caller::new("key", "test");
        let refused = house.host.call(&caller, "g__deep", json!({})).await.unwrap_err();
        assert!(refused.message.contains("nests deeper"), "{refused:?}");
        house.host.stop().await;
    }
}

/// A server with a pattern that keeps an engine which backtracks busy for hours: 150 strings of 17 letters took minutes.
#[tokio::test(flavor = "multi_thread")]
async fn a_pattern_that_backtracks_stalls_nobody() {
    let schema =
        r#"{"type":"object","properties":{"a":{"type":"array","items":{"pattern":"^(?:(?:(a|a)*\\1b)|(?:a*))$"}}}}"#;
    let server = edited(script("echo '{\"jsonrpc\":\"2.0\",\"id\":'$id',\"result\":{\"content\":[]}}'"), |script| {
        script
            .replace(r#""inputSchema":{"type":"object"}"#, &format!(r#""inputSchema":{schema}"#))
            .replace("echo '", "printf '%s\\n' '")
    });
    let report = check(&server, Owner::generate(), &Limits::default()).await;
    let found = report.findings.iter().find(|finding| finding.code == tools::Code::D7);
    assert!(found.is_some_and(|finding| finding.what.contains("needs backtracking")), "{report}");
    let house = House::ready(vec![server]).await;
    let arguments = json!({ "a": vec!["aaaaaaaaaaaaaaaaa"; 150] });
    let result = house.call("g__t", arguments).await;
    assert_eq!(result["isError"], json!(null), "{result}");
    house.host.stop().await;
}

/// The same server with another script.
fn edited(mut server: Server, edit: impl Fn(&str) -> String) -> Server {
    let tools::Reach::Process { command, .. } = &mut server.reach else { unreachable!() };
    command[2] = edit(command[2].to_str().unwrap()).into();
    server
}

/// A legacy server of one tool, as a script; `then` is what it does when it is called.
pub(crate) fn script(then: &str) -> Server {
    let hello =
        r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}"#;
    let tools = r#"{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}"#;
    let script = format!(
        r#"while IFS= read -r line; do
            id=${{line#*'"id":'}}; id=${{id%%,*}}
            case $line in
                *'"initialize"'*) echo '{{"jsonrpc":"2.0","id":'$id',"result":{hello}}}';;
                *'"tools/list"'*) echo '{{"jsonrpc":"2.0","id":'$id',"result":{tools}}}';;
                *'"tools/call"'*) {then};;
                *'"server/discover"'*) echo '{{"jsonrpc":"2.0","id":'$id',"error":{{"code":-32601,"message":"no"}}}}';;
            esac
        done"#
    );
    shell("g", &script)
}

/// A legacy server that ends when it is asked what it does not know.
pub(crate) fn fragile() -> Server {
    edited(script(":"), |script| script.replace("case $line in", "case $line in *'\"server/discover\"'*) exit 1;;"))
}

pub(crate) fn shell(name: &str, script: &str) -> Server {
    let command = ["sh", "-c", script].map(Into::into).to_vec();
    let (env, cwd) = (Vec::new(), ".".into());
    Server::new(name, tools::Reach::Process { command, env, cwd, rlimits: supervise::Rlimits::default() })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_closes_its_stdin_is_started_again() {
    let told = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"closed"}}"#;
    let house = House::ready(vec![script(&format!("exec 0<&-; echo '{told}'; while :; do sleep 1; done"))]).await;
    let pid = house.view("g").pid.unwrap();
    let first = house.call("g__t", json!({}));
    let second = async {
        // The first call is the one that the server takes; this one meets a closed pipe.
        let is_closed = |frame: &tools::Frame| frame.text == told;
        house.until("g", |_| house.host.frames("g").unwrap().frames.iter().any(is_closed)).await;
        house.call("g__t", json!({})).await
    };
    let both = async { tokio::join!(first, second) };
    let (first, second) = tokio::time::timeout(PATIENCE, both).await.expect("both end before a call is too long");
    for result in [first, second] {
        let gone = json!({ "kind": "server_gone", "work_may_have_run": true });
        assert_eq!(result["_meta"]["switchboard/failure"], gone, "{result}");
    }
    assert_eq!(house.called(), ["g t lost", "g t lost"]);
    house.until("g", |view| view.state == ServerState::Ready && view.pid != Some(pid)).await;
    house.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_death_is_seen_though_what_is_left_behind_goes_on_writing() {
    let house = House::ready(vec![script("yes & exit 7")]).await;
    let result = house.call("g__t", json!({})).await;
    assert!(text(&result).contains("code 7"), "{result}");
    house.until("g", |view| view.state == ServerState::Ready).await;
    house.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_is_heard_while_a_list_is_awaited() {
    let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    let then = format!(
        "echo '{{\"jsonrpc\":\"2.0\",\"id\":'$id',\"result\":{{\"content\":[]}}}}'; echo '{changed}'; cat >/dev/null"
    );
    let timeouts = Timeouts { list: Duration::from_secs(3600), ..Timeouts::default() };
    let house = House::ready(vec![Server { timeouts, ..script(&then) }]).await;
    house.call("g__t", json!({})).await;
    let lists = |frame: &&tools::Frame| frame.from == tools::Speaker::Us && frame.text.contains("tools/list");
    house.until("g", |_| house.host.frames("g").unwrap().frames.iter().filter(lists).count() > 1).await;
    tokio::time::timeout(PATIENCE, house.host.stop()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_ends_what_it_is_listened_to_with_is_listened_to_again() {
    let hello =
        r#"{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}},"resultType":"complete"}"#;
    let answers = r#"while IFS= read -r line; do
        id=${line#*'"id":'}; id=${id%%,*}
        case $line in
            *'"server/discover"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":HELLO}';;
            *'"tools/list"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"tools":[]}}';;
            *'"subscriptions/listen"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{}}';;
        esac
    done"#;
    let house = House::ready(vec![shell("g", &answers.replace("HELLO", hello))]).await;
    let listens = |frame: &&tools::Frame| frame.text.contains("subscriptions/listen");
    house.until("g", |_| house.host.frames("g").unwrap().frames.iter().filter(listens).count() > 1).await;
    house.host.stop().await;
}

/// A server that answers no list before it knows the roots of its caller.
fn curious() -> Server {
    let hello = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"s","version":"1"}}"#;
    let tools = r#"{"tools":[{"name":"t","inputSchema":{"type":"object","properties":{"x":{"type":"string"}}}}]}"#;
    let answers = r#"while IFS= read -r line; do
        id=${line#*'"id":'}; id=${id%%,*}
        case $line in
            *'"server/discover"'*) echo '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32601,"message":"no"}}';;
            *'"initialize"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":HELLO}'; has_begun=1;;
            *'"tools/list"'*)
                if [ -z "$has_begun" ]; then echo '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32600,"message":"no"}}'; continue; fi
                list=$id; echo '{"jsonrpc":"2.0","id":"roots","method":"roots/list"}';;
            *'"roots":[]'*) echo '{"jsonrpc":"2.0","id":'$list',"result":TOOLS}';;
            *'"tools/call"'*)
                echo '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'
                echo '{"jsonrpc":"2.0","id":'$id',"result":{"content":[]}}';;
        esac
    done"#;
    let timeouts = Timeouts { list: PATIENCE, ..Timeouts::default() };
    Server { timeouts, ..shell("g", &answers.replace("HELLO", hello).replace("TOOLS", tools)) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_asks_before_it_lists_is_answered() {
    let house = House::start(vec![curious()]);
    assert!(house.host.settled(PATIENCE / 2).await, "{:?}", house.view("g"));
    assert_eq!(house.view("g").state, ServerState::Ready);
    // Also when it is asked for its lists again.
    house.call("g__t", json!({})).await;
    let answers = |frame: &&tools::Frame| frame.from == tools::Speaker::Us && frame.text.contains(r#""roots":[]"#);
    house.until("g", |_| house.host.frames("g").unwrap().frames.iter().filter(answers).count() > 1).await;
    house.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_asks_before_it_lists_has_no_fault() {
    let (server, limits) = (curious(), Limits::default());
    let checked = tokio::time::timeout(PATIENCE / 2, check(&server, Owner::generate(), &limits));
    let report = checked.await.expect("it ends");
    assert!(report.findings.is_empty(), "{report}");
}
