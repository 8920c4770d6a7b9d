//! Thirteen tool servers of three languages, as `cargo xtask tool-servers` has installed them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use tempfile::TempDir;

use super::switchboard::ToolServer;
use crate::program::{beside, program};

/// Where they lie, and what some of them work on.
pub(super) struct Installed {
    place: PathBuf,
    template: PathBuf,
    files: TempDir,
}

impl Installed {
    /// Nothing if they are not installed.
    pub(super) fn find() -> Result<Option<Self>> {
        let bench = std::env::current_exe()?;
        let place = bench.ancestors().nth(2).unwrap_or(Path::new(".")).join("tool-servers");
        if !place.join("node/node_modules/.bin/node").exists() || !place.join("python-servers/bin/python").exists() {
            return Ok(None);
        }
        let files = tempfile::tempdir()?;
        fs::create_dir(files.path().join("files"))?;
        let repository = files.path().join("repository");
        let made = program(Path::new("git")).args(["init", "--quiet"]).arg(&repository).status()?;
        ensure!(made.success(), "cannot make a repository for the server of git");
        Ok(Some(Self { place, template: beside("examples/template")?, files }))
    }

    pub(super) fn servers(&self) -> Vec<ToolServer> {
        let memory = format!("variables = {{ MEMORY_FILE_PATH = {:?} }}", self.file("memory.jsonl"));
        let [files, repository] = ["files", "repository"].map(|name| self.file(name));
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("examples/tool-servers");
        let python = self.python("python", &[&text(&examples.join("python/server.py"))]);
        let typescript = vec![self.node(), text(&self.place.join("node/server.ts"))];
        let rust = vec![text(&self.template)];
        let named = [
            ("everything", self.package("server-everything", &[])),
            ("filesystem", self.package("server-filesystem", &[&files])),
            ("memory", self.package("server-memory", &[])),
            ("fetch", self.python("mcp-server-fetch", &[])),
            ("git", self.python("mcp-server-git", &["--repository", &repository])),
            ("time", self.python("mcp-server-time", &["--local-timezone", "UTC"])),
            ("rust", rust.clone()),
            ("rust-two", rust.clone()),
            ("rust-three", rust),
            ("python", python.clone()),
            ("python-two", python),
            ("typescript", typescript.clone()),
            ("typescript-two", typescript),
        ];
        let server = |(name, command): (&str, Vec<String>)| {
            let more = if name == "memory" { memory.clone() } else { String::new() };
            ToolServer { name: name.to_owned(), command, more }
        };
        named.into_iter().map(server).collect()
    }

    fn node(&self) -> String {
        text(&self.place.join("node/node_modules/.bin/node"))
    }

    /// One of the official packages.
    fn package(&self, name: &str, more: &[&str]) -> Vec<String> {
        let script = format!("node/node_modules/@modelcontextprotocol/{name}/dist/index.js");
        words(&[&[self.node().as_str(), &text(&self.place.join(script))], more].concat())
    }

    fn python(&self, name: &str, more: &[&str]) -> Vec<String> {
        let path = text(&self.place.join("python-servers/bin").join(name));
        words(&[&[path.as_str()], more].concat())
    }

    fn file(&self, name: &str) -> String {
        text(&self.files.path().join(name))
    }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn words(all: &[&str]) -> Vec<String> {
    all.iter().map(|word| (*word).to_owned()).collect()
}
