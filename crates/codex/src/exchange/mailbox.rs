//! What waits for one reader, bounded by bytes. Neighbouring pieces of one text become one piece, so that a slow reader
//! gets fewer and larger events. At the bound whatever is not vital is left out, and one event says how much: never
//! silence. What is vital has as much room again, which only a worker that floods can fill; the last event always has
//! its place.

use std::collections::VecDeque;
use std::mem::{discriminant, take};
use std::task::{Context, Poll, Waker};

use crate::event::{ConnectionEvent, PlanStep, TurnEvent};
use crate::text::Text;

/// What a mailbox has to know of an event.
pub(crate) trait Letter: Sized {
    /// What it weighs.
    fn bytes(&self) -> usize;
    /// Whether it should reach its reader whatever else waits.
    fn is_vital(&self) -> bool;
    /// Takes the next event into this one, or gives it back.
    fn merge(&mut self, next: Self) -> Option<Self>;
    /// Says that so many events, of so many bytes, were left out here.
    fn cut(events: u64, bytes: u64) -> Self;
}

/// An event counts for this much besides its text.
const EVENT_BYTES: usize = 64;

/// How much more may wait in front of what is vital.
const VITAL_TIMES: usize = 2;

/// What an event counts for.
pub(crate) fn weight<T: Letter>(letter: &T) -> usize {
    letter.bytes() + EVENT_BYTES
}

/// How much may wait, this event included, where `bytes_max` is the bound.
pub(crate) fn room<T: Letter>(letter: &T, bytes_max: usize) -> usize {
    if letter.is_vital() { bytes_max.saturating_mul(VITAL_TIMES) } else { bytes_max }
}

#[derive(Debug)]
pub(crate) struct Mailbox<T> {
    letters: VecDeque<T>,
    bytes: usize,
    bytes_max: usize,
    /// Events and bytes left out since the last one that waits.
    left_out: (u64, u64),
    is_finished: bool,
    reader: Option<Waker>,
}

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Posted {
    Kept,
    LeftOut,
}

