//! Where a worker listens. What would leave this machine in clear text is refused before anything is sent, and a token
//! shows in no text that this type makes.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_tungstenite::tungstenite::http::{HeaderValue, Uri};

/// The address of a worker that listens, and what it takes to be let in: `unix:///PATH`, `ws://HOST:PORT[/PATH]` for this
/// machine, `wss://HOST[:PORT][/PATH]` for any.
#[derive(Clone)]
pub struct Endpoint {
    pub(crate) address: Address,
    pub(crate) authorization: Option<HeaderValue>,
    /// Whom to trust instead of the system's certificate authorities.
    pub(crate) authorities: Option<Vec<CertificateDer<'static>>>,
    /// The user whose process must listen at a Unix socket.
    pub(crate) user: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Unix(PathBuf),
    Tcp { security: Security, host: String, port: u16, path: String },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Security {
    /// Within this machine alone.
    ClearText,
    Tls,
}

/// Why an address cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// It is none of the three kinds.
    #[error("{0:?} is no address of a worker: use unix:///PATH, ws://HOST:PORT or wss://HOST:PORT")]
    Malformed(String),
    /// It carries a user, a query or a fragment, where secrets would be seen.
    #[error("an address of a worker has a host, a port and a path: give a token beside it, not in it")]
    Overloaded,
    /// It would send everything readable over a network.
    #[error("ws:// to {0} would send everything in clear text: use wss://, or a tunnel to a loopback address")]
    ClearText(String),
    /// The token cannot be sent.
    #[error("the token is empty or has characters that no HTTP header can carry")]
    BadToken,
    /// The certificates cannot be read.
    #[error("expected certificates in PEM form: {0}")]
    BadCertificates(String),
}

impl Endpoint {
    /// A worker that listens on a unix socket.
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Self { address: Address::Unix(path.into()), authorization: None, authorities: None, user: None }
    }

    /// Refuses a Unix socket at which a process of another user listens.
    #[must_use]
    pub fn of_user(self, uid: u32) -> Self {
        Self { user: Some(uid), ..self }
    }

    /// Shows this bearer token.
    ///
    /// # Errors
    /// [`EndpointError::BadToken`].
    pub fn with_token(self, token: &str) -> Result<Self, EndpointError> {
        if token.is_empty() {
            return Err(EndpointError::BadToken);
        }
        let mut header = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| EndpointError::BadToken)?;
        header.set_sensitive(true);
        Ok(Self { authorization: Some(header), ..self })
    }

    pub(crate) fn token(&self) -> Option<&str> {
        self.authorization.as_ref()?.to_str().ok()?.strip_prefix("Bearer ")
    }

    /// Trusts these certificate authorities, in PEM form, instead of the system's.
    ///
    /// # Errors
    /// [`EndpointError::BadCertificates`].
    pub fn with_authorities(self, pem: &[u8]) -> Result<Self, EndpointError> {
        let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        match read {
            Ok(authorities) if !authorities.is_empty() => Ok(Self { authorities: Some(authorities), ..self }),
            Ok(_) => Err(EndpointError::BadCertificates("there is none".into())),
            Err(error) => Err(EndpointError::BadCertificates(error.to_string())),
        }
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        match text.strip_prefix("unix://") {
            Some("") => Err(EndpointError::Malformed(text.into())),
            Some(path) => Ok(Self::unix(path)),
            None => Ok(Self { address: tcp(text)?, authorization: None, authorities: None, user: None }),
        }
    }
}

fn tcp(text: &str) -> Result<Address, EndpointError> {
    if text.contains(['@', '?', '#']) {
        return Err(EndpointError::Overloaded);
    }
    let malformed = || EndpointError::Malformed(text.into());
    let uri: Uri = text.parse().map_err(|_| malformed())?;
    let (security, default_port) = match uri.scheme_str() {
        Some("ws") => (Security::ClearText, 80),
        Some("wss") => (Security::Tls, 443),
        _ => return Err(malformed()),
    };
    let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(malformed)?;
    let has_bare_host = uri.authority().is_some_and(|authority| authority.as_str() == host);
    let port = uri.port_u16().or(has_bare_host.then_some(default_port)).ok_or_else(malformed)?;
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    if security == Security::ClearText && !is_loopback(&host) {
        return Err(EndpointError::ClearText(host));
    }
    Ok(Address::Tcp { security, host, port, path: uri.path().into() })
}

