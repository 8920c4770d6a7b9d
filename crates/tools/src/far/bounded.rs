//! An HTTP client whose answers have an end. `rmcp` bounds the events of a stream, but reads any other body whole, however long
//! that is; here neither is longer than a limit. What streams are asked for later is `rmcp`'s own.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use futures_util::{Stream, StreamExt as _};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use reqwest::{Client, Response, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, ErrorCode, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::common::client_side_sse::BoxedSseResponse;
use rmcp::transport::common::http_header::{EVENT_STREAM_MIME_TYPE, HEADER_SESSION_ID, JSON_MIME_TYPE};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use serde_json::Value;
use sse_stream::SseStream;
use tokio_util::bytes::Bytes;

use crate::nesting::{EventPruner, asks_for_list, pruned};

/// How much of an answer that is none is quoted.
const QUOTED_BYTES_MAX: usize = 200;

type Headers = HashMap<HeaderName, HeaderValue>;
type Refusal = StreamableHttpError<reqwest::Error>;

#[derive(Clone)]
pub(crate) struct Bounded {
    client: Client,
    answer_bytes_max: usize,
}

impl Bounded {
    pub(crate) fn new(client: Client, answer_bytes_max: usize) -> Self {
        Self { client, answer_bytes_max }
    }

    /// The whole body, if it is not too long.
    async fn read(&self, mut response: Response) -> Result<Vec<u8>, Refusal> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            if body.len() + chunk.len() > self.answer_bytes_max {
                return Err(unexpected(format!("the answer is longer than {} bytes", self.answer_bytes_max)));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    /// What an answer that is no stream says.
    async fn whole(
        &self,
        asked: &ClientJsonRpcMessage,
        response: Response,
    ) -> Result<StreamableHttpPostResponse, Refusal> {
        let (status, connection) = (response.status(), connection_of(&response));
        let is_json = content_type(&response).starts_with(JSON_MIME_TYPE);
        if status == StatusCode::TOO_MANY_REQUESTS || (status.is_server_error() && !is_json) {
            return Err(HttpStatusError::new(status.as_u16(), None).into());
        }
        let mut body = self.read(response).await?;
        if is_list(asked)
            && let Some(pruned) = pruned(&body)
        {
            body = pruned;
        }
        let said = serde_json::from_slice::<ServerJsonRpcMessage>(&body).ok().filter(|_| is_json);
        match (asked, said) {
            (_, Some(said)) if status.is_success() => Ok(StreamableHttpPostResponse::Json(said, connection)),
            // A refusal counts as an answer only if it says to what.
            (JsonRpcMessage::Request(asked), Some(JsonRpcMessage::Error(error)))
                if error.id.as_ref() == Some(&asked.id) =>
            {
                Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::Error(error), connection))
            }
            (JsonRpcMessage::Request(_), _) => {
                let quoted = String::from_utf8_lossy(&body[..body.len().min(QUOTED_BYTES_MAX)]).into_owned();
                Err(unexpected(format!("HTTP {status}: {quoted}")))
            }
            // Nothing has to be said to what does not ask.
            _ if status.is_success() => Ok(StreamableHttpPostResponse::Accepted),
            _ => Err(unexpected(format!("HTTP {status}"))),
        }
    }
}

