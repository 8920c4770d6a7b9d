//! One call of a tool, from its arguments to its place in the audit: the arguments are judged, what needs a confirmation waits
//! for it, the server is asked, and the result is cut to its size. Whatever comes of it, it is written down once.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use approvals::{Kind, Offers, Verdict, Wanted};
use rmcp::ErrorData;
use rmcp::model::{CallToolResult, ContentBlock, InputRequiredResult, MetaObject};
use serde_json::{Value, json};
use store::{Change, ToolCallOutcome};
use uuid::Uuid;

use crate::asking::{Asking, Outcome, RequestDigest};
use crate::caller::Caller;
use crate::cap::capped;
use crate::catalog::OwnTool;
use crate::connection::CallError;
use crate::face::Face;
use crate::host::{Shared, unix_ms};
use crate::notice::Notice;
use crate::offers::Way;
use crate::post::Post;
use crate::results::decoded;
use crate::strays::origin;
use crate::validation::Unjudged;
use crate::waiting::Waiting;

/// Why a call is not made that was confirmed, or was to be: its server is another one now.
const CHANGED: &str = "its server is not there any more, or was changed meanwhile: ask again";

/// One call of a tool.
pub(crate) struct Calling<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) caller: &'a Caller,
    pub(crate) face: &'a Face,
    pub(crate) way: &'a Way<OwnTool>,
    pub(crate) arguments: Arc<Value>,
    /// What a caller that comes back brings.
    pub(crate) answers: Option<Value>,
    pub(crate) state: Option<String>,
}

/// What came of it.
pub(crate) enum Called {
    Complete(CallToolResult),
    /// The caller is to come back with answers.
    InputRequired(InputRequiredResult),
}

impl Calling<'_> {
    /// Calls the tool. An error is one of the protocol; what goes wrong with the tool is a result that says so.
    pub(crate) async fn call(self) -> Result<Called, ErrorData> {
        let record = Record::new(&self);
        let Some(post) = self.shared.post(&self.way.server) else {
            return Ok(record.refused("its server is not there any more"));
        };
        match self.judged(&post, record.request_bytes).await {
            Ok(None) => {}
            Ok(Some(wrong)) => return Ok(record.refused_because(&wrong, "its arguments do not fit its schema")),
            Err(unjudged) => return Ok(record.refused(&unjudged.to_string())),
        }
        let (face, key, digest) = (self.face, &self.caller.key, self.digest());
        let asking = Asking { shared: self.shared, post: &post, face, key, method: "tools/call", digest };
        let resumed = match &self.state {
            Some(state) => asking.resume(state, self.answers.as_ref().unwrap_or(&Value::Null)).await,
            None => None,
        };
        let (record, outcome) = match resumed {
            Some(outcome) => (record, outcome),
            None => {
                let record = match self.confirmed(&post, record).await {
                    Ok(record) => record,
                    Err(refusal) => return Ok(refusal),
                };
                // What was confirmed is a call of this server, not of another one with its name.
                if !self.shared.post(&self.way.server).is_some_and(|present| Arc::ptr_eq(&present, &post)) {
                    return Ok(record.refused(CHANGED));
                }
                (record, asking.ask(self.params()).await)
            }
        };
        record.end(&post, outcome)
    }

    /// What is wrong with the arguments, if anything is.
    async fn judged(&self, post: &Post, arguments_bytes: usize) -> Result<Option<String>, Unjudged> {
        let Some(judge) = &self.way.what.judge else { return Ok(None) };
        if judge.is_quick(arguments_bytes) {
            return Ok(judge.wrong_arguments(&self.arguments));
        }
        let (judge, arguments) = (Arc::clone(judge), Arc::clone(&self.arguments));
        post.judgements.run(move || judge.wrong_arguments(&arguments)).await
    }

    /// Waits for the decision of whoever may call this, if one is needed.
    async fn confirmed<'r>(&self, post: &Post, mut record: Record<'r>) -> Result<Record<'r>, Called> {
        if !self.way.what.needs_confirmation {
            return Ok(record);
        }
        let Some(approvals) = &self.shared.approvals else {
            return Err(record.refused("it needs a confirmation, and nobody is here to give one: call it through a running server (`switchboard serve`)"));
        };
        let wanted = Wanted {
            kind: Kind::ToolConfirmation,
            origin: origin(&self.way.server, &self.face.owner, &record.id),
            method: "tools/call".into(),
            params: json!({ "server": *self.way.server, "tool": self.way.own, "arguments": *self.arguments })
                .to_string(),
            command: None,
            cwd: None,
            changes: None,
            key: Some(self.caller.key.to_string()),
            // Each call is confirmed by itself: there is no thread whose end would end a longer leave.
            offers: Some(Offers { allow: true, ..Offers::default() }),
            timeout: None,
        };
        let waiting = match Waiting::begin(self.shared, approvals, wanted).await {
            Ok(waiting) => waiting,
            Err(error) => return Err(record.refused(&format!("its confirmation could not be asked for: {error}"))),
        };
        record.approval = Some(waiting.id().to_owned());
        let decided = tokio::select! {
            decided = waiting.decided() => decided,
            () = post.over.cancelled() => return Err(record.refused(CHANGED)),
        };
        match decided.verdict {
            verdict if verdict.allows() => Ok(record),
            Verdict::Deny { reason } => {
                Err(record.refused_because(&format!("it was not confirmed: {reason}"), "it was not confirmed"))
            }
            _ => Err(record.refused("it was not confirmed")),
        }
    }

    fn params(&self) -> Value {
        let mut params = json!({ "name": self.way.own, "arguments": *self.arguments });
        if let Some(answers) = &self.answers {
            params["inputResponses"] = answers.clone();
        }
        if let Some(state) = &self.state {
            params["requestState"] = state.as_str().into();
        }
        params
    }

    fn digest(&self) -> RequestDigest {
        RequestDigest::of(&format!("{} {} {}", self.way.server, self.way.own, self.arguments))
    }
}

