//! Everything that the schema has, has a type.

use std::fmt::Write as _;

use codex::protocol::{
    ClientNotification, Extent, Kind, METHODS, Method, NEWEST, Notification, ThreadItem, Until, WorkerRequest, calls,
    requests,
};
use expect_test::expect;
use serde_json::Value;

use super::json_of_repository;

fn methods_of(group: &str) -> Vec<String> {
    let table = json_of_repository("schema/methods.json");
    let rows = table[group].as_array().unwrap();
    rows.iter().map(|row| row["method"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn every_method_of_the_schema_has_a_type() {
    assert_eq!(methods_of("clientRequests"), calls::ALL);
    assert_eq!(methods_of("serverNotifications"), Notification::KNOWN);
    assert_eq!(methods_of("serverRequests"), requests::ALL);
    assert_eq!(methods_of("serverRequests"), WorkerRequest::KNOWN);
    assert_eq!(methods_of("clientNotifications"), [ClientNotification::Initialized.method()]);
}

#[test]
fn every_item_of_the_schema_has_a_type() {
    let schema = json_of_repository("schema/app-server.json");
    let variants = schema["definitions"]["v2"]["ThreadItem"]["oneOf"].as_array().unwrap();
    let tag = |variant: &Value| variant["properties"]["type"]["enum"][0].as_str().unwrap().to_owned();
    assert_eq!(variants.iter().map(tag).collect::<Vec<_>>(), ThreadItem::KNOWN);
}

#[test]
fn the_table_has_every_method_of_the_schema_with_its_mark() {
    let groups = [
        ("clientRequests", Kind::Call),
        ("clientNotifications", Kind::ClientNotification),
        ("serverNotifications", Kind::Notification),
        ("serverRequests", Kind::Request),
    ];
    let table = json_of_repository("schema/methods.json");
    for (group, kind) in groups {
        let rows = table[group].as_array().unwrap().iter();
        let expected: Vec<(&str, bool)> =
            rows.map(|row| (row["method"].as_str().unwrap(), row["experimental"].as_bool().unwrap())).collect();
        let in_schema =
            |row: &&Method| row.kind == kind && row.until == Until::Today && !matches!(row.extent, Extent::Unlisted(_));
        let found: Vec<(&str, bool)> =
            METHODS.iter().filter(in_schema).map(|row| (row.method, row.extent == Extent::Experimental)).collect();
        assert_eq!(found, expected, "{group}");
    }
}

#[test]
fn what_workers_list_beside_the_schema_is_explained() {
    let mut explained = String::new();
    for row in METHODS {
        if let Extent::Unlisted(why) = row.extent {
            writeln!(explained, "{} since {}: {why}", row.method, row.since).unwrap();
        }
    }
    expect![[r#"
        getConversationSummary since 0.53.0: kept for v1 clients, left out of the schema; `thread/read` tells more
        gitDiffToRemote since 0.45.0: kept for v1 clients, left out of the schema; nothing replaces it
        getAuthStatus since 0.45.0: kept for v1 clients, left out of the schema; `account/read` replaces it
    "#]]
    .assert_eq(&explained);
}

#[test]
fn the_table_knows_since_when() {
    let since = |kind, method| METHODS.iter().find(|row| row.kind == kind && row.method == method).unwrap();
    assert_eq!(since(Kind::Call, "initialize").since, "0.45.0");
    assert_eq!(since(Kind::Call, "thread/start").since, "0.58.0");
    assert_eq!(since(Kind::Call, "turn/steer").since, "0.107.0");
    assert_eq!(since(Kind::Call, "newConversation").until, Until::Version("0.107.0"));
    assert!(METHODS.iter().any(|row| row.since == NEWEST));
}
