//! Permission profiles of a thread's `config`: which one is active, and the sandbox that the answer shows for it.

use serde_json::{Map, Value, json};

/// The profile that `default_permissions` selects, with the sandbox that it amounts to.
pub(super) struct Selected {
    pub(super) id: String,
    pub(super) sandbox: Value,
}

impl Selected {
    pub(super) fn of(config: Option<&Map<String, Value>>) -> Option<Self> {
        let config = config?;
        let id = config.get("default_permissions")?.as_str()?;
        let profile = config.get("permissions")?.get(id)?;
        Some(Self { id: id.to_owned(), sandbox: sandbox_of(profile) })
    }
}

fn sandbox_of(profile: &Value) -> Value {
    let files = &profile["filesystem"];
    let writes = |name: &str| files[name] == "write";
    let network = profile["network"]["enabled"] == true;
    let denies = files.as_object().is_some_and(|files| files.values().any(|access| access == "deny"));
    if writes(":root") && network && !denies {
        return json!({"type": "dangerFullAccess"});
    }
    let explicit =
        files.as_object().into_iter().flatten().filter(|(path, access)| path.starts_with('/') && *access == "write");
    let mut roots: Vec<&str> = explicit.map(|(path, _)| path.as_str()).collect();
    roots.extend(writes(":root").then_some("/"));
    if roots.is_empty() && files[":workspace_roots"]["."] != "write" {
        return json!({"type": "readOnly", "networkAccess": network});
    }
    json!({
        "type": "workspaceWrite", "writableRoots": roots, "networkAccess": network,
        "excludeTmpdirEnvVar": !writes(":tmpdir"), "excludeSlashTmp": !writes(":slash_tmp") && roots.is_empty(),
    })
}
