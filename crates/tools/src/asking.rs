//! One request of a caller to a tool server, bridged between their eras: what a legacy server asks in the middle becomes
//! `input_required` for a modern caller, which comes back with the answers; what a modern server requires is asked of a
//! legacy caller one by one, and the request is sent again with it. Within one era it is passed on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use rmcp::ErrorData;
use rmcp::model::ClientCapabilities;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::connection::{Asker, Call, CallError, CallEvent, Connection, Next, Question};
use crate::face::Face;
use crate::handshake::Era;
use crate::host::Shared;
use crate::parked::ParkedCall;
use crate::post::Post;
use crate::strays;
use crate::view::ServerState;

/// Questions that come within so long of the first are asked together.
const TOGETHER: Duration = Duration::from_millis(10);

/// What came of a request.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The result of the server.
    Complete(Value),
    /// The caller is to come back with answers; the result says to what.
    InputRequired(Value),
}

/// A request on its way.
pub(crate) struct Asking<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) post: &'a Arc<Post>,
    pub(crate) face: &'a Face,
    /// The id of the caller's key.
    pub(crate) key: &'a Arc<str>,
    pub(crate) method: &'static str,
    /// A caller that comes back must ask for the same.
    pub(crate) digest: RequestDigest,
}

/// Tells requests apart without holding what they ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestDigest([u8; SHA256_OUTPUT_LEN]);

impl RequestDigest {
    pub(crate) fn of(request: &str) -> Self {
        let mut bytes = [0; SHA256_OUTPUT_LEN];
        bytes.copy_from_slice(digest(&SHA256, request.as_bytes()).as_ref());
        Self(bytes)
    }
}

