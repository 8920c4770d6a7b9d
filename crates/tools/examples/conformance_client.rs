//! What the official conformance suite runs as a client: a host with one tool server over HTTP, at the URL that the suite appends,
//! and a caller of the host that does what the scenario wants done.
#![expect(clippy::print_stderr, reason = "the suite keeps what a client says there")]

use std::env;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use rmcp::ClientHandler;
use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, ClientConfig, ElicitRequestParams, ElicitResult, GetPromptRequestParams, Implementation,
    ProtocolVersion, ReadResourceRequestParams,
};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt as _, RequestContext, RoleClient, RunningService};
use serde_json::{Map, Value, json};
use supervise::Owner;
use tools::{Caller, Host, Limits, Plan, Reach, Server};

const PATIENCE: Duration = Duration::from_secs(20);

type Client = RunningService<RoleClient, Answering>;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = env::args().next_back().ok_or("the suite appends the URL")?;
    let scenario = env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    let server = Server { prefix: "".into(), ..Server::new("suite", Reach::Http { url, headers: Vec::new() }) };
    let host = Host::start(Plan {
        servers: vec![server],
        limits: Limits::default(),
        owner: Owner::generate(),
        store: None,
        approvals: None,
        notify: Arc::new(|_| {}),
    });
    host.settled(PATIENCE).await;
    for server in host.servers() {
        eprintln!("{} is {}: {:?}; its tools: {:?}", server.name, server.state.name(), server.reason, server.tools);
    }
    let (near, far) = tokio::io::duplex(1 << 16);
    let (reader, writer) = tokio::io::split(far);
    let (serving, caller) = (host.clone(), Caller::new("suite", "suite"));
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move { tools::serve_pipe(&serving, caller, reader, writer).await });
    let lifecycle = match env::var("MCP_CONFORMANCE_PROTOCOL_VERSION").as_deref() {
        Ok("2026-07-28") => ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] },
        _ => ClientLifecycleMode::Initialize,
    };
    let client = Answering.serve_with_lifecycle(tokio::io::split(near), lifecycle).await?;
    play(&scenario, &client).await?;
    host.stop().await;
    Ok(())
}

/// Does what the scenario wants done; whatever it is, everything is listed.
async fn play(scenario: &str, client: &Client) -> Result<(), Box<dyn Error>> {
    let tools = client.list_all_tools().await?;
    let resources = client.list_all_resources().await?;
    let prompts = client.list_all_prompts().await?;
    let context: Value =
        env::var("MCP_CONFORMANCE_CONTEXT").ok().and_then(|json| serde_json::from_str(&json).ok()).unwrap_or_default();
    let calls: Vec<(String, Value)> = match scenario {
        "tools_call" => vec![("add_numbers".into(), json!({ "a": 5, "b": 3 }))],
        "http-custom-headers" => context["toolCalls"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|call| (call["name"].as_str().unwrap_or_default().to_owned(), call["arguments"].clone()))
            .collect(),
        "http-invalid-tool-headers" => vec![("valid_tool".into(), json!({ "region": "here" }))],
        "json-schema-2020-12-preservation" => {
            let listed = tools.iter().find(|tool| tool.name == "json_schema_2020_12_tool");
            let schema = listed.map(|tool| Value::Object((*tool.input_schema).clone()));
            vec![("json_schema_echo".into(), json!({ "schema": schema }))]
        }
        _ => tools.iter().map(|tool| (tool.name.to_string(), json!({}))).collect(),
    };
    for (name, arguments) in calls {
        let arguments = arguments.as_object().cloned().unwrap_or_else(Map::new);
        let called = client.call_tool(CallToolRequestParams::new(name.clone()).with_arguments(arguments)).await;
        eprintln!("{name}: {called:?}");
    }
    for resource in resources {
        let read = client.read_resource(ReadResourceRequestParams::new(resource.uri)).await;
        eprintln!("{read:?}");
    }
    for prompt in prompts {
        let got = client.get_prompt(GetPromptRequestParams::new(prompt.name)).await;
        eprintln!("{got:?}");
    }
    Ok(())
}

/// Says yes to every question, with the default of each field that has one.
struct Answering;

impl ClientHandler for Answering {
    fn get_info(&self) -> ClientConfig {
        let capabilities = serde_json::from_value(json!({ "elicitation": { "form": {} } })).unwrap_or_default();
        ClientConfig::new(capabilities, Implementation::new("conformance-client", "1"))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let asked = serde_json::to_value(&request).unwrap_or_default();
        let fields = asked["requestedSchema"]["properties"].as_object().cloned().unwrap_or_default();
        let content: Map<String, Value> = fields.into_iter().map(|(name, field)| (name, answer_to(&field))).collect();
        serde_json::from_value(json!({ "action": "accept", "content": content }))
            .map_err(|error| ErrorData::internal_error(error.to_string(), None))
    }
}

fn answer_to(field: &Value) -> Value {
    match field.get("default") {
        Some(default) => default.clone(),
        None if field["type"] == "boolean" => true.into(),
        None => "answer".into(),
    }
}
