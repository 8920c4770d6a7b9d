//! How the workers of a group reach the tools of all tool servers: as one MCP server of theirs, by settings on their command
//! line and a token in a variable. Workers from 0.98 on use it; those up to 0.77 pass over the settings.

use std::ffi::OsString;
use std::fmt;
use std::time::Duration;

use codex::ThreadOptions;

use crate::tokens::{WorkerToken, WorkerTokens};

/// Holds the token, which no command line may show.
const TOKEN_VARIABLE: &str = "SWITCHBOARD_TOOLS_TOKEN";

/// Where the workers of a group find tools.
#[derive(Clone)]
pub struct ToolsAccess {
    /// The MCP endpoint.
    pub url: String,
    /// Where their tokens are issued.
    pub tokens: WorkerTokens,
    /// How long a worker waits for a call: longer than any may take, so that it ends in one place.
    pub call_timeout: Duration,
}

impl ToolsAccess {
    /// What workers call it, and the model in the names of the tools.
    pub const NAME: &str = "switchboard";

    pub(crate) fn args(&self) -> impl Iterator<Item = OsString> {
        let name = Self::NAME;
        let settings = [
            format!("mcp_servers.{name}.url={:?}", self.url),
            format!("mcp_servers.{name}.bearer_token_env_var={TOKEN_VARIABLE:?}"),
            format!("mcp_servers.{name}.tool_timeout_sec={}", self.call_timeout.as_secs()),
            // The commands of an agent inherit what the worker sees.
            format!("shell_environment_policy.set.{TOKEN_VARIABLE}=\"\""),
        ];
        settings.into_iter().flat_map(|setting| ["-c".into(), setting.into()])
    }

    pub(crate) fn variable(token: &WorkerToken) -> (OsString, OsString) {
        (TOKEN_VARIABLE.into(), token.text().into())
    }

    /// Keeps them from a thread. Its address is named again because a worker refuses a server that has none.
    pub(crate) fn withhold(&self, options: &mut ThreadOptions) {
        let setting = |key: &str| format!("mcp_servers.{}.{key}", Self::NAME);
        options.config.insert(setting("url"), self.url.as_str().into());
        options.config.insert(setting("enabled"), false.into());
    }
}

/// Without the tokens.
impl fmt::Debug for ToolsAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolsAccess").field("url", &self.url).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use expect_test::expect;

    use super::{ToolsAccess, WorkerTokens};

    #[test]
    fn the_token_stands_in_a_variable_and_nowhere_else() {
        let tools = ToolsAccess {
            url: "http://127.0.0.1:4180/mcp".into(),
            tokens: WorkerTokens::default(),
            call_timeout: Duration::from_secs(4200),
        };
        let args: Vec<_> = tools.args().map(|word| word.into_string().unwrap()).collect();
        expect![[r#"
            -c
            mcp_servers.switchboard.url="http://127.0.0.1:4180/mcp"
            -c
            mcp_servers.switchboard.bearer_token_env_var="SWITCHBOARD_TOOLS_TOKEN"
            -c
            mcp_servers.switchboard.tool_timeout_sec=4200
            -c
            shell_environment_policy.set.SWITCHBOARD_TOOLS_TOKEN="""#]]
        .assert_eq(&args.join("\n"));
        let token = tools.tokens.issue("main", "main-0").unwrap();
        let (name, value) = ToolsAccess::variable(&token);
        assert_eq!((name.to_str(), value.to_str()), (Some("SWITCHBOARD_TOOLS_TOKEN"), Some(token.text())));
        assert!(token.text().starts_with("sb_worker-main_"));
    }
}
