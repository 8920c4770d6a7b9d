//! Files that must not be opened: each is refused with a message that says why and what to do, and nothing is changed.

use std::fs;
use std::path::Path;

use rusqlite::Connection;
use store::{Change, Limits, Store};

use crate::disk::SmallDisk;
use crate::support::{Place, pending, run};

/// The message with which the file is refused, its directory named `DIR`.
fn refusal(path: &Path) -> String {
    let error = Store::open(path, Limits::default()).err().expect("it is refused");
    error.to_string().replace(path.parent().unwrap().to_str().unwrap(), "DIR")
}

/// The same, and the directory is as it was.
fn refusal_without_a_trace(place: &Place) -> String {
    let before = place.files();
    let message = refusal(&place.path);
    assert!(place.files() == before, "{:?} have become {:?}", before.keys(), place.names());
    message
}

fn foreign(finding: &str) -> String {
    format!("DIR/switchboard.db is not a store of Switchboard ({finding}); name another file, or move this one away")
}

fn damaged(finding: &str) -> String {
    format!(
        "the store DIR/switchboard.db is damaged ({finding}); nothing was changed; restore a copy of it, \
         or move it away together with its -wal file to begin anew"
    )
}

fn unusable(reason: &str) -> String {
    format!(
        "the store DIR/switchboard.db cannot be used ({reason}); \
         check that it and its directory can be written by this user"
    )
}

const NEWER: &str = "the store DIR/switchboard.db has version 1000, and this Switchboard knows versions up to 7; \
                     nothing was changed; start the newer Switchboard, or name another state_dir";

/// A closed store with one approval.
fn made() -> Place {
    let place = Place::new();
    run(async {
        let store = place.open();
        store.commit(vec![Change::Approval(pending("a"))]).await.unwrap();
        store.close().await.unwrap();
    });
    assert_eq!(place.names(), ["switchboard.db"]);
    place
}

#[test]
fn text_is_not_a_store() {
    let place = Place::new();
    fs::write(&place.path, "listen = \"127.0.0.1:4180\"\n").unwrap();
    assert_eq!(refusal_without_a_trace(&place), foreign("it is no SQLite database"));
}

#[test]
fn another_programs_database_is_left_alone() {
    let place = Place::new();
    Connection::open(&place.path).unwrap().execute_batch("CREATE TABLE songs (name)").unwrap();
    assert_eq!(refusal_without_a_trace(&place), foreign("another program's database"));
}

#[test]
fn a_newer_store_is_left_to_the_newer_switchboard() {
    let place = made();
    Connection::open(&place.path).unwrap().pragma_update(None, "user_version", 1_000).unwrap();
    assert_eq!(refusal_without_a_trace(&place), NEWER);
}

/// The version may stand in the log alone, when the newer Switchboard was killed.
#[test]
fn a_newer_store_is_known_by_its_log_and_the_log_is_kept() {
    let place = made();
    let copy = Place::new();
    let newer = Connection::open(&place.path).unwrap();
    newer.pragma_update(None, "user_version", 1_000).unwrap();
    for (name, bytes) in place.files().into_iter().filter(|(name, _)| !name.ends_with("-shm")) {
        fs::write(copy.path.with_file_name(name), bytes).unwrap();
    }
    assert_eq!(copy.names(), ["switchboard.db", "switchboard.db-wal"]);
    assert_eq!(refusal_without_a_trace(&copy), NEWER);
}

#[test]
fn an_empty_file_is_damage_and_not_a_new_store() {
    let place = made();
    fs::write(&place.path, "").unwrap();
    assert_eq!(refusal_without_a_trace(&place), damaged("it is empty"));
}

#[test]
fn a_truncated_store_says_how_much_is_left() {
    let place = made();
    let bytes = fs::read(&place.path).unwrap();
    fs::write(&place.path, &bytes[..50]).unwrap();
    assert_eq!(refusal_without_a_trace(&place), damaged("it ends after 50 bytes"));
    let (whole, left) = (bytes.len(), bytes.len() - 5_000);
    fs::write(&place.path, &bytes[..left]).unwrap();
    assert_eq!(refusal_without_a_trace(&place), damaged(&format!("it ends after {left} of {whole} bytes")));
}

#[test]
fn an_approval_whose_text_was_changed_is_damage() {
    let place = made();
    let mut bytes = fs::read(&place.path).unwrap();
    let at = bytes.windows(5).position(|bytes| bytes == b"\"-rf\"").unwrap();
    bytes[at + 3] = b'v';
    fs::write(&place.path, bytes).unwrap();
    assert_eq!(refusal_without_a_trace(&place), damaged("a row of approvals is not as it was written"));
}

#[test]
fn a_directory_that_is_missing_is_told_of() {
    let path = Place::new().path.with_file_name("missing").join("switchboard.db");
    assert_eq!(refusal(&path), unusable("No such file or directory (os error 2)"));
}

#[test]
fn a_directory_in_its_place_is_no_store() {
    let place = Place::new();
    fs::create_dir(&place.path).unwrap();
    assert_eq!(refusal(&place.path), unusable("it is not a file"));
}

#[test]
fn a_disk_that_is_read_only_is_told_of() {
    let Some(disk) = SmallDisk::new() else { return };
    let path = disk.path.join("switchboard.db");
    fs::copy(made().path, &path).unwrap();
    let before = fs::read(&path).unwrap();
    disk.make_read_only();
    assert_eq!(refusal(&path), unusable("unable to open database file"));
    assert!(fs::read(&path).unwrap() == before);
}