fn is_loopback(host: &str) -> bool {
    match host.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({}", self.address)?;
        f.write_str(if self.authorization.is_some() { ", with a token)" } else { ")" })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Tcp { security, host, port, path } => {
                let scheme = match security {
                    Security::ClearText => "ws",
                    Security::Tls => "wss",
                };
                let path = path.strip_suffix('/').unwrap_or(path);
                if host.contains(':') {
                    write!(f, "{scheme}://[{host}]:{port}{path}")
                } else {
                    write!(f, "{scheme}://{host}:{port}{path}")
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use expect_test::expect;

    use super::Endpoint;

    #[test]
    fn an_address_is_read_or_refused_with_what_to_do() {
        let mut seen = String::new();
        for text in [
            "unix:///run/codex.sock",
            "unix://relative.sock",
            "unix://",
            "ws://127.0.0.1:4500",
            "ws://127.9.9.9:4500/app-server",
            "ws://[::1]:4500",
            "ws://LOCALHOST:4500/",
            "ws://localhost",
            "ws://localhost.example.com:4500",
            "ws://192.168.1.7:4500",
            "ws://[::ffff:10.0.0.1]:4500",
            "ws://worker:4500",
            "wss://worker.example.com",
            "wss://worker.example.com:8443/app-server",
            "wss://me:secret@worker.example.com",
            "wss://worker.example.com/?token=secret",
            "wss://",
            "ws://127.0.0.1:99999",
            "http://127.0.0.1:4500",
            "127.0.0.1:4500",
            "",
        ] {
            let read = text.parse::<Endpoint>();
            let shown = read.map_or_else(|error| format!("refused: {error}"), |endpoint| endpoint.to_string());
            writeln!(seen, "{text} → {shown}").unwrap();
        }
        expect![[r#"
            unix:///run/codex.sock → unix:///run/codex.sock
            unix://relative.sock → unix://relative.sock
            unix:// → refused: "unix://" is no address of a worker: use unix:///PATH, ws://HOST:PORT or wss://HOST:PORT
            ws://127.0.0.1:4500 → ws://127.0.0.1:4500
            ws://127.9.9.9:4500/app-server → ws://127.9.9.9:4500/app-server
            ws://[::1]:4500 → ws://[::1]:4500
            ws://LOCALHOST:4500/ → ws://LOCALHOST:4500
            ws://localhost → ws://localhost:80
            ws://localhost.example.com:4500 → refused: ws:// to localhost.example.com would send everything in clear text: use wss://, or a tunnel to a loopback address
            ws://192.168.1.7:4500 → refused: ws:// to 192.168.1.7 would send everything in clear text: use wss://, or a tunnel to a loopback address
            ws://[::ffff:10.0.0.1]:4500 → refused: ws:// to ::ffff:10.0.0.1 would send everything in clear text: use wss://, or a tunnel to a loopback address
            ws://worker:4500 → refused: ws:// to worker would send everything in clear text: use wss://, or a tunnel to a loopback address
            wss://worker.example.com → wss://worker.example.com:443
            wss://worker.example.com:8443/app-server → wss://worker.example.com:8443/app-server
            wss://me:secret@worker.example.com → refused: an address of a worker has a host, a port and a path: give a token beside it, not in it
            wss://worker.example.com/?token=secret → refused: an address of a worker has a host, a port and a path: give a token beside it, not in it
            wss:// → refused: "wss://" is no address of a worker: use unix:///PATH, ws://HOST:PORT or wss://HOST:PORT
            ws://127.0.0.1:99999 → refused: "ws://127.0.0.1:99999" is no address of a worker: use unix:///PATH, ws://HOST:PORT or wss://HOST:PORT
            http://127.0.0.1:4500 → refused: "http://127.0.0.1:4500" is no address of a worker: use unix:///PATH, ws://HOST:PORT or wss://HOST:PORT
            127.0.0.1:4500 → refused: "127.0.0.1:4500" is no address of a worker: use unix:///PATH, ws://HOST:PORT or wss://HOST:PORT
             → refused: "" is no address of a worker: use unix:///PATH, ws://HOST:PORT or wss://HOST:PORT
        "#]].assert_eq(&seen);
    }

    #[test]
    fn a_token_shows_nowhere() {
        let endpoint: Endpoint = "wss://worker.example.com".parse().unwrap();
        let endpoint = endpoint.with_token("s3cret").unwrap();
        let shown = format!("{endpoint} {endpoint:?} {:?}", endpoint.authorization);
        assert_eq!(
            shown,
            "wss://worker.example.com:443 Endpoint(wss://worker.example.com:443, with a token) Some(Sensitive)"
        );
        for token in ["", "line\nbreak"] {
            let refused = endpoint.clone().with_token(token).unwrap_err().to_string();
            assert_eq!(refused, "the token is empty or has characters that no HTTP header can carry");
        }
    }
}