/// What will be written down of a call; if nothing else is said of it, that its caller gave it up.
struct Record<'a> {
    shared: &'a Arc<Shared>,
    id: String,
    started: Instant,
    at: i64,
    caller: &'a Caller,
    server: Arc<str>,
    tool: Arc<str>,
    request_bytes: usize,
    approval: Option<String>,
    is_written: bool,
}

impl<'a> Record<'a> {
    fn new(calling: &Calling<'a>) -> Self {
        calling.shared.under_way.fetch_add(1, Ordering::Relaxed);
        Self {
            shared: calling.shared,
            id: Uuid::now_v7().to_string(),
            started: Instant::now(),
            at: unix_ms(),
            caller: calling.caller,
            server: Arc::clone(&calling.way.server),
            tool: calling.way.own.as_str().into(),
            request_bytes: calling.arguments.to_string().len(),
            approval: None,
            is_written: false,
        }
    }

    /// The server was never asked.
    fn refused(self, why: &str) -> Called {
        self.refused_because(why, why)
    }

    /// The same, where what is said may quote what was said.
    fn refused_because(mut self, why: &str, detail: &str) -> Called {
        let text = format!("the tool `{}` of {} was not called: {why}", self.tool, self.server);
        self.write(ToolCallOutcome::Refused, 0, Some(detail));
        failure(&text, "refused", false)
    }

