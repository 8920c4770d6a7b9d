//! What tool servers offered and each call of their tools: read again as it was written, or told to be damaged.

use std::fs;

use store::{Change, ReadError, Store, ToolCall, ToolCallFilter, ToolCallOutcome, ToolList, WriteError};

use crate::support::{Place, called, offered, pending, run};

async fn list(store: &Store, server: &'static str) -> Option<ToolList> {
    store.read(move |reader| reader.tool_list(server)).await.unwrap()
}

async fn ids(store: &Store, filter: ToolCallFilter) -> String {
    let calls = store.read(move |reader| reader.tool_calls(&filter)).await.unwrap();
    calls.into_iter().map(|call| call.id).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_last_list_of_a_server_counts_until_it_is_removed() {
    run(async {
        let place = Place::new();
        let store = place.open();
        let later = ToolList { version: "2.0.0".into(), at: 2_000, ..offered("files") };
        for row in [offered("files"), offered("memory"), later.clone()] {
            store.note(Change::ToolList(row));
        }
        store.flush().await.unwrap();
        assert_eq!(store.counts().notes_written, 2, "the later of two stands for both");
        store.close().await.unwrap();

        let store = place.open();
        assert_eq!(list(&store, "files").await, Some(later));
        assert_eq!(list(&store, "memory").await, Some(offered("memory")));
        assert_eq!(list(&store, "other").await, None);
        let changed = ToolList { hash: "another".into(), ..offered("memory") };
        store.commit(vec![Change::ToolList(changed.clone())]).await.unwrap();
        assert_eq!(list(&store, "memory").await, Some(changed), "one that is there is replaced");
        store.note(Change::ToolList(offered("files")));
        store.note(Change::ToolListGone { server: "files".into() });
        store.flush().await.unwrap();
        assert_eq!(list(&store, "files").await, None);
    });
}

#[test]
fn calls_are_written_behind_and_survive_a_restart_whole() {
    run(async {
        let place = Place::new();
        let store = place.open();
        let outcomes = ToolCallOutcome::ALL.iter().enumerate();
        let calls: Vec<ToolCall> = outcomes
            .map(|(number, outcome)| ToolCall {
                outcome: *outcome,
                detail: (number % 2 == 0).then(|| format!("the {number}th")),
                approval: (number % 3 == 0).then(|| format!("approval-{number}")),
                ..called(&number.to_string(), "files", "read")
            })
            .collect();
        calls.iter().cloned().for_each(|call| store.note(Change::ToolCall(call)));
        store.close().await.unwrap();
        let mut read = place.open().read(|reader| reader.tool_calls(&ToolCallFilter::default())).await.unwrap();
        read.reverse();
        assert_eq!(read, calls);
    });
}

#[test]
fn a_call_is_told_once_and_never_changed() {
    run(async {
        let place = Place::new();
        let store = place.open();
        store.commit(vec![Change::ToolCall(called("1", "files", "read"))]).await.unwrap();
        let other = ToolCall { outcome: ToolCallOutcome::Failed, ..called("1", "files", "read") };
        let error = store.commit(vec![Change::ToolCall(other)]).await.unwrap_err();
        assert_eq!(error, WriteError::Rejected("UNIQUE constraint failed: tool_audit.id".into()));
        let kept = store.read(|reader| reader.tool_calls(&ToolCallFilter::default())).await.unwrap();
        assert_eq!(kept, [called("1", "files", "read")]);
    });
}

#[test]
fn calls_are_found_by_server_tool_key_and_outcome_in_pages_with_the_newest_first() {
    run(async {
        let place = Place::new();
        let store = place.open();
        let changes = [
            called("1", "files", "read"),
            called("2", "files", "write"),
            ToolCall { key: "key-2".into(), ..called("3", "files", "read") },
            called("4", "memory", "read"),
            ToolCall { outcome: ToolCallOutcome::TimedOut, ..called("5", "files", "read") },
        ];
        store.commit(changes.map(Change::ToolCall).into()).await.unwrap();
        let all = ToolCallFilter::default;
        let files = || ToolCallFilter { server: Some("files".into()), ..all() };
        assert_eq!(ids(&store, all()).await, "5 4 3 2 1");
        assert_eq!(ids(&store, files()).await, "5 3 2 1");
        assert_eq!(ids(&store, ToolCallFilter { tool: Some("read".into()), ..files() }).await, "5 3 1");
        assert_eq!(ids(&store, ToolCallFilter { key: Some("key-2".into()), ..all() }).await, "3");
        let late = ToolCallFilter { outcome: Some(ToolCallOutcome::TimedOut), ..all() };
        assert_eq!(ids(&store, late).await, "5");
        let page =
            |before: Option<&str>| ToolCallFilter { before: before.map(Into::into), rows_max: Some(2), ..files() };
        assert_eq!(ids(&store, page(None)).await, "5 3");
        assert_eq!(ids(&store, page(Some("3"))).await, "2 1");
        assert_eq!(ids(&store, page(Some("1"))).await, "");
    });
}

/// Neither keeps the store from being opened: a list is made anew, and the rest is history.
#[test]
fn a_list_or_a_call_whose_text_was_changed_is_damage() {
    run(async {
        let place = Place::new();
        let store = place.open();
        let call = ToolCall { detail: Some("spoil this".into()), ..called("1", "files", "read") };
        let list = ToolList { body: "spoil that".into(), ..offered("files") };
        store.commit(vec![Change::ToolCall(call), Change::ToolList(list)]).await.unwrap();
        store.commit(vec![Change::ToolList(offered("memory")), Change::Approval(pending("a"))]).await.unwrap();
        store.close().await.unwrap();
        let mut bytes = fs::read(&place.path).unwrap();
        for text in [&b"spoil this"[..], b"spoil that"] {
            let at = bytes.windows(text.len()).position(|bytes| bytes == text).unwrap();
            bytes[at] = b'S';
        }
        fs::write(&place.path, bytes).unwrap();

        let store = place.open();
        let calls = store.read(|reader| reader.tool_calls(&ToolCallFilter::default())).await;
        assert!(matches!(calls, Err(ReadError::Damaged { table: "tool_audit" })), "{calls:?}");
        let spoiled = store.read(|reader| reader.tool_list("files")).await;
        assert!(matches!(spoiled, Err(ReadError::Damaged { table: "tool_lists" })), "{spoiled:?}");
        let whole = store.read(|reader| reader.tool_list("memory")).await.unwrap();
        assert_eq!(whole, Some(offered("memory")));
        store.note(Change::ToolList(offered("files")));
        store.flush().await.unwrap();
        let again = store.read(|reader| reader.tool_list("files")).await.unwrap();
        assert_eq!(again, Some(offered("files")), "a new list takes its place");
    });
}
