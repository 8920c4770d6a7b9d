//! `wss://` with a certificate made for the test.

use std::sync::Arc;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;

use super::{Talk, demo, run};
use crate::endpoint::Endpoint;

/// Offers a demo worker over TLS on `localhost`; `talk` gets its address and the certificate in PEM form.
fn with_tls<T>(talk: impl AsyncFnOnce(String, String) -> T) -> T {
    run(async {
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        let key = PrivatePkcs8KeyDer::from(signing_key.serialize_der());
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key.into())
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        let worker = async {
            let stream = listener.accept().await.unwrap().0;
            if let Ok(stream) = TlsAcceptor::from(Arc::new(config)).accept(stream).await {
                demo::serve(stream).await;
            }
        };
        tokio::join!(worker, talk(port, cert.pem())).1
    })
}

#[test]
fn a_turn_over_tls() {
    with_tls(async |port, authority| {
        let endpoint: Endpoint = format!("wss://localhost:{port}").parse().unwrap();
        let endpoint = endpoint.with_authorities(authority.as_bytes()).unwrap().with_token("t").unwrap();
        let mut talk = Talk::connect(&endpoint).await.unwrap();
        talk.initialize().await;
        let directory = TempDir::new().unwrap();
        talk.turn(directory.path(), "[[text]]").await;
        assert_eq!(talk.text().await.0, "Hello from mock.");
        talk.stop().await;
    });
}

#[test]
fn a_stranger_is_not_trusted() {
    let error = with_tls(async |port, _| {
        let endpoint: Endpoint = format!("wss://localhost:{port}").parse().unwrap();
        Talk::connect(&endpoint).await.err().unwrap().to_string()
    });
    assert!(error.contains("cannot be trusted"), "{error}");
    let error = with_tls(async |port, authority| {
        let endpoint: Endpoint = format!("wss://127.0.0.1:{port}").parse().unwrap();
        let endpoint = endpoint.with_authorities(authority.as_bytes()).unwrap();
        Talk::connect(&endpoint).await.err().unwrap().to_string()
    });
    assert!(error.contains("certificate not valid for name"), "{error}");
}

#[test]
fn certificates_that_are_none_are_refused() {
    let endpoint: Endpoint = "wss://localhost".parse().unwrap();
    let refused = endpoint.with_authorities(b"no certificate").unwrap_err().to_string();
    assert_eq!(refused, "expected certificates in PEM form: there is none");
}
