//! A tool server sees of our environment what every child does, and what it was given by name.

use std::collections::BTreeMap;

use serde_json::json;
use tools::Reach;

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