    /// The server was asked, and this came of it.
    fn end(mut self, post: &Post, outcome: Result<Outcome, CallError>) -> Result<Called, ErrorData> {
        match outcome {
            Ok(Outcome::Complete(result)) => {
                let bytes = result.to_string().len();
                let (result, cut) = capped(result, post.server.result_bytes_max, &self.server);
                let result: CallToolResult = match decoded(result) {
                    Ok(result) => result,
                    Err(why) => return Ok(self.unusable(bytes, &why)),
                };
                let is_error = result.is_error == Some(true);
                let outcome = if is_error { ToolCallOutcome::Failed } else { ToolCallOutcome::Succeeded };
                self.write(outcome, bytes, cut.map(|_| "the result was cut"));
                Ok(Called::Complete(result))
            }
            Ok(Outcome::InputRequired(required)) => {
                let bytes = required.to_string().len();
                let required: InputRequiredResult = match decoded(required) {
                    Ok(required) => required,
                    Err(why) => return Ok(self.unusable(bytes, &why)),
                };
                self.write(ToolCallOutcome::InputRequired, bytes, None);
                Ok(Called::InputRequired(required))
            }
            Err(CallError::Refused(error)) => {
                self.write(
                    ToolCallOutcome::Failed,
                    0,
                    Some(&format!("the server answered with error {}", error.code.0)),
                );
                Err(error)
            }
            Err(error) => {
                let (outcome, kind) = match &error {
                    CallError::TimedOut(_) => (ToolCallOutcome::TimedOut, "timed_out"),
                    CallError::NotSent(_) => (ToolCallOutcome::Refused, "not_sent"),
                    CallError::Unreadable(_) => (ToolCallOutcome::Failed, "unusable_result"),
                    _ => (ToolCallOutcome::Lost, "server_gone"),
                };
                self.write(outcome, 0, None);
                let advice = match error.work_may_have_run() {
                    true => "what was asked may have been done all the same: look before it is asked again",
                    false => "nothing was done",
                };
                let text = format!("the tool `{}` of {} gave no result: {error}; {advice}", self.tool, self.server);
                Ok(failure(&text, kind, error.work_may_have_run()))
            }
        }
    }

    /// The server answered, and nobody can make anything of it.
    fn unusable(mut self, bytes: usize, why: &str) -> Called {
        self.write(ToolCallOutcome::Failed, bytes, Some("its result cannot be used"));
        let text = format!("the tool `{}` of {} gave no result that can be used: {why}", self.tool, self.server);
        failure(&text, "unusable_result", true)
    }

    /// Writes it down, in words that quote nothing of what was said.
    fn write(&mut self, outcome: ToolCallOutcome, result_bytes: usize, detail: Option<&str>) {
        self.is_written = true;
        let took = self.started.elapsed();
        let wide = |size: usize| i64::try_from(size).unwrap_or(i64::MAX);
        if let Some(store) = &self.shared.store {
            store.note(Change::ToolCall(store::ToolCall {
                id: self.id.clone(),
                at: self.at,
                key: self.caller.key.to_string(),
                caller: self.caller.label.to_string(),
                server: self.server.to_string(),
                tool: self.tool.to_string(),
                took_ms: i64::try_from(took.as_millis()).unwrap_or(i64::MAX),
                request_bytes: wide(self.request_bytes),
                result_bytes: wide(result_bytes),
                outcome,
                detail: detail.map(str::to_owned),
                approval: self.approval.clone(),
            }));
        }
        self.shared.tell(Notice::ToolCalled {
            key: Arc::clone(&self.caller.key),
            server: Arc::clone(&self.server),
            tool: Arc::clone(&self.tool),
            outcome: outcome.as_str(),
            took,
            took_ms: u64::try_from(took.min(Duration::from_secs(u64::from(u32::MAX))).as_millis()).unwrap_or(u64::MAX),
        });
    }
}

impl Drop for Record<'_> {
    fn drop(&mut self) {
        if !self.is_written {
            self.write(ToolCallOutcome::Cancelled, 0, None);
        }
        self.shared.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A result that says that there is none, to the model in words and to a program in a field.
fn failure(text: &str, kind: &str, work_may_have_run: bool) -> Called {
    let mut result = CallToolResult::error(vec![ContentBlock::text(text)]);
    let failure = json!({ "switchboard/failure": { "kind": kind, "work_may_have_run": work_may_have_run } });
    result.meta = failure.as_object().cloned().map(MetaObject);
    Called::Complete(result)
}
