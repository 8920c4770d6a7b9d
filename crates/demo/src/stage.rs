//! What every thread shares: who is connected, how calls are answered, ids, home and script.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use serde::Serialize;
use serde_json::json;

use crate::answers::AnswerFault;
use crate::clock::Now;
use crate::config::Config;
use crate::home::Home;
use crate::ids::Ids;
use crate::incoming::CallId;
use crate::lines::{self, Refusal};
use crate::options::Dialect;
use crate::outputs::{ConnectionId, Output, Outputs};
use crate::script::Script;

/// The shared part of a worker.
#[derive(Debug)]
pub(crate) struct Stage {
    /// The present, as the worker was last told.
    pub(crate) now: Now,
    pub(crate) dialect: Dialect,
    pub(crate) home: Home,
    pub(crate) ids: Ids,
    pub(crate) script: Script,
    pub(crate) config: Config,
    pub(crate) outputs: Outputs,
    pub(crate) connections: BTreeMap<ConnectionId, Connection>,
    /// Whose name the worker took for its own: the first client's, as the real one does.
    pub(crate) originator: Option<String>,
    /// Which thread asked which request that is still open.
    pub(crate) asked: BTreeMap<u64, String>,
    pub(crate) answers: AnswerFault,
    pub(crate) overload_every: u64,
    held_answer: Option<(ConnectionId, Vec<u8>)>,
    next_request: u64,
    /// When to look at which thread. One that has changed its mind since is looked at in vain.
    alarms: BTreeSet<(Instant, String)>,
}

/// One client.
#[derive(Debug, Default)]
pub(crate) struct Connection {
    /// Absent before `initialize`.
    pub(crate) client: Option<Client>,
    /// It takes its messages more slowly than they are made.
    pub(crate) is_full: bool,
}

/// What a client said of itself.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) experimental: bool,
    pub(crate) opted_out: BTreeSet<String>,
}

/// A call that is being answered.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) connection: ConnectionId,
    pub(crate) id: CallId,
}

/// Who may hear a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    Nothing,
    ExperimentalApi,
}

impl Stage {
    pub(crate) fn new(dialect: Dialect, home: Home, script: Script, now: Now) -> Self {
        let ids = script.seed.map_or_else(|| Ids::fresh(now), Ids::seeded);
        let config = Config::read(home.path());
        Self {
            now,
            dialect,
            home,
            ids,
            config,
            answers: script.calls.answers,
            overload_every: script.calls.overloaded_every,
            script,
            outputs: Outputs::default(),
            connections: BTreeMap::new(),
            originator: None,
            asked: BTreeMap::new(),
            held_answer: None,
            next_request: 0,
            alarms: BTreeSet::new(),
        }
    }

    /// Has a thread looked at then.
    pub(crate) fn wake(&mut self, at: Instant, thread_id: &str) {
        self.alarms.insert((at, thread_id.to_owned()));
    }

    /// When the next thread is to be looked at.
    pub(crate) fn next_alarm(&self) -> Option<Instant> {
        self.alarms.first().map(|(at, _)| *at)
    }

    /// The threads that are to be looked at by now.
    pub(crate) fn take_alarms(&mut self) -> BTreeSet<String> {
        let mut threads = BTreeSet::new();
        while self.next_alarm().is_some_and(|at| at <= self.now.instant) {
            threads.extend(self.alarms.pop_first().map(|(_, thread)| thread));
        }
        threads
    }

    /// The id of the next request to clients: one counter for the process, from 0.
    pub(crate) fn next_request(&mut self, thread_id: &str) -> u64 {
        let request = self.next_request;
        self.next_request += 1;
        self.asked.insert(request, thread_id.to_owned());
        request
    }

    pub(crate) fn answer(&mut self, call: &Call, result: &impl Serialize) {
        self.send_answer(call.connection, lines::result(&call.id, result));
    }

    pub(crate) fn refuse(&mut self, call: &Call, refusal: &Refusal) {
        self.send_answer(call.connection, lines::error(Some(&call.id), refusal));
    }

    /// Tells some connections, except those that opted out.
    pub(crate) fn tell(&mut self, who: &[ConnectionId], method: &str, params: &impl Serialize) {
        self.tell_those(who, Need::Nothing, method, params);
    }

    pub(crate) fn tell_those(&mut self, who: &[ConnectionId], need: Need, method: &str, params: &impl Serialize) {
        let listening = self.listening(who, need, method);
        if !listening.is_empty() {
            self.outputs.send_all(&listening, lines::notification(method, params, self.now));
        }
    }

    /// Tells every initialised connection.
    pub(crate) fn tell_all(&mut self, method: &str, params: &impl Serialize) {
        let everyone: Vec<ConnectionId> = self.connections.keys().copied().collect();
        self.tell(&everyone, method, params);
    }

    /// Those who hear a notification of this method.
    pub(crate) fn listening(&self, who: &[ConnectionId], need: Need, method: &str) -> Vec<ConnectionId> {
        who.iter().copied().filter(|connection| self.hears(*connection, need, method)).collect()
    }

    /// Whether one of them is behind.
    pub(crate) fn is_full(&self, who: &[ConnectionId]) -> bool {
        who.iter().any(|connection| self.connections.get(connection).is_some_and(|connection| connection.is_full))
    }

    fn hears(&self, connection: ConnectionId, need: Need, method: &str) -> bool {
        self.connections
            .get(&connection)
            .and_then(|connection| connection.client.as_ref())
            .is_some_and(|client| (need == Need::Nothing || client.experimental) && !client.opted_out.contains(method))
    }

    fn send_answer(&mut self, connection: ConnectionId, line: Vec<u8>) {
        match self.answers {
            AnswerFault::Right => {
                if let Some((other, held)) = self.held_answer.take() {
                    self.outputs.send(other, held);
                }
                self.outputs.send(connection, line);
            }
            AnswerFault::Swapped => match self.held_answer.take() {
                None => self.held_answer = Some((connection, line)),
                Some((other, held)) => {
                    self.outputs.send(connection, line);
                    self.outputs.send(other, held);
                }
            },
            AnswerFault::Twice => {
                self.outputs.send(connection, line.clone());
                self.outputs.send(connection, line);
            }
            AnswerFault::Unknown => {
                let nobody = CallId::Text("nobody-asked".to_owned());
                self.outputs.send(connection, lines::result(&nobody, &json!({})));
                self.outputs.send(connection, line);
            }
        }
    }

    pub(crate) fn log(&mut self, message: String) {
        self.outputs.push(Output::Log(message));
    }
}
