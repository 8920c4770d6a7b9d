//! The WebSocket mode: any number of responses on one connection, one after the other, with the events of a stream as frames. What is
//! refused is told as a frame and the connection stays; when it ends, the response that runs on it is given up.

mod ending;
mod frames;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod handshake;
mod metered;
mod ping_rate;

use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::response::Response;
use futures_util::future::OptionFuture;
use futures_util::{SinkExt as _, StreamExt as _};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error as Broken, Message};
use tracing::{Instrument as _, Span};
use workers::At;

use self::ending::End;
use self::frames::{Wanted, frames};
use self::metered::MeteredStream;
use self::ping_rate::{PingFlood, PingRate};
use super::draft::Draft;
use super::memory::{Memory, Remembering};
use super::responding::{Audience, Responding};
use super::work_form;
use crate::Desk;
use crate::accept::Takeover;
use crate::body::ParsedBody;
use crate::error::{Code, Error};
use crate::idempotency::Progress;
use crate::keys::Caller;
use crate::lock::lock;
use crate::openai::reading::WorkForm;

/// How much is read and written at once. A slow caller is waited for with each frame, so no more than this and one frame waits.
const BUFFER_BYTES: usize = 16 << 10;

/// How much may wait to be written: the longest event of a response, which no caller needs to be longer. What would be more
/// than that ends the connection.
const WRITE_BYTES_MAX: usize = 64 << 20;

fn websocket_config(message_bytes_max: usize) -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(BUFFER_BYTES)
        .write_buffer_size(BUFFER_BYTES)
        .max_write_buffer_size(WRITE_BYTES_MAX)
        .max_message_size(Some(message_bytes_max))
        .max_frame_size(Some(message_bytes_max))
}

pub(crate) async fn open(
    State(desk): State<Arc<Desk>>,
    caller: Caller,
    mut request: Request,
) -> Result<Response, Error> {
    let (answer, work_form) = (handshake::answer(request.headers())?, work_form(request.headers())?);
    let takeover = request.extensions().get::<Takeover>().cloned();
    let takeover = takeover.ok_or_else(|| handshake::refused("this connection cannot become a WebSocket"))?;
    let (upgrade, stopping) = (hyper::upgrade::on(&mut request), takeover.stopping());
    let serving = async move {
        match upgrade.await {
            Ok(upgraded) => Connection::new(desk, caller, work_form, upgraded, stopping).await.serve().await,
            Err(error) => tracing::debug!(%error, "a connection ended before it was a WebSocket"),
        }
    };
    takeover.go_on(serving.instrument(Span::current()));
    Ok(answer)
}

type Socket = WebSocketStream<MeteredStream<TokioIo<Upgraded>>>;

struct Connection {
    desk: Arc<Desk>,
    caller: Caller,
    work_form: WorkForm,
    socket: Socket,
    ping_rate: PingRate,
    running: Option<Running>,
    memory: Arc<Mutex<Memory>>,
    /// The thread of what is not stored, for as long as the caller may go on from there.
    held: Option<At>,
    stopping: watch::Receiver<()>,
    opened: Instant,
    /// Since when no response runs.
    rested: Instant,
}

/// The response that is being made.
struct Running {
    responding: Responding,
    remembering: Remembering,
}

/// What can happen.
enum Event {
    /// A message came, or none will any more.
    Heard(Option<Result<Message, Broken>>),
    /// The response told something; nothing at its end.
    Told(Option<Bytes>),
    /// Nothing happened for a while.
    Quiet,
    /// It must end.
    Over(End),
}

impl Connection {
    async fn new(
        desk: Arc<Desk>,
        caller: Caller,
        work_form: WorkForm,
        upgraded: Upgraded,
        stopping: watch::Receiver<()>,
    ) -> Self {
        let config = websocket_config(desk.bodies.body_bytes_max());
        let stream = MeteredStream::new(TokioIo::new(upgraded), desk.bodies.memory().lease(&caller.key));
        let socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
        let memory = Arc::new(Mutex::new(Memory::new(desk.responses.limits.conversation_bytes_max)));
        let now = Instant::now();
        Self {
            desk,
            caller,
            work_form,
            socket,
            ping_rate: PingRate::new(now),
            running: None,
            memory,
            held: None,
            stopping,
            opened: now,
            rested: now,
        }
    }

