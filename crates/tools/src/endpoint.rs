//! What callers see: one MCP server of either era that has everything that all tool servers have. One is made for each
//! connection of a legacy caller, and for each request of a modern one.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, OnceLock};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult, ErrorCode, GetPromptRequestParams,
    GetPromptResponse, GetPromptResult, Implementation, InitializeRequestParams, InitializeResult, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Reference, ServerCapabilities, ServerConfig,
    SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, Peer, RequestContext, RoleServer, SubscriptionContext};
use rmcp::{ErrorData, ServerHandler};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::asking::{Asking, Outcome, RequestDigest};
use crate::caller::Caller;
use crate::calling::{Called, Calling};
use crate::changes::{self, SUBSCRIBED_MAX, SUBSCRIBED_TOTAL_BYTES_MAX, SUBSCRIBED_URI_BYTES_MAX, Subscriptions};
use crate::connection::CallError;
use crate::face::Face;
use crate::handshake::Era;
use crate::host::{Host, Shared};
use crate::offers::page;
use crate::post::{Post, lock};
use crate::results::decoded;
use crate::sessions::{CallerSettings, OpeningSlot, Session, SessionUse};

/// The server that callers talk to.
pub(crate) struct Endpoint {
    host: Host,
    /// Who calls, where no request says so.
    caller: Option<Caller>,
    /// Tells this connection from all others.
    id: Arc<str>,
    /// The key that the connection was made with, if it is one.
    key: OnceLock<Arc<str>>,
    settings: Arc<CallerSettings>,
    /// At most one: what tells the caller of a pipe of changes. Whoever has a session is told on a stream of that.
    telling: Mutex<JoinSet<()>>,
    /// The session that it serves, if it serves one.
    session: Option<Arc<Session>>,
    /// Its place among those that there may be, unless its session has one.
    place: Mutex<Option<OwnedSemaphorePermit>>,
}

impl Endpoint {
    /// For callers that each request names; `None` if there are too many.
    pub(crate) fn new(host: &Host) -> Option<Self> {
        let shared = host.shared();
        let place = Arc::clone(&shared.listeners).try_acquire_owned().ok()?;
        Some(Self {
            host: host.clone(),
            caller: None,
            id: Uuid::new_v4().to_string().into(),
            key: OnceLock::new(),
            settings: Arc::new(CallerSettings {
                level: Mutex::default(),
                subscriptions: Arc::new(Subscriptions::new(Arc::clone(shared))),
            }),
            telling: Mutex::default(),
            session: None,
            place: Mutex::new(Some(place)),
        })
    }

    /// For the one caller of a pipe.
    pub(crate) fn of(host: &Host, caller: Caller) -> Option<Self> {
        Some(Self { caller: Some(caller), ..Self::new(host)? })
    }

    /// For the one caller of a session, for as long as it uses it.
    pub(crate) fn of_session(host: &Host, session: &Arc<Session>) -> Self {
        Self {
            host: host.clone(),
            caller: Some(session.caller.clone()),
            id: Arc::clone(&session.owner),
            key: OnceLock::new(),
            settings: Arc::clone(&session.settings),
            telling: Mutex::default(),
            session: Some(Arc::clone(session)),
            place: Mutex::default(),
        }
    }

    /// Keeps the session in use until a call is over, also if its caller loses the connection meanwhile.
    fn session_use(&self) -> Option<SessionUse> {
        self.session.as_ref().map(Session::enter)
    }

    /// Tells the caller of a pipe of every change from now on.
    fn begin_telling(&self, peer: Peer<RoleServer>) {
        let mut telling = lock(&self.telling);
        if self.session.is_none() && telling.is_empty() {
            telling.spawn(Arc::clone(&self.settings.subscriptions).tell(peer));
        }
    }

    fn shared(&self) -> &Arc<Shared> {
        self.host.shared()
    }

    /// Who calls. A connection belongs to the key that it was made with: to know its id is not enough.
    fn caller(&self, context: &RequestContext<RoleServer>) -> Result<Caller, ErrorData> {
        let parts = context.extensions.get::<http::request::Parts>();
        let named = parts.and_then(|parts| parts.extensions.get::<Caller>()).cloned();
        let caller = named.or_else(|| self.caller.clone());
        let caller = caller.ok_or_else(|| ErrorData::invalid_request("nobody says who calls", None))?;
        if *self.key.get_or_init(|| Arc::clone(&caller.key)) != caller.key {
            return Err(ErrorData::invalid_request("this connection belongs to another key", None));
        }
        Ok(caller)
    }

