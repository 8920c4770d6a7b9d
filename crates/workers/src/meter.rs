//! What a turn uses: what its worker reports, and an estimate of what it never will. A worker reports usage when an answer of
//! the model is complete; one that is interrupted, or lost with its worker, was paid for all the same. Pure.

use codex::{Input, Json, TurnEvent, TurnStatus, Usage};

use crate::running::HARMLESS;

/// How many bytes of text are taken for one token: about right for English, too many for most other languages.
const BYTES_PER_TOKEN: u64 = 4;

/// What an image is taken for: about what providers count for one of ordinary size.
pub const IMAGE_TOKENS: u64 = 1000;

/// Counts what one turn uses.
#[derive(Debug)]
pub(crate) struct Meter {
    /// Whether the model's own answers tell what is used; the worker's sums are then the same once more.
    counts_answers: bool,
    has_reported: bool,
    /// Whether the model has been asked for an answer that nothing was reported of.
    is_answering: bool,
    /// What the model reads for that answer, in tokens.
    context_tokens: u64,
    /// What it has written of it.
    written_bytes: u64,
}

impl Meter {
    /// That of a turn whose model reads so much at first.
    pub(crate) fn begun(context_tokens: u64) -> Self {
        Self { counts_answers: false, has_reported: false, is_answering: true, context_tokens, written_bytes: 0 }
    }

    /// That of a turn which an earlier run has begun: what was reported to that run is not known.
    pub(crate) fn found_again() -> Self {
        Self { has_reported: true, is_answering: false, ..Self::begun(0) }
    }

    /// What an event reports.
    pub(crate) fn handle(&mut self, event: &TurnEvent) -> Option<Usage> {
        match event {
            // Where the model's own answers are told, they come first.
            TurnEvent::ModelAnswered { usage: Some(usage) } => {
                self.counts_answers = true;
                Some(self.report(usage))
            }
            TurnEvent::TokenUsage { last, .. } if !self.counts_answers => Some(self.report(last)),
            TurnEvent::Text { text, .. }
            | TurnEvent::Reasoning { text, .. }
            | TurnEvent::ReasoningSummary { text, .. } => {
                self.is_answering = true;
                self.written_bytes += text.as_json().len() as u64;
                None
            }
            // The model is asked again with what came of it.
            TurnEvent::ItemCompleted { item } if !HARMLESS.contains(&&*item.kind) => {
                self.is_answering = true;
                None
            }
            _ => None,
        }
    }

    /// What the model is thought to have used that was not reported, in a turn that is cut now or has ended so.
    pub(crate) fn unreported(&self, status: TurnStatus) -> Option<Usage> {
        let is_missing = self.is_answering
            && match status {
                // Of a turn that came to its own end the worker has reported everything, unless it reports nothing at all.
                TurnStatus::Completed => !self.has_reported,
                // A provider that refuses a request charges nothing for it.
                TurnStatus::Failed => self.written_bytes > 0,
                TurnStatus::Interrupted | TurnStatus::Lost => true,
            };
        let output_tokens = self.written_bytes.div_ceil(BYTES_PER_TOKEN);
        let total_tokens = self.context_tokens.saturating_add(output_tokens);
        let usage = Usage { total_tokens, input_tokens: self.context_tokens, output_tokens, ..Usage::default() };
        (is_missing && total_tokens > 0).then_some(usage)
    }

    /// How much the next answer reads, as far as the worker has reported it.
    pub(crate) fn context_tokens(&self) -> Option<u64> {
        self.has_reported.then_some(self.context_tokens)
    }

    fn report(&mut self, usage: &Usage) -> Usage {
        self.has_reported = true;
        self.is_answering = false;
        self.context_tokens = usage.input_tokens.saturating_add(usage.output_tokens);
        self.written_bytes = 0;
        *usage
    }
}

/// How many tokens a text is taken for.
#[must_use]
pub fn text_tokens(text: &str) -> u64 {
    (text.len() as u64).div_ceil(BYTES_PER_TOKEN)
}

/// How many tokens the input of a turn is taken for.
#[must_use]
pub fn input_tokens(input: &[Input]) -> u64 {
    let tokens = input.iter().map(|part| match part {
        Input::Text(text) => text_tokens(text),
        _ => IMAGE_TOKENS,
    });
    tokens.fold(0, u64::saturating_add)
}

/// How many tokens the items of a thread's history are taken for. They are not parsed: a history can have many megabytes.
pub(crate) fn history_tokens(history: &[Json]) -> u64 {
    history.iter().map(|item| item_tokens(item.get())).fold(0, u64::saturating_add)
}

/// What names and punctuation of an item take that the model does not read.
const ITEM_BYTES: u64 = 80;