    async fn serve(mut self) {
        let end = loop {
            let event = self.next().await;
            if let Err(end) = self.handle(event).await {
                break end;
            }
        };
        tracing::debug!(?end, "a WebSocket ends");
        self.give_up();
        end.tell(self.socket).await;
    }

    /// The next thing that happens. A response that runs is not disturbed: it ends by itself when its key is revoked.
    async fn next(&mut self) -> Event {
        let message_timeout = self.desk.bodies.timeout();
        let late = self.socket.get_ref().message_began().map(|began| sleep_until(began + message_timeout));
        let late = OptionFuture::from(late);
        if let Some(Running { responding, .. }) = &mut self.running {
            return tokio::select! {
                biased;
                Some(()) = late => Event::Over(End::MessageTimeout),
                message = self.socket.next() => Event::Heard(message),
                told = responding.next() => Event::Told(told.and_then(Result::ok)),
            };
        }
        let limits = &self.desk.responses.limits;
        tokio::select! {
            biased;
            _ = self.stopping.changed() => Event::Over(End::Stopped),
            () = self.caller.revocation.done() => Event::Over(End::Revoked),
            () = sleep_until(self.opened + limits.websocket_age_max) => Event::Over(End::TooOld(limits.websocket_age_max)),
            () = sleep_until(self.rested + limits.websocket_idle_timeout) => Event::Over(End::Idle),
            Some(()) = late => Event::Over(End::MessageTimeout),
            message = self.socket.next() => Event::Heard(message),
            () = tokio::time::sleep(self.desk.heartbeat) => Event::Quiet,
        }
    }

    async fn handle(&mut self, event: Event) -> Result<(), End> {
        match event {
            Event::Over(end) => Err(end),
            Event::Quiet => self.send([Message::Ping(Bytes::new())]).await,
            Event::Told(Some(events)) => {
                // Whoever hears the end may ask for the next at once.
                if self.running.as_ref().is_some_and(|running| running.responding.is_told()) {
                    self.end_response();
                }
                self.send(frames(&events)).await
            }
            Event::Told(None) => {
                self.end_response();
                Ok(())
            }
            Event::Heard(Some(Ok(Message::Text(text)))) => {
                self.socket.get_mut().begin_message();
                match self.handle_text(text.into()).await {
                    Ok(events) => self.send(frames(&events)).await,
                    Err(error) => {
                        error.log();
                        self.send([Message::Text(error.frame().into())]).await
                    }
                }
            }
            Event::Heard(Some(Ok(Message::Binary(_)))) => {
                self.socket.get_mut().begin_message();
                let error = Error::new(Code::InvalidValue, "binary messages are not read; send JSON as text");
                self.send([Message::Text(error.frame().into())]).await
            }
            // Pings are answered where they are read.
            Event::Heard(Some(Ok(Message::Ping(payload)))) => {
                self.socket.get_mut().discount_control_frame(payload.len());
                self.ping_rate.count(Instant::now()).map_err(|PingFlood| End::PingFlood)
            }
            Event::Heard(Some(Ok(Message::Pong(payload)))) => {
                self.socket.get_mut().discount_control_frame(payload.len());
                self.ping_rate.count_pong(Instant::now()).map_err(|PingFlood| End::PingFlood)
            }
            Event::Heard(Some(Ok(Message::Frame(_)))) => Ok(()),
            Event::Heard(Some(Ok(Message::Close(_))) | None) => Err(End::Left),
            Event::Heard(Some(Err(broken))) => Err(End::of(&broken, self.desk.bodies.body_bytes_max())),
        }
    }

