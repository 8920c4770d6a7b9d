//! A response before it is made: its request is understood together with what was said before, and it may be made.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use axum::body::Bytes;
use codex::Usage;
use serde_json::value::{RawValue, to_raw_value};
use workers::{Afterwards, Profile};

use super::keeping::{Keeping, Persistence, Place as Stand, commit, store_unavailable};
use super::memory::{Memory, Remembering, remembered_bytes};
use super::previous::{self, Before, Retelling};
use super::responding::{Audience, Commission, Responding};
use super::stored::named_bytes;
use super::talk::Talk;
use crate::Desk;
use crate::ask::{Answering, Asked, Choice, Margin, admit};
use crate::body::{ParsedBody, held_bytes};
use crate::error::Error;
use crate::idempotency::Progress;
use crate::keys::Caller;
use crate::lock::lock;
use crate::memory_budget::MemoryLease;
use crate::models::choose;
use crate::openai::plan::{After, TurnPlan};
use crate::openai::reading::WorkForm;
use crate::openai::request::{Delivery, Request};
use crate::openai::responses::items::listed;
use crate::openai::responses::object::{Head, Name, Outcome, Status};
use crate::openai::responses::output::Output;
use crate::openai::responses::request::Links;
use crate::parsing::LARGE_BYTES;
use crate::quota::Permit;

/// How often what a request asks, but for its input, is held until the end of its response: as its tools and settings here and for
/// the worker, as the response that repeats it, and in each event that does. Measured: 10.7 times.
const ASKED_COPIES: usize = 12;

/// What is to be made.
pub(super) struct Draft {
    request: Request,
    /// The items that it is asked with, as they are listed; absent if nothing is to be stored.
    input: Option<Box<RawValue>>,
    place: Place,
    profile: Profile,
    plan: TurnPlan,
    /// Where its thread stands, if it goes on from a turn.
    after: Option<After>,
    /// The response before it.
    last: Option<Box<str>>,
    talk: Option<Talk>,
    retelling: Option<Retelling>,
    permit: Permit,
    head: Head,
    /// For what is held until its end.
    lasting: MemoryLease,
    memory: MemoryLease,
}

/// Where a response is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// By whoever reads it.
    Here,
    /// By itself.
    Background,
}

impl Draft {
    /// Parses the body of a request and reads it, away from the runtime if it is large.
    pub(super) async fn receive(
        desk: &Arc<Desk>,
        caller: &Caller,
        body: Bytes,
        remembered: Arc<Mutex<Memory>>,
    ) -> Result<Self, Error> {
        let body_bytes = body.len();
        let parse = |body: Bytes, memory| async move { ParsedBody::read(&body, memory) };
        let parsed = desk.bodies.work(body, &caller.key, parse).await?;
        Self::read_apart(desk, caller, parsed, body_bytes, remembered).await
    }

    /// Reads a request, away from the runtime if it is large or makes use of much that was said before; that may be
    /// remembered instead of stored.
    pub(super) async fn read_apart(
        desk: &Arc<Desk>,
        caller: &Caller,
        body: ParsedBody,
        body_bytes: usize,
        remembered: Arc<Mutex<Memory>>,
    ) -> Result<Self, Error> {
        let mut bytes = body_bytes + lock(&remembered).bytes();
        if bytes <= LARGE_BYTES {
            bytes += named_bytes(desk, &caller.key, &body.value, &remembered).await?;
        }
        let (own_desk, own_caller) = (Arc::clone(desk), caller.clone());
        let read = async move { Self::read(&own_desk, &own_caller, body, &remembered).await };
        desk.bodies.threads().run(&caller.key, bytes, read).await
    }

