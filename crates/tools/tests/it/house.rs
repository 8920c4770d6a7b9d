//! What every test needs: servers of the gallery behind a host, and callers of both eras, which are the official client.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, CreateMessageRequestParams,
    CreateMessageResult, ElicitRequestParams, ElicitResult, ElicitationAction, Implementation, ListRootsResult,
    LoggingMessageNotificationParam, ProtocolVersion, ResourceUpdatedNotificationParam, Root, SamplingMessage,
};
use rmcp::service::{
    ClientLifecycleMode, ClientServiceExt, NotificationContext, RequestContext, RoleClient, RunningService,
};
use rmcp::{ClientHandler, ErrorData};
use serde_json::{Value, json};
use supervise::Owner;
use tokio::task::JoinSet;
use tools::{Caller, Host, Limits, Notice, Plan, Reach, Server, ServerState, ServerView};

/// Generous: only a test that fails waits so long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// The program of the gallery, which is built with the tests.
pub(crate) fn gallery() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().parent().unwrap().join("examples/gallery")
}

pub(crate) fn command(words: &[&str]) -> Reach {
    let command = std::iter::once(gallery().into_os_string()).chain(words.iter().map(Into::into)).collect();
    Reach::Process { command, env: Vec::new(), cwd: ".".into(), rlimits: supervise::Rlimits::default() }
}

/// A server of the gallery; several words are its name and its arguments.
pub(crate) fn server(name: &str, words: &str) -> Server {
    Server::new(name, command(&words.split(' ').collect::<Vec<_>>()))
}

/// What a host is made of, with nothing kept and nobody asked.
pub(crate) fn plan(servers: Vec<Server>) -> Plan {
    Plan {
        servers,
        limits: Limits::default(),
        owner: Owner::generate(),
        store: None,
        approvals: None,
        notify: Arc::new(|_| {}),
    }
}

/// A host with its servers.
pub(crate) struct House {
    pub(crate) host: Host,
    notices: Arc<Mutex<Vec<String>>>,
}

impl House {
    pub(crate) fn start(servers: Vec<Server>) -> Self {
        Self::of(plan(servers))
    }

    pub(crate) fn of(plan: Plan) -> Self {
        let notices = Arc::<Mutex<Vec<String>>>::default();
        let kept = Arc::clone(&notices);
        let notify = Arc::new(move |notice: Notice| {
            if let Notice::ToolCalled { server, tool, outcome, .. } = &notice {
                kept.lock().unwrap().push(format!("{server} {tool} {outcome}"));
            }
        });
        Self { host: Host::start(Plan { notify, ..plan }), notices }
    }

    /// A host whose servers are all as they should be.
    pub(crate) async fn ready(servers: Vec<Server>) -> Self {
        let house = Self::start(servers);
        house.host.settled(PATIENCE).await;
        for view in house.host.servers() {
            assert_eq!(view.state, ServerState::Ready, "{}: {:?}", view.name, view.reason);
        }
        house
    }

    pub(crate) fn view(&self, name: &str) -> ServerView {
        self.host.server(name).unwrap()
    }

