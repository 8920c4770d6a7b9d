//! A server over Streamable HTTP, by the transport of `rmcp`: sessions, event streams and headers of both eras are its.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Once};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use reqwest::header::{HeaderName, HeaderValue};
use reqwest::{Client, ClientBuilder, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, JsonRpcError, JsonRpcMessage, NumberOrString, ServerJsonRpcMessage};
use rmcp::service::RoleClient;
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError};
use rmcp::transport::{StreamableHttpClientTransport, Transport};
use serde_json::Value;
use tokio::task::{JoinSet, unconstrained};

use super::bounded::Bounded;
use super::{Arrived, Line};

/// Messages that may be on their way at once; answers of ours, which cannot wait, may be as many again.
const SENDING_MAX: usize = 128;
/// Headers that nobody else may set.
const OF_THE_PROTOCOL: [&str; 5] = ["accept", "content-length", "content-type", "last-event-id", "mcp-session-id"];
/// How long a server may take to hear that its session is over.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

pub(crate) struct Http {
    client: Bounded,
    config: StreamableHttpClientTransportConfig,
    transport: StreamableHttpClientTransport<Bounded>,
    sending: JoinSet<Result<(), Unsent>>,
    read: VecDeque<Vec<u8>>,
    is_over: bool,
    /// What errors quote of the address and nobody else may read: keys stand there.
    query: Option<Arc<str>>,
}

/// A message of which nobody can say that it arrived.
struct Unsent {
    number: Option<i64>,
    why: String,
    may_have_arrived: bool,
    is_forgotten: bool,
}

impl Http {
    pub(super) fn open(
        url: &str,
        headers: &[(String, String)],
        connect_timeout: Duration,
        answer_bytes_max: usize,
    ) -> Result<Self, String> {
        let client = client(connect_timeout);
        // A proxy would carry what is for this machine beyond it, in clear text.
        let client = if url.starts_with("https://") { client } else { client.no_proxy() };
        let client = client.build().map_err(|error| words(&error))?;
        let client = Bounded::new(client, answer_bytes_max);
        // What stands behind a `#` is sent to nobody, and errors would quote it.
        let url = url.split('#').next().unwrap_or_default();
        let mut config = StreamableHttpClientTransportConfig::with_uri(url);
        config.custom_headers = headers.iter().map(header).collect::<Result<HashMap<_, _>, _>>()?;
        config.allow_stateless = true;
        // A server that has forgotten us may be another one by now: its lists and what it was asked to tell of count no more.
        config.reinit_on_expired_session = false;
        config.max_concurrent_requests = SENDING_MAX;
        let transport = StreamableHttpClientTransport::with_client(client.clone(), config.clone());
        let query =
            reqwest::Url::parse(url).ok().and_then(|url| url.query().filter(|query| !query.is_empty()).map(Arc::from));
        Ok(Self { client, config, transport, sending: JoinSet::new(), read: VecDeque::new(), is_over: false, query })
    }

    pub(super) fn has_room(&self) -> bool {
        self.sending.len() < SENDING_MAX
    }

    pub(super) fn is_full(&self) -> bool {
        self.sending.len() >= 2 * SENDING_MAX
    }

    pub(super) fn send(&mut self, line: &[u8]) {
        let message: ClientJsonRpcMessage = match serde_json::from_slice(line) {
            Ok(message) => message,
            Err(error) => {
                // It was a line of ours, and has a number if it asks.
                let number = serde_json::from_slice::<Value>(line).ok().and_then(|line| line["id"].as_i64());
                let why = format!("it cannot be sent over HTTP: {error}");
                self.sending
                    .spawn(async move { Err(Unsent { number, why, may_have_arrived: false, is_forgotten: false }) });
                return;
            }
        };
        let number = match &message {
            JsonRpcMessage::Request(request) => match request.id {
                NumberOrString::Number(number) => Some(number),
                NumberOrString::String(_) => None,
            },
            _ => None,
        };
        let (sent, query) = (in_turn(self.transport.send(message)), self.query.clone());
        self.sending.spawn(async move {
            sent.await.map_err(|error| Unsent {
                number,
                why: query.map_or_else(|| why(&error), |query| why(&error).replace(&*query, "…")),
                may_have_arrived: may_have_arrived(&error),
                is_forgotten: matches!(error, StreamableHttpError::SessionExpired),
            })
        });
    }

