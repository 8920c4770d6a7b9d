//! The answer as a stream: the role at once, then pieces as they come, a comment while nothing does, and exactly one end. What
//! waits is sent together, and nothing is sent before the connection takes it: a slow caller gets fewer, larger chunks.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes};
use axum::response::Response;
use codex::Usage;
use futures_util::Stream;

use crate::ask::{Answering, Choice, Step, Vigil, Woken, add_usage, revoked, stream_response};
use crate::error::Error;
use crate::openai::chunks::{ChunkWriter, DONE, HEARTBEAT, Heading, write_error};
use crate::openai::reading::End;

pub(super) fn answer(answering: Arc<Answering>, heading: Heading, choices: Vec<Choice>) -> Response {
    stream_response(Body::from_stream(Chunks::new(answering, heading, choices)))
}

struct Chunks {
    answering: Arc<Answering>,
    heading: Heading,
    choices: Vec<(Choice, ChunkWriter)>,
    out: Vec<u8>,
    vigil: Vigil,
    usage: Option<Usage>,
    is_over: bool,
}

impl Chunks {
    fn new(answering: Arc<Answering>, heading: Heading, choices: Vec<Choice>) -> Self {
        let choices =
            choices.into_iter().enumerate().map(|(index, choice)| (choice, ChunkWriter::new(&heading, index)));
        let choices: Vec<_> = choices.collect();
        let mut out = Vec::new();
        choices.iter().for_each(|(_, writer)| writer.write_role(&mut out));
        Self { choices, out, vigil: Vigil::new(&answering), usage: None, is_over: false, answering, heading }
    }

    /// Writes the next piece of each choice. What waits of a text is one piece, and the connection sends pieces together: to
    /// look for more here would be to look twice.
    fn collect(&mut self, context: &mut Context<'_>) {
        for at in 0..self.choices.len() {
            let written = self.out.len();
            while self.out.len() == written {
                let Self { choices, out, .. } = self;
                let (choice, writer) = &mut choices[at];
                match choice.poll_step(context, |piece| writer.write_piece(&piece, out)) {
                    Poll::Pending => break,
                    Poll::Ready(Step::On) => {}
                    Poll::Ready(Step::Ended(End::Failed(error))) => return self.fail(&error),
                    Poll::Ready(Step::Ended(end)) => {
                        let reason = self.heading.finish_reason(&end);
                        writer.write_finish(reason, out);
                        add_usage(&mut self.usage, choice.usage());
                    }
                }
            }
        }
        if self.choices.iter().all(|(choice, _)| choice.is_over()) {
            if self.heading.tells_usage {
                self.heading.write_usage(&self.usage.unwrap_or_default(), &mut self.out);
            }
            self.out.extend_from_slice(DONE);
            self.end();
        }
    }

    fn revoke(&mut self) {
        self.choices.iter_mut().for_each(|(choice, _)| choice.cancel());
        self.fail(&revoked());
    }

    fn fail(&mut self, error: &Error) {
        self.answering.span.in_scope(|| error.log());
        write_error(error, &mut self.out);
        self.end();
    }

    fn end(&mut self) {
        self.choices.clear();
        self.is_over = true;
    }
}

impl Stream for Chunks {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.is_over {
            return Poll::Ready(None);
        }
        if this.answering.permit.is_revoked() {
            this.revoke();
        } else {
            this.collect(context);
        }
        if this.out.is_empty() {
            match ready!(this.vigil.poll(context)) {
                Woken::Revoked => this.revoke(),
                Woken::Quiet => this.out.extend_from_slice(HEARTBEAT),
            }
        }
        this.vigil.handle_sent();
        Poll::Ready(Some(Ok(std::mem::take(&mut this.out).into())))
    }
}