    /// Waits until a server is seen to be so.
    pub(crate) async fn until(&self, name: &str, is_so: impl Fn(&ServerView) -> bool) -> ServerView {
        let begun = Instant::now();
        loop {
            let view = self.view(name);
            if is_so(&view) {
                return view;
            }
            assert!(begun.elapsed() < PATIENCE, "it never came to be so: {view:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub(crate) async fn until_ready(&self, name: &str) -> ServerView {
        self.until(name, |view| view.state == ServerState::Ready).await
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Value {
        self.host.call(&Caller::new("key", "test"), tool, arguments).await.unwrap()
    }

    /// The calls that are over, as `server tool outcome`.
    pub(crate) fn called(&self) -> Vec<String> {
        self.notices.lock().unwrap().clone()
    }

    /// A caller over a pipe.
    pub(crate) async fn caller(&self, lifecycle: Lifecycle, can: Can) -> Calling {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (host, mut serving) = (self.host.clone(), JoinSet::new());
        let (reader, writer) = tokio::io::split(theirs);
        serving.spawn(async move {
            tools::serve_pipe(&host, Caller::new("key", "pipe"), reader, writer).await.ok();
        });
        let heard = Arc::<Mutex<Heard>>::default();
        let listener = Listener { can, heard: Arc::clone(&heard) };
        let mode = match lifecycle {
            Lifecycle::Legacy => ClientLifecycleMode::Initialize,
            Lifecycle::Modern => {
                ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
            }
        };
        let (reader, writer) = tokio::io::split(ours);
        let client = listener.serve_with_lifecycle((reader, writer), mode).await.unwrap();
        Calling { client, heard, _serving: serving }
    }
}

/// The text of a result.
pub(crate) fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}

/// Whether a process is there, zombies not counted.
pub(crate) fn runs(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// How a caller begins.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lifecycle {
    Legacy,
    Modern,
}

/// What a caller can be asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Can {
    Everything,
    Nothing,
}

/// A caller.
pub(crate) struct Calling {
    pub(crate) client: RunningService<RoleClient, Listener>,
    heard: Arc<Mutex<Heard>>,
    _serving: JoinSet<()>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Heard {
    pub(crate) logs: Vec<String>,
    pub(crate) asked: Vec<String>,
    pub(crate) tool_list_changes: usize,
    pub(crate) prompt_list_changes: usize,
    pub(crate) resource_list_changes: usize,
    pub(crate) updates: Vec<String>,
}

impl Calling {
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> CallToolResult {
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments.as_object().unwrap().clone());
        self.client.call_tool(params).await.unwrap()
    }

    pub(crate) fn heard(&self) -> Heard {
        self.heard.lock().unwrap().clone()
    }

    pub(crate) async fn until(&self, is_so: impl Fn(&Heard) -> bool) {
        let begun = Instant::now();
        while !is_so(&self.heard()) {
            assert!(begun.elapsed() < PATIENCE, "it was never heard: {:?}", self.heard());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

pub(crate) fn words(result: &CallToolResult) -> String {
    let result = serde_json::to_value(result).unwrap();
    text(&result).to_owned()
}

/// Answers what it is asked, and keeps what it is told.
pub(crate) struct Listener {
    can: Can,
    heard: Arc<Mutex<Heard>>,
}

impl Listener {
    fn note(&self, note: impl FnOnce(&mut Heard)) {
        note(&mut self.heard.lock().unwrap());
    }
}

impl ClientHandler for Listener {
    fn get_info(&self) -> ClientConfig {
        let capabilities = match self.can {
            Can::Everything => {
                serde_json::from_value(json!({ "elicitation": {}, "sampling": {}, "roots": {} })).unwrap()
            }
            Can::Nothing => ClientCapabilities::default(),
        };
        ClientConfig::new(capabilities, Implementation::new("test", "1"))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        self.note(|heard| heard.asked.push(format!("{}", serde_json::to_value(&request).unwrap()["message"])));
        let result = json!({ "action": ElicitationAction::Accept, "content": { "name": "ada" } });
        Ok(serde_json::from_value(result).unwrap())
    }

    async fn create_message(
        &self,
        _: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        self.note(|heard| heard.asked.push("sample".into()));
        let message = SamplingMessage::assistant_text("sampled");
        Ok(CreateMessageResult::new(message, "model".into()))
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        self.note(|heard| heard.asked.push("roots".into()));
        Ok(ListRootsResult::new(vec![Root::new("file:///root-of-the-caller")]))
    }

    async fn on_logging_message(&self, params: LoggingMessageNotificationParam, _: NotificationContext<RoleClient>) {
        self.note(|heard| heard.logs.push(params.data.to_string()));
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.note(|heard| heard.tool_list_changes += 1);
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.note(|heard| heard.prompt_list_changes += 1);
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.note(|heard| heard.resource_list_changes += 1);
    }

    async fn on_resource_updated(&self, params: ResourceUpdatedNotificationParam, _: NotificationContext<RoleClient>) {
        self.note(|heard| heard.updates.push(params.uri));
    }
}
