//! A real webhook: it is told of what waits, and its links decide once, until they expire.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use approvals::{By, Limits, LinkError, Settings, TokenError, Verdict, Wanted, Webhook};
use axum::Router;
use axum::extract::Json;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use expect_test::expect;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::support::{Place, command, soon};

/// A receiver that answers its posts with these codes, the last one from then on.
pub(crate) struct Receiver {
    url: String,
    posts: mpsc::Receiver<(HeaderMap, Value)>,
    _server: JoinSet<()>,
}

impl Receiver {
    pub(crate) async fn new(codes: &'static [u16]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook?team=a", listener.local_addr().unwrap());
        let (told, posts) = mpsc::channel(64);
        let count = Arc::new(AtomicU32::new(0));
        let receive = move |headers: HeaderMap, Json(body): Json<Value>| async move {
            told.send((headers, body)).await.unwrap();
            let number = count.fetch_add(1, Ordering::Relaxed) as usize;
            StatusCode::from_u16(codes[number.min(codes.len() - 1)]).unwrap()
        };
        let mut server = JoinSet::new();
        server.spawn(async {
            axum::serve(listener, Router::new().route("/hook", post(receive))).await.unwrap();
        });
        Self { url, posts, _server: server }
    }

    pub(crate) fn settings(&self) -> Settings {
        let webhook = Webhook::new(&self.url, Some("Bearer canary"), "https://switchboard.example/decide/").unwrap();
        let limits = Limits { post_retry_min: Duration::from_millis(5), ..Limits::default() };
        Settings { webhook: Some(webhook), limits, ..Settings::default() }
    }

    async fn post(&mut self) -> (HeaderMap, Value) {
        soon(self.posts.recv()).await.unwrap()
    }

    pub(crate) async fn tokens(&mut self) -> [String; 3] {
        let (_, body) = self.post().await;
        ["allow", "deny", "cancel"].map(|verdict| {
            let link = body["links"][verdict].as_str().unwrap();
            link.strip_prefix("https://switchboard.example/decide/").unwrap().to_owned()
        })
    }
}

#[tokio::test]
async fn a_link_decides_once() {
    let mut receiver = Receiver::new(&[204]).await;
    let place = Place::new(receiver.settings()).await;
    let ticket = place.ask(command(1, &["touch", "x"])).await;
    let [allow, deny, _] = receiver.tokens().await;
    let seen = soon(place.approvals.read_token(&allow)).await.unwrap();
    assert_eq!((seen.approval.id.as_str(), seen.verdict), (ticket.id(), Verdict::Allow));
    let decided = soon(place.approvals.decide_by_token(&allow)).await.unwrap();
    assert_eq!(decided.by, By::Person { name: "decision link".into() });
    assert_eq!(soon(ticket.decided()).await.verdict, Verdict::Allow);
    let replayed = soon(place.approvals.decide_by_token(&allow)).await.unwrap_err();
    assert_eq!(replayed, LinkError::Token(TokenError::Used));
    let other = soon(place.approvals.decide_by_token(&deny)).await.unwrap_err();
    assert_eq!(other.to_string(), "it is decided already: allow by person decision link");
    assert_eq!(place.history(ticket.id()).await.matches("decided by person decision link (link ").count(), 1);
}

#[tokio::test]
async fn a_link_that_was_changed_or_has_expired_decides_nothing() {
    let mut receiver = Receiver::new(&[200]).await;
    let place = Place::new(receiver.settings()).await;
    let wanted = Wanted { timeout: Some(Duration::from_millis(1500)), ..command(1, &["touch", "x"]) };
    let ticket = place.ask(wanted).await;
    let [allow, deny, _] = receiver.tokens().await;
    let crossed = format!("{}{}", &allow[..32], &deny[32..]);
    for token in [crossed.as_str(), "", "1.2.3.4.5.6.7", &allow[..allow.len() - 2], &"0".repeat(64)] {
        let refused = soon(place.approvals.decide_by_token(token)).await.unwrap_err();
        assert_eq!(refused, LinkError::Token(TokenError::Invalid));
    }
    assert_eq!(soon(ticket.decided()).await.by, By::Deadline);
    let expired = soon(place.approvals.decide_by_token(&allow)).await.unwrap_err();
    assert_eq!(expired, LinkError::Token(TokenError::Expired));
}

