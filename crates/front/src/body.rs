//! Bodies of requests: received within their limits, counted against the memory budget, and parsed. A large one is parsed
//! away from the threads that serve everybody.

use std::sync::Arc;
use std::time::Duration;

use axum::RequestExt as _;
use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, HeaderValue, header};
use futures_util::StreamExt as _;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::Desk;
use crate::attempts::AttemptLimits;
use crate::error::{Code, Error};
use crate::keys::Caller;
use crate::memory_budget::{MemoryBudget, MemoryLease, memory_exhausted};
use crate::openai::message::Message;
use crate::parsing::ParsingThreads;

/// What a request may be.
#[derive(Clone, Debug)]
pub struct RequestLimits {
    /// How long a body may be.
    pub body_bytes_max: usize,
    /// How long it may take to arrive.
    pub body_timeout: Duration,
    /// How much memory bodies, parsed requests, WebSockets and what requests read from the store may hold in all.
    pub memory_bytes_max: usize,
    /// How many wrong keys are borne.
    pub attempts: AttemptLimits,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self {
            body_bytes_max: 16 << 20,
            body_timeout: Duration::from_secs(30),
            memory_bytes_max: 1 << 30,
            attempts: AttemptLimits::default(),
        }
    }
}

/// The longest body of a route that needs no key: none of them reads one.
const OPEN_BODY_BYTES_MAX: usize = 4 << 10;

/// The capacity of a body's first buffer, unless the announced length is smaller.
const BODY_CAPACITY_MIN: usize = 64 << 10;

/// How many times larger the next buffer of a body is.
const ANNOUNCED_GROWTH: usize = 16;
const UNANNOUNCED_GROWTH: usize = 2;

/// How many values a body may hold: each takes some hundred bytes of memory, however short it is written.
const VALUES_MAX: usize = 250_000;

/// What one value takes while it is parsed. Measured: 310 bytes for chats, 890 for responses, whose input is held twice.
const VALUE_BYTES: usize = 1024;

/// What one value takes in a tree of values: an object of one field takes two of these.
const TREE_VALUE_BYTES: usize = 384;

/// How often the text of a request is held while it is parsed: as JSON, as messages, and as what the worker is sent.
const TEXT_COPIES: usize = 3;

/// What a message takes besides its text, once it is parsed.
pub(crate) const MESSAGE_BYTES: usize = 512;

/// Receives bodies, and has them parsed.
pub(crate) struct BodyReader {
    body_bytes_max: usize,
    timeout: Duration,
    memory: Arc<MemoryBudget>,
    threads: ParsingThreads,
    stored_threads: ParsingThreads,
}

impl BodyReader {
    pub(crate) fn new(limits: &RequestLimits) -> Self {
        Self {
            body_bytes_max: limits.body_bytes_max,
            timeout: limits.body_timeout,
            memory: Arc::new(MemoryBudget::new(limits.memory_bytes_max)),
            threads: ParsingThreads::new(),
            stored_threads: ParsingThreads::new(),
        }
    }

    /// How long a body may be, and a message that takes the place of one.
    pub(crate) fn body_bytes_max(&self) -> usize {
        self.body_bytes_max
    }

