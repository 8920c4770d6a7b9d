//! The clients that are tried, installed below `target/clients` in the versions that `clients/` pins: those for Python each in an
//! environment of its own, since they want different versions of each other, those for Node together.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::install;
use crate::workspace::{self, Workspace};

/// Downloads that share the line.
const INSTALLS_AT_ONCE: usize = 3;

/// A client that can be run.
pub(crate) struct Installed {
    pub(super) api: Api,
    /// With its version.
    pub(crate) name: String,
    program: PathBuf,
    script: PathBuf,
}

/// What of OpenAI's API a client speaks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    Chat,
    Responses,
}

/// For Python: the requirements, which also name the environment, and the scripts.
const PYTHON: [(&str, &[(Api, &str)]); 6] = [
    ("openai-2", &[(Api::Chat, "with_openai.py"), (Api::Responses, "responses_openai.py")]),
    ("openai-3", &[(Api::Chat, "with_openai.py"), (Api::Responses, "responses_openai.py")]),
    ("langchain", &[(Api::Chat, "with_langchain.py"), (Api::Responses, "responses_langchain.py")]),
    ("llama-index", &[(Api::Chat, "with_llama_index.py")]),
    ("litellm", &[(Api::Chat, "with_litellm.py")]),
    ("llm", &[(Api::Chat, "with_llm.py")]),
];

/// For Node: the package, and the script.
const NODE: [(&str, Api, &str); 6] = [
    ("openai", Api::Chat, "with-openai.mjs"),
    ("ai", Api::Chat, "with-ai-sdk.mjs"),
    ("@langchain/openai", Api::Chat, "with-langchain.mjs"),
    ("openai", Api::Responses, "responses-openai.mjs"),
    ("@ai-sdk/openai", Api::Responses, "responses-ai-sdk.mjs"),
    ("@langchain/openai", Api::Responses, "responses-langchain.mjs"),
];

impl Api {
    pub(super) const ALL: [Self; 2] = [Self::Chat, Self::Responses];

    /// As the test calls it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
        }
    }

    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Chat => "/v1/chat/completions",
            Self::Responses => "/v1/responses",
        }
    }
}

impl Installed {
    /// Every client, installed if it was not.
    pub(crate) fn all() -> Result<Vec<Self>> {
        let place = Workspace::load()?.target_directory.join("clients");
        fs::create_dir_all(&place)?;
        let mut clients = Vec::new();
        for group in PYTHON.chunks(INSTALLS_AT_ONCE) {
            let installed: Vec<Result<Vec<Self>>> = thread::scope(|scope| {
                let installing: Vec<_> =
                    group.iter().map(|(name, scripts)| scope.spawn(|| for_python(&place, name, scripts))).collect();
                let ended = installing.into_iter().map(thread::ScopedJoinHandle::join);
                ended.map(|client| client.unwrap_or_else(|_| bail!("the installation panicked"))).collect()
            });
            for client in installed {
                clients.extend(client?);
            }
        }
        clients.extend(for_node(&place)?);
        clients.extend(codex_itself());
        Ok(clients)
    }

    /// Whether that is a part of its name, or its API.
    pub(super) fn is_called(&self, part: &str) -> bool {
        self.name.contains(part) || self.api.word() == part
    }

    /// As the test wants it named.
    pub(super) fn line(&self) -> String {
        format!("{}\t{}\t{}\t{}", self.api.word(), self.name, self.program.display(), self.script.display())
    }
}

fn sources() -> PathBuf {
    workspace::root().join("clients")
}

fn for_python(place: &Path, name: &str, scripts: &[(Api, &str)]) -> Result<Vec<Installed>> {
    let requirements = sources().join("python/requirements").join(name).with_extension("txt");
    let wanted =
        fs::read_to_string(&requirements).with_context(|| format!("cannot read {}", requirements.display()))?;
    let python = install::for_python(&place.join(name), &requirements)?;
    let client = |(api, script): &(Api, &str)| Installed {
        api: *api,
        name: format!("{} for Python", pinned(&wanted)),
        program: python.clone(),
        script: sources().join("python").join(script),
    };
    Ok(scripts.iter().map(client).collect())
}

fn for_node(place: &Path) -> Result<Vec<Installed>> {
    let (from, to) = (sources().join("node"), place.join("node"));
    install::for_node(&from, &to, &install::scripts_in(&from)?)?;
    let package: Value = serde_json::from_str(&fs::read_to_string(from.join("package.json"))?)?;
    let client = |(name, api, script): &(&str, Api, &str)| Installed {
        api: *api,
        name: format!("{name} {} for Node", package["dependencies"][name].as_str().unwrap_or("?")),
        program: "node".into(),
        script: to.join(script),
    };
    Ok(NODE.iter().map(client).collect())
}

/// The codex that the tests have anyway, with a model of ours; its version is theirs.
fn codex_itself() -> [Installed; 2] {
    let ways = [("codex exec", "responses_codex.py"), ("codex exec over WebSocket", "responses_codex_socket.py")];
    ways.map(|(name, script)| Installed {
        api: Api::Responses,
        name: name.into(),
        program: "python3".into(),
        script: sources().join("python").join(script),
    })
}

/// The client itself: the first of its requirements.
fn pinned(requirements: &str) -> String {
    requirements.lines().next().unwrap_or_default().replace("==", " ")
}

#[cfg(test)]
mod tests {
    use super::pinned;

    #[test]
    fn a_client_is_called_by_its_first_requirement() {
        assert_eq!(pinned("openai==2.54.0\n# What it needs.\nanyio==4\n"), "openai 2.54.0");
    }
}