    /// Does what a message wants; what is to be told at once.
    async fn handle_text(&mut self, text: Bytes) -> Result<Bytes, Error> {
        let text_bytes = text.len();
        let bodies = &self.desk.bodies;
        let parse = |text: Bytes, memory| async move { ParsedBody::read(&text, memory) };
        let body = bodies.work(text, &self.caller.key, parse).await?;
        let previous = body.value["previous_response_id"].as_str().map(str::to_owned);
        let handled = self.handle_message(body, text_bytes).await;
        // Whatever continues it takes its place, also if it fails; only what may be tried again leaves it as it is.
        if !handled.as_ref().is_err_and(Error::is_temporary)
            && let Some(previous) = previous
        {
            lock(&self.memory).forget(&previous);
        }
        handled
    }

    async fn handle_message(&mut self, body: ParsedBody, text_bytes: usize) -> Result<Bytes, Error> {
        let ParsedBody { value, memory } = body;
        let wanted = Wanted::read(value)?;
        if let Some(running) = self.running.as_ref().filter(|_| !matches!(wanted, Wanted::Nothing)) {
            let id = &running.remembering.id;
            let why =
                format!("the response {id:?} is being made on this connection; wait for its end, or open another");
            return Err(Error::new(Code::ResponseInProgress, why));
        }
        match wanted {
            Wanted::Nothing => Ok(Bytes::new()),
            Wanted::EmptyResponse(value) => {
                let draft = self.draft(ParsedBody { value, memory }, text_bytes).await?;
                let (events, remembering) = draft.make_empty(&self.desk, &self.caller).await;
                remembering.unanswered(&mut lock(&self.memory));
                self.rested = Instant::now();
                Ok(events)
            }
            Wanted::Response(value) => {
                let mut draft = self.draft(ParsedBody { value, memory }, text_bytes).await?;
                let remembering = draft.remembering();
                let mut responding = draft.make(&self.desk, &self.caller, Progress::default(), Audience::Connected);
                responding.begun_soon().await?;
                self.running = Some(Running { responding, remembering });
                Ok(Bytes::new())
            }
        }
    }

    async fn draft(&mut self, body: ParsedBody, text_bytes: usize) -> Result<Draft, Error> {
        let (desk, caller, memory) = (Arc::clone(&self.desk), self.caller.clone(), Arc::clone(&self.memory));
        Ok(Draft::read_apart(&desk, &caller, body, text_bytes, memory).await?.showing(self.work_form))
    }

    fn end_response(&mut self) {
        let Some(Running { responding, remembering }) = self.running.take() else { return };
        if let Some((object, at)) = responding.outcome() {
            remembering.answered(object, at, &mut lock(&self.memory));
        }
        self.hold(responding.unstored().cloned());
        self.rested = Instant::now();
    }

    /// A turn that runs is interrupted, unless it waits for somebody.
    fn give_up(&mut self) {
        if let Some(Running { mut responding, .. }) = self.running.take() {
            responding.leave_nothing();
            let at = responding.unstored().cloned();
            drop(responding);
            // The thread of a turn that runs goes with it.
            self.held.take_if(|held| at.as_ref().is_some_and(|at| at.thread == held.thread));
            at.iter().for_each(|at| self.desk.pool.forget_thread_of(at));
        }
        self.hold(None);
    }

    /// Forgets the thread that was held until now; where its turn waits for results, behind that.
    fn hold(&mut self, at: Option<At>) {
        let before = std::mem::replace(&mut self.held, at);
        let is_other = |before: &At| self.held.as_ref().is_none_or(|held| held.thread != before.thread);
        before.filter(is_other).iter().for_each(|before| self.desk.pool.forget_thread_of(before));
    }

    /// Sends frames and waits until they are taken.
    async fn send(&mut self, frames: impl IntoIterator<Item = Message>) -> Result<(), End> {
        for frame in frames {
            if frame.is_ping() {
                self.ping_rate.begin_ping();
            }
            self.socket.feed(frame).await.map_err(|_| End::Left)?;
        }
        self.socket.flush().await.map_err(|_| End::Left)
    }
}
