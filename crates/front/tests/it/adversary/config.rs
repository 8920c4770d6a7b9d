//! Who may accept a change of the configuration. The test follows the file in the place of the server.

use front::keys::Scope;
use front::{ConfigAccepted, ConfigConflict, ConfigRequest, ConfigView, PendingServer, Settings, config_requests};
use serde_json::json;

use crate::support::House;

#[tokio::test]
async fn only_an_operator_accepts_and_only_what_was_shown() {
    let (sender, mut requests) = config_requests();
    let house =
        House::with(Settings { config_requests: Some(sender), ..Settings::default() }, Default::default()).await;
    let command = Some(vec!["evil".to_owned()]);
    let pending = vec![PendingServer { server: "evil".into(), command, ..PendingServer::default() }];
    let view = ConfigView { hash: Some("a1".into()), pending, ..ConfigView::default() };
    let following = async {
        while let Some(request) = requests.recv().await {
            match request {
                ConfigRequest::Show(reply) => reply.send(view.clone()).unwrap(),
                ConfigRequest::Accept { hash, reply } => {
                    let is_shown = view.hash.as_deref() == Some(&*hash);
                    let accepted = ConfigAccepted { hash, accepted: vec!["evil".into()] };
                    reply.send(is_shown.then_some(accepted).ok_or(ConfigConflict::OtherContent)).unwrap();
                }
            }
        }
    };
    let asking = async {
        let accept = |hash: &str| json!({ "hash": hash }).to_string();
        for scopes in [&[Scope::Use][..], &[Scope::Tools], &[Scope::Use, Scope::OwnTurns, Scope::ForSession]] {
            let caller = house.caller(scopes).await;
            assert_eq!(caller.get("/api/config").await.refusal(), "403 scope_missing");
            assert_eq!(caller.post("/api/config/accept", &accept("a1")).await.refusal(), "403 scope_missing");
        }
        let operator = house.caller(&[Scope::Operate]).await;
        let shown = house.check(&operator.get("/api/config").await, "Config").await;
        assert_eq!(shown["pending"][0]["command"], json!(["evil"]));
        assert_eq!(operator.post("/api/config/accept", &accept("b2")).await.refusal(), "409 config_changed");
        let accepted = house.check(&operator.post("/api/config/accept", &accept("a1")).await, "ConfigAccepted").await;
        assert_eq!(accepted["accepted"], json!(["evil"]));
    };
    tokio::select! {
        () = following => panic!("the routes are gone"),
        () = asking => {}
    }
    drop(requests);
    assert_eq!(house.operator.get("/api/config").await.refusal(), "503 draining");
    house.stop().await;
}

#[tokio::test]
async fn without_a_file_nothing_waits() {
    let house = House::open().await;
    let shown = house.check(&house.operator.get("/api/config").await, "Config").await;
    assert_eq!((&shown["hash"], &shown["pending"]), (&json!(null), &json!([])));
    assert_eq!(house.operator.post("/api/config/accept", r#"{"hash":"a"}"#).await.refusal(), "409 config_changed");
    house.stop().await;
}
