//! Who calls: clients of `rmcp` as it makes them, each of whose calls waits for the one before.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use rmcp::model::{CallToolRequestParams, CallToolResponse, ProtocolVersion};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt as _, Peer, RoleClient, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;

/// A client that is connected.
pub(super) type Client = RunningService<RoleClient, ()>;

/// How a server is spoken to.
#[derive(Clone, Copy)]
pub(super) enum Era {
    /// With a session.
    Legacy,
    /// Every request stands for itself.
    Modern,
}

impl Era {
    fn lifecycle(self) -> ClientLifecycleMode {
        match self {
            Self::Legacy => ClientLifecycleMode::Initialize,
            Self::Modern => ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] },
        }
    }
}

/// Over Streamable HTTP.
pub(super) async fn over_http(url: &str, key: &str, era: Era) -> Result<Client> {
    let config = StreamableHttpClientTransportConfig::with_uri(url).auth_header(key);
    let transport = StreamableHttpClientTransport::from_config(config);
    Ok(().serve_with_lifecycle(transport, era.lifecycle()).await?)
}

/// Over the pipes of a process, in the era in which Switchboard speaks to the template too.
pub(super) async fn over_pipes(
    stdout: impl AsyncRead + Send + Unpin + 'static,
    stdin: impl AsyncWrite + Send + Unpin + 'static,
) -> Result<Client> {
    Ok(().serve_with_lifecycle((stdout, stdin), Era::Modern.lifecycle()).await?)
}

/// Lets all of them call for so long, and counts.
pub(super) async fn call_for(time: Duration, callers: &[Peer<RoleClient>], tool: &'static str) -> Result<u32> {
    let deadline = Instant::now() + time;
    let calling = callers.iter().cloned().map(|caller| async move {
        let mut calls = 0;
        while Instant::now() < deadline {
            call(&caller, tool).await?;
            calls += 1;
        }
        anyhow::Ok(calls)
    });
    calling.collect::<JoinSet<_>>().join_all().await.into_iter().sum()
}

async fn call(caller: &Peer<RoleClient>, tool: &'static str) -> Result<()> {
    let arguments = [("text".to_owned(), json!("one three two"))].into_iter().collect();
    let params = CallToolRequestParams::new(tool).with_arguments(arguments);
    let CallToolResponse::Complete(result) = caller.call_tool_once(params).await? else {
        bail!("{tool} wants to know something");
    };
    ensure!(result.structured_content == Some(json!({"word": "three"})), "{tool} answers {result:?}");
    Ok(())
}
