//! What a connection is made with.

use std::time::Duration;

use serde_json::{Value, json};
use wire::JsonRpcField;

use crate::callbacks::Callbacks;
use crate::exchange::Limits;
use crate::handshake::Initialize;
use crate::transport::SocketLimits;

/// What a connection is made with.
#[derive(Clone, Debug)]
pub struct Options {
    /// Our name; the worker wants a valid HTTP header value.
    pub client_name: String,
    /// Our version.
    pub client_version: String,
    /// Whether experimental methods and fields may be used.
    pub experimental_api: bool,
    /// Notifications that the worker need not send, by their exact names.
    pub opt_out_notifications: Vec<String>,
    /// Who decides what the worker asks.
    pub callbacks: Callbacks,
    /// How long any call may take, if it is not told otherwise.
    pub call_timeout: Duration,
    /// How long the worker may take to answer `initialize`; a first start in a fresh home was measured at 0.6 s.
    pub handshake_timeout: Duration,
    /// What the connection may hold.
    pub limits: Limits,
    /// What a socket may do.
    pub socket_limits: SocketLimits,
    /// How much is kept of what passes on the wire, for [`Client::frames`](crate::Client::frames); nothing, if 0.
    pub frames_bytes_max: usize,
    /// Whether lines carry `"jsonrpc":"2.0"`; codex neither wants nor minds it.
    pub json_rpc_field: JsonRpcField,
}

impl Options {
    /// The usual, under that name.
    #[must_use]
    pub fn new(client_name: &str, client_version: &str) -> Self {
        Self {
            client_name: client_name.into(),
            client_version: client_version.into(),
            experimental_api: false,
            opt_out_notifications: Vec::new(),
            callbacks: Callbacks::new(),
            call_timeout: Duration::from_secs(30),
            handshake_timeout: Duration::from_secs(20),
            limits: Limits::default(),
            socket_limits: SocketLimits::default(),
            frames_bytes_max: 0,
            json_rpc_field: JsonRpcField::Omitted,
        }
    }

    pub(super) fn initialize(&self) -> Initialize {
        Initialize {
            client_name: self.client_name.as_str().into(),
            client_version: self.client_version.as_str().into(),
            capabilities: self.capabilities(),
        }
    }

    /// Nothing unasked: `{}` when nothing is wanted.
    fn capabilities(&self) -> Value {
        let mut capabilities = json!({});
        if self.experimental_api {
            capabilities["experimentalApi"] = json!(true);
        }
        if !self.opt_out_notifications.is_empty() {
            capabilities["optOutNotificationMethods"] = json!(self.opt_out_notifications);
        }
        capabilities
    }
}
