//! Plays a case: a house with a worker of its own, the requests one after the other over real connections, and the views of
//! what came of them.

use std::fs;
use std::path::PathBuf;

use codex::{ApprovalPolicy, Sandbox};
use serde_json::Value;
use tempfile::TempDir;
use testkit::HANG_TIMEOUT;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use workers::{Plan, Profile};

use super::case::{Case, Part, Request, Section, Stay};
use super::names::Names;
use super::response::Response;
use super::schemas::check_object;
use super::support::{House, KEY, plan as plan_in};
use super::{capture, laws, plan, response_laws};
use crate::Settings;

/// Plays the case and gives it back with its views.
pub(super) async fn play(text: &str) -> String {
    let case = Case::read(text);
    let mut stage = Stage::open(&case).await;
    let (mut sections, mut beside) = (Vec::new(), Vec::new());
    for section in &case.sections {
        let Some(part) = section.part() else { continue };
        sections.push(Section::new(&section.heading, &section.text));
        match part {
            Part::Worker(_) | Part::Script(_) => {}
            Part::Drain => stage.house.pool.drain(HANG_TIMEOUT).await,
            Part::Key { name, order } => stage.make_key(name, order).await,
            Part::Decision(decision) => stage.decide(decision).await,
            Part::Request(request, stay) => {
                sections.extend(stage.plan(&request));
                let mut connection = stage.send(&request).await;
                match stay {
                    Stay::ToTheEnd => sections.push(stage.answer(connection).await),
                    Stay::Until(text) => {
                        connection.until(text).await;
                        stage.names.written(&connection.text());
                        drop(connection);
                        stage.until_quiet().await;
                    }
                    Stay::Beside(text) => {
                        connection.until(text).await;
                        stage.names.written(&connection.text());
                        beside.push((sections.len(), connection));
                        sections.push(Section::new("answer", ""));
                    }
                }
            }
        }
    }
    for (at, connection) in beside {
        sections[at] = stage.answer(connection).await;
    }
    sections.push(stage.close().await);
    case.with(sections).to_string()
}

/// Where a case is played.
struct Stage {
    house: House,
    names: Names,
    profiles: Vec<Profile>,
    models: Vec<Box<str>>,
    capture: PathBuf,
}

impl Stage {
    async fn open(case: &Case) -> Self {
        let directory = TempDir::new().unwrap();
        let capture = directory.path().join("capture.jsonl");
        let plan = Plan { profiles: profiles(&directory), ..plan_for(case, &directory) };
        let mut names = Names::default();
        names.add(KEY, "key");
        names.add(directory.path().to_str().unwrap(), "directory");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let profiles = plan.profiles.clone();
        let deciding = approvals::Settings::default();
        let house = House::of(plan, directory, listener, Settings::default(), deciding).await;
        let models = house.pool.models(None).await.into_iter().map(|model| model.id).collect();
        Self { house, names, profiles, models, capture }
    }

    fn plan(&mut self, request: &Request<'_>) -> Option<Section> {
        let of_chat = request.chat().and_then(|body| plan::of_chat(&self.names.meant(body)));
        let of_responses = || request.response().and_then(|body| plan::of_responses(&self.names.meant(body)));
        let caller = self.house.keys.find(&self.names.meant(request.key()))?;
        let view = plan::view(of_chat.or_else(of_responses)?, &caller, &self.profiles, &self.models)?;
        Some(Section::new("plan", &self.names.written(&view)))
    }

    async fn send(&self, request: &Request<'_>) -> Connection {
        let body = self.names.meant(request.body);
        let length = body.len().to_string();
        let usual = [
            ("host", "localhost"),
            ("authorization", "Bearer <key>"),
            ("content-type", "application/json"),
            ("content-length", &length),
        ];
        let is_written = |name: &str| request.headers.iter().any(|(written, _)| *written == name);
        let headers = request.headers.iter().copied().chain(usual.into_iter().filter(|(name, _)| !is_written(name)));
        let headers = headers.filter(|(_, value)| !value.is_empty());
        let headers: String = headers.map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        // A 1.0 client gets a stream as it is, not in chunks.
        let head = self.names.meant(&format!("{} HTTP/1.0\r\n{headers}", request.line));
        let mut stream = TcpStream::connect(self.house.operator.address).await.unwrap();
        stream.write_all(format!("{head}\r\n{body}").as_bytes()).await.unwrap();
        let asked = serde_json::from_str(&body).unwrap_or_default();
        let laws = if request.is_of_responses() { Laws::Responses(kind_of(request.line)) } else { Laws::Chat(asked) };
        Connection { stream, read: Vec::new(), laws }
    }

    async fn answer(&mut self, mut connection: Connection) -> Section {
        connection.run_to_the_end().await;
        let text = connection.text();
        let response = Response::read(&text);
        match &connection.laws {
            Laws::Chat(asked) if response.is_stream() => laws::check(asked, response.body),
            Laws::Responses(_) if response.is_stream() => response_laws::check(response.body),
            Laws::Responses(kind) if response.status == "200 OK" => {
                check_object(kind, &serde_json::from_str(response.body).unwrap());
            }
            _ => {}
        }
        Section::new("answer", &response.view(&mut self.names))
    }