    /// How long a body may take to arrive, and a message that takes the place of one.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    pub(crate) fn memory(&self) -> &Arc<MemoryBudget> {
        &self.memory
    }

    /// The request with its body in memory, which counts for this key until the last part of it is dropped.
    pub(crate) async fn receive(&self, request: Request, key: &Arc<str>) -> Result<Request, Error> {
        check_announced(request.headers(), self.body_bytes_max)?;
        let is_plain = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
        if !request.headers().get_all(header::CONTENT_ENCODING).iter().all(is_plain) {
            return Err(Error::new(Code::EncodingRefused, "a body must not be compressed; send it as it is"));
        }
        let mut lease = self.memory.lease(key);
        let (head, body) = request.into_parts();
        let announced_bytes = announced_bytes(&head.headers);
        let body = self.collect(body, announced_bytes, |bytes| lease.resize(bytes)).await?;
        if !body.is_empty() && !is_json(&head.headers) {
            return Err(Error::new(
                Code::ContentTypeRefused,
                "a body must be JSON; send the header content-type: application/json",
            ));
        }
        Ok(Request::from_parts(head, Body::from(lease.hold(body))))
    }

    /// Reads the body. `reserve` gets the size of its buffer before the buffer is allocated. The whole capacity counts: the
    /// allocator may hand out pages that already take memory.
    async fn collect(
        &self,
        body: Body,
        announced_bytes: Option<usize>,
        mut reserve: impl FnMut(usize) -> Result<(), Error>,
    ) -> Result<Vec<u8>, Error> {
        let mut pieces = body.into_data_stream();
        let mut refusal = None;
        let receive = async {
            let (mut whole, mut received_bytes) = (Vec::new(), 0);
            // A caller gets no memory for an announcement, but for a part of its body. Few steps leave few buffers to the
            // allocator, which keeps some of what is freed.
            let (capacity_max, growth) = match announced_bytes {
                Some(bytes) => (bytes, ANNOUNCED_GROWTH),
                None => (self.body_bytes_max, UNANNOUNCED_GROWTH),
            };
            while let Some(piece) = pieces.next().await {
                let piece = piece.map_err(|error| {
                    Error::new(Code::BodyIncomplete, "the body ended before its end").caused_by(error)
                })?;
                received_bytes += piece.len();
                if received_bytes > self.body_bytes_max {
                    return Err(too_large(self.body_bytes_max));
                }
                if refusal.is_some() {
                    continue;
                }
                if received_bytes > whole.capacity() {
                    let grown = (whole.capacity() * growth).max(BODY_CAPACITY_MIN).min(capacity_max);
                    if let Err(error) = grow(&mut whole, received_bytes.max(grown), &mut reserve) {
                        // The rest is read and dropped: many clients see no answer before they have sent everything.
                        refusal = Some(error);
                        whole = Vec::new();
                        reserve(0)?;
                        continue;
                    }
                }
                whole.extend_from_slice(&piece);
            }
            refusal.take().map_or(Ok(whole), Err)
        };
        let received = tokio::time::timeout(self.timeout, receive).await;
        let late = || Error::new(Code::BodyTimeout, "the body took too long to arrive; send it at once");
        received.unwrap_or_else(|_| Err(refusal.unwrap_or_else(late)))
    }

    /// Parses a body and makes something of it: `work` is given the body and the lease of the memory that this takes.
    pub(crate) async fn work<T, F>(
        &self,
        body: Bytes,
        key: &Arc<str>,
        work: impl FnOnce(Bytes, MemoryLease) -> F + Send + 'static,
    ) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let (lease, body_bytes) = (self.memory.lease(key), body.len());
        let parsing = async move {
            let lease = reserve_parsed(lease, &body)?;
            work(body, lease).await
        };
        self.threads.run(key, body_bytes, parsing).await
    }

    /// Threads for large requests.
    pub(crate) fn threads(&self) -> &ParsingThreads {
        &self.threads
    }

    /// Threads for what requests read from the store. They are others because a request on one of those threads may wait for
    /// these; what runs here must wait for neither.
    pub(crate) fn stored_threads(&self) -> &ParsingThreads {
        &self.stored_threads
    }
}

/// Moves a body to a buffer of this capacity. Both buffers count while one is copied into the other.
fn grow(
    body: &mut Vec<u8>,
    capacity: usize,
    reserve: &mut impl FnMut(usize) -> Result<(), Error>,
) -> Result<(), Error> {
    reserve(body.capacity() + capacity)?;
    body.try_reserve_exact(capacity - body.len()).map_err(|error| memory_exhausted().caused_by(error))?;
    reserve(body.capacity())
}

/// Refuses the body of a request without a key, unless it is short. None is read: nobody who is not known fills our memory.
pub(crate) fn check_unread(request: &Request) -> Result<(), Error> {
    check_announced(request.headers(), OPEN_BODY_BYTES_MAX)
}

