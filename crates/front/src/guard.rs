//! Who may in. Every request passes `edge`: its `Host` is one of ours, and its `Origin`, if it has one, may ask us. Every route besides has what
//! it needs, which `admit` asks for on the matched route itself, never on a path that was put together again: a key, a
//! scope, a body of JSON that is not too long and does not take too long.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use serde::de::DeserializeOwned;

use crate::accept::{ControlPeer, Peer};
use crate::attempts::{AttemptLimits, Attempts};
use crate::cors::{Origins, Page, preflight};
use crate::error::{Code, Error};
use crate::host::Hosts;
use crate::keys::{Caller, Keys, LOCAL, Scope, is_unguessable};
use crate::lock::lock;

/// What a route asks of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Nothing: it tells nothing that matters, or carries its own proof.
    Nothing,
    /// A key with this scope.
    Key(Scope),
    /// A key with one of these scopes.
    AnyKey([Scope; 2]),
    /// The key of a group's workers.
    WorkerKey,
}

impl Needs {
    /// The scopes of which a key must have one.
    pub(crate) fn scopes(&self) -> &[Scope] {
        match self {
            Self::Nothing => &[],
            Self::Key(scope) => std::slice::from_ref(scope),
            Self::AnyKey(scopes) => scopes,
            Self::WorkerKey => &[Scope::Tools],
        }
    }

    fn check(self, caller: &Caller) -> Result<(), Error> {
        if self == Self::WorkerKey && caller.worker_group().is_none() {
            return Err(Error::new(Code::ScopeMissing, "only workers of this server connect here"));
        }
        if self.scopes().iter().any(|scope| caller.scopes.has(*scope)) {
            return Ok(());
        }
        let names: Vec<_> = self.scopes().iter().map(|scope| format!("`{}`", scope.name())).collect();
        let names = names.join(" or ");
        Err(Error::new(Code::ScopeMissing, format!("this key lacks the scope {names}; use a key that has it")))
    }
}

/// What a request may be.
#[derive(Clone, Debug)]
pub struct RequestLimits {
    /// How long a body may be.
    pub body_bytes_max: usize,
    /// How long it may take to arrive.
    pub body_timeout: Duration,
    /// How many wrong keys are borne.
    pub attempts: AttemptLimits,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self {
            body_bytes_max: 16 * 1024 * 1024,
            body_timeout: Duration::from_secs(30),
            attempts: AttemptLimits::default(),
        }
    }
}

/// The one who stands at the door.
pub(crate) struct Guard {
    hosts: Hosts,
    origins: Origins,
    keys: Arc<Keys>,
    attempts: Mutex<Attempts>,
    limits: RequestLimits,
}

impl Guard {
    pub(crate) fn new(hosts: Hosts, origins: Origins, keys: Arc<Keys>, limits: RequestLimits) -> Self {
        let attempts = Mutex::new(Attempts::new(limits.attempts.clone(), Instant::now()));
        Self { hosts, origins, keys, attempts, limits }
    }

    pub(crate) fn keys(&self) -> &Arc<Keys> {
        &self.keys
    }

    /// How long a body may be, and a message that takes the place of one.
    pub(crate) fn body_bytes_max(&self) -> usize {
        self.limits.body_bytes_max
    }

    fn check_place(&self, request: &Request) -> Result<Option<Page>, Error> {
        // No browser reaches the control socket, so neither `Host` nor `Origin` says anything there.
        if request.extensions().get::<ControlPeer>().is_some() {
            return Ok(None);
        }
        let mut hosts = request.headers().get_all(header::HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else {
            return Err(Error::new(Code::HostMissing, "send exactly one Host header"));
        };
        let host = host.to_str().unwrap_or_default();
        let target = request.uri().authority().map(axum::http::uri::Authority::as_str);
        if !self.hosts.has(host) || target.is_some_and(|target| !self.hosts.has(target)) {
            return Err(Error::new(
                Code::HostRefused,
                "this Host is not served here; use localhost, or add the name to the configuration's `hosts`",
            ));
        }
        self.origins.page(request.headers())
    }

    /// The caller, if its key is valid.
    fn authenticate(&self, request: &Request) -> Result<Caller, Error> {
        let is_control = request.extensions().get::<ControlPeer>().is_some();
        if is_control
            && !carries_key(request.headers())
            && let Some(local) = self.keys.owner(LOCAL)
        {
            return Ok(local);
        }
        let text = key_in(request.headers())?;
        let peer = request.extensions().get::<Peer>().map(|peer| peer.0.ip());
        let wait = peer.and_then(|peer| self.attempts().wait(peer, Instant::now()));
        let caller = if wait.is_none() || is_unguessable(text) { self.keys.find(text) } else { None };
        match (caller, wait) {
            (Some(caller), _) => Ok(caller),
            (None, Some(wait)) => Err(Error::new(
                Code::TooManyFailures,
                "too many wrong keys came from this network; wait, then send the right one",
            )
            .retry_after(wait)),
            (None, None) => {
                if let Some(peer) = peer {
                    self.attempts().handle_failure(peer, Instant::now());
                }
                Err(Error::new(Code::KeyInvalid, "this key is not valid; it may have been revoked"))
            }
        }
    }

    fn attempts(&self) -> MutexGuard<'_, Attempts> {
        lock(&self.attempts)
    }

