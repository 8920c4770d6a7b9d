//! A turn, read for one answer: its events become pieces of the answer, and then its one end. Text goes through as the worker
//! wrote it; the caller's tools end the answer when all calls of one message of the model are there.

use std::collections::HashSet;
use std::time::Duration;

use codex::{Item, Text, TurnEvent, TurnStatus, Usage};
use serde_json::Value;

use super::failure::failure;
use super::history::History;
use super::message::{Message, ToolCall};
use super::request::Request;
use super::responses::work_items;
use super::stop::{Passed, Stops};
use super::tools::Names;
use super::work;
use crate::error::Error;

/// How long to wait for more calls of the same message where the worker does not tell how many there are. One that comes
/// later is the next answer's.
const GATHER_TIMEOUT: Duration = Duration::from_millis(300);

/// How long to wait for calls that the worker has told to come. One whose arguments are no JSON never does.
const CALLED_TIMEOUT: Duration = Duration::from_secs(5);

/// What stands between two messages of one turn.
const BETWEEN_MESSAGES: &str = "\n\n";

/// How a turn is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// As one message: all that is said is one text, and all that is thought another.
    Joined,
    /// Every message and every thought by itself.
    Apart,
}

/// A piece of the answer.
#[derive(Debug)]
pub(crate) enum Piece<'a> {
    /// Another message begins.
    Message(Phase),
    Content(&'a Text),
    /// Another thought begins.
    Thought(Thought),
    Reasoning(&'a Text),
    /// Something that the agent did, for those who want it as it is.
    Work(&'a Item),
    Call(&'a ToolCall),
    /// What was said of the message is not to count; it is said anew. Whoever was told already cannot be untold.
    TakenBack,
}

/// How what the agent does is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkForm {
    /// As lines of reasoning.
    Lines,
    /// As it is.
    Items,
}

/// What a message is to the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The worker does not say.
    Unsaid,
    /// A remark on the way.
    Commentary,
    /// The answer.
    Final,
}

/// What a thought is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thought {
    /// The model's own.
    Itself,
    /// What it was about.
    Summary,
    /// What the agent does.
    Work,
}

/// How the answer ends.
#[derive(Debug)]
pub(crate) enum End {
    /// Everything is said, or a text was found that ends it.
    Said,
    /// The caller's tools are wanted; the turn waits for them.
    ToolsWanted,
    Failed(Error),
}

/// The reading of one turn.
pub(crate) struct Reading {
    manner: Manner,
    tools: HashSet<Box<str>>,
    names: Names,
    are_functions: bool,
    /// How many calls of the older form, which have no ids, the conversation holds already.
    functions_before: usize,
    shows_work: bool,
    work_form: WorkForm,
    stops: Stops,
    /// The message that speaks, and those that have spoken.
    speaker: Option<Box<str>>,
    heard: HashSet<Box<str>>,
    /// The message that was last told to begin, and what it is to the answer.
    phase: Option<(Box<str>, Phase)>,
    /// Whose thought is told.
    thinker: Option<(Box<str>, Thought)>,
    reasoning_is_mid_line: bool,
    model: ModelAnswer,
    calls: Vec<ToolCall>,
    /// Calls that have come before one that the model chose earlier.
    wanted: Vec<ToolCall>,
    /// What the model has used by its own answers, and by what the worker counted since.
    answered: Option<Usage>,
    counted: Option<Usage>,
    said: History,
    /// Of what was asked, without an answer.
    asked: History,
    /// Whether the message that speaks is not over yet.
    is_mid_message: bool,
    /// Whether the caller was told something else than what the thread holds.
    differs: bool,
}

/// What is known of the model's present answer.
#[derive(Default)]
struct ModelAnswer {
    /// Calls of the caller's tools in it.
    chosen: Vec<ToolCall>,
    is_complete: bool,
}