impl<T: Letter> Mailbox<T> {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { letters: VecDeque::new(), bytes: 0, bytes_max, left_out: (0, 0), is_finished: false, reader: None }
    }

    pub(crate) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// One that is longer than the bound is kept if nothing else waits: then it is not the reader who is slow.
    pub(crate) fn post(&mut self, letter: T) -> Posted {
        if self.bytes > 0 && self.bytes + weight(&letter) > room(&letter, self.bytes_max) {
            self.left_out.0 += 1;
            self.left_out.1 += letter.bytes() as u64;
            return Posted::LeftOut;
        }
        self.say_what_was_left_out();
        self.append(letter);
        self.wake();
        Posted::Kept
    }

    /// The last event, for which there is always room.
    pub(crate) fn finish_with(&mut self, letter: T) {
        self.say_what_was_left_out();
        self.append(letter);
        self.finish();
    }

    /// Nothing comes any more; what waits can still be taken.
    pub(crate) fn finish(&mut self) {
        self.is_finished = true;
        self.wake();
    }

    pub(crate) fn poll_take(&mut self, context: &mut Context<'_>) -> Poll<Option<T>> {
        if self.letters.is_empty() {
            self.say_what_was_left_out();
        }
        match self.letters.pop_front() {
            Some(letter) => {
                self.bytes -= weight(&letter);
                Poll::Ready(Some(letter))
            }
            None if self.is_finished => Poll::Ready(None),
            None => {
                self.reader = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// So much never came here.
    pub(crate) fn leave_out(&mut self, (events, bytes): (u64, u64)) {
        self.left_out.0 += events;
        self.left_out.1 += bytes;
    }

    fn say_what_was_left_out(&mut self) {
        if let (events @ 1.., bytes) = take(&mut self.left_out) {
            self.append(T::cut(events, bytes));
        }
    }

    fn append(&mut self, letter: T) {
        let before = self.letters.back().map_or(0, Letter::bytes);
        let apart = match self.letters.back_mut() {
            Some(last) => last.merge(letter),
            None => Some(letter),
        };
        match apart {
            Some(letter) => {
                self.bytes += weight(&letter);
                self.letters.push_back(letter);
            }
            None => self.bytes = self.bytes - before + self.letters.back().map_or(0, Letter::bytes),
        }
    }

    fn wake(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

impl Letter for TurnEvent {
    fn bytes(&self) -> usize {
        match self {
            Self::Text { item, text }
            | Self::Reasoning { item, text, .. }
            | Self::ReasoningSummary { item, text, .. }
            | Self::CommandOutput { item, text }
            | Self::FileChangeOutput { item, text } => item.len() + text.len(),
            Self::Diff { diff } => diff.len(),
            Self::Plan { explanation, steps } => {
                let step_bytes = |step: &PlanStep| step.step.len() + step.status.len() + EVENT_BYTES;
                long(explanation.as_deref()) + steps.iter().map(step_bytes).sum::<usize>()
            }
            // Its id, kind and status are parts of the whole, which is there besides.
            Self::ItemStarted { item } | Self::ItemCompleted { item } => item.raw.get().len(),
            Self::ApprovalWanted { params, .. } => params.get().len(),
            Self::ToolWanted { call, tool, arguments, .. } => call.len() + tool.len() + arguments.get().len(),
            Self::ToolChosen { call, tool, arguments } => call.len() + tool.len() + arguments.len(),
            Self::Raw { method, params } => method.len() + params.get().len(),
            Self::Warning { message } => message.len(),
            Self::ToolProgress { item, message } => item.len() + message.len(),
            Self::TerminalInteraction { item, process, input } => item.len() + process.len() + input.len(),
            Self::Error { error, .. } => error.message.len() + long(error.details.as_deref()),
            Self::TurnStarted { thread, turn } => thread.len() + turn.len(),
            Self::ReasoningPart { item, .. } => item.len(),
            Self::ApprovalResolved { request } => request.len(),
            Self::Compacted
            | Self::TokenUsage { .. }
            | Self::ModelAnswered { .. }
            | Self::Cut { .. }
            | Self::TurnEnded { .. } => 0,
        }
    }

    fn is_vital(&self) -> bool {
        matches!(
            self,
            Self::TurnStarted { .. }
                | Self::ApprovalWanted { .. }
                | Self::ToolChosen { .. }
                | Self::ModelAnswered { .. }
                | Self::ToolWanted { .. }
                | Self::ApprovalResolved { .. }
                | Self::ItemCompleted { .. }
                | Self::TurnEnded { .. }
        )
    }

    fn merge(&mut self, mut next: Self) -> Option<Self> {
        if discriminant(self) != discriminant(&next) {
            return Some(next);
        }
        if matches!(self, Self::Diff { .. } | Self::Plan { .. }) {
            // Each says the whole again, so the last one is enough.
            *self = next;
            return None;
        }
        match (piece(self), piece(&mut next)) {
            (Some((place, text)), Some((other, more))) if place == other => text.push(more),
            _ => return Some(next),
        }
        None
    }

    fn cut(events: u64, bytes: u64) -> Self {
        Self::Cut { events, bytes }
    }
}

fn long(text: Option<&str>) -> usize {
    text.map_or(0, str::len)
}

/// A piece of a text, and which text it is a piece of.
fn piece(event: &mut TurnEvent) -> Option<((&str, u32), &mut Text)> {
    match event {
        TurnEvent::Text { item, text }
        | TurnEvent::CommandOutput { item, text }
        | TurnEvent::FileChangeOutput { item, text } => Some(((item, 0), text)),
        TurnEvent::Reasoning { item, index, text } | TurnEvent::ReasoningSummary { item, index, text } => {
            Some(((item, *index), text))
        }
        _ => None,
    }
}

impl Letter for ConnectionEvent {
    fn bytes(&self) -> usize {
        match self {
            Self::ThreadStarted { thread, params } => thread.len() + params.get().len(),
            Self::AccountUpdated { params } | Self::RateLimits { params } => params.get().len(),
            Self::Raw { method, params } => method.len() + params.get().len(),
            Self::Warning { message } | Self::PassedOver { report: message } => message.len(),
            Self::Turn { event, .. } => event.bytes(),
            Self::ThreadStatus { thread, status, flags } => {
                thread.len() + status.len() + flags.iter().map(|flag| flag.len() + EVENT_BYTES).sum::<usize>()
            }
            Self::LoginCompleted { error, .. } => long(error.as_deref()),
            Self::ToolServerLogin { name, error, .. } => name.len() + long(error.as_deref()),
            Self::Cut { .. } => 0,
        }
    }

    fn is_vital(&self) -> bool {
        false
    }

    fn merge(&mut self, next: Self) -> Option<Self> {
        match (self, next) {
            (limits @ Self::RateLimits { .. }, next @ Self::RateLimits { .. }) => *limits = next,
            (_, next) => return Some(next),
        }
        None
    }

    fn cut(events: u64, bytes: u64) -> Self {
        Self::Cut { events, bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::TurnStatus;

    fn text(item: &str, text: &str) -> TurnEvent {
        TurnEvent::Text { item: item.into(), text: text.into() }
    }

    fn wanted(request: &str) -> TurnEvent {
        TurnEvent::ApprovalResolved { request: request.into() }
    }

    fn taken(mailbox: &mut Mailbox<TurnEvent>) -> Vec<String> {
        let mut context = Context::from_waker(Waker::noop());
        let mut taken = Vec::new();
        while let Poll::Ready(Some(event)) = mailbox.poll_take(&mut context) {
            taken.push(serde_json::to_string(&event).unwrap());
        }
        assert_eq!(mailbox.bytes, 0, "the books balance");
        taken
    }

    #[test]
    fn neighbouring_pieces_of_one_text_become_one() {
        let mut mailbox = Mailbox::new(1000);
        for event in [text("a", "one "), text("a", "two"), text("b", "three"), wanted("7"), text("b", "four")] {
            assert_eq!(mailbox.post(event), Posted::Kept);
        }
        assert_eq!(
            taken(&mut mailbox),
            [
                r#"{"type":"text","item":"a","text":"one two"}"#,
                r#"{"type":"text","item":"b","text":"three"}"#,
                r#"{"type":"approval_resolved","request":"7"}"#,
                r#"{"type":"text","item":"b","text":"four"}"#,
            ]
        );
    }

    #[test]
    fn pieces_are_merged_as_the_worker_wrote_them() {
        let mut mailbox = Mailbox::new(1000);
        for json in [r#""a\u0062\n""#, r#""\ud83d\ude42""#, r#""c\\""#] {
            let text = Text::from_json(json).unwrap();
            mailbox.post(TurnEvent::Reasoning { item: "r".into(), index: 0, text });
        }
        let Some(TurnEvent::Reasoning { text, .. }) = mailbox.letters.front() else { panic!("they became one") };
        assert_eq!(text.as_json(), r"a\u0062\n\ud83d\ude42c\\");
        assert_eq!(text.to_str(), "ab\n🙂c\\");
        assert_eq!(mailbox.bytes, EVENT_BYTES + 1 + text.len());
    }

    #[test]
    fn at_the_bound_a_cut_says_what_is_missing_and_nothing_vital_is() {
        let mut mailbox = Mailbox::new(150);
        assert_eq!(mailbox.post(text("a", "0123456789")), Posted::Kept);
        assert_eq!(mailbox.post(text("a", &"x".repeat(100))), Posted::LeftOut);
        assert_eq!(mailbox.post(text("a", &"y".repeat(90))), Posted::LeftOut);
        mailbox.post(wanted("7"));
        mailbox.post(TurnEvent::TurnEnded { status: TurnStatus::Completed, error: None });
        assert_eq!(
            taken(&mut mailbox),
            [
                r#"{"type":"text","item":"a","text":"0123456789"}"#,
                r#"{"type":"cut","events":2,"bytes":192}"#,
                r#"{"type":"approval_resolved","request":"7"}"#,
                r#"{"type":"turn_ended","status":"completed","error":null}"#,
            ]
        );
    }

    #[test]
    fn a_cut_is_told_even_if_nothing_follows_it() {
        let mut mailbox = Mailbox::new(100);
        mailbox.post(text("a", "x"));
        mailbox.post(text("a", &"y".repeat(100)));
        assert_eq!(taken(&mut mailbox)[1..], [r#"{"type":"cut","events":1,"bytes":101}"#]);
        mailbox.post(text("a", "there is room again"));
        assert_eq!(taken(&mut mailbox).len(), 1);
    }

    #[test]
    fn a_finished_mailbox_can_still_be_emptied() {
        let mut mailbox = Mailbox::new(1000);
        mailbox.post(text("a", "last"));
        mailbox.finish();
        assert_eq!(taken(&mut mailbox).len(), 1);
        let mut context = Context::from_waker(Waker::noop());
        assert!(matches!(mailbox.poll_take(&mut context), Poll::Ready(None)));
    }
}
