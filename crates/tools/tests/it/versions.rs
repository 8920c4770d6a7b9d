//! What a server offered is kept for as long as it is the same: the same configuration, and the same version of itself.

use std::path::Path;

use store::Store;
use tools::{Plan, Server, ServerState};

use crate::hostile::shell;
use crate::house::{House, plan, runs, server};

/// A legacy server whose version and lists are read from files, each list as often as it is asked for; there is no answer
/// to `tools/list` while there is no file for it.
fn from_files(directory: &Path) -> Server {
    let script = r#"while IFS= read -r line; do
        id=${line#*'"id":'}; id=${id%%,*}
        case $line in
            *'"server/discover"'*) echo '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32601,"message":"no"}}';;
            *'"initialize"'*)
                hello='"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}}'
                echo '{"jsonrpc":"2.0","id":'$id',"result":{'$hello',"serverInfo":{"name":"s","version":"'$(cat version)'"}}}';;
            *'"tools/list"'*)
                until [ -e list ]; do sleep 0.05; done
                echo '{"jsonrpc":"2.0","id":'$id','$(cat list)'}';;
        esac
    done"#;
    let mut server = shell("g", script);
    let tools::Reach::Process { cwd, .. } = &mut server.reach else { unreachable!() };
    *cwd = directory.into();
    server
}

struct Place {
    directory: tempfile::TempDir,
    store: Store,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path().join("s.db"), store::Limits::default()).unwrap();
        Self { directory, store }
    }

    fn write(&self, file: &str, text: &str) {
        std::fs::write(self.directory.path().join(file), text).unwrap();
    }

    fn remove(&self, file: &str) {
        std::fs::remove_file(self.directory.path().join(file)).unwrap();
    }

    fn house(&self) -> House {
        House::of(Plan { store: Some(self.store.clone()), ..plan(vec![from_files(self.directory.path())]) })
    }

    /// Lets version 1 run once, with one tool.
    async fn run_once(&self) {
        self.write("version", "1");
        self.write("list", r#""result":{"tools":[{"name":"old","inputSchema":{"type":"object"}}]}"#);
        let house = self.house();
        assert_eq!(house.until_ready("g").await.tools, ["g__old"]);
        house.host.stop().await;
        self.store.flush().await.unwrap();
    }
}

fn is_introduced(view: &tools::ServerView, version: &str) -> bool {
    view.implementation.as_ref().is_some_and(|one| one.version == version)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_same_version_offered_is_offered_until_it_is_listed_anew() {
    let place = Place::new();
    place.run_once().await;
    place.remove("list");
    let house = place.house();
    let view = house.until("g", |view| is_introduced(view, "1")).await;
    assert_eq!((&view.tools[..], view.is_from_memory), (&["g__old".to_owned()][..], true), "{view:?}");
    place.write("list", r#""result":{"tools":[{"name":"new","inputSchema":{"type":"object"}}]}"#);
    assert_eq!(house.until_ready("g").await.tools, ["g__new"]);
    house.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_version_offered_is_not_offered_any_more() {
    let place = Place::new();
    place.run_once().await;
    place.remove("list");
    place.write("version", "2");
    let house = place.house();
    let view = house.until("g", |view| is_introduced(view, "2") && view.tools.is_empty()).await;
    assert_eq!(view.state, ServerState::Starting, "it has listed nothing yet");
    place.write("list", r#""result":{"tools":[]}"#);
    house.until_ready("g").await;
    house.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_cannot_be_read_is_as_it_was() {
    let place = Place::new();
    place.run_once().await;
    place.write("list", r#""error":{"code":-32000,"message":"not now"}"#);
    let house = place.house();
    let view = house.until("g", |view| view.state == ServerState::Degraded).await;
    assert_eq!(view.tools, ["g__old"]);
    assert!(view.reason.as_deref().unwrap().contains("not now"), "{view:?}");
    house.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_changed_is_started_when_the_old_one_is_gone() {
    let house = House::ready(vec![server("g", "stubborn")]).await;
    let old = house.view("g").pid.unwrap();
    // Twice in a row: the one in between is never started.
    for prefix in ["a", "b"] {
        house.host.apply(vec![Server { prefix: prefix.into(), ..server("g", "stubborn") }]);
    }
    let view = house.until("g", |view| view.pid.is_some_and(|pid| pid != old)).await;
    assert!(!runs(old), "both run at once");
    house.until_ready("g").await;
    // Taken out and put back at once, it is the same.
    let second = view.pid.unwrap();
    house.host.apply(Vec::new());
    house.host.apply(vec![server("g", "stubborn")]);
    house.until("g", |view| view.pid.is_some()).await;
    assert!(!runs(second), "both run at once");
    house.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_the_list_is_seen_behind_any_number_of_other_news() {
    let place = Place::new();
    place.write("version", "1");
    place.write("list", r#""result":{"tools":[{"name":"old","inputSchema":{"type":"object"}}]}"#);
    let updated = r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x://y"}}"#;
    let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    let news = format!("{}{changed}\n", format!("{updated}\n").repeat(2000));
    place.write("news", &news);
    let mut server = from_files(place.directory.path());
    let tools::Reach::Process { command, .. } = &mut server.reach else { unreachable!() };
    let script = command[2].to_str().unwrap().replace("case $line in", "case $line in *'\"tools/call\"'*) echo '{\"jsonrpc\":\"2.0\",\"id\":'$id',\"result\":{\"content\":[]}}'; cat news;;");
    command[2] = script.into();
    let house = House::ready(vec![server]).await;
    place.write("list", r#""result":{"tools":[{"name":"new","inputSchema":{"type":"object"}}]}"#);
    house.call("g__old", serde_json::json!({})).await;
    house.until("g", |view| view.tools == ["g__new"]).await;
    house.host.stop().await;
}