impl Reading {
    pub(crate) fn new(request: &Request, shows_work: bool, said: &History) -> Self {
        let asked = said.clone();
        let mut said = said.clone();
        said.begin_answer();
        Self {
            manner: request.manner,
            tools: request.tools.offered.iter().map(|tool| tool.name.as_str().into()).collect(),
            names: request.tools.names.clone(),
            are_functions: request.tools.are_functions,
            functions_before: request.messages.iter().map(Message::calls).sum(),
            shows_work,
            work_form: request.work_form,
            stops: Stops::new(&request.stop),
            speaker: None,
            heard: HashSet::new(),
            phase: None,
            thinker: None,
            reasoning_is_mid_line: false,
            model: ModelAnswer::default(),
            calls: Vec::new(),
            wanted: Vec::new(),
            answered: None,
            counted: None,
            said,
            asked,
            is_mid_message: false,
            differs: false,
        }
    }

    pub(crate) fn handle_event(&mut self, event: &TurnEvent, mut say: impl FnMut(Piece<'_>)) -> Option<End> {
        self.count(event);
        match event {
            TurnEvent::Text { item, text } => return self.speak(item, text, &mut say),
            TurnEvent::Reasoning { item, text, .. } => self.think(item, Thought::Itself, text, &mut say),
            TurnEvent::ReasoningSummary { item, text, .. } => self.think(item, Thought::Summary, text, &mut say),
            TurnEvent::ReasoningPart { index: 1.., .. } => match self.manner {
                Manner::Joined => self.reason(&Text::of(BETWEEN_MESSAGES), &mut say),
                Manner::Apart => say(Piece::Thought(Thought::Summary)),
            },
            TurnEvent::ItemStarted { item } if &*item.kind == "agent_message" => {
                self.phase = Some((item.id.clone(), phase(item)));
            }
            TurnEvent::ItemCompleted { item } if &*item.kind == "agent_message" => {
                self.is_mid_message = false;
                if self.has_heard(&item.id) {
                    return None;
                }
                let whole = item.text().unwrap_or_default();
                let end = self.speak(&item.id, &Text::of(&whole), &mut say);
                self.is_mid_message = false;
                return end;
            }
            TurnEvent::Cut { .. } => self.differs = true,
            TurnEvent::Error { will_retry: true, .. } if self.is_mid_message => self.take_back(&mut say),
            TurnEvent::ToolChosen { call, tool, arguments } => self.choose(call, tool, arguments),
            TurnEvent::ModelAnswered { .. } => {
                self.model.is_complete = true;
                return self.all_called();
            }
            TurnEvent::ToolWanted { call, tool, arguments, .. } => {
                return self.call(call, tool, arguments.get(), &mut say);
            }
            TurnEvent::TurnEnded { status, error } => {
                self.release(&mut say);
                return Some(match (status, error) {
                    (TurnStatus::Completed, None) if self.calls.is_empty() => End::Said,
                    (TurnStatus::Completed, None) => End::ToolsWanted,
                    (status, error) => End::Failed(failure(*status, error.as_ref())),
                });
            }
            _ => {}
        }
        if self.work_form == WorkForm::Items
            && let TurnEvent::ItemStarted { item } | TurnEvent::ItemCompleted { item } = event
            && work_items::is_told(item)
        {
            if self.shows_work && matches!(event, TurnEvent::ItemCompleted { .. }) {
                self.thinker = None;
                say(Piece::Work(item));
            }
            return None;
        }
        // What a person has to decide is told in any case: the answer waits for it.
        let is_decision = matches!(event, TurnEvent::ApprovalWanted { .. } | TurnEvent::ApprovalResolved { .. });
        if (self.shows_work || is_decision)
            && let Some(line) = work::line(event)
        {
            self.work(&line, &mut say);
        }
        None
    }

    /// Counts what an event reports of what the answer took, and tells nothing.
    pub(crate) fn count(&mut self, event: &TurnEvent) {
        match event {
            TurnEvent::TokenUsage { last, .. } => self.counted.get_or_insert_default().add(last),
            TurnEvent::ModelAnswered { usage: Some(usage) } => self.answered.get_or_insert_default().add(usage),
            _ => {}
        }
    }

    /// How long to wait for the next call before [`Self::handle_quiet`].
    pub(crate) fn patience(&self) -> Option<Duration> {
        let is_known = self.model.chosen.len() > self.calls.len();
        (self.calls() > 0).then_some(if is_known { CALLED_TIMEOUT } else { GATHER_TIMEOUT })
    }

    /// No call came for as long as [`Self::patience`] says: no more calls are waited for.
    pub(crate) fn handle_quiet(&mut self, mut say: impl FnMut(Piece<'_>)) -> Option<End> {
        while !self.wanted.is_empty() {
            self.tell_call(0, &mut say);
        }
        (!self.calls.is_empty()).then_some(End::ToolsWanted)
    }

    /// What the answer took, as far as the worker has told it. What it counts only after the tools have answered is part of
    /// the next answer, unless the model's own answers were told.
    pub(crate) fn usage(&self) -> Option<Usage> {
        self.answered.or(self.counted)
    }

    /// The hash of the conversation with this answer, unless the caller was told something else than the thread holds.
    pub(crate) fn history(&self) -> Option<String> {
        let mut said = self.said.clone();
        if self.are_functions {
            let ids = (self.functions_before + 1..).map(|number| format!("function_{number}").into());
            let calls = self.calls.iter().zip(ids).map(|(call, id)| ToolCall { id, ..call.clone() });
            said.end_answer(&calls.collect::<Vec<_>>());
        } else {
            said.end_answer(&self.calls);
        }
        (!self.differs).then(|| said.to_hash())
    }

    /// The hash of the conversation as it was asked.
    pub(crate) fn question(&self) -> String {
        self.asked.to_hash()
    }

    /// How many calls have come.
    pub(crate) fn calls(&self) -> usize {
        self.calls.len() + self.wanted.len()
    }

    /// The provider broke off, and the worker asks it again: what was said of the message is not part of the thread.
    fn take_back(&mut self, say: &mut impl FnMut(Piece<'_>)) {
        self.is_mid_message = false;
        self.differs = true;
        _ = self.stops.rest();
        say(Piece::TakenBack);
    }

    /// Says what was held back.
    fn release(&mut self, say: &mut impl FnMut(Piece<'_>)) {
        let rest = self.stops.rest();
        self.utter(&Text::of(&rest), say);
    }

    fn speak(&mut self, item: &str, text: &Text, say: &mut impl FnMut(Piece<'_>)) -> Option<End> {
        let phase = self.phase.as_ref().filter(|(of, _)| **of == *item).map_or(Phase::Unsaid, |(_, phase)| *phase);
        if phase == Phase::Commentary && self.manner == Manner::Joined {
            self.heard.insert(item.into());
            self.reason(text, say);
            return None;
        }
        self.is_mid_message = true;
        if self.speaker.as_deref() != Some(item)
            && let Some(end) = self.begin_message(item, phase, say)
        {
            return Some(end);
        }
        self.answer(text, say)
    }

    fn begin_message(&mut self, item: &str, phase: Phase, say: &mut impl FnMut(Piece<'_>)) -> Option<End> {
        let is_first = self.speaker.replace(item.into()).is_none();
        self.heard.insert(item.into());
        say(Piece::Message(phase));
        match self.manner {
            _ if is_first => None,
            Manner::Joined => self.answer(&Text::of(BETWEEN_MESSAGES), say),
            Manner::Apart => {
                self.said.end_answer(&[]);
                self.said.begin_answer();
                None
            }
        }
    }

    /// More of the answer, unless it ends before.
    fn answer(&mut self, text: &Text, say: &mut impl FnMut(Piece<'_>)) -> Option<End> {
        if self.stops.is_empty() {
            self.utter(text, say);
            return None;
        }
        match self.stops.pass(&text.to_str()) {
            Passed::On(more) => {
                self.utter(&Text::of(&more), say);
                None
            }
            Passed::Stopped(last) => {
                self.utter(&Text::of(&last), say);
                self.differs = true;
                Some(End::Said)
            }
        }
    }

    fn utter(&mut self, text: &Text, say: &mut impl FnMut(Piece<'_>)) {
        if !text.is_empty() {
            self.said.add_to_answer(&text.to_str());
            say(Piece::Content(text));
        }
    }

    /// Two thoughts do not run into each other.
    fn think(&mut self, item: &str, thought: Thought, text: &Text, say: &mut impl FnMut(Piece<'_>)) {
        let is_same = self.thinker.as_ref().is_some_and(|(thinker, of)| **thinker == *item && *of == thought);
        if !is_same {
            let is_first = self.thinker.replace((item.into(), thought)).is_none();
            say(Piece::Thought(thought));
            if self.manner == Manner::Joined && !is_first && self.reasoning_is_mid_line {
                self.reason(&Text::of(BETWEEN_MESSAGES), say);
            }
        }
        self.reason(text, say);
    }

    /// What the agent does, line by line.
    fn work(&mut self, line: &str, say: &mut impl FnMut(Piece<'_>)) {
        if self.manner == Manner::Apart {
            let is_same = matches!(self.thinker, Some((_, Thought::Work)));
            if !is_same {
                self.thinker = Some(("".into(), Thought::Work));
                self.reasoning_is_mid_line = false;
                say(Piece::Thought(Thought::Work));
            }
        }
        let lead = if self.reasoning_is_mid_line { "\n" } else { "" };
        self.reason(&Text::of(&format!("{lead}{line}\n")), say);
    }

    fn reason(&mut self, text: &Text, say: &mut impl FnMut(Piece<'_>)) {
        if !text.is_empty() {
            self.reasoning_is_mid_line = !text.as_json().ends_with("\\n");
            say(Piece::Reasoning(text));
        }
    }

    fn has_heard(&self, item: &str) -> bool {
        self.heard.contains(item)
    }

    fn choose(&mut self, call: &str, tool: &str, arguments: &str) {
        if self.model.is_complete {
            self.model = ModelAnswer::default();
        }
        if self.tools.contains(tool) {
            let name = self.names.at_the_caller(tool).into();
            self.model.chosen.push(ToolCall { id: call.into(), name, arguments: arguments.into() });
        }
    }

    fn call(&mut self, id: &str, tool: &str, arguments: &str, say: &mut impl FnMut(Piece<'_>)) -> Option<End> {
        self.release(say);
        let chosen = self.model.chosen.iter().find(|call| *call.id == *id).cloned();
        let name = || self.names.at_the_caller(tool).into();
        let call = chosen.unwrap_or_else(|| ToolCall { id: id.into(), name: name(), arguments: arguments.into() });
        self.wanted.push(call);
        self.tell_calls(say);
        // The older form has room for one call; the next is the next answer's.
        if self.are_functions { Some(End::ToolsWanted) } else { self.all_called() }
    }

    /// Tells the calls that are wanted, in the order in which the model chose them where that is known.
    fn tell_calls(&mut self, say: &mut impl FnMut(Piece<'_>)) {
        while !self.wanted.is_empty() {
            let is_told = |call: &ToolCall| self.calls.iter().any(|told| told.id == call.id);
            let next = self.model.chosen.iter().find(|call| !is_told(call));
            let at = match next {
                None => 0,
                Some(next) => match self.wanted.iter().position(|call| call.id == next.id) {
                    Some(at) => at,
                    None => return,
                },
            };
            self.tell_call(at, say);
        }
    }

    fn tell_call(&mut self, at: usize, say: &mut impl FnMut(Piece<'_>)) {
        let call = self.wanted.remove(at);
        say(Piece::Call(&call));
        self.calls.push(call);
    }

    fn all_called(&self) -> Option<End> {
        let is_all = self.model.is_complete && self.calls.len() >= self.model.chosen.len();
        (is_all && !self.calls.is_empty()).then_some(End::ToolsWanted)
    }
}

/// Newer models say what they are about to do in messages that are not the answer.
fn phase(item: &Item) -> Phase {
    let raw = item.raw.parse::<Value>().unwrap_or_default();
    match raw["phase"].as_str() {
        Some("commentary") => Phase::Commentary,
        Some("final_answer") => Phase::Final,
        _ => Phase::Unsaid,
    }
}