fn check_announced(headers: &HeaderMap, bytes_max: usize) -> Result<(), Error> {
    if announced_bytes(headers).is_some_and(|length| length > bytes_max) { Err(too_large(bytes_max)) } else { Ok(()) }
}

fn announced_bytes(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn too_large(bytes_max: usize) -> Error {
    Error::new(Code::BodyTooLarge, format!("the body is longer than {bytes_max} bytes; send less"))
}

const UNREAD: &str = "the body could not be read";

/// What a parsed request with these messages holds until its turn begins.
pub(crate) fn held_bytes(messages: &[Message]) -> usize {
    messages.iter().map(|message| message.text_bytes() * TEXT_COPIES + MESSAGE_BYTES).sum()
}

/// What a chat request holds until its answer is complete: all but its messages, such as its tools, and what its worker keeps of it.
pub(crate) fn lasting_bytes(body_bytes: usize, messages: &[Message]) -> usize {
    body_bytes.saturating_sub(messages.iter().map(Message::text_bytes).sum()) * TEXT_COPIES
}

/// A parsed body, and the lease of the memory for it and for what is made of it.
pub(crate) struct ParsedBody {
    pub value: Value,
    pub memory: MemoryLease,
}

impl ParsedBody {
    pub(crate) fn read(body: &[u8], memory: MemoryLease) -> Result<Self, Error> {
        Ok(Self { value: parse(body)?, memory })
    }
}

/// Leases what a body takes once it is parsed, unless it has too many values for that.
fn reserve_parsed(mut lease: MemoryLease, body: &[u8]) -> Result<MemoryLease, Error> {
    let values = values(body);
    if values > VALUES_MAX {
        return Err(Error::new(
            Code::BodyTooLarge,
            format!("the body holds more than {VALUES_MAX} values; send fewer"),
        ));
    }
    let parsed_bytes = parsed_bytes_of(body.len(), values);
    // The body holds a lease of its own meanwhile.
    lease.check_can_fit(body.len() + parsed_bytes)?;
    lease.resize(parsed_bytes)?;
    Ok(lease)
}

/// What a text of JSON takes while a request is made of it.
pub(crate) fn parsed_bytes(json: &[u8]) -> usize {
    parsed_bytes_of(json.len(), values(json))
}

/// What a text of JSON takes as a tree of values, beside the text.
pub(crate) fn tree_bytes(json: &str) -> usize {
    json.len() + values(json.as_bytes()) * TREE_VALUE_BYTES
}

fn parsed_bytes_of(json_bytes: usize, values: usize) -> usize {
    json_bytes * TEXT_COPIES + values * VALUE_BYTES
}

fn is_json(headers: &HeaderMap) -> bool {
    let text = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = text.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}

/// A body of JSON, read strictly: what it must be is said with the place of what is wrong. The lease is of the memory that it
/// takes.
pub(crate) struct Posted<T>(pub T, pub MemoryLease);

impl<T: DeserializeOwned + Send + 'static> FromRequest<Arc<Desk>> for Posted<T> {
    type Rejection = Error;

    async fn from_request(mut request: Request, desk: &Arc<Desk>) -> Result<Self, Error> {
        let caller: Caller = request.extract_parts().await?;
        let body = whole(request.into_body()).await?;
        desk.bodies.work(body, &caller.key, |body, memory| async move { Ok(Self(parse(&body)?, memory)) }).await
    }
}

/// A body that `admit` has bounded and holds in memory.
pub(crate) async fn whole(body: Body) -> Result<Bytes, Error> {
    let unread = |error| Error::new(Code::Internal, UNREAD).caused_by(error);
    axum::body::to_bytes(body, usize::MAX).await.map_err(unread)
}

/// Reads a body of JSON.
pub(crate) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Error> {
    if body.is_empty() {
        return Err(Error::new(Code::InvalidJson, "the body is empty; send a JSON object"));
    }
    serde_json::from_slice(body).map_err(|error| {
        let code = if error.is_data() { Code::InvalidValue } else { Code::InvalidJson };
        Error::new(code, format!("the body cannot be used: {error}"))
    })
}