    pub(super) async fn arrived(&mut self) -> Arrived {
        loop {
            // Why a message was refused is known before that the transport ended by it.
            tokio::select! {
                biased;
                sent = self.sending.join_next(), if !self.sending.is_empty() => match sent {
                    Some(Ok(Err(Unsent { number, why, is_forgotten: true, .. }))) => {
                        return Arrived::Forgotten { number, why };
                    }
                    Some(Ok(Err(Unsent { number, why, may_have_arrived, .. }))) => {
                        return Arrived::Undelivered { number, why, may_have_arrived };
                    }
                    _ => return Arrived::Room,
                },
                message = Transport::<RoleClient>::receive(&mut self.transport), if !self.is_over => {
                    let Some(message) = message else {
                        self.is_over = true;
                        continue;
                    };
                    if let Some((number, why)) = broken_off(&message) {
                        return Arrived::Undelivered { number: Some(number), why, may_have_arrived: true };
                    }
                    match serde_json::to_vec(&message) {
                        Ok(line) => self.read.push_back(line),
                        Err(error) => tracing::warn!(%error, "a message of a server cannot be kept"),
                    }
                    return Arrived::Lines;
                }
                else => return Arrived::Ended,
            }
        }
    }

    pub(super) fn take(&mut self, mut each: impl FnMut(Line<'_>)) {
        for line in self.read.drain(..) {
            each(Line::Whole(&line));
        }
    }

    /// A transport whose first message was refused is of no more use.
    pub(super) fn reopen(&mut self) {
        self.sending.abort_all();
        self.is_over = false;
        self.transport = StreamableHttpClientTransport::with_client(self.client.clone(), self.config.clone());
    }

    pub(super) async fn close(mut self) {
        let closed = Transport::<RoleClient>::close(&mut self.transport);
        tokio::time::timeout(CLOSE_TIMEOUT, closed).await.ok();
    }
}

/// A client that goes where it is told and nowhere else.
pub(crate) fn client(connect_timeout: Duration) -> ClientBuilder {
    static PROVIDER: Once = Once::new();
    // If somebody has chosen one already, that one is as good.
    PROVIDER.call_once(|| _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default());
    Client::builder().connect_timeout(connect_timeout).redirect(reqwest::redirect::Policy::none())
}

fn header((name, value): &(String, String)) -> Result<(HeaderName, HeaderValue), String> {
    let bad = || format!("`{name}` cannot be sent as a header");
    let mut value = HeaderValue::from_str(value).map_err(|_| bad())?;
    value.set_sensitive(true);
    let name = HeaderName::try_from(name.as_str()).map_err(|_| bad())?;
    if OF_THE_PROTOCOL.contains(&name.as_str()) {
        return Err(format!("the header `{name}` is the protocol's own: leave it out of `headers`"));
    }
    Ok((name, value))
}

/// The request whose answer broke off, and why: the transport tells that as if the server had said it.
pub(super) fn broken_off(message: &ServerJsonRpcMessage) -> Option<(i64, String)> {
    const MARK: &str = "io.modelcontextprotocol/transportClosed";
    let JsonRpcMessage::Error(JsonRpcError { id: Some(NumberOrString::Number(number)), error, .. }) = message else {
        return None;
    };
    error.data.as_ref()?.get(MARK)?;
    Some((*number, error.message.to_string()))
}

/// Whether the server may have taken the message all the same: a connection can also break while the answer is awaited.
fn may_have_arrived(error: &StreamableHttpError<reqwest::Error>) -> bool {
    match error {
        StreamableHttpError::Client(error) => !error.is_connect() && !error.is_builder(),
        StreamableHttpError::HttpStatus(answer) => answer.status != StatusCode::TOO_MANY_REQUESTS.as_u16(),
        StreamableHttpError::AuthRequired(_)
        | StreamableHttpError::InsufficientScope(_)
        | StreamableHttpError::SessionExpired
        | StreamableHttpError::ReservedHeaderConflict(_) => false,
        _ => true,
    }
}

/// Gives a message its place among those that are sent, now: tasks that send are run in any order, and a transport takes the
/// second message of a legacy link for `notifications/initialized`, whatever it is.
pub(crate) fn in_turn<F>(sent: F) -> impl Future<Output = F::Output> + Send + 'static
where
    F: Future<Output: Send> + Send + 'static,
{
    // It is queued by being polled once, and never put off because its task has done enough for now.
    let mut sent = Box::pin(unconstrained(sent));
    let first = sent.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    async move {
        match first {
            Poll::Ready(done) => done,
            Poll::Pending => sent.await,
        }
    }
}

/// Why a message did not arrive.
fn why(error: &StreamableHttpError<reqwest::Error>) -> String {
    match error {
        StreamableHttpError::Client(error) => words(error),
        StreamableHttpError::AuthRequired(wanted) => {
            format!(
                "it wants to know who asks ({}): set `Authorization` among its headers",
                wanted.www_authenticate_header
            )
        }
        other => words(other),
    }
}

/// An error with all its causes: the first alone says too little.
pub(crate) fn words(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !words.contains(&text) {
            words = format!("{words}: {text}");
        }
        cause = error.source();
    }
    words
}