fn item_tokens(item: &str) -> u64 {
    const IMAGE: &str = "\"data:";
    let (mut text_bytes, mut images, mut rest) = (0, 0, item);
    while let Some(at) = rest.find(IMAGE) {
        let image = &rest[at + 1..];
        // Behind an odd number of backslashes the quote is part of a text.
        let backslashes = rest[..at].bytes().rev().take_while(|byte| *byte == b'\\').count();
        if backslashes % 2 == 1 {
            text_bytes += at as u64 + 1;
            rest = image;
            continue;
        }
        text_bytes += at as u64;
        images += 1;
        rest = image.split_once('"').map_or("", |(_, behind)| behind);
    }
    text_bytes += rest.len() as u64;
    text_bytes.saturating_sub(ITEM_BYTES).div_ceil(BYTES_PER_TOKEN) + images * IMAGE_TOKENS
}

#[cfg(test)]
mod tests {
    use codex::{Item, Text};
    use serde_json::json;

    use super::*;

    fn said(bytes: usize) -> TurnEvent {
        TurnEvent::Text { item: "m".into(), text: Text::of(&"x".repeat(bytes)) }
    }

    fn used(input_tokens: u64, output_tokens: u64) -> Usage {
        Usage { total_tokens: input_tokens + output_tokens, input_tokens, output_tokens, ..Usage::default() }
    }

    fn reported(input: u64, output: u64) -> TurnEvent {
        TurnEvent::TokenUsage { last: used(input, output), total: Usage::default(), context_window: None }
    }

    fn command_is_over() -> TurnEvent {
        let raw = serde_json::from_value(json!({})).unwrap();
        TurnEvent::ItemCompleted { item: Item { id: "c".into(), kind: "command".into(), status: None, raw } }
    }

    /// What is reported in all, and what is estimated if the turn ends so.
    fn check(events: &[TurnEvent], status: TurnStatus) -> (u64, Option<Usage>) {
        let mut meter = Meter::begun(10);
        let sum = events.iter().filter_map(|event| meter.handle(event)).map(|usage| usage.total_tokens).sum();
        (sum, meter.unreported(status))
    }

    #[test]
    fn a_cut_answer_is_estimated_by_what_the_model_read_and_wrote() {
        assert_eq!(check(&[], TurnStatus::Interrupted), (0, Some(used(10, 0))));
        assert_eq!(check(&[said(10), said(7)], TurnStatus::Lost), (0, Some(used(10, 5))));
        assert_eq!(check(&[said(4)], TurnStatus::Failed), (0, Some(used(10, 1))), "the provider broke off");
        assert_eq!(check(&[], TurnStatus::Failed), (0, None), "the provider refused");
        let events = [said(10), reported(20, 3), command_is_over(), said(4)];
        assert_eq!(check(&events, TurnStatus::Interrupted), (23, Some(used(23, 1))), "only what is not reported");
    }

    #[test]
    fn nothing_is_estimated_beside_what_the_worker_reports() {
        let complete = [said(10), reported(20, 3)];
        assert_eq!(check(&complete, TurnStatus::Completed), (23, None));
        assert_eq!(check(&complete, TurnStatus::Interrupted), (23, None), "no answer was under way");
        let with_command = [reported(20, 3), command_is_over()];
        assert_eq!(check(&with_command, TurnStatus::Completed), (23, None));
        assert_eq!(check(&with_command, TurnStatus::Interrupted), (23, Some(used(23, 0))));
    }

    #[test]
    fn a_worker_that_reports_nothing_is_estimated_also_at_its_own_end() {
        assert_eq!(check(&[said(8)], TurnStatus::Completed), (0, Some(used(10, 2))));
    }

    #[test]
    fn answers_of_the_model_are_not_counted_again_by_the_workers_sums() {
        let answered = TurnEvent::ModelAnswered { usage: Some(used(20, 3)) };
        assert_eq!(check(&[said(4), answered, reported(20, 3)], TurnStatus::Completed), (23, None));
    }

    #[test]
    fn a_turn_that_is_found_again_counts_from_there_on() {
        let mut meter = Meter::found_again();
        assert_eq!(meter.unreported(TurnStatus::Lost), None);
        meter.handle(&said(8));
        assert_eq!(meter.unreported(TurnStatus::Lost), Some(used(0, 2)));
    }

    #[test]
    fn what_is_said_is_measured_by_its_text_and_images_are_all_alike() {
        let part = json!({"type": "input_text", "text": "x".repeat(4000)});
        let image =
            json!({"type": "input_image", "image_url": format!("data:image/png;base64,{}", "A".repeat(100_000))});
        let item = json!({"type": "message", "role": "user", "content": [part, image]});
        let history = [Json::from(&item)];
        let input = [Input::Text("1234".into()), Input::Image { url: "data:".into() }];
        let (history, input) = (history_tokens(&history), input_tokens(&input));
        assert!((2000..2050).contains(&history), "{history}");
        assert_eq!(input, 1 + 1000);
        let text =
            json!({"type": "message", "role": "user", "content": "say \"data: x\" and \\\"data: y\" ".repeat(50)});
        let text = history_tokens(&[Json::from(&text)]);
        assert!((400..500).contains(&text), "a quote within a text begins no image: {text}");
    }
}
