//! The handshake of a session: one message to a service and one back, after which that service ends.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use rmcp::model::{ClientJsonRpcMessage, Implementation, InitializeRequestParams, ServerJsonRpcMessage};
use rmcp::service::RoleServer;
use rmcp::transport::Transport;
use rmcp::{ErrorData, model::ClientConfig};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::post::lock;

/// How much is kept of what a caller says of itself: its capabilities, its name and its version.
const PARAMS_BYTES_MAX: usize = 4 << 10;

/// What a handshake has left, for a session to be made of.
pub(crate) struct Opened {
    pub(super) params: Box<str>,
    /// Its place among the callers that there may be.
    pub(super) place: OwnedSemaphorePermit,
}

/// Where the handshake of a request leaves what it has agreed on. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct OpeningSlot(Arc<Mutex<Option<Opened>>>);

impl OpeningSlot {
    /// Leaves what a session needs of its handshake.
    pub(crate) fn fill(&self, params: &InitializeRequestParams, place: OwnedSemaphorePermit) -> Result<(), ErrorData> {
        let client = Implementation::new(params.client_info.name.clone(), params.client_info.version.clone());
        let kept = ClientConfig::new(params.capabilities.clone(), client)
            .with_protocol_version(params.protocol_version.clone());
        let params =
            serde_json::to_string(&kept).map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
        if params.len() > PARAMS_BYTES_MAX {
            let why = format!("`capabilities` and `clientInfo` have more than {PARAMS_BYTES_MAX} bytes");
            return Err(ErrorData::invalid_params(why, None));
        }
        *lock(&self.0) = Some(Opened { params: params.into(), place });
        Ok(())
    }

    pub(crate) fn take(&self) -> Option<Opened> {
        lock(&self.0).take()
    }
}

/// The caller's side of a handshake.
pub(super) struct Opening {
    message: oneshot::Sender<ClientJsonRpcMessage>,
    reply: oneshot::Receiver<ServerJsonRpcMessage>,
}

/// The service's side of it.
pub(crate) struct OpeningTransport {
    message: Option<oneshot::Receiver<ClientJsonRpcMessage>>,
    reply: Option<oneshot::Sender<ServerJsonRpcMessage>>,
}

pub(super) fn pair() -> (Opening, OpeningTransport) {
    let (message, received) = oneshot::channel();
    let (replied, reply) = oneshot::channel();
    (Opening { message, reply }, OpeningTransport { message: Some(received), reply: Some(replied) })
}

impl Opening {
    /// Sends the first message and waits for its reply.
    pub(super) async fn exchange(
        self,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, oneshot::error::RecvError> {
        // If nobody takes it, nobody replies.
        _ = self.message.send(message);
        self.reply.await
    }
}

impl Transport<RoleServer> for OpeningTransport {
    type Error = Infallible;

    fn send(&mut self, item: ServerJsonRpcMessage) -> impl Future<Output = Result<(), Infallible>> + Send + 'static {
        if let Some(reply) = self.reply.take() {
            // Whoever waited for it may have left.
            _ = reply.send(item);
        }
        std::future::ready(Ok(()))
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        let message = self.message.as_mut()?.await.ok();
        self.message = None;
        message
    }

    async fn close(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}
