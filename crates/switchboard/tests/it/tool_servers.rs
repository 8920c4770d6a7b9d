//! Real tool servers behind a running server: real MCP clients of both eras use them through `/mcp`, and the official conformance
//! suite judges it.
//!
//! `cargo xtask tool-servers` installs all of it, and names where.

#![expect(clippy::print_stdout, reason = "what was counted and how long it took is told")]

mod many;
mod proxy;
mod suite;
mod templates;

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::served::Served;

/// Names where everything was installed.
const PLACE: &str = "SWITCHBOARD_TOOL_SERVERS";

/// Where what is tried lies.
struct Place {
    installed: PathBuf,
    repository: &'static Path,
}

impl Place {
    fn find() -> Self {
        let installed =
            std::env::var_os(PLACE).unwrap_or_else(|| panic!("{PLACE} is not set: run `cargo xtask tool-servers`"));
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        Self { installed: installed.into(), repository: crates.parent().unwrap() }
    }

    fn node(&self) -> String {
        self.in_node("node_modules/.bin/node")
    }

    /// A script or a package, beside the packages that it uses.
    fn in_node(&self, path: &str) -> String {
        text(&self.installed.join("node").join(path))
    }

    /// A program of one of Python's environments.
    fn in_python(&self, environment: &str, program: &str) -> String {
        text(&self.installed.join(format!("python-{environment}/bin/{program}")))
    }

    fn in_repository(&self, path: &str) -> String {
        text(&self.repository.join(path))
    }

    /// A tool server of ours, which lies beside the binary.
    fn example(&self, name: &str) -> String {
        text(&Path::new(env!("CARGO_BIN_EXE_switchboard")).with_file_name("examples").join(name))
    }
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// A tool server's table in the configuration.
fn table(name: &str, command: &[String], more: &str) -> String {
    format!("[tools.{name}]\ncommand = {command:?}\n{more}\n")
}

/// What the server says of its tool servers.
fn told(served: &Served<'_>) -> Vec<Value> {
    let answer = served.get("/api/tools");
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let told: Value = serde_json::from_str(body).unwrap_or_else(|_| panic!("{answer}"));
    told["servers"].as_array().unwrap_or_else(|| panic!("{answer}")).clone()
}
