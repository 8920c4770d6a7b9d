//! A call of a caller's tool: parked until the caller brings the result, which may be over another connection, or until
//! its deadline.

use std::time::{Duration, SystemTime};

use codex::{Json, Pending};
use serde_json::{Value, json};
use store::{Change, ParkedCall, ParkedCallFilter, ParkedCallState};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::{Asker, Desk};
use crate::parked::{Call, ToolResult};
use crate::post::Persistence;
use crate::view::unix_ms;

/// How a parked call came to its end.
enum Ending {
    Answered(ToolResult),
    Expired,
    /// Nobody waits for an answer any more.
    Settled,
}

impl Desk {
    pub(super) async fn park_call(&self, pending: &Pending, asker: &Asker) {
        let mut row = self.row(pending, asker).await;
        if let Err(error) = self.shared.store.commit(vec![Change::ParkedCall(row.clone())]).await {
            self.name(pending, asker, None);
            self.unpark(asker);
            return self.decline(pending, &format!("the call could not be kept: {error}"));
        }
        let (answer, answered) = oneshot::channel();
        let Asker { key, thread, turn, place, .. } = asker;
        let call = Call { key: key.clone(), thread: thread.clone(), turn: turn.clone(), answer, place: *place };
        self.shared.parked().expect(&row.id, call);
        self.name(pending, asker, Some(pending.asked.id.as_raw()));
        let patience = Duration::from_millis(row.deadline_at.unwrap_or(0).saturating_sub(now()).max(0).unsigned_abs());
        let ending = tokio::select! {
            biased;
            answered = timeout(patience, answered) => match answered {
                Ok(Ok(result)) => Ending::Answered(result),
                Ok(Err(_)) | Err(_) => Ending::Expired,
            },
            () = pending.settled() => Ending::Settled,
        };
        self.shared.parked().forget(&row.id, &asker.thread);
        self.unpark(asker);
        row.state = match ending {
            Ending::Answered(result) => {
                self.bring(pending, &result);
                ParkedCallState::Answered
            }
            Ending::Expired => {
                self.decline(pending, "the tool gave no result in time");
                ParkedCallState::Expired
            }
            // The worker asks again over the next link, and the row is found.
            Ending::Settled if self.is_over() && self.link.persistence == Persistence::BeyondLink => return,
            Ending::Settled => ParkedCallState::Orphaned,
        };
        self.shared.store.note(Change::ParkedCall(row));
    }

    fn bring(&self, pending: &Pending, result: &ToolResult) {
        let answer = json!({"contentItems": result.content, "success": result.success});
        let answer = Json::of(&answer).expect("a JSON value can be written");
        // If it is not open any more, its turn is over.
        _ = pending.answer_raw(Ok(&answer));
    }

    /// The call as it is kept. One that is asked again over another link keeps its deadline.
    async fn row(&self, pending: &Pending, asker: &Asker) -> ParkedCall {
        let row = self.new_row(pending, asker);
        let same = ParkedCallFilter {
            id: Some(row.id.clone()),
            key: Some(row.key.clone()),
            thread: Some(row.thread.clone()),
            state: Some(ParkedCallState::Waiting),
            ..ParkedCallFilter::default()
        };
        let kept = self.shared.store.read(move |reader| reader.parked_calls(&same)).await.unwrap_or_default();
        match kept.into_iter().find(|kept| kept.turn == row.turn && kept.request == row.request) {
            Some(ParkedCall { created_at, deadline_at, .. }) => ParkedCall { created_at, deadline_at, ..row },
            None => row,
        }
    }

    fn new_row(&self, pending: &Pending, asker: &Asker) -> ParkedCall {
        let params: Value = pending.asked.params.parse().unwrap_or_default();
        let text = |name: &str| params[name].as_str().unwrap_or_default().to_owned();
        let now = now();
        let wait = i64::try_from(self.shared.limits().tool_call_timeout.as_millis()).unwrap_or(i64::MAX);
        ParkedCall {
            id: text("callId"),
            key: asker.key.to_string(),
            group: self.shared.group(&self.post).name.to_string(),
            worker: self.post.name.to_string(),
            thread: asker.thread.to_string(),
            turn: asker.turn.to_string(),
            request: pending.asked.id.as_raw().to_owned(),
            namespace: params["namespace"].as_str().map(str::to_owned),
            tool: text("tool"),
            arguments: params["arguments"].to_string(),
            state: ParkedCallState::Waiting,
            created_at: now,
            deadline_at: Some(now.saturating_add(wait)),
        }
    }
}

fn now() -> i64 {
    unix_ms(SystemTime::now()).cast_signed()
}
