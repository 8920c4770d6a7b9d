//! One connection of the load, kept open between requests.

use anyhow::{Context as _, Result, bail};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::target::Target;

/// How much of a refusal is shown.
const REFUSAL_CHARS_MAX: usize = 400;

/// A connection.
pub(super) struct Link {
    target: Target,
    sender: SendRequest<Full<Bytes>>,
    /// Ends with this.
    _driver: JoinSet<()>,
}

/// An answer, as it comes.
pub(super) struct Answer(Incoming);

impl Link {
    pub(super) async fn open(target: &Target) -> Result<Self> {
        let address = target.address();
        let stream = TcpStream::connect(&address).await.with_context(|| format!("cannot reach {address}"))?;
        stream.set_nodelay(true)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let mut driver = JoinSet::new();
        // What goes wrong with the connection is told by the request on it.
        driver.spawn(async { _ = connection.await });
        Ok(Self { target: target.clone(), sender, _driver: driver })
    }

    /// Asks, and returns what is answered with success.
    pub(super) async fn post(&mut self, body: &[u8]) -> Result<Answer> {
        self.sender.ready().await?;
        let response = self.sender.send_request(self.target.request(body)?).await?;
        let status = response.status();
        let mut answer = Answer(response.into_body());
        if status.is_success() {
            return Ok(answer);
        }
        let mut refusal = Vec::new();
        while let Some(piece) = answer.next().await? {
            refusal.extend_from_slice(&piece);
        }
        let refusal: String = String::from_utf8_lossy(&refusal).chars().take(REFUSAL_CHARS_MAX).collect();
        bail!("the server refuses with {status}: {refusal}");
    }
}

impl Answer {
    /// The next piece; none at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>> {
        while let Some(frame) = self.0.frame().await {
            if let Ok(piece) = frame?.into_data() {
                return Ok(Some(piece));
            }
        }
        Ok(None)
    }
}
