//! Good servers: one that begins with `initialize`, one in which every request stands for itself, and one that does both.
//! Calls run beside each other; everything else is answered in turn.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use serde_json::{Value, json};

use super::lines::{done, failed, heard, method_of, say, told};
use super::{calls, shelf};

const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
const MODERN: &str = "2026-07-28";

const INVALID_REQUEST: i64 = -32600;
const METHOD_NOT_FOUND: i64 = -32601;
pub(crate) const INVALID_PARAMS: i64 = -32602;
const MISSING_CAPABILITY: i64 = -32021;
const UNSUPPORTED_VERSION: i64 = -32022;

/// What of MCP a server speaks.
#[derive(Clone, Copy)]
pub(crate) struct Eras {
    legacy: bool,
    modern: bool,
    tools_per_page: usize,
    answers_unknown_methods: bool,
    /// Whether there are tools that put something on the shelf.
    has_open_shelf: bool,
}

impl Eras {
    pub(crate) const DUAL: Self =
        Self { legacy: true, modern: true, tools_per_page: 100, answers_unknown_methods: true, has_open_shelf: false };
    pub(crate) const LEGACY: Self = Self { modern: false, tools_per_page: 2, ..Self::DUAL };
    pub(crate) const MODERN: Self = Self { legacy: false, ..Self::DUAL };
    pub(crate) const DEAF: Self = Self { answers_unknown_methods: false, ..Self::LEGACY };

    pub(crate) const fn with_open_shelf(self) -> Self {
        Self { has_open_shelf: true, ..self }
    }
}

/// Serves until stdin is closed.
pub(crate) fn serve(eras: Eras) {
    let server = Arc::new(Server { eras, state: Mutex::default() });
    heard().for_each(|message| server.hear(&message));
}

/// One server.
pub(crate) struct Server {
    eras: Eras,
    state: Mutex<State>,
}

/// What it remembers.
#[derive(Default)]
pub(crate) struct State {
    /// What a legacy host can do, once it has said so.
    host: Option<Value>,
    /// Our requests to a legacy host that wait for its answer, and how many there were.
    waiting: HashMap<u64, SyncSender<Value>>,
    asked: u64,
    /// The ids of requests that nobody waits for any more.
    cancelled: HashSet<String>,
    /// The `subscriptions/listen` requests of a modern host: their ids, and what each wants to hear.
    listeners: Vec<(Value, Value)>,
    /// The resources that a legacy host subscribed to.
    subscribed: BTreeSet<String>,
    /// Whether the tool that `change` adds is there.
    pub(crate) has_extra: bool,
    /// Whether what `add_prompt` and `add_resource` add is on the shelf.
    pub(crate) has_thanks: bool,
    pub(crate) has_farewell: bool,
    /// What the resource `gallery://counter` holds.
    pub(crate) counter: u64,
}

/// How a request was made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

/// Why a request failed.
pub(crate) struct Failure {
    code: i64,
    message: String,
    data: Value,
}

impl Failure {
    pub(crate) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: Value::Null }
    }
}

/// What came of asking the host something.
pub(crate) enum Input {
    /// The host's answer.
    Given(Value),
    /// The result by which a modern host is asked.
    Wanted(Value),
}

/// One request of the host.
pub(crate) struct Request {
    pub(crate) server: Arc<Server>,
    pub(crate) era: Era,
    pub(crate) params: Value,
    id: Value,
    method: String,
}

impl Server {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hear(self: &Arc<Self>, message: &Value) {
        let (method, params) = (method_of(message), &message["params"]);
        let Some(id) = message.get("id") else { return self.notice(method, params) };
        if method.is_empty() {
            let waiting = id.as_u64().and_then(|id| self.state().waiting.remove(&id));
            return waiting.iter().for_each(|waiting| drop(waiting.send(message.clone())));
        }
        let (id, method, params) = (id.clone(), method.to_owned(), params.clone());
        let era = match self.era(&method, &params) {
            Ok(era) => era,
            Err(failure) => return self.refuse(&id, &failure),
        };
        let request = Request { server: Arc::clone(self), era, params, id, method };
        match request.method.as_str() {
            "tools/call" => drop(thread::spawn(move || request.finish(calls::call(&request)))),
            "subscriptions/listen" if era == Era::Modern => self.listen(&request),
            _ => request.finish(request.answer()),
        }
    }

    fn notice(&self, method: &str, params: &Value) {
        if method == "notifications/cancelled" {
            let mut state = self.state();
            state.listeners.retain(|(id, _)| *id != params["requestId"]);
            state.cancelled.insert(params["requestId"].to_string());
        }
    }

