//! Running a profile on the workers of another group, which may have another user and other rights.

use front::Settings;
use front::keys::Scope;
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpListener;
use workers::{Group, Plan, Profile};

use crate::support::{House, plan};

#[tokio::test]
async fn a_profile_runs_on_the_workers_of_its_own_group_alone() {
    let directory = TempDir::new().unwrap();
    let usual = plan(directory.path());
    let other = Group { name: "other".into(), ..usual.groups[0].clone() };
    let wild = Profile { name: "wild".into(), group: Some("other".into()), ..usual.profiles[1].clone() };
    let plan = Plan {
        groups: usual.groups.iter().cloned().chain([other]).collect(),
        profiles: usual.profiles.iter().cloned().chain([wild]).collect(),
        ..usual
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let house = House::of(plan, directory, listener, Settings::default(), approvals::Settings::default()).await;
    let caller = house.caller(&[Scope::Use]).await;
    let start = async |order: serde_json::Value| caller.post("/api/turns", &order.to_string()).await;
    for (profile, group) in [("wild", "main"), ("quiet", "other")] {
        let refused = start(json!({ "prompt": "[[text]]", "profile": profile, "group": group })).await;
        assert_eq!(refused.refusal(), "403 profile_refused", "{profile} on {group}");
    }
    for (profile, group) in [("wild", "other"), ("quiet", "main")] {
        let started = start(json!({ "prompt": "[[text]]", "profile": profile, "group": group })).await;
        assert_eq!(started.status, 201, "{}", started.body);
    }
    let quiet = start(json!({ "prompt": "[[text]]", "profile": "quiet" })).await.json();
    caller.events(quiet["events"].as_str().unwrap(), "").await.rest().await;
    let moved = start(json!({ "prompt": "[[text]]", "thread": quiet["thread"], "profile": "wild" })).await;
    assert_eq!(moved.refusal(), "403 profile_refused", "a thread stays in its group, and so does its profile");
    house.stop().await;
}
