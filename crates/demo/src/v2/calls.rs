//! The table of calls: who answers which, after the checks that come before every answer.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{gate, handshake, history, models, open, threads, turns};
use crate::lines::Refusal;
use crate::stage::{Call, Stage};
use crate::worker::Worker;

/// Answers a call, at once or when the time has come.
pub(crate) fn call(worker: &mut Worker, call: &Call, method: &str, params: Option<Value>) -> Result<(), Refusal> {
    gate::known(method)?;
    let asked = Asked { call, method, params };
    match method {
        "initialize" => handshake::initialize(worker, call, asked.parse()?),
        "thread/start" => open::start(worker, call, asked.admit(&worker.stage)?),
        "thread/resume" => open::resume(worker, call, asked.admit(&worker.stage)?),
        "thread/fork" => open::fork(worker, call, asked.admit(&worker.stage)?),
        "thread/unsubscribe" => threads::unsubscribe(worker, call, &asked.admit(&worker.stage)?),
        "thread/archive" => threads::archive(worker, call, &asked.admit(&worker.stage)?),
        "thread/unarchive" => threads::unarchive(worker, call, &asked.admit(&worker.stage)?),
        "thread/name/set" => threads::set_name(worker, call, &asked.admit(&worker.stage)?),
        "thread/inject_items" => threads::inject_items(worker, call, asked.admit(&worker.stage)?),
        "thread/read" => history::read(worker, call, &asked.admit(&worker.stage)?),
        "thread/list" => history::list(worker, call, &asked.admit(&worker.stage)?),
        "thread/loaded/list" => history::list_loaded(worker, call, &asked.admit(&worker.stage)?),
        "thread/turns/list" => history::list_turns(worker, call, &asked.admit(&worker.stage)?),
        "thread/items/list" => history::list_items(worker, call, &asked.admit(&worker.stage)?),
        "turn/start" => turns::start(worker, call, asked.admit(&worker.stage)?),
        "turn/steer" => turns::steer(worker, call, asked.admit(&worker.stage)?),
        "turn/interrupt" => turns::interrupt(worker, call, &asked.admit(&worker.stage)?),
        "model/list" => models::list(worker, call, &asked.admit(&worker.stage)?),
        _ => {
            asked.admit::<Value>(&worker.stage)?;
            Err(Refusal::of(Refusal::METHOD_NOT_FOUND, format!("the demo worker does not play `{method}`")))
        }
    }
}

struct Asked<'a> {
    call: &'a Call,
    method: &'a str,
    params: Option<Value>,
}

impl Asked<'_> {
    /// The parameters, if they are right, the client is initialised, and all it asks for is open to it.
    fn admit<P: DeserializeOwned>(self, stage: &Stage) -> Result<P, Refusal> {
        let (connection, method) = (self.call.connection, self.method);
        let given = self.params.clone().unwrap_or_default();
        let params = self.parse()?;
        match stage.connections.get(&connection).and_then(|connection| connection.client.as_ref()) {
            None => Err(Refusal::invalid("Not initialized")),
            Some(client) if client.experimental => Ok(params),
            Some(_) => gate::stable(method, &given).map(|()| params),
        }
    }

    fn parse<P: DeserializeOwned>(self) -> Result<P, Refusal> {
        let params = self.params.ok_or_else(|| Refusal::invalid("Invalid request: missing field `params`"))?;
        P::deserialize(params).map_err(|error| Refusal::invalid(format!("Invalid request: {error}")))
    }
}