#[tokio::test]
async fn links_outlive_a_restart_and_are_not_sent_again() {
    let mut receiver = Receiver::new(&[200]).await;
    let settings = receiver.settings();
    let place = Place::new(settings.clone()).await;
    let id = place.ask(command(1, &["touch", "x"])).await.id().to_owned();
    let [_, deny, _] = receiver.tokens().await;
    history_with(&place, &id, "posted").await;
    let place = place.restarted(settings).await;
    place.ask(command(1, &["touch", "x"])).await;
    let next = place.ask(command(2, &["touch", "y"])).await;
    let (_, body) = receiver.post().await;
    assert_eq!(body["approval"]["id"], next.id(), "the first was posted before the restart");
    soon(place.approvals.decide_by_token(&deny)).await.unwrap();
    assert_eq!(place.view(&id).await.decided.unwrap().verdict, "deny");
}

#[tokio::test]
async fn a_post_that_was_not_taken_before_a_restart_is_made_again_and_its_links_replace_the_first() {
    let mut receiver = Receiver::new(&[400, 200]).await;
    let settings = receiver.settings();
    let place = Place::new(settings.clone()).await;
    let id = place.ask(command(1, &["touch", "x"])).await.id().to_owned();
    let [first, ..] = receiver.tokens().await;
    history_with(&place, &id, "post_failed").await;
    let place = place.restarted(settings).await;
    place.ask(command(1, &["touch", "x"])).await;
    let [second, ..] = receiver.tokens().await;
    let replaced = soon(place.approvals.decide_by_token(&first)).await.unwrap_err();
    assert_eq!(replaced, LinkError::Token(TokenError::Invalid));
    soon(place.approvals.decide_by_token(&second)).await.unwrap();
}

#[tokio::test]
async fn a_post_is_tried_again_until_it_is_taken() {
    let mut receiver = Receiver::new(&[500, 429, 200]).await;
    let place = Place::new(receiver.settings()).await;
    let ticket = place.ask(command(1, &["touch", "x"])).await;
    for _ in 0..3 {
        let (headers, body) = receiver.post().await;
        assert_eq!(headers["authorization"], "Bearer canary");
        assert_eq!((&body["type"], &body["approval"]["id"]), (&"approval_wanted".into(), &ticket.id().into()));
    }
    let history = history_with(&place, ticket.id(), "posted").await;
    expect![[r#"
        asked by main-0: item/commandExecution/requestApproval
        post_failed by webhook: attempt 1: the webhook answered 500 Internal Server Error
        post_failed by webhook: attempt 2: the webhook answered 429 Too Many Requests
        posted by webhook: attempt 3
    "#]]
    .assert_eq(&history);
}

#[tokio::test]
async fn a_post_that_is_refused_or_never_taken_is_given_up() {
    for (codes, attempts) in [(&[400][..], 1), (&[503][..], 5)] {
        let mut receiver = Receiver::new(codes).await;
        let place = Place::new(receiver.settings()).await;
        let ticket = place.ask(command(1, &["touch", "x"])).await;
        for _ in 0..attempts {
            receiver.post().await;
        }
        let history = history_with(&place, ticket.id(), &format!("attempt {attempts}: ")).await;
        assert!(!history.contains("posted by"), "{history}");
        assert!(place.decide(ticket.id(), Verdict::Allow).await.verdict.allows(), "people decide without it");
    }
}

/// The audit, as soon as it holds this.
async fn history_with(place: &Place, id: &str, what: &str) -> String {
    soon(async {
        loop {
            let history = place.history(id).await;
            if history.contains(what) {
                break history;
            }
            tokio::task::yield_now().await;
        }
    })
    .await
}