    async fn make_key(&mut self, name: &str, order: &str) {
        let made = self.house.operator.post("/api/keys", order).await;
        assert_eq!(made.status, 201, "{}", made.body);
        self.names.add(made.json()["secret"].as_str().expect("a new key is told"), name);
    }

    /// Decides the one approval that waits, as it is shown.
    async fn decide(&self, decision: &str) {
        let operator = &self.house.operator;
        let waiting = operator.get("/api/approvals?state=pending").await.json();
        let approval = &waiting["approvals"][0];
        let mut decision: Value = serde_json::from_str(decision).unwrap();
        decision["shown_hash"] = approval["shown_hash"].clone();
        let path = format!("/api/approvals/{}/decide", approval["id"].as_str().expect("something waits"));
        let decided = operator.post(&path, &decision.to_string()).await;
        assert_eq!(decided.status, 200, "{}", decided.body);
    }

    /// Waits until every turn has ended or waits for somebody.
    async fn until_quiet(&self) {
        let is_quiet = || {
            let load = self.house.pool.load();
            load.turns == load.parked
        };
        let quiet = async {
            while !is_quiet() {
                tokio::task::yield_now().await;
            }
        };
        timeout(HANG_TIMEOUT, quiet).await.expect("a turn ends when its caller is gone");
    }

    /// Once no turn runs any more, the worker has been told everything.
    async fn close(mut self) -> Section {
        self.house.pool.drain(HANG_TIMEOUT).await;
        let load = self.house.pool.load();
        assert_eq!((load.turns, load.waiting), (load.parked, 0), "every turn ends or is parked");
        let view = capture::view(&fs::read_to_string(&self.capture).unwrap());
        self.house.stop().await;
        Section::new("lines", &self.names.written(&view))
    }
}

/// A request on its way to its answer.
struct Connection {
    stream: TcpStream,
    read: Vec<u8>,
    laws: Laws,
}

/// What holds of an answer.
enum Laws {
    /// Of what was asked, if it was JSON.
    Chat(Value),
    /// It is an object of this kind, or a stream.
    Responses(&'static str),
}

fn kind_of(line: &str) -> &'static str {
    match line {
        line if line.contains("/input_items") || line.contains("/items") => "InputItemList",
        line if line.starts_with("DELETE /v1/conversations") => "ConversationDeleted",
        line if line.contains("/conversations") => "Conversation",
        line if line.starts_with("DELETE ") => "Deleted",
        line if line.ends_with("/compact") => "Compaction",
        _ => "Response",
    }
}

impl Connection {
    async fn until(&mut self, text: &str) {
        let coming =
            async { while !self.text().contains(text) && self.stream.read_buf(&mut self.read).await.unwrap() > 0 {} };
        // Heartbeats alone are not enough.
        let _ = timeout(HANG_TIMEOUT, coming).await;
        assert!(self.text().contains(text), "{text:?} does not come: {}", self.text());
    }

    async fn run_to_the_end(&mut self) {
        let rest = timeout(HANG_TIMEOUT, self.stream.read_to_end(&mut self.read)).await;
        assert!(rest.is_ok(), "an answer does not end: {}", self.text());
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.read).into()
    }
}

/// The worker keeps what it is sent, and is set up as the case says.
fn plan_for(case: &Case, directory: &TempDir) -> Plan {
    let mut plan = plan_in(directory.path());
    let path = |name: &str| directory.path().join(name);
    let args = &mut plan.groups[0].args;
    args.extend(["--capture".into(), path("capture.jsonl").into()]);
    for section in &case.sections {
        match section.part() {
            Some(Part::Worker(words)) => args.extend(words.split_whitespace().map(Into::into)),
            Some(Part::Script(script)) => {
                fs::write(path("script.toml"), script).unwrap();
                args.extend(["--script".into(), path("script.toml").into()]);
            }
            _ => {}
        }
    }
    plan
}

/// An agent, a plain model, an agent that asks first, and one that says nothing of its work.
fn profiles(directory: &TempDir) -> Vec<Profile> {
    let agent = Profile {
        name: "codex".into(),
        group: None,
        cwd: directory.path().join("project").to_str().map(str::to_owned),
        sandbox: Sandbox::WorkspaceWrite,
        approval_policy: ApprovalPolicy::OnRequest,
        model: None,
        effort: None,
        decision_timeout: None,
        is_plain: false,
        shows_work: true,
        readable: Vec::new(),
        trusted_projects: Vec::new(),
        network: false,
        // Some cases are played with older workers.
        allow_unconfined: true,
    };
    let plain = Profile { name: "codex-plain".into(), is_plain: true, ..agent.clone() };
    let careful = Profile {
        name: "careful".into(),
        sandbox: Sandbox::ReadOnly,
        approval_policy: ApprovalPolicy::Untrusted,
        effort: Some("low".into()),
        ..agent.clone()
    };
    let silent = Profile { name: "silent".into(), shows_work: false, ..agent.clone() };
    vec![agent, plain, careful, silent]
}
