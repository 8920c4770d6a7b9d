//! Files that must not be opened: each is refused with a message that says why and what to do, and nothing is changed.

use std::fs;

use expect_test::{Expect, expect};
use rusqlite::Connection;
use store::{Change, Limits, Store};

use crate::support::{Place, pending, run};

/// Opens what the test has put there, and compares message and files.
fn refuses(place: &Place, expected: &Expect) {
    let before = place.files();
    let error = Store::open(&place.path, Limits::default()).err().expect("it is refused");
    assert!(place.files() == before, "{:?} have become {:?}", before.keys(), place.names());
    let directory = place.path.parent().unwrap().to_str().unwrap();
    expected.assert_eq(&error.to_string().replace(directory, "DIR"));
}

/// A closed store with one approval.
fn made() -> Place {
    let place = Place::new();
    run(async {
        let store = place.open();
        store.commit(vec![Change::Approval(pending("a"))]).await.unwrap();
        store.close().await.unwrap();
    });
    place
}

#[test]
fn text_is_not_a_store() {
    let place = Place::new();
    fs::write(&place.path, "listen = \"127.0.0.1:4180\"\n").unwrap();
    refuses(
        &place,
        &expect![
            "DIR/switchboard.db is not a store of Switchboard (it is no SQLite database); name another file, or move this one away"
        ],
    );
}

#[test]
fn another_programs_database_is_left_alone() {
    let place = Place::new();
    Connection::open(&place.path).unwrap().execute_batch("CREATE TABLE songs (name)").unwrap();
    refuses(
        &place,
        &expect![
            "DIR/switchboard.db is not a store of Switchboard (another program's database); name another file, or move this one away"
        ],
    );
}

#[test]
fn a_newer_store_is_left_to_the_newer_switchboard() {
    let place = made();
    Connection::open(&place.path).unwrap().pragma_update(None, "user_version", 1_000).unwrap();
    assert_eq!(place.names(), ["switchboard.db"]);
    refuses(
        &place,
        &expect![
            "the store DIR/switchboard.db has version 1000, and this Switchboard knows versions up to 1; nothing was changed; start the newer Switchboard, or name another state_dir"
        ],
    );
}

/// The version may stand in the log alone, when the newer Switchboard was killed.
#[test]
fn a_newer_store_is_known_by_its_log_and_the_log_is_kept() {
    let place = made();
    let copy = Place::new();
    let newer = Connection::open(&place.path).unwrap();
    newer.pragma_update(None, "user_version", 1_000).unwrap();
    for suffix in ["", "-wal"] {
        fs::copy(with(&place, suffix), with(&copy, suffix)).unwrap();
    }
    refuses(
        &copy,
        &expect![
            "the store DIR/switchboard.db has version 1000, and this Switchboard knows versions up to 1; nothing was changed; start the newer Switchboard, or name another state_dir"
        ],
    );
    assert_eq!(copy.names(), ["switchboard.db", "switchboard.db-wal"]);
}

fn with(place: &Place, suffix: &str) -> String {
    format!("{}{suffix}", place.path.display())
}

#[test]
fn an_empty_file_is_damage_and_not_a_new_store() {
    let place = made();
    fs::write(&place.path, "").unwrap();
    refuses(
        &place,
        &expect![
            "the store DIR/switchboard.db is damaged (it is empty); nothing was changed; restore a copy of it, or move it away together with its -wal file to begin anew"
        ],
    );
}

#[test]
fn a_truncated_store_says_how_much_is_left() {
    let place = made();
    let bytes = fs::read(&place.path).unwrap();
    fs::write(&place.path, &bytes[..50]).unwrap();
    refuses(
        &place,
        &expect![
            "the store DIR/switchboard.db is damaged (it ends after 50 bytes); nothing was changed; restore a copy of it, or move it away together with its -wal file to begin anew"
        ],
    );
    fs::write(&place.path, &bytes[..bytes.len() - 5000]).unwrap();
    refuses(
        &place,
        &expect![
            "the store DIR/switchboard.db is damaged (it ends after 101496 of 106496 bytes); nothing was changed; restore a copy of it, or move it away together with its -wal file to begin anew"
        ],
    );
}

#[test]
fn an_approval_whose_text_was_changed_is_damage() {
    let place = made();
    let mut bytes = fs::read(&place.path).unwrap();
    let at = bytes.windows(5).position(|bytes| bytes == b"\"-rf\"").unwrap();
    bytes[at + 3] = b'v';
    fs::write(&place.path, bytes).unwrap();
    refuses(
        &place,
        &expect![
            "the store DIR/switchboard.db is damaged (a row of approvals in the store is damaged; restore a copy of the store); nothing was changed; restore a copy of it, or move it away together with its -wal file to begin anew"
        ],
    );
}

#[test]
fn a_directory_that_is_missing_is_named() {
    let mut place = Place::new();
    place.path = place.path.with_file_name("missing").join("switchboard.db");
    let error = Store::open(&place.path, Limits::default()).err().unwrap().to_string();
    let directory = place.path.ancestors().nth(2).unwrap().to_str().unwrap();
    expect!["the store DIR/missing/switchboard.db cannot be used (No such file or directory (os error 2)); check that it and its directory can be written by this user"].assert_eq(&error.replace(directory, "DIR"));
}

#[test]
fn a_directory_in_its_place_is_no_store() {
    let place = Place::new();
    fs::create_dir(&place.path).unwrap();
    let error = Store::open(&place.path, Limits::default()).err().unwrap().to_string();
    expect!["the store DIR/switchboard.db cannot be used (it is not a file); check that it and its directory can be written by this user"].assert_eq(&error.replace(place.path.parent().unwrap().to_str().unwrap(), "DIR"));
}