/// At least as many values as a text of JSON holds: each begins the text, or stands behind a bracket or a comma, a name before it or not.
fn values(json: &[u8]) -> usize {
    let (mut values, mut at) = (1, 0);
    while let Some(found) = json[at..].iter().position(|byte| matches!(byte, b'"' | b',' | b'[' | b'{')) {
        at += found + 1;
        if json[at - 1] == b'"' {
            at += string_length(&json[at..]);
        } else {
            values += 1;
        }
    }
    values
}

/// The length of a string behind its first quote, with its last.
fn string_length(json: &[u8]) -> usize {
    let mut at = 0;
    while let Some(found) = memchr::memchr2(b'"', b'\\', &json[at..]) {
        at += found + 1;
        if json[at - 1] == b'"' {
            return at;
        }
        at = (at + 1).min(json.len());
    }
    json.len()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::stream;

    use super::*;

    #[test]
    fn a_body_of_very_many_values_is_refused_however_short_it_is() {
        for (json, expected) in
            [("1", 1), ("[]", 2), (r#"{"a":[1,2,{"b":"x,[{"}],"c\"\\":"\\"}"#, 7), (r#""open \"#, 1)]
        {
            assert_eq!(values(json.as_bytes()), expected, "{json}");
        }
        let budget = Arc::new(MemoryBudget::new(1 << 30));
        let reserve = |body: &str| reserve_parsed(budget.lease(&"k".into()), body.as_bytes()).map(drop);
        let list = |count: usize| format!("[{}0]", "0,".repeat(count - 1));
        assert!(reserve(&list(VALUES_MAX - 2)).is_ok());
        let refusal = reserve(&list(VALUES_MAX)).unwrap_err();
        assert_eq!(refusal.message(), "the body holds more than 250000 values; send fewer");
        assert!(reserve(&format!("{:?}", "[,".repeat(VALUES_MAX))).is_ok(), "a long text is one value");
    }

    #[tokio::test]
    async fn a_received_body_counts_until_its_last_part_is_dropped() {
        let bodies = BodyReader::new(&RequestLimits::default());
        let sent = Request::post("/").header(header::CONTENT_TYPE, "application/json").body(Body::from("[1, 2]"));
        let request = bodies.receive(sent.unwrap(), &"k".into()).await.unwrap();
        assert_eq!(bodies.memory().used(), BODY_CAPACITY_MIN, "the buffer that it arrived in");
        let body = whole(request.into_body()).await.unwrap();
        let part = body.slice(1..2);
        drop(body);
        assert_eq!(bodies.memory().used(), BODY_CAPACITY_MIN);
        drop(part);
        assert_eq!(bodies.memory().used(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_body_that_never_ends_is_told_why_it_was_refused() {
        let limits = RequestLimits { memory_bytes_max: 2 * BODY_CAPACITY_MIN, ..RequestLimits::default() };
        let (bodies, key) = (BodyReader::new(&limits), "k".into());
        let mut other = bodies.memory().lease(&key);
        other.resize(1).unwrap();
        let pieces = stream::iter([Ok::<_, Infallible>(Bytes::from_static(b"["))]).chain(stream::pending());
        let sent = Request::post("/").body(Body::from_stream(pieces)).unwrap();
        assert_eq!(bodies.receive(sent, &key).await.unwrap_err().code(), Code::MemoryExhausted);
    }

    fn content_type(value: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_str(value).unwrap())])
    }

    #[test]
    fn only_json_is_json() {
        for json in ["application/json", "Application/JSON; charset=utf-8"] {
            assert!(is_json(&content_type(json)), "{json}");
        }
        for other in
            ["text/plain", "application/jsonp", "text/plain; application/json", "application/json, text/plain", ""]
        {
            assert!(!is_json(&content_type(other)), "{other}");
        }
    }
}
