//! A tool server starts where it was told to, and sees of our environment what every child does and what it was given by name.

use std::collections::BTreeMap;

use serde_json::json;
use tools::Reach;

use crate::hostile::script;
use crate::house::{House, server, text};

#[tokio::test]
async fn a_server_sees_nothing_of_our_environment_but_what_it_was_given() {
    let mut given = server("g", "dual");
    if let Reach::Process { env, .. } = &mut given.reach {
        env.push(("GALLERY_WORD".into(), "two words".into()));
    }
    let house = House::ready(vec![given]).await;
    let said = house.call("g__environment", json!({})).await;
    let seen: BTreeMap<String, String> = serde_json::from_str(text(&said)).unwrap();
    assert_eq!(seen["GALLERY_WORD"], "two words");
    assert_eq!(seen["PATH"], std::env::var("PATH").unwrap());
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some(), "cargo sets it for every test");
    let cargos: Vec<&String> = seen.keys().filter(|name| name.starts_with("CARGO")).collect();
    assert!(cargos.is_empty(), "{cargos:?}");
    house.host.stop().await;
}

#[tokio::test]
async fn a_server_starts_in_the_directory_that_it_was_given() {
    let directory = tempfile::tempdir().unwrap();
    let then = r#"echo '{"jsonrpc":"2.0","id":'$id',"result":{"content":[{"type":"text","text":"'$(pwd -P)'"}]}}'"#;
    let mut given = script(then);
    if let Reach::Process { cwd, .. } = &mut given.reach {
        *cwd = directory.path().into();
    }
    let house = House::ready(vec![given]).await;
    let said = house.call("g__t", json!({})).await;
    assert_eq!(text(&said), directory.path().canonicalize().unwrap().to_str().unwrap());
    house.host.stop().await;
}
