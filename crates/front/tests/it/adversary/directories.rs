//! Directories that a caller chooses.

use std::fs;
use std::os::unix::fs::symlink;

use front::keys::Scope;
use serde_json::json;

use crate::support::House;

#[tokio::test]
async fn a_directory_that_cannot_be_resolved_is_refused() {
    let house = House::open().await;
    let caller = house.caller(&[Scope::Use]).await;
    let directory = house.directory.path();
    fs::write(directory.join("file"), "").unwrap();
    symlink("/nowhere-at-all", directory.join("dangling")).unwrap();
    symlink("loop", directory.join("loop")).unwrap();
    for name in ["unmade", "unmade/below", "dangling", "dangling/below", "loop", "file", "file/below"] {
        let order = json!({ "prompt": "[[text]]", "cwd": directory.join(name) }).to_string();
        assert_eq!(caller.post("/api/turns", &order).await.refusal(), "400 invalid_value", "{name}");
    }
    // Whether something exists elsewhere is not said.
    for outside in ["/", "/nowhere-at-all"] {
        let order = json!({ "prompt": "[[text]]", "cwd": outside }).to_string();
        assert_eq!(caller.post("/api/turns", &order).await.refusal(), "403 scope_missing", "{outside}");
    }
    house.stop().await;
}
