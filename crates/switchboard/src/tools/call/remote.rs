//! A call through the running server: over its MCP endpoint, as any other client of it calls.

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Map, Value, json};
use supervise::{escaped, escaped_lines};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf, duplex, split};

use crate::config::nearest;
use crate::server::Server;

/// What may be on its way between us and the proxy.
const PIPE_BYTES: usize = 64 << 10;
/// Pages of the list of tools that are read, a thousand tools each.
const PAGES_MAX: usize = 32;
/// The version that needs no handshake.
const VERSION: &str = "2026-07-28";

pub(super) async fn call(server: &Server, name: &str, arguments: Map<String, Value>) -> Result<Value> {
    let (near, far) = duplex(PIPE_BYTES);
    let remote = server.mcp();
    let (reader, writer) = split(far);
    let passing = tools::proxy(|| Ok(remote.clone()), reader, writer);
    let (reader, writer) = split(near);
    let mut talk = Talk { lines: BufReader::new(reader).lines(), writer, asked: 0 };
    let talking = async {
        // The list comes first: who mistypes is told what there is, and arguments that travel in headers are known by it.
        let names = talk.names().await?;
        if !names.iter().any(|other| other == name)
            && let Some(near) = nearest(name, names.iter().map(String::as_str))
        {
            bail!("there is no tool {:?}: did you mean {near:?}?", escaped(name));
        }
        // If there is none, the server says why.
        talk.ask("tools/call", json!({ "name": name, "arguments": arguments })).await
    };
    tokio::select! {
        result = talking => result,
        ended = passing => {
            ended?;
            bail!("the connection to the server has ended")
        }
    }
}

struct Talk {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
    asked: u64,
}

impl Talk {
    async fn names(&mut self) -> Result<Vec<String>> {
        let (mut names, mut cursor) = (Vec::new(), Value::Null);
        for _ in 0..PAGES_MAX {
            let params = if cursor.is_null() { json!({}) } else { json!({ "cursor": cursor }) };
            let page = self.ask("tools/list", params).await?;
            let tools = page["tools"].as_array().into_iter().flatten();
            names.extend(tools.filter_map(|tool| Some(tool["name"].as_str()?.to_owned())));
            cursor = page["nextCursor"].clone();
            if cursor.is_null() {
                break;
            }
        }
        Ok(names)
    }

    async fn ask(&mut self, method: &str, mut params: Value) -> Result<Value> {
        self.asked += 1;
        let id = self.asked;
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": VERSION,
            "io.modelcontextprotocol/clientInfo": {
                "name": env!("CARGO_PKG_NAME"),
                "version": env!("CARGO_PKG_VERSION"),
            },
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let line = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.writer.write_all(format!("{line}\n").as_bytes()).await?;
        loop {
            let line = self.lines.next_line().await?.context("the connection to the server has ended")?;
            let mut message: Value = serde_json::from_str(&line)?;
            if message["id"] != id || message.get("method").is_some() {
                continue;
            }
            return match message["error"]["message"].as_str() {
                Some(error) => Err(anyhow!("{}", escaped_lines(error))),
                None => Ok(message["result"].take()),
            };
        }
    }
}