    /// The request with its body in memory.
    async fn receive(&self, request: Request) -> Result<Request, Error> {
        let max = self.limits.body_bytes_max;
        let too_large = || Error::new(Code::BodyTooLarge, format!("the body is longer than {max} bytes; send less"));
        let announced =
            request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        if announced.is_some_and(|length: u64| length > max as u64) {
            return Err(too_large());
        }
        let is_plain = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
        if !request.headers().get_all(header::CONTENT_ENCODING).iter().all(is_plain) {
            return Err(Error::new(Code::EncodingRefused, "a body must not be compressed; send it as it is"));
        }
        let (head, body) = request.into_parts();
        let mut pieces = body.into_data_stream();
        let whole = async {
            let mut whole = Vec::new();
            while let Some(piece) = pieces.next().await {
                let piece = piece.map_err(|error| {
                    Error::new(Code::BodyIncomplete, "the body ended before its end").caused_by(error)
                })?;
                if whole.len() + piece.len() > max {
                    return Err(too_large());
                }
                whole.extend_from_slice(&piece);
            }
            Ok(whole)
        };
        let late = |_| Error::new(Code::BodyTimeout, "the body took too long to arrive; send it at once");
        let whole = tokio::time::timeout(self.limits.body_timeout, whole).await.map_err(late)??;
        if !whole.is_empty() && !is_json(&head.headers) {
            return Err(Error::new(
                Code::ContentTypeRefused,
                "a body must be JSON; send the header content-type: application/json",
            ));
        }
        Ok(Request::from_parts(head, Body::from(whole)))
    }
}

/// Asks of every request that it was meant for us.
pub(crate) async fn edge(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let page = match guard.check_place(&request) {
        Ok(page) => page,
        Err(error) => return error.into_response(),
    };
    let answer = page.as_ref().and_then(|_| preflight(&request));
    let mut response = match answer {
        Some(answer) => answer,
        None => next.run(request).await,
    };
    guard.origins.mark(&mut response, page);
    response
}

/// Asks what the matched route needs, and leaves the [`Caller`] to it.
pub(crate) async fn admit(
    State((guard, needs)): State<(Arc<Guard>, Needs)>,
    mut request: Request,
    next: Next,
) -> Result<Response, Error> {
    if needs != Needs::Nothing {
        let caller = guard.authenticate(&request)?;
        needs.check(&caller)?;
        request.extensions_mut().insert(caller);
    }
    // Without a key no body is read: nobody who is not known fills our memory.
    let has_key = needs != Needs::Nothing;
    if has_key && request.method() != Method::GET && request.method() != Method::HEAD {
        request = guard.receive(request).await?;
    }
    Ok(next.run(request).await)
}

/// What can carry a key, besides `Authorization`.
const KEY_HEADERS: [&str; 2] = ["x-api-key", "api-key"];

fn carries_key(headers: &HeaderMap) -> bool {
    headers.contains_key(header::AUTHORIZATION) || KEY_HEADERS.iter().any(|name| headers.contains_key(*name))
}

