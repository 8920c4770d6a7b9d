//! `initialize`: its rules, and what comes unasked after it.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::version;
use crate::lines::Refusal;
use crate::stage::{Call, Client};
use crate::worker::Worker;

/// What a client says of itself. Anything else is ignored: a protocol version, snake_case mirrors.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InitializeParams {
    client_info: ClientInfo,
    capabilities: Option<Capabilities>,
}

#[derive(Debug, Deserialize)]
struct ClientInfo {
    name: String,
    #[expect(dead_code, reason = "its type is checked as the real worker checks it")]
    title: Option<String>,
    version: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Capabilities {
    #[serde(default)]
    experimental_api: bool,
    opt_out_notification_methods: Option<Vec<String>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Initialized<'a> {
    user_agent: String,
    codex_home: &'a str,
    platform_family: &'static str,
    platform_os: &'static str,
}

pub(super) fn initialize(worker: &mut Worker, call: &Call, params: InitializeParams) -> Result<(), Refusal> {
    let stage = &mut worker.stage;
    let InitializeParams { client_info: client, capabilities } = params;
    let connection = stage.connections.entry(call.connection).or_default();
    if connection.client.is_some() {
        return Err(Refusal::invalid("Already initialized"));
    }
    if client.name.chars().any(char::is_control) {
        return Err(Refusal::invalid(format!(
            "Invalid clientInfo.name: '{}'. Must be a valid HTTP header value.",
            client.name
        )));
    }
    let capabilities = capabilities.unwrap_or_default();
    connection.client = Some(Client {
        experimental: capabilities.experimental_api,
        opted_out: capabilities.opt_out_notification_methods.unwrap_or_default().into_iter().collect(),
    });
    let originator = stage.originator.get_or_insert_with(|| client.name.clone());
    let user_agent = user_agent(originator, version(), &client.name, &client.version);
    let home = stage.home.path().to_string_lossy().into_owned();
    let result = Initialized {
        user_agent,
        codex_home: &home,
        platform_family: std::env::consts::FAMILY,
        platform_os: std::env::consts::OS,
    };
    stage.answer(call, &result);
    let remote_control = json!({
        "status": "disabled", "serverName": "demo", "installationId": "00000000-0000-4000-8000-000000000000",
        "environmentId": null,
    });
    stage.tell(&[call.connection], "remoteControl/status/changed", &remote_control);
    Ok(())
}

/// `NAME/VERSION (system; machine) terminal (NAME; VERSION)`, where the system is the demo worker.
pub(crate) fn user_agent(originator: &str, version: &str, client: &str, client_version: &str) -> String {
    format!(
        "{originator}/{version} (Switchboard demo worker {}; {}) demo ({client}; {client_version})",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::ARCH,
    )
}
