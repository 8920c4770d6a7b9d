//! One turn that runs: the stream of its events. Dropped before its end, it interrupts the turn.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::Stream;
use tokio::task::coop::poll_proceed;
use tokio::time::Instant;

use super::{Client, Input, plan};
use crate::dialect::Line;
use crate::error::CallError;
use crate::event::{TurnError, TurnEvent, TurnStatus, Usage};
use crate::exchange::TurnKey;
use crate::protocol::calls::TurnSteer;
use crate::protocol::{Call, TurnSteerParams};

/// A turn that runs.
#[must_use = "a turn that is dropped is interrupted"]
pub struct Turn {
    pub(super) client: Client,
    pub(super) key: TurnKey,
    pub(super) thread: Box<str>,
    pub(super) id: Box<str>,
}

/// A turn that is over.
#[derive(Clone, Debug)]
pub struct Finished {
    /// How it ended.
    pub status: TurnStatus,
    /// Why, if it failed.
    pub error: Option<TurnError>,
    /// What the agent said last.
    pub text: String,
    /// What the whole thread has used, where the worker told it.
    pub usage: Option<Usage>,
}

impl Turn {
    /// The thread that it runs in.
    #[must_use]
    pub fn thread(&self) -> &str {
        &self.thread
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The next event; `None` after the end. Cancel-safe.
    pub async fn next(&mut self) -> Option<TurnEvent> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// Asks the worker to stop; the turn's end comes as an event like any other.
    pub fn interrupt(&self) {
        self.shared().change(|exchange| exchange.interrupt_turn(self.key, Instant::now().into_std()));
    }

    /// Says something more to the agent while it works.
    ///
    /// # Errors
    /// [`CallError`]; `Trap::NoSuchTurn` if the turn has just ended.
    pub async fn steer(&self, input: &[Input]) -> Result<(), CallError> {
        self.steering(input).await
    }

    /// [`Turn::steer`] beside the reading of the turn.
    pub fn steering(&self, input: &[Input]) -> impl Future<Output = Result<(), CallError>> + Send + use<> {
        let client = self.client.clone();
        let params = TurnSteerParams::new(&*self.id, plan::v2::input(input), &*self.thread);
        async move {
            let method = client.v2_method(TurnSteer::METHOD)?;
            client.send(Line::named::<TurnSteer>(method, &params)).await.map(drop)
        }
    }

    /// Reads on to the end.
    pub async fn finish(mut self) -> Finished {
        let (mut speaker, mut text, mut usage) = (Box::default(), String::new(), None);
        while let Some(event) = self.next().await {
            match event {
                TurnEvent::Text { item, text: more } => {
                    if speaker != item {
                        text.clear();
                        speaker = item;
                    }
                    text += &more.to_str();
                }
                // A review, for one, says its message whole and not in pieces.
                TurnEvent::ItemCompleted { item } if &*item.kind == "agent_message" => {
                    if let Some(whole) = item.text().filter(|whole| !whole.is_empty()) {
                        text = whole;
                        speaker = item.id;
                    }
                }
                TurnEvent::TokenUsage { total, .. } => usage = Some(total),
                TurnEvent::TurnEnded { status, error } => return Finished { status, error, text, usage },
                _ => {}
            }
        }
        Finished { status: TurnStatus::Lost, error: None, text, usage }
    }

    pub(super) fn named(mut self, id: Box<str>) -> Self {
        self.id = id;
        self
    }

    fn shared(&self) -> &crate::driver::Shared {
        &self.client.link.shared
    }
}

impl Stream for Turn {
    type Item = TurnEvent;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<TurnEvent>> {
        // Whoever reads a flood makes way for others now and then: a mailbox that is never empty would keep its thread.
        let budget = ready!(poll_proceed(context));
        let event = ready!(self.shared().exchange().poll_turn(self.key, context));
        budget.made_progress();
        Poll::Ready(event)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.shared().change(|exchange| exchange.drop_turn(self.key, Instant::now().into_std()));
    }
}
