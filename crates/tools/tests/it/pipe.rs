//! A caller over a pipe that writes its own lines, and sees those that it is sent as they are.

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};
use tokio::task::JoinSet;
use tools::Caller;

use crate::house::{House, Lifecycle, PATIENCE};

pub(crate) struct Pipe {
    lifecycle: Lifecycle,
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
    _serving: JoinSet<()>,
}

impl Pipe {
    /// A caller that can be asked what a person knows, and has begun as its era does.
    pub(crate) async fn open(house: &House, lifecycle: Lifecycle) -> Self {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (host, mut serving) = (house.host.clone(), JoinSet::new());
        let (reader, writer) = tokio::io::split(theirs);
        serving.spawn(async move {
            tools::serve_pipe(&host, Caller::new("key", "pipe"), reader, writer).await.ok();
        });
        let (reader, writer) = tokio::io::split(ours);
        let mut pipe = Self { lifecycle, lines: BufReader::new(reader).lines(), writer, _serving: serving };
        if matches!(lifecycle, Lifecycle::Legacy) {
            let client = json!({ "name": "test", "version": "1" });
            let capabilities = json!({ "elicitation": {} });
            let params = json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": client });
            pipe.ask("begin", "initialize", params).await;
            assert_eq!(pipe.next().await["id"], "begin");
            pipe.write(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        }
        pipe
    }

    /// Sends a request, as its era makes one.
    pub(crate) async fn ask(&mut self, id: &str, method: &str, mut params: Value) {
        if matches!(self.lifecycle, Lifecycle::Modern) {
            let meta = &mut params["_meta"];
            meta["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
            meta["io.modelcontextprotocol/clientCapabilities"] = json!({ "elicitation": {} });
            meta["io.modelcontextprotocol/clientInfo"] = json!({ "name": "test", "version": "1" });
        }
        self.write(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
    }

    pub(crate) async fn write(&mut self, message: &Value) {
        self.writer.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    /// Waits for the next line that it is sent.
    pub(crate) async fn next(&mut self) -> Value {
        let line = tokio::time::timeout(PATIENCE, self.lines.next_line()).await.expect("a line comes");
        serde_json::from_str(&line.unwrap().expect("it is served")).unwrap()
    }
}