    /// How this request was made, if it may be made so.
    fn era(&self, method: &str, params: &Value) -> Result<Era, Failure> {
        let meta = &params["_meta"];
        match meta["io.modelcontextprotocol/protocolVersion"].as_str() {
            Some(MODERN) if self.eras.modern => match meta["io.modelcontextprotocol/clientCapabilities"] {
                Value::Object(_) => Ok(Era::Modern),
                _ => Err(Failure::new(INVALID_PARAMS, "Missing io.modelcontextprotocol/clientCapabilities in _meta")),
            },
            Some(requested) if self.eras.modern => Err(Failure {
                data: json!({"supported": [MODERN], "requested": requested}),
                ..Failure::new(UNSUPPORTED_VERSION, "Unsupported protocol version")
            }),
            _ if self.eras.legacy => {
                let needs_handshake = !matches!(method, "initialize" | "ping" | "server/discover");
                if needs_handshake && self.state().host.is_none() {
                    return Err(Failure::new(INVALID_REQUEST, "Not initialized"));
                }
                Ok(Era::Legacy)
            }
            _ if method == "initialize" => Err(Failure {
                data: json!({"supported": [MODERN]}),
                ..Failure::new(METHOD_NOT_FOUND, format!("No initialize here: this server speaks {MODERN}"))
            }),
            _ => Err(Failure::new(INVALID_PARAMS, "Missing io.modelcontextprotocol/protocolVersion in _meta")),
        }
    }

    fn refuse(&self, id: &Value, failure: &Failure) {
        if failure.code == METHOD_NOT_FOUND && !self.eras.answers_unknown_methods {
            return;
        }
        let mut answer = failed(id, failure.code, &failure.message);
        if !failure.data.is_null() {
            answer["error"]["data"] = failure.data.clone();
        }
        say(&answer);
    }

    fn listen(&self, request: &Request) {
        let wanted = &request.params["notifications"];
        let mut heard = json!({});
        for name in ["toolsListChanged", "promptsListChanged", "resourcesListChanged", "resourceSubscriptions"] {
            if let Some(wanted) = wanted.get(name) {
                heard[name] = wanted.clone();
            }
        }
        let meta = json!({"io.modelcontextprotocol/subscriptionId": request.id});
        let params = json!({"_meta": meta, "notifications": heard});
        say(&told("notifications/subscriptions/acknowledged", &params));
        self.state().listeners.push((request.id.clone(), heard));
    }

    /// All tools that there are now.
    pub(crate) fn tools(&self) -> Vec<Value> {
        let mut tools = calls::tools(self.state().has_extra);
        if self.eras.has_open_shelf {
            tools.extend(calls::shelf_tools());
        }
        tools
    }

    /// Tells every host that wants to hear it that `tools`, `prompts` or `resources` are others than before.
    pub(crate) fn tell_changed(&self, list: &str) {
        let field = format!("{list}ListChanged");
        let method = format!("notifications/{list}/list_changed");
        self.tell(&method, &json!({}), |_| true, |heard| heard[&field] == true);
    }

    /// Tells every host that subscribed to this resource.
    pub(crate) fn tell_updated(&self, uri: &str) {
        let is_named = |heard: &Value| {
            heard["resourceSubscriptions"].as_array().is_some_and(|uris| uris.iter().any(|named| named == uri))
        };
        let params = json!({"uri": uri});
        self.tell("notifications/resources/updated", &params, |state| state.subscribed.contains(uri), is_named);
    }

    fn tell(&self, method: &str, params: &Value, legacy: impl Fn(&State) -> bool, modern: impl Fn(&Value) -> bool) {
        let state = self.state();
        if state.host.is_some() && legacy(&state) {
            say(&told(method, params));
        }
        for (id, _) in state.listeners.iter().filter(|(_, heard)| modern(heard)) {
            let mut params = params.clone();
            params["_meta"] = json!({"io.modelcontextprotocol/subscriptionId": id});
            say(&told(method, &params));
        }
    }
}

impl Request {
    fn answer(&self) -> Result<Value, Failure> {
        match (self.era, self.method.as_str()) {
            (Era::Legacy, "initialize") => Ok(self.begin()),
            (Era::Legacy, "ping" | "logging/setLevel") => Ok(json!({})),
            (Era::Legacy, "resources/subscribe" | "resources/unsubscribe") => Ok(self.subscribe()),
            (Era::Modern, "server/discover") => {
                Ok(json!({"supportedVersions": [MODERN], "capabilities": capabilities()}))
            }
            (_, "tools/list") => self.tools(),
            (_, "resources/list") => Ok(shelf::resources(&self.server.state())),
            (_, "resources/templates/list") => Ok(shelf::templates()),
            (_, "resources/read") => shelf::read(self),
            (_, "prompts/list") => Ok(shelf::prompts(&self.server.state())),
            (_, "prompts/get") => shelf::prompt(&self.params),
            (_, "completion/complete") => shelf::complete(&self.params),
            (_, method) => Err(Failure::new(METHOD_NOT_FOUND, format!("Method not found: {method}"))),
        }
    }

