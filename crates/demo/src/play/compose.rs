//! Turns steps into acts: a response of the model for each, and one more after a tool.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::Value;

use super::acts::{Act, Patch, PlanStep, Shell, Source, ToolUse};
use super::friendly;
use super::provider;
use super::step::{Fault, Rest, Step};
use super::structured;
use crate::ids::Ids;
use crate::items::{Body, Phase};
use crate::outputs::Ending;
use crate::record::Mode;
use crate::shapes::{CONTEXT_WINDOW_TOKENS, Tokens};

/// What the steps are played for.
pub(crate) struct Scene<'a> {
    pub(crate) ids: &'a mut Ids,
    /// What was asked.
    pub(crate) asked: &'a str,
    /// Images that came with it.
    pub(crate) images: usize,
    pub(crate) mode: Mode,
    /// The form that the answer must have.
    pub(crate) output_schema: Option<&'a Value>,
}

/// The acts of `steps`; a tool at the end is followed by "Done after tool.".
pub(crate) fn compose(steps: &[Step], scene: &mut Scene<'_>) -> VecDeque<Act> {
    let mut acts = Vec::new();
    for step in steps {
        scene.step(step, &mut acts);
    }
    if steps.last().is_some_and(is_tool) {
        scene.step(&Step::after_tool(), &mut acts);
    }
    acts.into()
}

fn is_tool(step: &Step) -> bool {
    matches!(step, Step::Shell { .. } | Step::Patch { .. } | Step::Plan | Step::Tool { .. } | Step::Tools { .. })
}