impl Asking<'_> {
    /// Sends the request, and sees it through. What was not sent because the server had just ended is sent to the next one.
    pub(crate) async fn ask(&self, params: Value) -> Result<Outcome, CallError> {
        // However often it is tried, it is waited only so long.
        let until = Instant::now() + self.post.server.timeouts.call;
        match self.ask_once(params.clone(), until).await {
            Err(CallError::NotSent(_)) if Instant::now() < until => self.ask_once(params, until).await,
            outcome => outcome,
        }
    }

    async fn ask_once(&self, mut params: Value, until: Instant) -> Result<Outcome, CallError> {
        let _turn = tokio::time::timeout_at(until.into(), self.post.place(self.key))
            .await
            .map_err(|_| CallError::NotSent("too many calls of it are under way".into()))?;
        let within = until.saturating_duration_since(Instant::now());
        let connection = self.post.connected(within).await.ok_or_else(|| CallError::NotSent(self.reason()))?;
        let era = connection.agreement().era;
        self.want_logs(&connection).await;
        let meta = self.face.meta_for(era);
        if meta.as_object().is_some_and(|fields| !fields.is_empty()) {
            params["_meta"] = meta;
        }
        for round in 0..=self.shared.limits.input_rounds_max {
            let outcome = self.send(&connection, params.clone()).await.map_err(|error| match error {
                // What was sent before has been worked for.
                CallError::NotSent(why) if round > 0 => CallError::Gone(why),
                other => other,
            })?;
            match outcome {
                Outcome::Complete(result) if result["resultType"] == "input_required" => match self.face.era {
                    Era::Modern => return Ok(Outcome::InputRequired(result)),
                    Era::Legacy if round == self.shared.limits.input_rounds_max => break,
                    Era::Legacy => self.fulfil(&mut params, &result).await?,
                },
                outcome => return Ok(outcome),
            }
        }
        Err(self.asked_too_often())
    }

    fn asked_too_often(&self) -> CallError {
        let why = format!("it asked more than {} times", self.shared.limits.input_rounds_max);
        CallError::Refused(ErrorData::internal_error(why, None))
    }

    /// Sends the request once.
    async fn send(&self, connection: &Connection, params: Value) -> Result<Outcome, CallError> {
        let asker = Asker::new(&self.face.caller, &self.face.owner);
        let calling = connection.call(Some(asker), self.method, params);
        let sent = tokio::time::timeout(self.post.server.timeouts.call, calling).await;
        let call = sent.map_err(|_| CallError::NotSent("it takes nothing more".into()))??;
        self.see_through(call, 0).await
    }

    /// Goes on with a request that waits for answers of its caller; `None` if it is the server that knows this state.
    pub(crate) async fn resume(&self, state: &str, answers: &Value) -> Option<Result<Outcome, CallError>> {
        let Some(parked) = self.shared.parked.take(state, &self.face.owner, self.digest) else {
            let era = self.post.status().era;
            return (self.shared.parked.has_named(state) || era == Some(Era::Legacy)).then(|| {
                let why = "this `requestState` is not known here, or no longer: begin again without it";
                Err(CallError::Refused(ErrorData::invalid_params(why, None)))
            });
        };
        let ParkedCall { call, questions, rounds, .. } = parked;
        call.unpark();
        for (key, question) in questions {
            let outcome = match answers.get(&key) {
                Some(answer) => Ok(answer.clone()),
                None => Err(ErrorData::invalid_params(format!("the caller did not answer `{key}`"), None)),
            };
            question.answer(outcome).await;
        }
        Some(self.see_through(call, rounds).await)
    }

    /// Tells the caller what happens until there is a result, or something to be answered by a caller that must come back.
    /// `rounds` is how often the call has asked its caller something before.
    async fn see_through(&self, mut call: Call, mut rounds: usize) -> Result<Outcome, CallError> {
        let timeout = self.post.server.timeouts.call;
        let begun = Instant::now();
        let call_max = self.shared.limits.call_max;
        // Whatever renews it, it has an end.
        let renewed = |by: Duration| (Instant::now() + by).min(begun + call_max);
        let mut until = renewed(timeout);
        loop {
            let next = tokio::time::timeout_at(until.into(), call.next()).await;
            let waited = if begun.elapsed() < call_max { timeout } else { call_max };
            match next.map_err(|_| CallError::TimedOut(waited))? {
                Next::End(end) => return end.map(Outcome::Complete),
                Next::Event(CallEvent::Progress(params)) => {
                    self.face.progress(params).await;
                    until = until.max(renewed(timeout));
                }
                Next::Event(CallEvent::Log(params)) => self.face.log(params).await,
                Next::Event(CallEvent::Asked(question)) => {
                    if !self.face.can(&question.method, &question.params) {
                        if let Some(missing) = self.missing(&question.method) {
                            return Err(CallError::Refused(missing));
                        }
                        self.shared.answer_stray(&self.post.name, question);
                        until = until.max(renewed(self.shared.limits.input_timeout));
                        continue;
                    }
                    rounds += 1;
                    if rounds > self.shared.limits.input_rounds_max {
                        return Err(self.asked_too_often());
                    }
                    match self.face.era {
                        Era::Modern => return self.park(call, question, rounds).await,
                        Era::Legacy => self.pass_on(question).await,
                    }
                    until = until.max(renewed(timeout));
                }
            }
        }
    }

    /// What a modern caller must be able to do for this, if nobody else can do it for the caller.
    fn missing(&self, method: &str) -> Option<ErrorData> {
        let capability = match method {
            "sampling/createMessage" => "sampling",
            "elicitation/create" if self.shared.approvals.is_none() => "elicitation",
            _ => return None,
        };
        let required = ClientCapabilities::deserialize(json!({ capability: {} })).ok()?;
        (self.face.era == Era::Modern).then(|| ErrorData::missing_required_client_capability(required))
    }

    async fn pass_on(&self, question: Question) {
        let timeout = self.shared.limits.input_timeout;
        let outcome = self.face.ask(&question.method, &question.params, timeout).await;
        question.answer(outcome).await;
    }

    /// Leaves the call to wait, with all that its server asks together.
    async fn park(&self, mut call: Call, first: Question, rounds: usize) -> Result<Outcome, CallError> {
        let mut questions = vec![first];
        let until = tokio::time::Instant::now() + TOGETHER;
        while let Ok(next) = tokio::time::timeout_at(until, call.next()).await {
            match next {
                Next::Event(CallEvent::Asked(question)) if self.face.can(&question.method, &question.params) => {
                    questions.push(question);
                }
                Next::Event(CallEvent::Asked(question)) => self.shared.answer_stray(&self.post.name, question),
                Next::Event(CallEvent::Progress(params)) => self.face.progress(params).await,
                Next::Event(CallEvent::Log(params)) => self.face.log(params).await,
                Next::End(end) => return end.map(Outcome::Complete),
            }
        }
        call.park();
        let questions: Vec<(String, Question)> =
            (1..).map(|number| format!("question-{number}")).zip(questions).collect();
        let requests: Map<String, Value> = questions
            .iter()
            .map(|(key, question)| (key.clone(), json!({ "method": question.method, "params": question.params })))
            .collect();
        let parked = ParkedCall {
            owner: Arc::clone(&self.face.owner),
            digest: self.digest,
            call,
            questions,
            rounds,
            until: Instant::now() + self.shared.limits.input_timeout,
        };
        let state = self.shared.parked.keep(parked).ok_or_else(|| {
            CallError::Refused(ErrorData::internal_error("too many calls wait for answers of their callers, or a quarter of them is this caller's: answer some first", None))
        })?;
        Ok(Outcome::InputRequired(json!({
            "resultType": "input_required",
            "inputRequests": requests,
            "requestState": state,
        })))
    }

    /// Asks a legacy caller what a modern server requires, and puts the answers into the parameters.
    async fn fulfil(&self, params: &mut Value, required: &Value) -> Result<(), CallError> {
        let mut answers = Map::new();
        for (key, request) in required["inputRequests"].as_object().into_iter().flatten() {
            let method = request["method"].as_str().unwrap_or_default();
            let timeout = self.shared.limits.input_timeout;
            let answer = if self.face.can(method, &request["params"]) {
                self.face.ask(method, &request["params"], timeout).await
            } else {
                strays::decide(self.shared, &self.post.name, method, &request["params"]).await
            };
            answers.insert(key.clone(), answer.map_err(CallError::Refused)?);
        }
        params["inputResponses"] = answers.into();
        if let Some(state) = required.get("requestState") {
            params["requestState"] = state.clone();
        }
        // Without a question the server only wants to be asked again, a little later.
        if params["inputResponses"].as_object().is_some_and(Map::is_empty) {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Ok(())
    }

    /// A legacy server logs what it was last told to; whoever wants more than that has it told.
    async fn want_logs(&self, connection: &Connection) {
        let agreement = connection.agreement();
        let Some(level) = self.face.log_level else { return };
        if agreement.era == Era::Legacy && agreement.capabilities.get("logging").is_some() && self.post.wants_log(level)
        {
            let timeout = self.post.server.timeouts.list;
            // A server that will not log is no reason not to call it.
            _ = connection.ask("logging/setLevel", json!({ "level": level }), timeout).await;
        }
    }

    fn reason(&self) -> Arc<str> {
        let status = self.post.status();
        let reason = status.reason.as_deref().unwrap_or(match status.state {
            ServerState::Stopped => "its configuration was changed, or Switchboard ends",
            _ => "it has not started yet",
        });
        format!("{} is {}: {reason}", self.post.name, status.state.name()).into()
    }
}
