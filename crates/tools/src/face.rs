//! The caller of a request as a tool server's request sees it: of which era it is, what it can be asked, and how it is told
//! what happens meanwhile.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    ClientResult, LoggingLevel, LoggingMessageNotification, LoggingMessageNotificationParam, ProgressNotification,
    ProgressNotificationParam, ProgressToken, RequestMetaObject, ServerNotification, ServerRequest,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestContext, RoleServer};
use rmcp::{ErrorData, model::ProtocolVersion};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use crate::handshake::{Era, meta};

const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// What of a caller's `_meta` is for this hop alone.
const OF_THIS_HOP: [&str; 4] =
    ["progressToken", "io.modelcontextprotocol/protocolVersion", "io.modelcontextprotocol/clientInfo", CAPABILITIES];

/// How long a caller may take to be told something that it can do without.
const TELL_TIMEOUT: Duration = Duration::from_secs(1);

/// The caller of one request.
pub(crate) struct Face {
    /// Tells this caller from all others, as far as one can be told from another: by its connection, or else by its request.
    pub(crate) caller: Arc<str>,
    /// Who may come back with answers: the same connection, or where there is none the same key.
    pub(crate) owner: Arc<str>,
    pub(crate) era: Era,
    /// The least that it wants to be told of what servers log.
    pub(crate) log_level: Option<LoggingLevel>,
    /// `None` for one that cannot be told or asked anything.
    peer: Option<Peer<RoleServer>>,
    capabilities: Value,
    progress_token: Option<ProgressToken>,
    meta: Map<String, Value>,
}

impl Face {
    /// The caller of an MCP request.
    pub(crate) fn of(caller: Arc<str>, context: &RequestContext<RoleServer>, log_level: Option<LoggingLevel>) -> Self {
        let version = context.protocol_version();
        let is_modern = version.is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str());
        let capabilities = context.client_capabilities().unwrap_or_default();
        let RequestMetaObject(meta) = &context.meta;
        let mut meta = serde_json::to_value(meta).ok().and_then(|meta| meta.as_object().cloned()).unwrap_or_default();
        meta.retain(|name, _| !OF_THIS_HOP.contains(&name.as_str()));
        Self {
            owner: Arc::clone(&caller),
            caller,
            era: if is_modern { Era::Modern } else { Era::Legacy },
            log_level: context.meta.log_level().or(log_level),
            peer: Some(context.peer.clone()),
            capabilities: serde_json::to_value(capabilities).unwrap_or_default(),
            progress_token: context.meta.get_progress_token(),
            meta,
        }
    }

    /// One that only wants the result.
    pub(crate) fn mute(caller: Arc<str>) -> Self {
        Self {
            owner: Arc::clone(&caller),
            caller,
            era: Era::Legacy,
            log_level: None,
            peer: None,
            capabilities: json!({}),
            progress_token: None,
            meta: Map::new(),
        }
    }

    /// What a request of this caller carries to a server.
    pub(crate) fn meta_for(&self, era: Era) -> Value {
        let mut carried = Value::Object(self.meta.clone());
        if era == Era::Modern {
            if let (Some(carried), Value::Object(ours)) = (carried.as_object_mut(), meta()) {
                carried.extend(ours);
            }
            carried[CAPABILITIES] = self.capabilities.clone();
            if let Some(level) = self.log_level {
                carried[LOG_LEVEL] = json!(level);
            }
        }
        carried
    }

    /// Whether it can be asked this.
    pub(crate) fn can(&self, method: &str, params: &Value) -> bool {
        let capability = match method {
            "elicitation/create" => "elicitation",
            "sampling/createMessage" => "sampling",
            "roots/list" => "roots",
            _ => return false,
        };
        let Some(declared) = self.capabilities.get(capability) else { return false };
        // One that names no form at all means the only one that there was at first.
        let is_url = params["mode"] == "url";
        self.peer.is_some() && (!is_url || declared.get("url").is_some())
    }

    /// Asks a caller that has a connection to be asked on.
    pub(crate) async fn ask(&self, method: &str, params: &Value, timeout: Duration) -> Result<Value, ErrorData> {
        let cannot = |why: &str| ErrorData::internal_error(format!("the caller cannot be asked: {why}"), None);
        let peer = self.peer.as_ref().ok_or_else(|| cannot("it has no connection"))?;
        let request = ServerRequest::deserialize(json!({ "method": method, "params": params }))
            .map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
        let options = PeerRequestOptions::with_timeout(timeout);
        let sent = peer.send_request_with_option(request, options).await.map_err(|error| cannot(&error.to_string()))?;
        match sent.await_response().await {
            Ok(ClientResult::CustomResult(result)) => Ok(result.0),
            Ok(result) => serde_json::to_value(result).map_err(|error| cannot(&error.to_string())),
            Err(rmcp::ServiceError::McpError(error)) => Err(error),
            Err(error) => Err(cannot(&error.to_string())),
        }
    }

    /// Tells it how far its call has come, if it wants to know.
    pub(crate) async fn progress(&self, mut params: Value) {
        let (Some(token), Some(peer)) = (&self.progress_token, &self.peer) else { return };
        params["progressToken"] = json!(token);
        let Ok(params) = ProgressNotificationParam::deserialize(params) else { return };
        let notification = ServerNotification::ProgressNotification(ProgressNotification::new(params));
        tell(peer, notification).await;
    }

    /// Tells it what a server logs, if it wants to know.
    pub(crate) async fn log(&self, params: Value) {
        let Some(peer) = &self.peer else { return };
        let Ok(params) = LoggingMessageNotificationParam::deserialize(params) else { return };
        let is_wanted = match (self.era, self.log_level) {
            (_, Some(least)) => rank(params.level) >= rank(least),
            (Era::Legacy, None) => true,
            (Era::Modern, None) => false,
        };
        if is_wanted {
            let notification = ServerNotification::LoggingMessageNotification(LoggingMessageNotification::new(params));
            tell(peer, notification).await;
        }
    }
}

/// A caller that is gone or does not read needs no more of it, and must not keep its place at the server for it.
async fn tell(peer: &Peer<RoleServer>, notification: ServerNotification) {
    timeout(TELL_TIMEOUT, peer.send_notification(notification)).await.ok();
}

/// The order of the levels, from the least to the worst.
pub(crate) fn rank(level: LoggingLevel) -> u8 {
    match level {
        LoggingLevel::Debug => 0,
        LoggingLevel::Info => 1,
        LoggingLevel::Notice => 2,
        LoggingLevel::Warning => 3,
        LoggingLevel::Error => 4,
        LoggingLevel::Critical => 5,
        LoggingLevel::Alert => 6,
        LoggingLevel::Emergency => 7,
    }
}
