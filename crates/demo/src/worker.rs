//! The worker: lines and time in, outputs out. It reads no clock, owns no stream and starts no process; only thread
//! files are written directly.

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::Value;

use crate::approval;
use crate::clock::Now;
use crate::home::Home;
use crate::incoming::{self, CallId, Dropped, Incoming};
use crate::lines::Refusal;
use crate::options::Dialect;
use crate::outputs::{ConnectionId, Ending, Output};
use crate::script::Script;
use crate::stage::{Call, Connection, Stage};
use crate::thread::Thread;
use crate::{faults, lines, turn, v1, v2};

/// A worker.
#[derive(Debug)]
pub struct Worker {
    pub(crate) stage: Stage,
    pub(crate) threads: BTreeMap<String, Thread>,
    calls: u64,
}

impl Worker {
    /// A worker with its faults at the start already on the way.
    pub fn new(dialect: Dialect, home: Home, script: Script, now: Now) -> Self {
        let mut stage = Stage::new(dialect, home, script, now);
        for fault in stage.script.faults_at_start() {
            faults::commit_at_start(fault, &mut stage);
        }
        Self { stage, threads: BTreeMap::new(), calls: 0 }
    }

    /// A client has connected.
    pub fn handle_opened(&mut self, connection: ConnectionId) {
        self.stage.connections.insert(connection, Connection::default());
        if self.stage.dialect == Dialect::V1 {
            self.stage.outputs.send(connection, v1::READY_LINE.to_vec());
        }
    }

    /// A client has sent a line.
    pub fn handle_line(&mut self, connection: ConnectionId, line: &[u8], now: Now) {
        self.stage.now = now;
        match incoming::parse(line) {
            Ok(None) => {}
            Ok(Some(Incoming::Call { id, method, params })) => {
                self.handle_call(&Call { connection, id }, &method, params);
            }
            Ok(Some(Incoming::Notification { method })) => {
                self.handle_notification(connection, &method);
            }
            Ok(Some(Incoming::Answer { id, outcome })) => self.handle_answer(&id, &outcome),
            Err(dropped @ Dropped::NotAMessage(_)) => {
                self.stage.log(format!("ERROR failed to deserialize a message: {dropped}"));
            }
            Err(dropped @ Dropped::NotUtf8) => {
                self.stage.log(format!("ERROR failed to read stdin: {dropped}"));
                self.stage.outputs.push(Output::End(Ending::Exit(0)));
            }
        }
    }

    /// A client has gone. Its threads stay, and what they wait for.
    pub fn handle_closed(&mut self, connection: ConnectionId) {
        self.stage.connections.remove(&connection);
        let now = self.stage.now;
        for thread in self.threads.values_mut() {
            thread.unsubscribe(connection, now);
        }
        self.set_all_alarms();
    }

    /// A client is behind: what is played at full speed to it waits.
    pub fn handle_full(&mut self, connection: ConnectionId) {
        self.set_full(connection, true);
    }

    /// A client has caught up.
    pub fn handle_room(&mut self, connection: ConnectionId) {
        self.set_full(connection, false);
    }

    /// The worker is told to end: what runs is interrupted, and kept as such.
    pub fn handle_shutdown(&mut self, now: Now) {
        self.stage.now = now;
        for thread in self.threads.values_mut() {
            turn::abort(thread, &mut self.stage);
        }
    }

    /// Whether a turn is running.
    pub fn is_busy(&self) -> bool {
        self.threads.values().any(|thread| thread.turn.is_some())
    }

