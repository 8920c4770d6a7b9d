//! Events as text.

use wire::{Event, Outcome};

pub(crate) fn event(event: &Event) -> String {
    match event {
        Event::Settled { call, outcome } => format!("call {call} {}", self::outcome(outcome)),
        Event::Notification(told) => {
            let at = told.emitted_at_ms.map(|at| format!(" emitted at {at}"));
            let params = told.params.as_ref().map_or("–", |params| params.get());
            format!("told {} {params}{}", told.method, at.unwrap_or_default())
        }
        Event::Request(asked) => {
            let params = asked.params.as_ref().map_or("–", |params| params.get());
            format!("asked {}: {} {params}", asked.id, asked.method)
        }
        Event::Reported(report) => format!("reported {report}"),
        Event::Closed { unanswered } => {
            let ids: Vec<_> = unanswered.iter().map(ToString::to_string).collect();
            format!("closed, unanswered: [{}]", ids.join(", "))
        }
    }
}

fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Answered(result) => format!("answered {}", result.get()),
        Outcome::Failed(error) => {
            let data = error.data.as_ref().map(|data| format!(" {}", data.get()));
            format!("failed {} {:?}{}", error.code, error.message, data.unwrap_or_default())
        }
        Outcome::TimedOut(progress) => format!("timed out ({progress:?})"),
        Outcome::TooLong => "too long".into(),
        Outcome::Unreadable(fault) => format!("unreadable: {fault}"),
        Outcome::Closed(progress) => format!("closed ({progress:?})"),
        Outcome::Cancelled(progress) => format!("cancelled ({progress:?})"),
    }
}
