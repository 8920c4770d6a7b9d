//! Which web pages may ask us: those whose origin the configuration names, to the letter. Their browser's preflights are
//! answered, and their responses marked as theirs. Never with credentials: a page has to bring a key of its own.

use std::fmt;
use std::str::FromStr;

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::error::{Code, Error};

/// The origin of web pages that may ask us, such as `https://app.example.com`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin(Box<str>);

/// A text that no browser sends as an origin.
#[derive(Debug, thiserror::Error)]
#[error("no origin as browsers send it: write a scheme, a host and a port that is not the usual one, in small letters")]
pub struct NotAnOrigin;

/// All origins that may ask us.
#[derive(Debug, Default)]
pub(crate) struct Origins(Vec<Origin>);

/// The origin of a request, which may ask us.
#[derive(Debug)]
pub(crate) struct Page(HeaderValue);

const METHODS: &str = "GET, POST, DELETE";

/// How long a browser may remember the answer to a preflight; two hours is as long as any does.
const PREFLIGHT_SECONDS_MAX: u32 = 7200;

/// What the scripts of a page may read besides what they always may.
const EXPOSED: &str = "x-request-id, mcp-session-id, retry-after, retry-after-ms, x-should-retry, openai-processing-ms, x-switchboard-ignored, \
     x-ratelimit-limit-requests, x-ratelimit-remaining-requests, x-ratelimit-reset-requests, \
     x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens";

impl Origins {
    pub(crate) fn new(origins: Vec<Origin>) -> Self {
        Self(origins)
    }

    /// The page that sends a request, if one does; an error if it may not.
    pub(crate) fn page(&self, headers: &HeaderMap) -> Result<Option<Page>, Error> {
        let mut sent = headers.get_all(header::ORIGIN).iter();
        match (sent.next(), sent.next()) {
            (None, _) => Ok(None),
            (Some(origin), None) if self.0.iter().any(|known| *known.0.as_bytes() == *origin.as_bytes()) => {
                Ok(Some(Page(origin.clone())))
            }
            _ => Err(Error::new(
                Code::OriginRefused,
                "requests of web pages (with an Origin header) are refused; the configuration's `cors_origins` allows some",
            )),
        }
    }

    /// Says whose the response is. A cache must know that it could be another's.
    pub(crate) fn mark(&self, response: &mut Response, page: Option<Page>) {
        if self.0.is_empty() {
            return;
        }
        let headers = response.headers_mut();
        headers.append(header::VARY, HeaderValue::from_static("origin"));
        if let Some(Page(origin)) = page {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
        }
    }
}

/// The answer to the question of a browser whether a page may send what it wants to; `None` if this is not the question.
pub(crate) fn preflight(request: &Request) -> Option<Response> {
    let headers = request.headers();
    if request.method() != Method::OPTIONS || !headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD) {
        return None;
    }
    let allowed: [(HeaderName, HeaderValue); 2] = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS)),
        (header::ACCESS_CONTROL_MAX_AGE, PREFLIGHT_SECONDS_MAX.into()),
    ];
    let mut response = (StatusCode::NO_CONTENT, allowed).into_response();
    if let Some(wanted) = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
        response.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
    }
    Some(response)
}

impl FromStr for Origin {
    type Err = NotAnOrigin;

    /// Only what a browser can send is taken: anything else would never be met, and nobody would know why.
    fn from_str(text: &str) -> Result<Self, NotAnOrigin> {
        let (scheme, authority) = text.split_once("://").ok_or(NotAnOrigin)?;
        let (host, port) = match authority.rfind(':').filter(|_| !authority.ends_with(']')) {
            Some(colon) => (&authority[..colon], Some(&authority[colon + 1..])),
            None => (authority, None),
        };
        let usual = match scheme {
            "http" => Some("80"),
            "https" => Some("443"),
            _ => None,
        };
        let is_port = |port: &str| port.parse::<u16>().is_ok_and(|number| number > 0 && number.to_string() == port);
        let has_port = port.is_none_or(|port| is_port(port) && Some(port) != usual);
        (is_scheme(scheme) && is_host(host) && has_port).then(|| Self(text.into())).ok_or(NotAnOrigin)
    }
}

fn is_scheme(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"+-.".contains(&byte);
    text.starts_with(|first: char| first.is_ascii_lowercase()) && text.bytes().all(is_part)
}

fn is_host(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-._".contains(&byte);
    match text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok_and(|parsed| parsed.to_string() == address),
        None => !text.is_empty() && text.bytes().all(is_part),
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Origin;

    #[test]
    fn an_origin_is_what_a_browser_sends() {
        for origin in [
            "https://app.example.com",
            "http://localhost:3000",
            "http://127.0.0.1:8080",
            "https://[::1]:8443",
            "http://[::1]",
            "app://obsidian.md",
            "tauri://localhost",
            "chrome-extension://abcdefghijklmnop",
        ] {
            assert_eq!(origin.parse::<Origin>().unwrap().to_string(), origin);
        }
        for other in [
            "*",
            "null",
            "",
            "example.com",
            "https://",
            "https://*",
            "https://*.example.com",
            "https://Example.com",
            "HTTPS://example.com",
            "https://example.com/",
            "https://example.com/chat",
            "https://example.com:443",
            "http://example.com:80",
            "http://example.com:080",
            "http://example.com:",
            "http://example.com:0",
            "http://example.com:65536",
            "http://user@example.com",
            "http://[::1",
            "http://[0:0::1]",
            "http://exa mple.com",
            "https://a.example, https://b.example",
        ] {
            assert!(other.parse::<Origin>().is_err(), "{other}");
        }
    }
}
