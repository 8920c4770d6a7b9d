//! A scripted provider of the OpenAI API, for peers that stand in front of one: the demo worker's markers, played without a worker.

use std::time::Duration;

use anyhow::Result;
use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::serve::ListenerExt as _;
use axum::{Json, Router};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::sleep;

use super::prepared;

pub(crate) fn run() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", json!({"url": format!("http://{}", listener.local_addr()?), "key": "k"}));
        let listener = listener.tap_io(|stream| _ = stream.set_nodelay(true));
        let router = Router::new().route("/v1/chat/completions", post(complete));
        Ok(axum::serve(listener, router).await?)
    })
}

async fn complete(Json(body): Json<Value>) -> Response {
    if body["stream"] != true {
        return Json(prepared::answer()).into_response();
    }
    let script = Script::of(body["messages"][0]["content"].as_str().unwrap_or_default());
    let chunks = stream::unfold(Some(0), move |played| async move {
        let played = played?;
        if played == script.deltas {
            return Some((Ok::<_, std::io::Error>(prepared::end()), None));
        }
        if played > 0 && !script.pause.is_zero() {
            sleep(script.pause).await;
        }
        Some((Ok(prepared::delta()), Some(played + 1)))
    });
    ([(header::CONTENT_TYPE, "text/event-stream; charset=utf-8")], Body::from_stream(chunks)).into_response()
}

/// What a marker says.
#[derive(Clone, Copy)]
struct Script {
    deltas: u64,
    pause: Duration,
}

impl Script {
    /// `[[slow N MS]]`, `[[deltas N]]`, or four deltas.
    fn of(prompt: &str) -> Self {
        let words: Vec<&str> = prompt.trim_matches(['[', ']']).split(' ').collect();
        let number = |at: usize| words.get(at).and_then(|word| word.parse().ok());
        match words[0] {
            "slow" => Self { deltas: number(1).unwrap_or(20), pause: Duration::from_millis(number(2).unwrap_or(200)) },
            "deltas" => Self { deltas: number(1).unwrap_or(100), pause: Duration::ZERO },
            _ => Self { deltas: 4, pause: Duration::ZERO },
        }
    }
}