    fn begin(&self) -> Value {
        self.server.state().host = Some(self.params["capabilities"].clone());
        let wanted = self.params["protocolVersion"].as_str().filter(|wanted| LEGACY.contains(wanted));
        let version = wanted.unwrap_or(LEGACY[LEGACY.len() - 1]);
        json!({"protocolVersion": version, "capabilities": capabilities(), "serverInfo": server_info()})
    }

    fn subscribe(&self) -> Value {
        let uri = self.params["uri"].as_str().unwrap_or_default().to_owned();
        let mut state = self.server.state();
        if self.method == "resources/subscribe" {
            state.subscribed.insert(uri)
        } else {
            state.subscribed.remove(&uri)
        };
        json!({})
    }

    fn tools(&self) -> Result<Value, Failure> {
        let tools = self.server.tools();
        let cursor = self.params["cursor"].as_str().unwrap_or("0");
        let unknown = || Failure::new(INVALID_PARAMS, format!("Invalid cursor: {cursor}"));
        let start = cursor.parse::<usize>().ok().filter(|start| *start < tools.len()).ok_or_else(unknown)?;
        let end = tools.len().min(start + self.server.eras.tools_per_page);
        let mut page = json!({"tools": tools[start..end]});
        if end < tools.len() {
            page["nextCursor"] = json!(end.to_string());
        }
        Ok(page)
    }

    /// Sends the answer, unless nobody waits for it any more.
    fn finish(&self, answer: Result<Value, Failure>) {
        if self.is_cancelled() {
            return;
        }
        let mut result = match answer {
            Ok(result) => result,
            Err(failure) => return self.server.refuse(&self.id, &failure),
        };
        if self.era == Era::Modern {
            if result.get("resultType").is_none() {
                result["resultType"] = json!("complete");
            }
            if !matches!(self.method.as_str(), "tools/call" | "prompts/get" | "completion/complete") {
                result["ttlMs"] = json!(0);
                result["cacheScope"] = json!("private");
            }
            result["_meta"] = json!({"io.modelcontextprotocol/serverInfo": server_info()});
        }
        say(&done(&self.id, &result));
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.server.state().cancelled.contains(&self.id.to_string())
    }

    /// Reports progress, if the host wants to hear of it.
    pub(crate) fn progress(&self, progress: u64, total: u64) {
        if let Some(token) = self.params["_meta"].get("progressToken") {
            let params = json!({"progressToken": token, "progress": progress, "total": total});
            say(&told("notifications/progress", &params));
        }
    }

    /// Whether the host wants log messages: a modern one says so with each request.
    pub(crate) fn wants_logs(&self) -> bool {
        self.era == Era::Legacy || self.params["_meta"].get("io.modelcontextprotocol/logLevel").is_some()
    }

    /// Asks the host for something that it may be able to do.
    pub(crate) fn input(&self, capability: &str, method: &str, params: &Value) -> Result<Input, Failure> {
        let host = match self.era {
            Era::Legacy => self.server.state().host.clone().unwrap_or_default(),
            Era::Modern => self.params["_meta"]["io.modelcontextprotocol/clientCapabilities"].clone(),
        };
        if host.get(capability).is_none() {
            let message = format!("The client does not support {capability}");
            return Err(match self.era {
                Era::Legacy => Failure::new(INVALID_REQUEST, message),
                Era::Modern => Failure {
                    data: json!({"requiredCapabilities": {capability: {}}}),
                    ..Failure::new(MISSING_CAPABILITY, message)
                },
            });
        }
        match self.era {
            Era::Legacy => Ok(Input::Given(self.ask(method, params))),
            Era::Modern => self.ask_again(method, params),
        }
    }

    /// A legacy host is asked by a request, and waited for.
    fn ask(&self, method: &str, params: &Value) -> Value {
        let (answer, answered) = sync_channel(1);
        let id = {
            let mut state = self.server.state();
            state.asked += 1;
            let id = state.asked;
            state.waiting.insert(id, answer);
            id
        };
        say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        let answer = answered.recv().unwrap_or_default();
        answer.get("result").unwrap_or(&answer["error"]).clone()
    }

    /// A modern host is asked by a result, and makes its request once more with the answer.
    fn ask_again(&self, method: &str, params: &Value) -> Result<Input, Failure> {
        const KEY: &str = "input";
        let state = format!("gallery:{method}");
        match self.params["inputResponses"].get(KEY) {
            Some(given) if self.params["requestState"] == json!(state) => Ok(Input::Given(given.clone())),
            Some(_) => Err(Failure::new(INVALID_PARAMS, "The requestState is not the one that was given")),
            None => Ok(Input::Wanted(json!({
                "resultType": "input_required",
                "inputRequests": {KEY: {"method": method, "params": params}},
                "requestState": state,
            }))),
        }
    }
}

fn server_info() -> Value {
    json!({"name": "gallery", "version": "1.0.0"})
}

fn capabilities() -> Value {
    json!({
        "tools": {"listChanged": true},
        "resources": {"listChanged": true, "subscribe": true},
        "prompts": {"listChanged": true},
        "completions": {},
        "logging": {},
    })
}
