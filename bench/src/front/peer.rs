//! A peer of the registries under the same load: LiteLLM's proxy, in front of the scripted provider. It is installed beside the
//! build, once; without a network it is left out.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use super::servers::Server;
use crate::program::program;

const PACKAGE: &str = "litellm[proxy]";
/// It refuses to start without one that is long enough.
const KEY: &str = "sk-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// The proxy, ready to be asked.
pub(super) fn start(upstream: &Server) -> Result<Server> {
    let home = install()?;
    let place = tempfile::tempdir()?;
    let config = place.path().join("config.yaml");
    fs::write(&config, configuration(&upstream.url))?;
    let port = free_port()?;
    let mut command = program(&home.join("bin/litellm"));
    command.arg("--config").arg(config).args(["--host", "127.0.0.1", "--port", &port.to_string()]);
    // Nothing but the load: no telemetry, no list of prices from the network.
    command.args(["--telemetry", "False"]).env("LITELLM_LOCAL_MODEL_COST_MAP", "True").env("LITELLM_LOG", "ERROR");
    command.env("LITELLM_MASTER_KEY", KEY);
    Server::foreign("litellm", command, place, format!("http://127.0.0.1:{port}"), KEY)
}

fn install() -> Result<PathBuf> {
    let target = std::env::current_exe()?;
    let home = target.ancestors().nth(2).unwrap_or(Path::new(".")).join("peers/litellm");
    if !home.join("bin/litellm").exists() {
        run(Path::new("python3"), &["-m", "venv", &home.display().to_string()])?;
        run(&home.join("bin/pip"), &["install", "--quiet", PACKAGE])?;
    }
    Ok(home)
}

fn run(path: &Path, arguments: &[&str]) -> Result<()> {
    let status = program(path).args(arguments).status().with_context(|| format!("cannot run {}", path.display()))?;
    ensure!(status.success(), "{} {} failed", path.display(), arguments.join(" "));
    Ok(())
}

fn configuration(upstream: &str) -> String {
    format!(
        "model_list:
  - model_name: codex
    litellm_params:
      model: openai/codex
      api_base: {upstream}/v1
      api_key: k
litellm_settings:
  num_retries: 0
  drop_params: true
"
    )
}

/// Free now; the proxy cannot tell which one it was given.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
