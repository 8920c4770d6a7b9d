//! A server that is measured: where it is, and what every request to it carries.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue};
use hyper::{Request, Uri};
use serde_json::json;

use http_body_util::Full;
use hyper::body::Bytes;

/// A server.
#[derive(Clone, Debug)]
pub(super) struct Target {
    uri: Uri,
    api: Api,
    path: String,
    model: String,
    headers: Arc<HeaderMap>,
}

/// What is asked of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Api {
    /// `/v1/chat/completions`
    Chat,
    /// `/v1/responses`
    Responses,
}

/// A header as it is given on the command line.
#[derive(Clone, Debug)]
pub(super) struct Header(HeaderName, HeaderValue);

impl FromStr for Header {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, value) = text.split_once(':').context("write it as `name: value`")?;
        Ok(Self(name.trim().parse()?, value.trim().parse()?))
    }
}

impl Target {
    pub(super) fn new(url: &str, key: Option<&str>, api: Api, model: &str, besides: &[Header]) -> Result<Self> {
        let uri: Uri = url.parse().with_context(|| format!("{url:?} is no address: write http://HOST:PORT"))?;
        let authority = uri.authority().with_context(|| format!("{url:?} names no host: write http://HOST:PORT"))?;
        ensure!(uri.scheme_str() == Some("http"), "{url:?} cannot be measured: only http:// to this machine can");
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        let is_here =
            host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback());
        ensure!(
            is_here,
            "http:// to {host} would send the key in clear text: use a tunnel to an address of this machine"
        );
        let mut headers = HeaderMap::new();
        headers.insert(HOST, authority.as_str().parse()?);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(key) = key {
            let mut bearer: HeaderValue =
                format!("Bearer {key}").parse().context("the key holds a character that no header may")?;
            bearer.set_sensitive(true);
            headers.insert(AUTHORIZATION, bearer);
        }
        headers.extend(besides.iter().map(|Header(name, value)| (name.clone(), value.clone())));
        let base = uri.path().trim_end_matches('/').trim_end_matches("/v1");
        let path = match api {
            Api::Chat => format!("{base}/v1/chat/completions"),
            Api::Responses => format!("{base}/v1/responses"),
        };
        Ok(Self { path, api, model: model.into(), headers: Arc::new(headers), uri })
    }

    /// The body of a request for this prompt.
    pub(super) fn body(&self, prompt: &str, is_stream: bool) -> Vec<u8> {
        let body = match self.api {
            Api::Chat => {
                let messages = json!([{"role": "user", "content": prompt}]);
                json!({"model": self.model, "messages": messages, "stream": is_stream})
            }
            Api::Responses => json!({"model": self.model, "input": prompt, "stream": is_stream}),
        };
        body.to_string().into_bytes()
    }

    /// Where to connect.
    pub(super) fn address(&self) -> String {
        format!("{}:{}", self.uri.host().unwrap_or_default(), self.uri.port_u16().unwrap_or(80))
    }

    pub(super) fn request(&self, body: &[u8]) -> Result<Request<Full<Bytes>>> {
        let mut request = Request::post(&self.path).body(Full::from(body.to_vec()))?;
        *request.headers_mut() = (*self.headers).clone();
        Ok(request)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.uri.authority().map_or("", |authority| authority.as_str()))
    }
}