impl StreamableHttpClient for Bounded {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        connection: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Refusal> {
        let body = serde_json::to_vec(&message).map_err(|error| unexpected(error.to_string()))?;
        let mut request = self
            .client
            .post(&*uri)
            .header(ACCEPT, format!("{JSON_MIME_TYPE}, {EVENT_STREAM_MIME_TYPE}"))
            .header(CONTENT_TYPE, JSON_MIME_TYPE)
            .body(body);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        if let Some(id) = &connection {
            request = request.header(HEADER_SESSION_ID, &**id);
        }
        let response = request.send().await?;
        match response.status() {
            StatusCode::ACCEPTED | StatusCode::NO_CONTENT => Ok(StreamableHttpPostResponse::Accepted),
            // There are servers that say so of a method, too.
            StatusCode::NOT_FOUND if connection.is_some() => match self.whole(&message, response).await {
                Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::Error(error), connection))
                    if error.error.code == ErrorCode::METHOD_NOT_FOUND =>
                {
                    Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::Error(error), connection))
                }
                _ => Err(StreamableHttpError::SessionExpired),
            },
            status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
                let wanted = response.headers().get(WWW_AUTHENTICATE).and_then(|wanted| wanted.to_str().ok());
                let wanted = match wanted.map(str::to_owned) {
                    Some(wanted) => wanted,
                    None => match said_in(&self.read(response).await?) {
                        Some(said) => format!("HTTP {status}: {said}"),
                        None => format!("HTTP {status}"),
                    },
                };
                Err(StreamableHttpError::AuthRequired(AuthRequiredError::new(wanted)))
            }
            status if status.is_success() && content_type(&response).starts_with(EVENT_STREAM_MIME_TYPE) => {
                let connection = connection_of(&response);
                let mut pruner = is_list(&message).then(EventPruner::default);
                let bytes = response.bytes_stream().map(move |chunk| match &mut pruner {
                    Some(pruner) => chunk.map(|chunk| pruner.prune(&chunk).into()),
                    None => chunk,
                });
                let bytes = each_event_bounded(bytes, self.answer_bytes_max);
                Ok(StreamableHttpPostResponse::Sse(SseStream::from_bytes_stream(bytes).boxed(), connection))
            }
            _ => self.whole(&message, response).await,
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        connection: Arc<str>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<(), Refusal> {
        self.client.delete_session(uri, connection, token, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        connection: Option<Arc<str>>,
        last_event_id: Option<String>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<BoxedSseResponse, Refusal> {
        let bytes_max = self.answer_bytes_max;
        self.client.get_stream_with_max_sse_event_size(uri, connection, last_event_id, token, headers, bytes_max).await
    }
}

/// The message of an error body, as our own server and many others write it.
fn said_in(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    Some(body.pointer("/error/message")?.as_str()?.chars().take(QUOTED_BYTES_MAX).collect())
}

/// Whether the answer has entries of which one must not hide the others.
fn is_list(asked: &ClientJsonRpcMessage) -> bool {
    matches!(asked, JsonRpcMessage::Request(asked) if asks_for_list(asked.request.method()))
}

fn unexpected(why: String) -> Refusal {
    StreamableHttpError::UnexpectedServerResponse(why.into())
}

fn content_type(response: &Response) -> &str {
    response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default()
}

fn connection_of(response: &Response) -> Option<String> {
    response.headers().get(HEADER_SESSION_ID).and_then(|id| id.to_str().ok()).map(str::to_owned)
}

/// Ends a stream with an error where one of its events, which end in an empty line, is too long.
pub(super) fn each_event_bounded<E>(
    bytes: impl Stream<Item = Result<Bytes, E>>,
    event_bytes_max: usize,
) -> impl Stream<Item = io::Result<Bytes>>
where
    E: std::error::Error + Send + Sync + 'static,
{
    let (mut event_bytes, mut is_line_empty) = (0, true);
    bytes.map(move |chunk| {
        let chunk = chunk.map_err(io::Error::other)?;
        for byte in &chunk {
            event_bytes += 1;
            match byte {
                b'\n' | b'\r' if is_line_empty => event_bytes = 0,
                b'\n' => is_line_empty = true,
                b'\r' => {}
                _ => is_line_empty = false,
            }
            if event_bytes > event_bytes_max {
                return Err(io::Error::other(format!("an event is longer than {event_bytes_max} bytes")));
            }
        }
        Ok(chunk)
    })
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    async fn passed(chunks: &[&'static str]) -> Vec<bool> {
        let chunks: Vec<io::Result<Bytes>> =
            chunks.iter().map(|chunk| Ok(Bytes::from_static(chunk.as_bytes()))).collect();
        each_event_bounded(stream::iter(chunks), 16).map(|chunk| chunk.is_ok()).collect().await
    }

    #[tokio::test]
    async fn only_an_event_that_is_too_long_ends_a_stream() {
        assert_eq!(passed(&["data: 12345", "6789\n", "\ndata: 1\n\n"]).await, [true; 3]);
        assert_eq!(passed(&["data: 1\r\n\r\ndata: 2\r\n\r\ndata: 3\r\n\r\n"]).await, [true]);
        assert_eq!(passed(&["data: 1234", "567890123"]).await, [true, false]);
    }
}