impl Scene<'_> {
    fn step(&mut self, step: &Step, acts: &mut Vec<Act>) {
        match step {
            Step::Say(said) => self.message(words(said.iter().map(String::as_str)), TEXT, acts),
            Step::Remark(said) => self.remark(said, acts),
            Step::Json(text) => self.message(words([text.as_str()]), TEXT, acts),
            Step::Deltas { count } => {
                self.message(numbered('t', *count), Tokens::of(100, *count, 0), acts);
            }
            Step::Slow { count, pause } => self.paced(numbered('s', *count), *pause, TEXT, acts),
            Step::See => self.message(words([format!("Images seen: {}.", self.images).as_str()]), TEXT, acts),
            Step::Friendly => self.friendly(acts),
            Step::Reason => self.reason(acts),
            Step::Shell { command, escalated } => {
                let id = self.call_id();
                acts.push(Act::Shell(Shell { id, command: command.clone(), escalated: *escalated }));
                acts.push(Act::Usage(TOOL));
            }
            Step::Patch { path, text } => {
                acts.push(Act::Patch(Patch { id: self.call_id(), path: path.clone(), text: text.clone() }));
                acts.push(Act::Usage(TOOL));
            }
            Step::Plan => {
                let step = |step, status| PlanStep { step, status };
                acts.push(Act::Plan(vec![
                    step("Read the code", "completed"),
                    step("Change it", "inProgress"),
                    step("Run the tests", "pending"),
                ]));
                acts.push(Act::Usage(TOOL));
            }
            Step::Propose => self.propose(acts),
            Step::Tool { name, arguments } => {
                let call = ToolUse { id: self.call_id(), name: name.clone(), arguments: arguments.clone() };
                acts.push(Act::Tools(vec![call]));
                acts.push(Act::Usage(TOOL));
            }
            Step::Tools { name, count } => {
                let id = self.call_id();
                let call = |index| ToolUse {
                    id: format!("{id}_{index}"),
                    name: name.clone(),
                    arguments: format!(r#"{{"question":"q{index}"}}"#),
                };
                acts.push(Act::Tools((1..=*count).map(call).collect()));
                acts.push(Act::Usage(TOOL));
            }
            Step::Http { once: true, .. } => {
                self.step(&Step::parse("text").expect("a known step"), acts);
            }
            Step::Http { code, once: false } => {
                let (retry, fail) = provider::http(*code);
                acts.extend(retry.map(Act::Retry));
                acts.push(Act::Fail(fail));
            }
            Step::ContextOverflow => {
                acts.extend([Act::RateLimits, Act::Overflow, Act::Usage(full_window())]);
                acts.push(Act::Fail(provider::context_overflow()));
            }
            Step::Quota => acts.extend([Act::RateLimits, Act::Fail(provider::quota())]),
            Step::Drop => self.cut(acts),
            Step::Hang => acts.push(Act::Hang),
            Step::Offline { reports, pause } => {
                acts.push(Act::Offline { reports: *reports, pause: *pause });
                acts.push(Act::Fail(provider::unreachable()));
            }
            Step::Fault(fault) => self.fault(*fault, acts),
        }
    }

    fn friendly(&mut self, acts: &mut Vec<Act>) {
        match self.output_schema {
            Some(schema) => {
                let answer = structured::example(schema).to_string();
                self.message(words([answer.as_str()]), friendly::tokens(self.asked, &answer), acts);
            }
            None => {
                let answer = friendly::answer(self.asked);
                let source = words(answer.split_inclusive([' ', '\n']));
                let pause = friendly::pause(answer.split_inclusive([' ', '\n']).count());
                self.paced(source, pause, friendly::tokens(self.asked, &answer), acts);
            }
        }
    }

    fn remark(&mut self, said: &[String], acts: &mut Vec<Act>) {
        let said = words(said.iter().map(String::as_str));
        for (phase, source) in [(Phase::Commentary, said), (Phase::FinalAnswer, words(["Done ", "after ", "remark."]))]
        {
            acts.push(Act::Open(Body::message_in(phase, format!("msg_resp_{}", self.ids.number()))));
            acts.extend([Act::Stream { source, pause: Duration::ZERO }, Act::Close]);
        }
        acts.push(Act::Usage(TEXT));
    }

    /// The real worker takes the plan out of the message in plan mode only.
    fn propose(&mut self, acts: &mut Vec<Act>) {
        const PLAN: &[&str] = &["- Read the code\n", "- Change it\n", "- Run the tests\n"];
        let stream = |text| Act::Stream { source: words([text]), pause: Duration::ZERO };
        match self.mode {
            Mode::Plan => {
                self.open_message(acts);
                acts.extend([stream("Before.\n"), Act::Propose(PLAN), stream("After."), Act::Close, Act::Usage(TEXT)]);
            }
            Mode::Default => {
                let text = [&["Before.\n", "<proposed_plan>\n"], PLAN, &["</proposed_plan>\n", "After."]].concat();
                self.message(words(text), TEXT, acts);
            }
        }
    }

    fn reason(&mut self, acts: &mut Vec<Act>) {
        let number = self.ids.number();
        let id = format!("rs_resp_{number}");
        acts.push(Act::Open(Body::Reasoning { id, summary: Vec::new(), content: Vec::new() }));
        acts.push(Act::SummaryPart { index: 0 });
        for text in ["**Thinking", " hard** ", "about it."] {
            acts.push(Act::SummaryText { index: 0, text: text.to_owned() });
        }
        acts.push(Act::SummaryPart { index: 1 });
        acts.push(Act::SummaryText { index: 1, text: "Second part.".to_owned() });
        acts.extend(["raw ", "chain"].map(|text| Act::ReasoningText(text.to_owned())));
        acts.push(Act::Close);
        acts.push(Act::Open(Body::message(format!("msg_resp_{number}"), String::new())));
        acts.push(Act::Stream { source: words(["Reasoned ", "answer."]), pause: Duration::ZERO });
        acts.extend([Act::Close, Act::Usage(Tokens::of(100, 30, 20))]);
    }

    /// A stream that is cut twice leaves two messages without an end.
    fn cut(&mut self, acts: &mut Vec<Act>) {
        let (retry, fail) = provider::cut();
        for outcome in [Act::Retry(retry), Act::Fail(fail)] {
            self.open_message(acts);
            acts.push(Act::Stream { source: words(["partial"]), pause: Duration::ZERO });
            acts.extend([Act::RateLimits, outcome]);
        }
    }

    /// A fault happens in the middle of a message, where it hurts most.
    fn fault(&mut self, fault: Fault, acts: &mut Vec<Act>) {
        self.open_message(acts);
        let before = match fault {
            Fault::Crash { after, .. } => numbered('t', after),
            _ => words(["Before ", "the ", "fault; "]),
        };
        acts.push(Act::Stream { source: before, pause: Duration::ZERO });
        acts.push(Act::Fault(fault));
        if !matches!(fault, Fault::Crash { .. } | Fault::HalfLine { rest: Rest::Never }) {
            acts.push(Act::Stream { source: words(["after ", "the ", "fault."]), pause: Duration::ZERO });
            acts.extend([Act::Close, Act::Usage(TEXT)]);
        }
    }

    fn message(&mut self, source: Source, tokens: Tokens, acts: &mut Vec<Act>) {
        self.paced(source, Duration::ZERO, tokens, acts);
    }

    fn paced(&mut self, source: Source, pause: Duration, tokens: Tokens, acts: &mut Vec<Act>) {
        self.open_message(acts);
        acts.extend([Act::Stream { source, pause }, Act::Close, Act::Usage(tokens)]);
    }

    fn open_message(&mut self, acts: &mut Vec<Act>) {
        acts.push(Act::Open(Body::message(format!("msg_resp_{}", self.ids.number()), String::new())));
    }

    fn call_id(&mut self) -> String {
        format!("call_resp_{}", self.ids.number())
    }
}

/// What the stand-in model of the tests reports for a message and for a tool call.
const TEXT: Tokens = Tokens::of(100, 10, 0);
const TOOL: Tokens = Tokens::of(200, 20, 0);

/// What the real worker reports when the window is full: all of it, and nothing else.
fn full_window() -> Tokens {
    Tokens { total_tokens: CONTEXT_WINDOW_TOKENS, ..Tokens::default() }
}

fn words<'a>(words: impl IntoIterator<Item = &'a str>) -> Source {
    Source::Words(words.into_iter().map(str::to_owned).collect())
}

fn numbered(letter: char, count: u64) -> Source {
    Source::Numbered { letter, next: 0, count }
}

impl Fault {
    /// The end of the process that this fault is, if it is one.
    pub(crate) fn ending(self) -> Option<Ending> {
        match self {
            Self::Crash { ending, .. } => Some(ending),
            Self::HalfLine { rest: Rest::Never } => Some(Ending::Exit(1)),
            _ => None,
        }
    }
}