    /// The face of a caller: one without a connection comes back with its key alone.
    fn face(&self, context: &RequestContext<RoleServer>) -> Result<Face, ErrorData> {
        let caller = self.caller(context)?;
        let mut face = Face::of(Arc::clone(&self.id), context, *lock(&self.settings.level));
        if face.era == Era::Modern && self.caller.is_none() {
            face.owner = format!("key {}", caller.key).into();
        }
        Ok(face)
    }

    fn post_of_resource(&self, uri: &str) -> Result<Arc<Post>, ErrorData> {
        let server = self.shared().offers().resource(uri).cloned();
        server.and_then(|server| self.shared().post(&server)).ok_or_else(|| {
            ErrorData::resource_not_found(
                format!("no tool server has the resource `{uri}`"),
                Some(json!({ "uri": uri })),
            )
        })
    }

    /// A request other than a call of a tool, passed on to the server it is about.
    async fn pass_on(
        &self,
        post: &Arc<Post>,
        context: &RequestContext<RoleServer>,
        method: &'static str,
        params: Value,
        coming_back: (Option<Value>, Option<String>),
    ) -> Result<Outcome, ErrorData> {
        let digest = RequestDigest::of(&format!("{method} {params}"));
        let (caller, face) = (self.caller(context)?, self.face(context)?);
        let asking = Asking { shared: self.shared(), post, face: &face, key: &caller.key, method, digest };
        let _session_use = self.session_use();
        let (answers, state) = coming_back;
        let asked = async {
            if let Some(state) = &state
                && let Some(outcome) = asking.resume(state, answers.as_ref().unwrap_or(&Value::Null)).await
            {
                return outcome;
            }
            let mut params = params;
            if let Some(answers) = answers {
                params["inputResponses"] = answers;
            }
            if let Some(state) = state {
                params["requestState"] = state.into();
            }
            asking.ask(params).await
        };
        let outcome = unless_given_up(context, asked).await?.map_err(|error| match error {
            CallError::Refused(error) => error,
            other => ErrorData::internal_error(other.to_string(), Some(failed(&other))),
        })?;
        let (Outcome::Complete(result) | Outcome::InputRequired(result)) = &outcome;
        let (bytes, bytes_max) = (result.to_string().len(), post.server.result_bytes_max);
        if bytes > bytes_max {
            let why = format!(
                "the answer has {bytes} bytes, and {bytes_max} are passed on (`result_bytes_max` of the tool server {})",
                post.name
            );
            return Err(ErrorData::internal_error(why, None));
        }
        Ok(outcome)
    }
}

