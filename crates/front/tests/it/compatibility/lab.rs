//! A server for one version, its model, and requests to it whose refusals are obstacles.

use std::path::{Path, PathBuf};

use codex::{ApprovalPolicy, Sandbox};
use front::Settings;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::compatibility::{Cells, Obstacle, ensure};
use testkit::model::StandIn;
use testkit::workplace::Workplace;
use tokio::net::TcpListener;
use workers::{Group, Plan, Profile};

use crate::http::{Answer, Events};
use crate::support::{House, plan};

/// The profiles: an agent, a plain model, and an agent that writes.
pub(crate) const AGENT: &str = "codex";
pub(crate) const PLAIN: &str = "codex-plain";
/// An agent that may write to a directory of its own.
pub(crate) const WRITER: &str = "writer";

const CHAT: &str = "/v1/chat/completions";

pub(crate) struct Lab {
    pub(crate) house: House,
    model: StandIn,
    pub(crate) workplace: Workplace,
}

impl Lab {
    /// Runs checks with a server of their own. The model has a runtime of its own, so it is made outside of theirs.
    pub(crate) fn run(binary: &Path, checks: impl AsyncFnOnce(&Self) -> Cells) -> Cells {
        let (workplace, model) = (Workplace::new().unwrap(), StandIn::start().unwrap());
        testkit::codex::configure(&workplace, &model.base_url()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (cells, lab) = runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let directory = TempDir::new().unwrap();
            let plan = real(plan(directory.path()), binary, &workplace);
            let house = House::of(plan, directory, listener, Settings::default(), approvals::Settings::default()).await;
            let lab = Self { house, model, workplace };
            (checks(&lab).await, lab)
        });
        runtime.block_on(lab.house.stop());
        cells
    }

    /// The answer to a request, which must not be refused.
    pub(crate) async fn complete(&self, request: &Value) -> Result<Value, Obstacle> {
        let answer = self.post(request).await;
        if answer.status == 200 {
            return Ok(answer.json());
        }
        let message = answer.json()["error"]["message"].as_str().unwrap_or_default().to_owned();
        Err(match answer.refusal().as_str() {
            "400 unsupported_by_worker" => Obstacle::Absent(message),
            refusal => Obstacle::Failed(format!("{refusal}: {message}")),
        })
    }

    pub(crate) async fn post(&self, request: &Value) -> Answer {
        self.house.operator.post(CHAT, &request.to_string()).await
    }

    pub(crate) async fn stream(&self, request: &Value) -> Events {
        let mut request = request.clone();
        request["stream"] = json!(true);
        self.house.operator.stream(CHAT, "", &request.to_string()).await
    }

    /// What the model was asked last.
    pub(crate) fn asked(&self) -> Value {
        self.model.requests().pop().unwrap_or_default()
    }
}

/// The house's own plan with other workers and other profiles.
fn real(plan: Plan, binary: &Path, workplace: &Workplace) -> Plan {
    let own = |group: Group| Group {
        program: binary.into(),
        args: vec!["app-server".into()],
        codex_home: Some(workplace.codex_home()),
        cwd: workplace.project(),
        ..group
    };
    let profile = |name: &str| Profile {
        name: name.into(),
        cwd: Some(workplace.project().to_str().unwrap().into()),
        sandbox: Sandbox::ReadOnly,
        approval_policy: ApprovalPolicy::Never,
        is_plain: name == PLAIN,
        ..plan.profiles[0].clone()
    };
    let workspace = writers_workspace(workplace);
    std::fs::create_dir(&workspace).unwrap();
    let cwd = Some(workspace.to_str().unwrap().into());
    let writer = Profile { sandbox: Sandbox::WorkspaceWrite, cwd, ..profile(WRITER) };
    let profiles = vec![profile(AGENT), profile(PLAIN), writer];
    Plan { groups: plan.groups.into_iter().map(own).collect(), profiles, ..plan }
}

/// Where the agent that writes works.
pub(crate) fn writers_workspace(workplace: &Workplace) -> PathBuf {
    workplace.home().join("workspace")
}

/// A request with these messages.
pub(crate) fn request(messages: &[Value]) -> Value {
    json!({"model": AGENT, "messages": messages})
}

/// A request of one prompt.
pub(crate) fn says(prompt: &str) -> Value {
    request(&[said("user", prompt)])
}

pub(crate) fn said(role: &str, content: &str) -> Value {
    json!({"role": role, "content": content})
}

/// The same request when the answer is there, and what comes after it.
pub(crate) fn after(request: &Value, answer: &Value, next: &[Value]) -> Value {
    let mut request = request.clone();
    let messages = request["messages"].as_array_mut().unwrap();
    messages.push(answer["choices"][0]["message"].clone());
    messages.extend_from_slice(next);
    request
}

pub(crate) fn ensure_said(answer: &Value, text: &str) -> Result<(), Obstacle> {
    let choice = &answer["choices"][0];
    let is_right = choice["message"]["content"] == text && choice["finish_reason"] == "stop";
    ensure(is_right, || format!("the answer was {choice}"))
}
