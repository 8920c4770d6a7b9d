//! The webhook: an approval is posted to a URL, with links that decide it. What the receiver answers decides nothing.
//!
//! Each post has a connection of its own on hyper's client: posts are rare, and a pool would hold sockets for nothing.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Where approvals are posted. Without `Debug`, because its URL and its authorization can be secrets.
#[derive(Clone)]
pub struct Webhook {
    uri: Uri,
    /// Sent as the `authorization` header.
    authorization: Option<HeaderValue>,
    links: Box<str>,
}

/// Why a webhook is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WebhookError {
    /// It is no URL.
    #[error("the webhook is no URL: write `https://host/path`")]
    NotAUrl,
    /// Its approvals would travel in clear text.
    #[error("the webhook must be `https://`, or `http://` to an address of this machine")]
    ClearText,
    /// It carries a password that would end in logs.
    #[error("the webhook's URL carries credentials: give them as `authorization`")]
    Credentials,
    /// The header cannot be sent.
    #[error("the webhook's authorization holds characters that no header may have")]
    Authorization,
}

impl Webhook {
    /// A webhook at `url`; decision links begin with `links` and end with their token.
    pub fn new(url: &str, authorization: Option<&str>, links: &str) -> Result<Self, WebhookError> {
        let uri: Uri = url.parse().map_err(|_| WebhookError::NotAUrl)?;
        let host = uri.host().filter(|host| !host.is_empty()).ok_or(WebhookError::NotAUrl)?;
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(WebhookError::Credentials);
        }
        match uri.scheme_str() {
            Some("https") => {}
            Some("http") if is_this_machine(host) => {}
            Some("http") => return Err(WebhookError::ClearText),
            _ => return Err(WebhookError::NotAUrl),
        }
        let authorization = authorization.map(|secret| {
            let mut value = HeaderValue::from_str(secret).map_err(|_| WebhookError::Authorization)?;
            value.set_sensitive(true);
            Ok(value)
        });
        Ok(Self { authorization: authorization.transpose()?, uri, links: links.into() })
    }

    pub(crate) fn link(&self, token: &str) -> String {
        format!("{}{token}", self.links)
    }

    /// Posts it once.
    pub(crate) async fn post(&self, body: String, post_timeout: Duration) -> Result<(), PostError> {
        let posted = tokio::time::timeout(post_timeout, self.exchange(body)).await;
        match posted.map_err(|_| PostError::TooSlow(post_timeout))?? {
            status if status.is_success() => Ok(()),
            status => Err(PostError::Refused(status)),
        }
    }

    async fn exchange(&self, body: String) -> Result<StatusCode, PostError> {
        let host = self.uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let is_tls = self.uri.scheme_str() == Some("https");
        let port = self.uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let stream = reach(host, port, |address| is_tls || address.ip().to_canonical().is_loopback()).await?;
        let request = self.request(body)?;
        if is_tls { send(prove(stream, host).await?, request).await } else { send(stream, request).await }
    }

    fn request(&self, body: String) -> Result<Request<Full<Bytes>>, PostError> {
        let path = self.uri.path_and_query().map_or("/", hyper::http::uri::PathAndQuery::as_str);
        let authority = self.uri.authority().map_or("", hyper::http::uri::Authority::as_str);
        let mut request = Request::post(path)
            .header(HOST, authority)
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, "switchboard");
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        request.body(Full::from(body)).map_err(|error| PostError::NotSent(error.to_string()))
    }
}

/// A name or address that can only mean this machine; a name is checked again once it is resolved.
fn is_this_machine(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    address.map_or_else(|_| host.eq_ignore_ascii_case("localhost"), |address| address.to_canonical().is_loopback())
}

async fn reach(host: &str, port: u16, may: impl Fn(&std::net::SocketAddr) -> bool) -> Result<TcpStream, PostError> {
    let addresses: Vec<_> = lookup_host((host, port)).await.map_err(PostError::NotReached)?.filter(may).collect();
    if addresses.is_empty() {
        let none = io::Error::new(io::ErrorKind::AddrNotAvailable, "no address that may be used");
        return Err(PostError::NotReached(none));
    }
    TcpStream::connect(addresses.as_slice()).await.map_err(PostError::NotReached)
}

/// The authorities are read anew each time, so that a renewed store needs no restart.
async fn prove(
    stream: TcpStream,
    host: &str,
) -> Result<impl AsyncRead + AsyncWrite + Unpin + Send + 'static, PostError> {
    let untrusted = |reason: String| PostError::NotSent(reason);
    let loaded = tokio::task::spawn_blocking(rustls_native_certs::load_native_certs).await;
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(loaded.map_or_else(|_| Vec::new(), |loaded| loaded.certs));
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| untrusted(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(host.to_owned()).map_err(|error| untrusted(error.to_string()))?;
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(|error| untrusted(error.to_string()))
}

async fn send(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Result<StatusCode, PostError> {
    let not_sent = |error: hyper::Error| PostError::NotSent(error.to_string());
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(not_sent)?;
    // Driven here, and dropped with the head of the answer: its body is of no interest. When the connection ends first,
    // the request knows what became of it.
    let drive = async {
        connection.await.ok();
        pending::<Infallible>().await
    };
    tokio::select! {
        response = sender.send_request(request) => response.map(|response| response.status()).map_err(not_sent),
        never = drive => match never {},
    }
}

/// Why a post did not arrive.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PostError {
    #[error("the webhook cannot be reached: {0}")]
    NotReached(io::Error),
    #[error("the webhook was not sent: {0}")]
    NotSent(String),
    #[error("the webhook has not answered within {0:?}")]
    TooSlow(Duration),
    #[error("the webhook answered {0}")]
    Refused(StatusCode),
}

impl PostError {
    /// Whether the same post may succeed later.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Refused(status) => {
                status.is_server_error()
                    || [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS].contains(status)
            }
            Self::NotReached(_) | Self::NotSent(_) | Self::TooSlow(_) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_posted_in_clear_text_beyond_this_machine() {
        for url in ["https://example.org/hook", "http://127.0.0.1:8080", "http://localhost/x?y=z", "http://[::1]:9/"] {
            assert!(Webhook::new(url, None, "").is_ok(), "{url}");
        }
        for (url, error) in [
            ("http://example.org/", WebhookError::ClearText),
            ("http://127.evil.com/", WebhookError::ClearText),
            ("http://localhost.evil.com/", WebhookError::ClearText),
            ("http://10.0.0.1/", WebhookError::ClearText),
            ("ftp://127.0.0.1/", WebhookError::NotAUrl),
            ("/hook", WebhookError::NotAUrl),
            ("https://user:pass@example.org/", WebhookError::Credentials),
            ("http://127.0.0.1@example.org/", WebhookError::Credentials),
        ] {
            assert_eq!(Webhook::new(url, None, "").err(), Some(error), "{url}");
        }
        assert_eq!(Webhook::new("https://x/", Some("a\nb"), "").err(), Some(WebhookError::Authorization));
    }
}
