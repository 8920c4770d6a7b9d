//! TLS to a server elsewhere, proven by the authorities that this system trusts. `SSL_CERT_FILE` names others.

use std::io;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Encrypts a connection to the server that has this name or address.
pub(super) async fn connect(stream: TcpStream, host: &str) -> io::Result<TlsStream<TcpStream>> {
    let loaded = tokio::task::spawn_blocking(rustls_native_certs::load_native_certs).await;
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(loaded.map_or_else(|_| Vec::new(), |loaded| loaded.certs));
    if roots.is_empty() {
        return Err(io::Error::other("this system trusts no certificate authority: name one with SSL_CERT_FILE"));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}
