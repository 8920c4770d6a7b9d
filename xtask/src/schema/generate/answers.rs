//! Which type a method is answered with. The schema does not say; upstream's names do, but for the few listed here.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};

use super::shape::Definition;
use crate::schema::Method;

/// Calls whose answer is not named after their params, because they have none or because several share an answer.
const BY_METHOD: [(&str, &str); 15] = [
    ("account/gatewayOAuth/cancel", "GatewayOAuthCancelResponse"),
    ("account/gatewayOAuth/login", "GatewayOAuthLoginResponse"),
    ("account/gatewayOAuth/read", "GatewayOAuthReadResponse"),
    ("account/logout", "LogoutAccountResponse"),
    ("account/workspaceMessages/read", "GetWorkspaceMessagesResponse"),
    ("accountSession/list", "AccountSessionsResponse"),
    ("config/batchWrite", "ConfigWriteResponse"),
    ("config/mcpServer/reload", "McpServerRefreshResponse"),
    ("config/value/write", "ConfigWriteResponse"),
    ("configRequirements/read", "ConfigRequirementsReadResponse"),
    ("externalAgentConfig/import/readHistories", "ExternalAgentConfigImportHistoriesReadResponse"),
    ("memory/reset", "MemoryResetResponse"),
    ("remoteControl/status/read", "RemoteControlStatusReadResponse"),
    ("rollout/compress", "RolloutCompressResponse"),
    ("windowsSandbox/readiness", "WindowsSandboxReadinessResponse"),
];

/// The answer of each method. Fails if one has none, or if a definition that is an answer belongs to no method.
pub(super) fn of<'a>(
    methods: impl Iterator<Item = &'a Method>,
    definitions: &BTreeMap<String, Definition>,
) -> Result<BTreeMap<&'a str, String>> {
    let mut answers = BTreeMap::new();
    for method in methods {
        let Some(answer) = answer_of(method).filter(|answer| definitions.contains_key(answer)) else {
            bail!("{} has no known answer; name it in {}", method.method, file!());
        };
        answers.insert(method.method.as_str(), answer);
    }
    let used: BTreeSet<&str> = answers.values().map(String::as_str).collect();
    let unused = definitions.keys().find(|name| name.ends_with("Response") && !used.contains(name.as_str()));
    match unused {
        Some(name) => bail!("{name} answers no method; say which in {}", file!()),
        None => Ok(answers),
    }
}

fn answer_of(method: &Method) -> Option<String> {
    if let Some((_, answer)) = BY_METHOD.iter().find(|(name, _)| *name == method.method) {
        return Some((*answer).to_owned());
    }
    let params = method.params_name()?;
    let call = params.strip_prefix("Nullable").unwrap_or(params).strip_suffix("Params")?;
    Some(format!("{call}Response"))
}
