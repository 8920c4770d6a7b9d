//! `/mcp`: the tools of every tool server as one MCP server over Streamable HTTP, for callers of either era. Keys are
//! checked as everywhere; a key that is revoked ends its calls, its streams and its connections.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use futures_util::StreamExt as _;

use crate::Desk;
use crate::body::whole;
use crate::error::{Code, Error};
use crate::keys::{Caller, Revocation};
use crate::memory_budget::MemoryLease;

/// What the audit calls a caller that is no worker of ours.
const LABEL: &str = "mcp";

pub(crate) async fn answer(State(desk): State<Arc<Desk>>, caller: Caller, request: Request) -> Result<Response, Error> {
    let (mut head, body) = request.into_parts();
    let body = whole(body).await?;
    head.extensions.insert(tools::Caller::new(&caller.key, caller.worker_group().unwrap_or(LABEL)));
    let bodies = Arc::clone(&desk.bodies);
    let start = |body: Bytes, memory: MemoryLease| async move {
        // The MCP library keeps the head for as long as it works on the message, also when its caller has left.
        head.extensions.insert(Arc::new(memory));
        let answering = async move { desk.mcp.answer(Request::from_parts(head, Body::from(body))).await };
        Ok(StartedAnswer::poll(answering))
    };
    let started = bodies.work(body, &caller.key, start).await?;
    let mut revocation = caller.revocation;
    let response = tokio::select! {
        response = started.finish() => response,
        () = revocation.done() => return Err(Error::new(Code::KeyInvalid, "this key was revoked")),
    };
    let is_stream = response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream");
    let response = response.map(Body::new);
    Ok(if is_stream { until_revoked(response, revocation) } else { response })
}

/// The answer to a message, which is parsed when it is first polled.
enum StartedAnswer<F: Future> {
    Answered(F::Output),
    Running(Pin<Box<F>>),
}

impl<F: Future> StartedAnswer<F> {
    fn poll(answering: F) -> Self {
        let mut answering = Box::pin(answering);
        // Nobody has to be woken: whoever finishes it polls it again.
        match answering.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => Self::Answered(answer),
            Poll::Pending => Self::Running(answering),
        }
    }

    async fn finish(self) -> F::Output {
        match self {
            Self::Answered(answer) => answer,
            Self::Running(answering) => answering.await,
        }
    }
}

fn until_revoked(response: Response, mut revocation: Revocation) -> Response {
    let (mut head, body) = response.into_parts();
    // What proxies of the nginx kind understand: pass it on as it comes.
    head.headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    let revoked = async move { revocation.done().await };
    Response::from_parts(head, Body::from_stream(body.into_data_stream().take_until(Box::pin(revoked))))
}
