//! The answer as one object: all choices are read to their ends, side by side.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll};

use axum::Json;
use axum::response::{IntoResponse, Response};
use codex::Usage;

use crate::ask::{Answering, Choice, Step, add_usage, refused, revoked};
use crate::error::Error;
use crate::openai::answer::{Answer, Said};
use crate::openai::chunks::Heading;
use crate::openai::reading::End;

pub(super) async fn answer(
    answering: &Answering,
    heading: &Heading,
    choices: &mut [Choice],
) -> Result<Response, Error> {
    let mut said: Vec<(Said, &str)> = choices.iter().map(|_| (Said::default(), "stop")).collect();
    let mut ended = pin!(answering.permit.revoked());
    poll_fn(|context| {
        if ended.as_mut().poll(context).is_ready() {
            // Otherwise one that waits for a person would go on waiting.
            choices.iter_mut().for_each(Choice::cancel);
            return Poll::Ready(Err(revoked()));
        }
        poll_all(heading, choices, &mut said, context)
    })
    .await?;
    let mut usage: Option<Usage> = None;
    choices.iter().for_each(|choice| add_usage(&mut usage, choice.usage()));
    Ok(Json(Answer::new(heading, &said, &usage.unwrap_or_default())).into_response())
}

fn poll_all(
    heading: &Heading,
    choices: &mut [Choice],
    said: &mut [(Said, &str)],
    context: &mut Context<'_>,
) -> Poll<Result<(), Error>> {
    let mut failure = None;
    for (choice, (said, reason)) in choices.iter_mut().zip(&mut *said) {
        while failure.is_none() {
            match choice.poll_step(context, |piece| said.add(&piece)) {
                Poll::Pending => break,
                Poll::Ready(Step::On) => {}
                Poll::Ready(Step::Ended(End::Failed(error))) => failure = Some(error),
                Poll::Ready(Step::Ended(end)) => *reason = heading.finish_reason(&end),
            }
        }
    }
    if let Some(error) = failure {
        return Poll::Ready(Err(refused(error, choices)));
    }
    if choices.iter().all(Choice::is_over) { Poll::Ready(Ok(())) } else { Poll::Pending }
}