/// The key, wherever it is carried; several carriers must agree.
fn key_in(headers: &HeaderMap) -> Result<&str, Error> {
    let bearer = headers.get_all(header::AUTHORIZATION).iter().map(|value| {
        let (scheme, key) = value.to_str().ok()?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(key.trim())
    });
    let plain = KEY_HEADERS.into_iter().flat_map(|name| headers.get_all(name));
    let mut keys = bearer.chain(plain.map(|value| value.to_str().ok().map(str::trim)));
    let missing = || {
        Error::new(
            Code::KeyInvalid,
            "send a key as `Authorization: Bearer KEY`, `x-api-key: KEY` or `api-key: KEY`; `switchboard keys add NAME` makes one",
        )
    };
    let unreadable = || Error::new(Code::KeyInvalid, "the key cannot be read; send `Authorization: Bearer KEY`");
    let first = keys.next().ok_or_else(missing)?.ok_or_else(unreadable)?;
    if keys.all(|key| key == Some(first)) {
        Ok(first)
    } else {
        Err(Error::new(Code::KeyInvalid, "several different keys were sent; send one"))
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let text = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = text.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}

/// A body of JSON, read strictly: what it must be is said with the place of what is wrong.
pub(crate) struct Posted<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Posted<T> {
    type Rejection = Error;

    async fn from_request(request: Request, _: &S) -> Result<Self, Error> {
        parse(&whole(request.into_body()).await?).map(Self)
    }
}

/// A body that `admit` has bounded and holds in memory.
pub(crate) async fn whole(body: Body) -> Result<Bytes, Error> {
    let unread = |error| Error::new(Code::Internal, "the body could not be read").caused_by(error);
    axum::body::to_bytes(body, usize::MAX).await.map_err(unread)
}

/// How many values a body may hold: each takes some hundred bytes of memory, however short it is written.
const VALUES_MAX: usize = 250_000;

/// Reads a body of JSON.
pub(crate) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Error> {
    if body.is_empty() {
        return Err(Error::new(Code::InvalidJson, "the body is empty; send a JSON object"));
    }
    check_values(body)?;
    serde_json::from_slice(body).map_err(|error| {
        let code = if error.is_data() { Code::InvalidValue } else { Code::InvalidJson };
        Error::new(code, format!("the body cannot be used: {error}"))
    })
}

/// Refuses what would take far more memory than it is long.
pub(crate) fn check_values(body: &[u8]) -> Result<(), Error> {
    if body.len() > VALUES_MAX && values(body) > VALUES_MAX {
        return Err(Error::new(
            Code::BodyTooLarge,
            format!("the body holds more than {VALUES_MAX} values; send fewer"),
        ));
    }
    Ok(())
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
    use axum::http::{HeaderMap, HeaderName, HeaderValue};
    use expect_test::{Expect, expect};

    use super::{VALUES_MAX, is_json, key_in, parse, values};

    fn headers(lines: &[(&str, &str)]) -> HeaderMap {
        let pairs = lines.iter().map(|(name, value)| {
            (name.parse::<HeaderName>().unwrap(), HeaderValue::from_bytes(value.as_bytes()).unwrap())
        });
        pairs.collect()
    }

    #[test]
    fn every_carrier_of_a_key_is_alike() {
        let check = |lines: &[(&str, &str)], expected: &Expect| {
            let found = match key_in(&headers(lines)) {
                Ok(key) => key.to_owned(),
                Err(error) => format!("{error:?}"),
            };
            expected.assert_eq(&found);
        };
        check(&[("authorization", "Bearer k")], &expect!["k"]);
        check(&[("authorization", "bearer  k ")], &expect!["k"]);
        check(&[("x-api-key", "k")], &expect!["k"]);
        check(&[("api-key", " k ")], &expect!["k"]);
        check(&[("api-key", "k"), ("authorization", "Bearer k"), ("x-api-key", "k")], &expect!["k"]);
        check(
            &[("api-key", "k"), ("authorization", "Bearer other")],
            &expect![[
                r#"Error { code: KeyInvalid, message: "several different keys were sent; send one", param: None, cause: None, retry: Unsaid, headers: [] }"#
            ]],
        );
        check(
            &[("authorization", "Basic a2V5")],
            &expect![[
                r#"Error { code: KeyInvalid, message: "the key cannot be read; send `Authorization: Bearer KEY`", param: None, cause: None, retry: Unsaid, headers: [] }"#
            ]],
        );
        check(
            &[("cookie", "key=k")],
            &expect![[
                r#"Error { code: KeyInvalid, message: "send a key as `Authorization: Bearer KEY`, `x-api-key: KEY` or `api-key: KEY`; `switchboard keys add NAME` makes one", param: None, cause: None, retry: Unsaid, headers: [] }"#
            ]],
        );
    }

    #[test]
    fn a_body_of_very_many_values_is_refused_however_short_it_is() {
        for (json, expected) in
            [("1", 1), ("[]", 2), (r#"{"a":[1,2,{"b":"x,[{"}],"c\"\\":"\\"}"#, 7), (r#""open \"#, 1)]
        {
            assert_eq!(values(json.as_bytes()), expected, "{json}");
        }
        let list = |count: usize| format!("[{}0]", "0,".repeat(count - 1));
        assert!(parse::<Vec<u8>>(list(VALUES_MAX - 2).as_bytes()).is_ok());
        let refusal = parse::<Vec<u8>>(list(VALUES_MAX).as_bytes()).unwrap_err();
        assert_eq!(refusal.message(), "the body holds more than 250000 values; send fewer");
        assert!(
            parse::<String>(format!("{:?}", "[,".repeat(VALUES_MAX)).as_bytes()).is_ok(),
            "a long text is one value"
        );
    }

    #[test]
    fn only_json_is_json() {
        for json in ["application/json", "Application/JSON; charset=utf-8"] {
            assert!(is_json(&headers(&[("content-type", json)])), "{json}");
        }
        for other in
            ["text/plain", "application/jsonp", "text/plain; application/json", "application/json, text/plain", ""]
        {
            assert!(!is_json(&headers(&[("content-type", other)])), "{other}");
        }
    }
}