impl ServerHandler for Endpoint {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_resources_subscribe()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_completions()
            .enable_logging()
            .build();
        let servers: Vec<String> = self.shared().posts().iter().map(|post| post.name.to_string()).collect();
        let instructions =
            format!("The tools of {} servers, most of them named SERVER__TOOL: {}.", servers.len(), servers.join(", "));
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("switchboard", env!("CARGO_PKG_VERSION")))
            .with_instructions(instructions)
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        self.caller(&context)?;
        let parts = context.extensions.get::<http::request::Parts>();
        let slot = parts.and_then(|parts| parts.extensions.get::<OpeningSlot>());
        if let (Some(slot), Some(place)) = (slot, lock(&self.place).take()) {
            slot.fill(&request, place)?;
        }
        context.peer.set_peer_info(request.clone());
        self.negotiate_initialize(&request)
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.begin_telling(context.peer);
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.shared().offers().tool(name).map(|way| way.what.tool.clone())
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let offers = self.shared().offers();
        let (tools, next_cursor) = page(&offers.tools, cursor(request.as_ref()), self.shared().limits.page_max)?;
        Ok(ListToolsResult { tools, next_cursor, ..ListToolsResult::default() })
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let offers = self.shared().offers();
        let way = offers.tool(&request.name).ok_or_else(|| self.shared().unknown_tool(&request.name))?;
        let (caller, face) = (self.caller(&context)?, self.face(&context)?);
        let _session_use = self.session_use();
        let calling = Calling {
            shared: self.shared(),
            caller: &caller,
            face: &face,
            way,
            arguments: Value::Object(request.arguments.unwrap_or_default()).into(),
            answers: request.input_responses.map(|answers| json!(answers)),
            state: request.request_state,
        };
        Ok(match unless_given_up(&context, calling.call()).await?? {
            Called::Complete(result) => CallToolResponse::Complete(result),
            Called::InputRequired(required) => CallToolResponse::InputRequired(required),
        })
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let offers = self.shared().offers();
        let (prompts, next_cursor) = page(&offers.prompts, cursor(request.as_ref()), self.shared().limits.page_max)?;
        Ok(ListPromptsResult { prompts, next_cursor, ..ListPromptsResult::default() })
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let offers = self.shared().offers();
        let unknown = || ErrorData::invalid_params(format!("unknown prompt `{}`", request.name), None);
        let way = offers.prompt(&request.name).ok_or_else(unknown)?;
        let post = self.shared().post(&way.server).ok_or_else(unknown)?;
        let mut params = json!({ "name": way.own });
        if let Some(arguments) = request.arguments {
            params["arguments"] = arguments.into();
        }
        let coming_back = (request.input_responses.map(|answers| json!(answers)), request.request_state);
        match self.pass_on(&post, &context, "prompts/get", params, coming_back).await? {
            Outcome::Complete(result) => usable::<GetPromptResult>(result).map(GetPromptResponse::Complete),
            Outcome::InputRequired(required) => usable(required).map(GetPromptResponse::InputRequired),
        }
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let offers = self.shared().offers();
        let (resources, next_cursor) =
            page(&offers.resources, cursor(request.as_ref()), self.shared().limits.page_max)?;
        Ok(ListResourcesResult { resources, next_cursor, ..ListResourcesResult::default() })
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let offers = self.shared().offers();
        let (resource_templates, next_cursor) =
            page(&offers.templates, cursor(request.as_ref()), self.shared().limits.page_max)?;
        Ok(ListResourceTemplatesResult { resource_templates, next_cursor, ..ListResourceTemplatesResult::default() })
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let post = self.post_of_resource(&request.uri)?;
        let params = json!({ "uri": request.uri });
        let coming_back = (request.input_responses.map(|answers| json!(answers)), request.request_state);
        match self.pass_on(&post, &context, "resources/read", params, coming_back).await? {
            Outcome::Complete(result) => usable::<ReadResourceResult>(result).map(ReadResourceResponse::Complete),
            Outcome::InputRequired(required) => usable(required).map(ReadResourceResponse::InputRequired),
        }
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let offers = self.shared().offers();
        let mut params = serde_json::to_value(&request).unwrap_or_default();
        let post = match &request.r#ref {
            Reference::Prompt(prompt) => {
                let way = offers.prompt(&prompt.name);
                let way =
                    way.ok_or_else(|| ErrorData::invalid_params(format!("unknown prompt `{}`", prompt.name), None))?;
                params["ref"]["name"] = way.own.as_str().into();
                self.shared().post(&way.server)
            }
            Reference::Resource(resource) => Some(self.post_of_resource(&resource.uri)?),
            _ => None,
        };
        let can_complete = |post: &Arc<Post>| {
            post.connection().is_some_and(|connection| connection.agreement().capabilities.get("completions").is_some())
        };
        let Some(post) = post.filter(can_complete) else { return Ok(CompleteResult::default()) };
        match self.pass_on(&post, &context, "completion/complete", params, (None, None)).await? {
            Outcome::Complete(result) => usable(result),
            Outcome::InputRequired(_) => Ok(CompleteResult::default()),
        }
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        *lock(&self.settings.level) = Some(request.level);
        Ok(())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.caller(&context)?;
        self.post_of_resource(&request.uri)?;
        if !self.settings.subscriptions.subscribe(&request.uri) {
            let why = format!(
                "one caller can be told of {SUBSCRIBED_MAX} resources, each with an address of {SUBSCRIBED_URI_BYTES_MAX} bytes at \
                 most, all of them together {SUBSCRIBED_TOTAL_BYTES_MAX}: give up one of them first"
            );
            return Err(ErrorData::invalid_request(why, None));
        }
        self.begin_telling(context.peer);
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.settings.subscriptions.unsubscribe(&request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let mut accepted = requested.clone();
        if let Some(uris) = &mut accepted.resource_subscriptions {
            changes::keep_allowed(uris);
        }
        Some(accepted)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        self.settings.subscriptions.serve(&context).await;
        Ok(())
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [rmcp::model::ProtocolVersion]> {
        Cow::Borrowed(rmcp::model::ProtocolVersion::KNOWN_VERSIONS)
    }
}

/// Whoever asks can give up; rmcp would let what was asked run on.
async fn unless_given_up<T>(
    context: &RequestContext<RoleServer>,
    asked: impl Future<Output = T>,
) -> Result<T, ErrorData> {
    tokio::select! {
        outcome = asked => Ok(outcome),
        () = context.ct.cancelled() => Err(ErrorData::internal_error("the caller gave it up", None)),
    }
}

fn cursor(request: Option<&PaginatedRequestParams>) -> Option<&str> {
    request.and_then(|request| request.cursor.as_deref())
}

fn usable<T: DeserializeOwned>(result: Value) -> Result<T, ErrorData> {
    decoded(result).map_err(|why| {
        ErrorData::new(ErrorCode::INTERNAL_ERROR, format!("the tool server's result cannot be used: {why}"), None)
    })
}

fn failed(error: &CallError) -> Value {
    json!({ "switchboard/failure": { "work_may_have_run": error.work_may_have_run() } })
}