    /// When [`Worker::handle_timeout`] is wanted.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.stage.outputs.paused_until().or_else(|| self.stage.next_alarm())
    }

    /// Plays on where it is time to. Nothing is played while output waits, so that nothing piles up.
    pub fn handle_timeout(&mut self, now: Now) {
        if !self.stage.outputs.is_empty() {
            return;
        }
        self.stage.now = now;
        let looked_at = self.stage.take_alarms();
        for id in &looked_at {
            if let Some(thread) = self.threads.get_mut(id)
                && due(thread, &self.stage).is_some_and(|due| due <= now.instant)
            {
                turn::advance(thread, &mut self.stage);
            }
        }
        looked_at.iter().for_each(|id| v2::unload_quiet(self, id));
    }

    /// The next thing to do; none while there is nothing, or while output is held back.
    pub fn poll_output(&mut self, now: Instant) -> Option<Output> {
        self.stage.outputs.pop(now)
    }

    /// A loaded thread and the stage, together.
    pub(crate) fn loaded(&mut self, id: &str) -> Result<(&mut Stage, &mut Thread), Refusal> {
        match self.threads.get_mut(id) {
            Some(thread) => Ok((&mut self.stage, thread)),
            None => Err(Refusal::invalid(format!("thread not found: {id}"))),
        }
    }

    /// The same for a thread that is known to be loaded.
    pub(crate) fn thread(&mut self, id: &str) -> (&mut Stage, &mut Thread) {
        (&mut self.stage, self.threads.get_mut(id).expect("the caller has just looked"))
    }

    fn set_full(&mut self, connection: ConnectionId, is_full: bool) {
        if let Some(connection) = self.stage.connections.get_mut(&connection) {
            connection.is_full = is_full;
        }
        self.set_all_alarms();
    }

    /// Has a thread looked at when it is due, after what that depends on has changed.
    pub(crate) fn set_alarms(&mut self, id: &str) {
        if let Some(thread) = self.threads.get(id) {
            let alarms = [due(thread, &self.stage), thread.unload_due()];
            alarms.into_iter().flatten().for_each(|at| self.stage.wake(at, id));
        }
    }

    fn set_all_alarms(&mut self) {
        let ids: Vec<String> = self.threads.keys().cloned().collect();
        ids.iter().for_each(|id| self.set_alarms(id));
    }

    fn handle_call(&mut self, call: &Call, method: &str, params: Option<Value>) {
        self.calls += 1;
        let faults = &self.stage.script.calls;
        if faults.exit_on.iter().any(|fatal| fatal == method) {
            return self.stage.outputs.push(Output::End(Ending::Exit(1)));
        }
        if faults.unanswered.iter().any(|unanswered| unanswered == method) {
            return;
        }
        let is_overloaded = self.stage.overload_every > 0 && self.calls.is_multiple_of(self.stage.overload_every);
        let outcome = if method == "initialize" {
            match faults::handshake(&self.stage, params.as_ref()) {
                faults::Handshake::Right => self.answer(call, method, params),
                faults::Handshake::Refused(refusal) => Err(refusal),
                faults::Handshake::Silent => return,
            }
        } else if is_overloaded {
            Err(Refusal::of(Refusal::OVERLOADED, "Server overloaded; retry later."))
        } else {
            self.answer(call, method, params)
        };
        if let Err(refusal) = outcome {
            self.stage.refuse(call, &refusal);
        }
    }

    fn answer(&mut self, call: &Call, method: &str, params: Option<Value>) -> Result<(), Refusal> {
        match self.stage.dialect {
            Dialect::V1 => v1::call(self, call, method, params),
            Dialect::V2 => v2::call(self, call, method, params),
        }
    }

    /// `initialized` changes nothing, as with the real worker; a script may have it refused.
    fn handle_notification(&mut self, connection: ConnectionId, method: &str) {
        if method == "initialized" && self.stage.script.handshake.reject_initialized {
            let refusal = Refusal::of(Refusal::METHOD_NOT_FOUND, "Method not found: initialized");
            self.stage.outputs.send(connection, lines::error(None, &refusal));
        }
    }

    fn handle_answer(&mut self, id: &CallId, outcome: &incoming::Outcome) {
        let CallId::Number(id) = id else { return };
        let Ok(request) = u64::try_from(*id) else {
            return;
        };
        let Some(thread_id) = self.stage.asked.remove(&request) else {
            return;
        };
        if let Some(thread) = self.threads.get_mut(&thread_id) {
            approval::answered(thread, request, outcome, &mut self.stage);
        }
    }
}

/// When a thread plays on: not before all who listen have room for what comes at full speed.
fn due(thread: &Thread, stage: &Stage) -> Option<Instant> {
    let turn = thread.turn.as_ref()?;
    let is_held = turn.is_at_full_speed() && stage.is_full(&thread.subscribers);
    turn.due.filter(|_| !is_held)
}
