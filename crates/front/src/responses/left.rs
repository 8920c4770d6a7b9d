//! Responses that an earlier run of the server has left. They are in the book again before anybody asks for them, hold their
//! conversations, can be given up, and are kept when their turns come to an end.

use std::pin::pin;
use std::sync::Arc;

use serde_json::Value;
use store::Change;
use tokio::time::{sleep, timeout};
use workers::{Caller as Orderer, Found, Reach, Turn};

use super::book::{Entry, Live};
use super::keeping::{Persistence, commit_when_well};
use super::limits::{GATHER_TIMEOUT, LOOK_INTERVAL, REACH_TIMEOUT};
use super::recovery::{leave_tip, recorded, settled, waiting_calls};
use super::talk::Talk;
use crate::Desk;
use crate::memory_budget::MemoryBudget;
use crate::openai::message::ToolCall;
use crate::openai::responses::object::Status;
use crate::openai::responses::record::Record;
use crate::openai::responses::recorded::Fate;

/// Enters the responses that an earlier run of the server has left.
pub(crate) async fn find_again(desk: &Arc<Desk>) {
    let open = desk.store.read(|reader| {
        let mut open = reader.responses_in(Status::Queued.word())?;
        open.extend(reader.responses_in(Status::InProgress.word())?);
        Ok(open)
    });
    match open.await {
        Ok(open) => {
            for row in open {
                if let Some(left) = Left::new(desk, row).await {
                    desk.responses.see_to(left.watch());
                }
            }
        }
        Err(error) => tracing::error!(%error, "the responses that were in progress cannot be read"),
    }
}

/// A response that an earlier run has left.
struct Left {
    desk: Arc<Desk>,
    row: store::Response,
    entry: Entry,
    /// The conversation that it is part of.
    talk: Option<Talk>,
    is_of_the_background: bool,
}

/// What came of a turn while it was read.
enum Read {
    /// Nobody knows yet: its end is on record, or it is found again.
    On,
    CallsWanted(Vec<ToolCall>),
    /// It waits for a person, and so may its caller, who reads on by asking the same again.
    DecisionWanted,
    GivenUp,
}

/// How it ended.
enum Ending {
    /// So, and this is on record of its turn.
    Told(Fate, Option<Value>),
    /// Not yet: its caller may come back to it.
    Open,
    /// It was given up, and its turn is not known to be over: its worker is not there to be told.
    OutOfReach,
}

impl Left {
    async fn new(desk: &Arc<Desk>, row: store::Response) -> Option<Self> {
        let record = Record::read(&row.body)?;
        let response: Value = serde_json::from_str(record.response.get()).ok()?;
        let key: Arc<str> = row.key.as_str().into();
        // Its caller cannot try again, so the conversation must not be refused for want of memory.
        let unlimited = Arc::new(MemoryBudget::new(usize::MAX));
        let talk = match response["conversation"]["id"].as_str() {
            Some(id) => Talk::begin(desk, id, unlimited.lease(&key)).await.ok(),
            None => None,
        };
        let live = Live::left(&key, record.response.get().to_owned());
        if !row.turn.is_empty() {
            live.begin(&row.turn.as_str().into());
        }
        let entry = desk.responses.enter(&row.id, live);
        let is_of_the_background = record.is_of_the_background();
        Some(Self { desk: Arc::clone(desk), row, entry, talk, is_of_the_background })
    }

    /// Waits for its end, and keeps it. A turn that could not be told so is interrupted when its worker is back.
    async fn watch(self) {
        let ending = self.ending().await;
        let settled = match &ending {
            Ending::Told(fate, turn) => settled(&self.row, turn.as_ref(), fate),
            Ending::OutOfReach => settled(&self.row, None, &Fate::Cancelled),
            Ending::Open => None,
        };
        if let Some((row, status)) = settled {
            self.keep(row, status).await;
        }
        let Self { desk, row, entry, talk, .. } = self;
        drop(talk);
        entry.live().end();
        drop(entry);
        if matches!(ending, Ending::OutOfReach) {
            stop_turn(&desk, &row).await;
        }
    }