    async fn read(desk: &Desk, caller: &Caller, body: ParsedBody, remembered: &Mutex<Memory>) -> Result<Self, Error> {
        let ParsedBody { value, mut memory } = body;
        let links = Links::read(&value)?;
        let is_remembered = links.previous.as_deref().is_some_and(|previous| lock(remembered).holds(previous));
        let (request, before) = previous::read(desk, caller, value, remembered, &mut memory).await?;
        let Before { said, mut retelling, after, last, talk } = before;
        let (mut request, terms) = request.told_after(said)?;
        // What others go on from, or come back for, would be lost; anything else is answered, and says that it is not stored.
        let is_part_of_more = links.conversation.is_some() || (links.previous.is_some() && !is_remembered);
        let needs_store = terms.is_stored && (terms.is_background || is_part_of_more);
        if needs_store && !desk.store.health_now().is_well() {
            return Err(store_unavailable(
                "the response could not be stored at the moment, and this request needs that",
            ));
        }
        let chosen = choose(desk, caller, &request.model).await?;
        request.tools.rename(&chosen.profile);
        let mut plan = TurnPlan::new(&request, &chosen.as_ref(), &caller.key);
        if let Some(after) = after.clone() {
            plan = plan.after(&request, after);
        }
        if plan.going_on.is_none()
            && let Some(retelling) = retelling.take()
        {
            let own = usize::from(request.has_instructions);
            request.messages.splice(own..own + retelling.told, retelling.said(desk, &mut memory).await?);
            plan = TurnPlan { going_on: None, ..TurnPlan::new(&request, &chosen.as_ref(), &caller.key) };
        }
        let head = Head::new(Name::new(), crate::unix_seconds(), &terms.echo);
        let input = terms.is_stored.then(|| listed(&terms.input, |prefix, place| head.name.input_item(prefix, place)));
        let input = input.map(|items| to_raw_value(&items).expect("JSON values can be written"));
        let lasting_bytes = head.asked_bytes() * ASKED_COPIES;
        let input_bytes = input.as_ref().map_or(0, |input| input.get().len());
        memory.resize(held_bytes(&request.messages) + input_bytes + lasting_bytes)?;
        let lasting = memory.split(lasting_bytes);
        // At last: what is refused for another reason does not count as a request of its key.
        let permit = admit(desk, caller, &request).await?;
        let place = if terms.is_background { Place::Background } else { Place::Here };
        let profile = chosen.profile;
        Ok(Self { request, input, place, profile, plan, after, last, talk, retelling, permit, head, lasting, memory })
    }

    /// The same with the agent's work in this form.
    pub(super) fn showing(self, work_form: WorkForm) -> Self {
        Self { request: Request { work_form, ..self.request }, ..self }
    }

    pub(super) fn place(&self) -> Place {
        self.place
    }

    pub(super) fn delivery(&self) -> Delivery {
        self.request.delivery
    }

    pub(super) fn margin(&self, arrived: Instant) -> Margin {
        Margin::new(arrived, &self.permit, &self.request)
    }

    /// Begins to make it.
    pub(super) fn make(
        mut self,
        desk: &Arc<Desk>,
        caller: &Caller,
        progress: Progress,
        audience: Audience,
    ) -> Responding {
        let keeping = self.keeping(desk, caller);
        let Self { mut request, profile, plan, talk, retelling, permit, head, lasting, memory, .. } = self;
        // A connection goes on from what is not stored, and forgets it itself.
        if audience == Audience::Connected {
            request.afterwards = Afterwards::Stays;
        }
        let answering = Answering::new(desk, permit, progress, lasting);
        let (desk, caller) = (Arc::clone(desk), caller.orderer());
        let asked = Arc::new(Asked { desk, caller, profile, request, plan, retelling, memory: Arc::new(memory) });
        let choice = Choice::new(&asked, &answering);
        Responding::new(answering, choice, Commission { head, keeping, talk, audience })
    }

    /// Makes it at once, without a turn: nothing is answered, but the next response can go on from what it was asked with.
    pub(super) async fn make_empty(mut self, desk: &Desk, caller: &Caller) -> (Bytes, Remembering) {
        let usage = Usage::default();
        let done = Outcome { usage: Some(&usage), ..Outcome::begun(Status::Completed) };
        let mut object = self.head.to_json(&done);
        if let Some(keeping) = self.keeping(desk, caller) {
            let id = self.head.name.id();
            let gone_on = self.talk.as_ref().map(|talk| talk.gone_on(&id));
            let changes = keeping.changes(&self.head, Status::Completed, &object, Stand::default(), gone_on);
            if commit(desk.store.clone(), id, changes).await == Persistence::NotStored {
                keeping.forget(&self.head, self.talk.as_ref());
                object = self.head.unstored().to_json(&done);
            }
        }
        let mut output = Output::new(&self.head.name);
        for event in ["response.created", "response.in_progress"] {
            output.tell(event, &self.head, &Outcome::begun(Status::InProgress));
        }
        output.tell_object("response.completed", &object);
        (output.take_events().into(), self.remembering())
    }

    /// What is to be remembered of it, but for its answer.
    pub(super) fn remembering(&mut self) -> Remembering {
        let said = self.request.conversation().to_vec();
        Remembering {
            id: self.head.name.id(),
            memory: self.memory.split(remembered_bytes(&said)),
            said,
            after: self.after.clone(),
            made_of: self.plan.made_of.as_str().into(),
        }
    }

    fn keeping(&mut self, desk: &Desk, caller: &Caller) -> Option<Keeping> {
        let Self { input, plan, last, memory, .. } = self;
        let input = input.take()?;
        Some(Keeping {
            store: desk.store.clone(),
            key: Arc::clone(&caller.key),
            previous: last.clone(),
            _memory: memory.split(input.get().len()),
            input,
            made_of: plan.made_of.as_str().into(),
        })
    }
}
