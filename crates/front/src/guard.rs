//! Who may in. Every request passes `edge`: its `Host` is one of ours, and its `Origin`, if it has one, may ask us. Every route besides has what
//! it needs, which `admit` asks for on the matched route itself, never on a path that was put together again: a key, a
//! scope, a body of JSON that is not too long and does not take too long.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::accept::{ControlPeer, Peer};
use crate::attempts::{AttemptLimits, Attempts};
use crate::body::{BodyReader, check_unread};
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

/// The one who stands at the door.
pub(crate) struct Guard {
    hosts: Hosts,
    origins: Origins,
    keys: Arc<Keys>,
    attempts: Mutex<Attempts>,
    bodies: Arc<BodyReader>,
}

impl Guard {
    pub(crate) fn new(
        hosts: Hosts,
        origins: Origins,
        keys: Arc<Keys>,
        attempts: AttemptLimits,
        bodies: Arc<BodyReader>,
    ) -> Self {
        let attempts = Mutex::new(Attempts::new(attempts, Instant::now()));
        Self { hosts, origins, keys, attempts, bodies }
    }

    pub(crate) fn keys(&self) -> &Arc<Keys> {
        &self.keys
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
    if needs == Needs::Nothing {
        check_unread(&request)?;
        return Ok(next.run(request).await);
    }
    let caller = guard.authenticate(&request)?;
    needs.check(&caller)?;
    if request.method() == Method::GET || request.method() == Method::HEAD {
        request.extensions_mut().insert(caller);
        return Ok(next.run(request.map(|_| Body::empty())).await);
    }
    let mut request = guard.bodies.receive(request, &caller.key).await?;
    request.extensions_mut().insert(caller);
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

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, HeaderName, HeaderValue};
    use expect_test::{Expect, expect};

    use super::key_in;

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
}
