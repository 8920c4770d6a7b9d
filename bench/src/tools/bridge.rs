//! The least that can stand between HTTP and a tool server's pipes: the server of `rmcp` in front, its client behind, and each
//! call handed from one to the other. It checks no key and no schema, and keeps nothing.

use std::process::Stdio;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use axum::Router;
use axum::serve::ListenerExt as _;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
use rmcp::service::{Peer, RequestContext, RoleClient, RoleServer, ServiceError};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, ServerHandler};
use serde_json::json;
use tokio::net::TcpListener;

use super::ways::Direct;
use crate::program::{Running, program};

/// The bridge as a process.
pub(super) struct Bridge {
    pub(super) url: String,
    pub(super) running: Running,
    pub(super) tool_server: u32,
}

pub(super) fn start() -> Result<Bridge> {
    let mut command = program(&std::env::current_exe()?);
    command.arg("bare-bridge").stderr(Stdio::inherit());
    let (running, welcome) = Running::start(command)?;
    Ok(Bridge { url: welcome.url, running, tool_server: welcome.tool_server.context("no tool server")? })
}

/// What that process does.
pub(crate) fn run() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let direct = Direct::start().await?;
        let bare = Bare(direct.peer().clone());
        let sessions = Arc::new(LocalSessionManager::default());
        let service =
            StreamableHttpService::new(move || Ok(bare.clone()), sessions, StreamableHttpServerConfig::default());
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", json!({"url": format!("http://{}", listener.local_addr()?), "tool_server": direct.pid()?}));
        let listener = listener.tap_io(|stream| _ = stream.set_nodelay(true));
        Ok(axum::serve(listener, Router::new().route_service("/mcp", service)).await?)
    })
}

#[derive(Clone)]
struct Bare(Peer<RoleClient>);

impl ServerHandler for Bare {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.0.list_tools(request).await.map_err(|error| refused(&error))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.0.call_tool_once(request).await.map_err(|error| refused(&error))
    }
}

fn refused(error: &ServiceError) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}
