//! Gives every request the key that the suite cannot send, and passes everything else on as it comes, streams included.

use std::net::{SocketAddr, TcpListener};

use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, HeaderValue};
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper::{Request, Response, client::conn::http1 as client};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Ends when it is dropped.
pub(super) struct Proxy {
    _runtime: Runtime,
}

impl Proxy {
    pub(super) fn start(listener: TcpListener, url: &str, key: &str) -> Self {
        let runtime = Runtime::new().unwrap();
        let to: SocketAddr = url.strip_prefix("http://").unwrap().parse().unwrap();
        let key = HeaderValue::from_str(&format!("Bearer {key}")).unwrap();
        listener.set_nonblocking(true).unwrap();
        runtime.spawn(accept(listener, to, key));
        Self { _runtime: runtime }
    }
}

async fn accept(listener: TcpListener, to: SocketAddr, key: HeaderValue) -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await?;
        let key = key.clone();
        connections.spawn(async move {
            let pass_on = service_fn(|request| pass_on(request, to, key.clone()));
            server::Builder::new().serve_connection(TokioIo::new(stream), pass_on).await
        });
    }
}

/// Each request has a connection of its own, which ends with whoever waits for the answer.
async fn pass_on(
    mut request: Request<Incoming>,
    to: SocketAddr,
    key: HeaderValue,
) -> Result<Response<Incoming>, Error> {
    request.headers_mut().insert(AUTHORIZATION, key);
    let stream = TcpStream::connect(to).await?;
    let (mut sender, connection) = client::handshake(TokioIo::new(stream)).await?;
    #[expect(clippy::disallowed_methods, reason = "it ends with the connection, and the runtime with the test")]
    tokio::spawn(connection);
    Ok(sender.send_request(request).await?)
}
