//! A stand-in for the model provider: the Responses API on a loopback port, as much of it as codex asks for.
//!
//! What it answers is written in the prompt: the last `[[marker …]]` of the last user message (see `plan.rs`). It runs
//! on a thread of its own and stops when it is dropped.

mod calls;
mod marker;
mod plan;
mod response;

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::io;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::post;
use futures_util::stream;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use plan::{Answer, Prompt, Step};

/// A turn with images or a long history stays far below this.
const REQUEST_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Requests that are kept to be looked at.
const REQUESTS_KEPT_MAX: usize = 64;

/// A running stand-in model provider.
pub struct StandIn {
    port: u16,
    asked: Arc<Mutex<Asked>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl StandIn {
    /// Starts a provider on a port that the system chooses.
    pub fn start() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
        let port = listener.local_addr()?.port();
        let (stop, stopped) = oneshot::channel();
        let asked = Arc::new(Mutex::new(Asked::default()));
        let routes = routes(Arc::clone(&asked));
        let thread = std::thread::Builder::new().name("stand-in model".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    served = axum::serve(listener, routes) => served.expect("a bound listener serves"),
                }
            });
        })?;
        Ok(Self { port, asked, stop: Some(stop), thread: Some(thread) })
    }

    /// The bodies of the last requests, oldest first.
    pub fn requests(&self) -> Vec<Value> {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.bodies.iter().cloned().collect()
    }

    /// The `base_url` for a codex model provider.
    pub fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// How often each prompt was sent, how many requests there were, and the last of them.
#[derive(Default)]
struct Asked {
    requests: u64,
    by_prompt: HashMap<String, u64>,
    bodies: VecDeque<Value>,
}

fn routes(asked: Arc<Mutex<Asked>>) -> Router {
    Router::new()
        .route("/v1/responses", post(respond))
        .layer(DefaultBodyLimit::max(REQUEST_BYTES_MAX))
        .with_state(asked)
}

async fn respond(State(asked): State<Arc<Mutex<Asked>>>, body: Bytes) -> Response {
    let Ok(body) = serde_json::from_slice::<Value>(&body) else {
        return refusal(400, &json!({"error": {"message": "the request is not JSON"}}));
    };
    let prompt = Prompt::of(&body);
    let (number, asked_before) = {
        let mut asked = asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.requests += 1;
        let count = asked.by_prompt.entry(prompt.text.clone()).or_default();
        *count += 1;
        let asked_before = *count - 1;
        if asked.bodies.len() == REQUESTS_KEPT_MAX {
            asked.bodies.pop_front();
        }
        asked.bodies.push_back(body.clone());
        (asked.requests, asked_before)
    };
    match plan::plan(&body, &prompt, number, asked_before) {
        Answer::Refusal { status, body } => refusal(status, &body),
        Answer::Stream(steps) => stream(steps),
    }
}

/// With `retry-after`, codex shows that it asks again after a 429; without, it gives up silently.
fn refusal(status: u16, body: &Value) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, [(header::RETRY_AFTER, "0")], Json(body)).into_response()
}

fn stream(steps: Vec<Step>) -> Response {
    let chunks = stream::unfold(steps.into_iter(), |mut steps| async {
        let chunk = match steps.next()? {
            Step::Event(event) => server_sent(&event),
            Step::Pause(pause) => {
                tokio::time::sleep(pause).await;
                Bytes::new()
            }
            Step::Hang => std::future::pending().await,
        };
        Some((Ok::<_, Infallible>(chunk), steps))
    });
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(chunks)).into_response()
}

fn server_sent(event: &Value) -> Bytes {
    let name = event["type"].as_str().unwrap_or_default();
    Bytes::from(format!("event: {name}\ndata: {event}\n\n"))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    use expect_test::expect;

    use super::StandIn;

    #[test]
    fn a_turn_is_answered_as_a_stream_of_events() {
        let model = StandIn::start().unwrap();
        let body = r#"{"input":[{"role":"user","content":"[[json {}]]"}]}"#;
        let mut connection = TcpStream::connect(("127.0.0.1", model.port)).unwrap();
        write!(connection, "POST /v1/responses HTTP/1.0\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        expect![[r#"
            event: response.created
            data: {"response":{"id":"resp_1","status":"in_progress"},"type":"response.created"}

            event: response.output_item.added
            data: {"item":{"content":[],"id":"msg_resp_1","role":"assistant","status":"in_progress","type":"message"},"output_index":0,"type":"response.output_item.added"}

            event: response.output_text.delta
            data: {"content_index":0,"delta":"{}","item_id":"msg_resp_1","output_index":0,"type":"response.output_text.delta"}

            event: response.output_item.done
            data: {"item":{"content":[{"annotations":[],"text":"{}","type":"output_text"}],"id":"msg_resp_1","role":"assistant","status":"completed","type":"message"},"output_index":0,"type":"response.output_item.done"}

            event: response.completed
            data: {"response":{"id":"resp_1","status":"completed","usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":40},"output_tokens":10,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":110}},"type":"response.completed"}

        "#]].assert_eq(body);
    }
}