    async fn keep(&self, row: store::Response, status: Status) {
        leave_tip(&self.desk, &row);
        let is_gone_on_from = status == Status::Completed && self.entry.is_listed();
        if let Some(talk) = self.talk.as_ref().filter(|_| is_gone_on_from) {
            self.desk.store.note(talk.gone_on(&row.id));
        }
        let object = Record::read(&row.body).map(|record| record.response.get().to_owned()).unwrap_or_default();
        let change = Change::ResponseIfStill { status: self.row.status.clone(), row };
        let store = &self.desk.store;
        let persistence = commit_when_well(store.clone(), self.row.id.clone(), vec![change.clone()]).await;
        if persistence == Persistence::NotStored {
            // Readers hear its end all the same, so the store must have it as soon as it recovers.
            store.note(change);
        }
        self.entry.live().change(&object, status);
    }

    /// How it ends, once its turn is over, waits for calls of the caller's functions, or was given up.
    async fn ending(&self) -> Ending {
        let Self { desk, row, .. } = self;
        while !row.turn.is_empty() {
            let found = tokio::select! {
                biased;
                found = find_turn(desk, row) => found,
                () = self.given_up() => return self.stopped().await,
            };
            match found {
                Found::Over(turn) => return Ending::Told(Fate::Over, serde_json::to_value(turn).ok()),
                Found::Gone => break,
                Found::Unread(turn) => match self.read(*turn).await {
                    Read::On => {}
                    Read::GivenUp => return self.stopped().await,
                    Read::DecisionWanted => return Ending::Open,
                    Read::CallsWanted(calls) => {
                        let turn = recorded(desk, row).await.unwrap_or_default();
                        return Ending::Told(Fate::CallsWanted(calls), turn);
                    }
                },
            }
        }
        Ending::Told(Fate::Over, None)
    }

    /// How it ends where it was given up.
    async fn stopped(&self) -> Ending {
        match timeout(REACH_TIMEOUT, stop_turn(&self.desk, &self.row)).await {
            Ok(turn) => Ending::Told(Fate::Cancelled, turn),
            Err(_) => Ending::OutOfReach,
        }
    }

    /// Waits until somebody wants it to end, or the key of its caller is no more.
    async fn given_up(&self) {
        let revoked = async {
            if let Some(mut owner) = self.desk.guard.keys().owner(&self.row.key) {
                owner.revocation.done().await;
            }
        };
        tokio::select! {
            () = self.entry.live().cancelled() => {}
            () = revoked => {}
        }
    }

    /// Reads its turn for as long as it runs; one that waits for calls is left waiting.
    async fn read(&self, mut turn: Turn) -> Read {
        let owner = self.desk.guard.keys().owner(&self.row.key);
        if let Some(owner) = owner
            && let Ok(permit) = self.desk.quotas.resume(&owner).await
        {
            turn.set_permit(permit.turn());
        }
        let mut given_up = pin!(self.given_up());
        loop {
            let are_calls_wanted = turn.is_waiting() && !self.desk.pool.waiting_calls(&self.row.turn).is_empty();
            let patience = if are_calls_wanted || !self.is_of_the_background { GATHER_TIMEOUT } else { LOOK_INTERVAL };
            tokio::select! {
                biased;
                () = &mut given_up => {
                    turn.cancel();
                    return Read::GivenUp;
                }
                event = turn.next() => if event.is_none() {
                    return Read::On;
                },
                () = sleep(patience), if turn.is_waiting() => if are_calls_wanted {
                    let calls = waiting_calls(&self.desk, &self.row).await;
                    if !calls.is_empty() {
                        turn.leave();
                        return Read::CallsWanted(calls);
                    }
                } else if !self.is_of_the_background {
                    turn.leave();
                    return Read::DecisionWanted;
                },
            }
        }
    }
}

async fn find_turn(desk: &Desk, row: &store::Response) -> Found {
    let owner = Orderer { key: row.key.as_str().into(), reach: Reach::Own };
    desk.pool.find_again(&row.thread, &row.turn, &owner).await
}

/// Interrupts its turn as soon as its worker is there; what is on record of it then.
async fn stop_turn(desk: &Desk, row: &store::Response) -> Option<Value> {
    loop {
        match find_turn(desk, row).await {
            Found::Unread(turn) => turn.cancel(),
            Found::Over(turn) => return serde_json::to_value(turn).ok(),
            Found::Gone => return None,
        }
    }
}
