//! Servers come and go as the configuration says: in parallel, each by itself, and what did not change stays.

use serde_json::json;
use store::Store;
use tools::{Dialect, Era, Plan, Server, ServerState, Timeouts};

use crate::house::{House, PATIENCE, plan, runs, server, text};
use crate::meetings::until;

#[tokio::test(flavor = "multi_thread")]
async fn one_bad_server_neither_delays_nor_hides_another() {
    let servers = [
        "silent",
        "silent",
        "silent",
        "silent",
        "silent",
        "import-error",
        "crash-loop",
        "d3",
        "dual",
        "legacy",
        "modern",
    ];
    let servers = servers.iter().enumerate().map(|(number, words)| server(&format!("s{number}"), words)).collect();
    let house = House::start(servers);
    for name in ["s8", "s9", "s10"] {
        house.until_ready(name).await;
    }
    // Those that hang may still be hanging.
    assert_eq!(house.view("s0").state, ServerState::Starting);
    assert_eq!(text(&house.call("s8__echo", json!({ "text": "here" })).await), "here");
    house.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn either_era_is_found_out_and_a_slow_one_is_not_lost() {
    let servers = vec![
        server("legacy", "legacy"),
        server("modern", "modern"),
        server("dual", "dual"),
        server("deaf", "deaf-to-discover"),
        server("slow", "slow 2500"),
        server("noisy", "noisy"),
    ];
    let quick = Timeouts { discover: std::time::Duration::from_secs(1), ..Timeouts::default() };
    let servers = servers.into_iter().map(|server| Server { timeouts: quick, ..server }).collect();
    let house = House::ready(servers).await;
    let eras: Vec<_> = house.host.servers().iter().map(|view| (view.name.to_string(), view.era.unwrap())).collect();
    let era = |name: &str| eras.iter().find(|(one, _)| one == name).unwrap().1;
    assert_eq!((era("legacy"), era("modern"), era("dual")), (Era::Legacy, Era::Modern, Era::Modern));
    assert_eq!(era("deaf"), Era::Legacy);
    assert_eq!(text(&house.call("slow__echo", json!({ "text": "late" })).await), "late");
    assert_eq!(text(&house.call("noisy__echo", json!({ "text": "loud" })).await), "loud");
    house.host.stop().await;
}

#[tokio::test]
async fn a_bad_tool_is_put_aside_and_its_server_is_degraded() {
    let house = House::start(vec![server("d7", "d7")]);
    let view = house.until("d7", |view| view.state == ServerState::Degraded).await;
    assert_eq!(view.quarantined.len(), 1);
    assert!(view.quarantined[0].path.ends_with(".inputSchema"), "{view:?}");
    assert!(!view.tools.is_empty());
    assert!(view.findings.iter().any(|finding| finding.code == tools::Code::D7));
    assert!(view.reason.unwrap().contains("inputSchema"));
}

#[tokio::test]
async fn the_dialect_of_localcowork_counts_only_where_it_is_configured() {
    for name in ["localcowork-python", "localcowork-typescript"] {
        let house =
            House::start(vec![server("plain", name), Server { dialect: Dialect::LocalCowork, ..server("told", name) }]);
        let told = house.until("told", |view| view.state.is_usable()).await;
        assert!(!told.tools.is_empty());
        let plain = house.until("plain", |view| view.state == ServerState::Failed).await;
        assert!(plain.findings.iter().any(|finding| finding.code == tools::Code::D6), "{plain:?}");
        assert!(plain.tools.is_empty());
        house.host.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_the_configuration_touches_only_what_changed() {
    let house = House::ready(vec![server("same", "dual"), server("other", "dual"), server("gone", "dual")]).await;
    let pids = ["same", "other", "gone"].map(|name| house.view(name).pid.unwrap());
    let changed = Server { prefix: "new".into(), ..server("other", "dual") };
    house.host.apply(vec![server("same", "dual"), changed, server("added", "legacy")]);
    house.until_ready("added").await;
    let other = house.until_ready("other").await;
    assert_eq!(house.view("same").pid, Some(pids[0]));
    assert_ne!(other.pid, Some(pids[1]));
    assert!(house.host.server("gone").is_none());
    assert_eq!(text(&house.call("new__echo", json!({ "text": "x" })).await), "x");
    until("the old ones are gone", async || (!runs(pids[1]) && !runs(pids[2])).then_some(())).await;
    house.host.stop().await;
    assert!(!runs(pids[0]));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tools_of_a_server_are_offered_from_memory_while_it_starts() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path().join("s.db"), store::Limits::default()).unwrap();
    let house = |one| House::of(Plan { store: Some(store.clone()), ..plan(vec![one]) });
    let slow = || server("slow", "slow 1500");
    let first = house(slow());
    let tools = first.until_ready("slow").await.tools;
    first.host.stop().await;
    store.flush().await.unwrap();
    let second = house(slow());
    let view = second.until("slow", |view| !view.tools.is_empty()).await;
    assert!(view.is_from_memory && view.state == ServerState::Starting, "{view:?}");
    assert_eq!(view.tools, tools);
    // A call waits for the server to be there.
    assert_eq!(text(&second.call("slow__echo", json!({ "text": "x" })).await), "x");
    second.host.stop().await;
    // Another configuration is another server.
    let third = house(server("slow", "slow 1400"));
    let view = third.until("slow", |view| view.state == ServerState::Starting).await;
    assert!(view.tools.is_empty());
    third.host.settled(PATIENCE).await;
    third.host.stop().await;
}
