//! As much of a WebSocket client as the tests need: frames of JSON in and out, and how the connection ends.

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use testkit::HANG_TIMEOUT;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::http::Caller;
use crate::schemas::check_object;

/// What ends a response.
pub(crate) const ENDS: [&str; 3] = ["response.completed", "response.failed", "response.incomplete"];

/// A connection that responses are made on.
pub(crate) struct Frames {
    socket: WebSocketStream<TcpStream>,
    /// How often the server said that it is there.
    pub(crate) pings: usize,
}

impl Caller {
    pub(crate) async fn frames(&self) -> Frames {
        self.try_frames("/v1/responses", &[]).await.unwrap_or_else(|status| panic!("the server refuses with {status}"))
    }

    /// The status, if it is refused.
    pub(crate) async fn try_frames(&self, path: &str, headers: &[(&'static str, &str)]) -> Result<Frames, u16> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let mut request = format!("ws://localhost{path}").into_client_request().unwrap();
        let key = format!("Bearer {}", self.key);
        for (name, value) in [("authorization", key.as_str())].iter().chain(headers) {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        match client_async(request, stream).await {
            Ok((socket, _)) => Ok(Frames { socket, pings: 0 }),
            Err(Error::Http(refused)) => Err(refused.status().as_u16()),
            Err(error) => panic!("{error}"),
        }
    }
}

impl Frames {
    /// Asks for a response.
    pub(crate) async fn create(&mut self, mut request: Value) {
        request["type"] = json!("response.create");
        self.send(Message::Text(request.to_string().into())).await;
    }

    pub(crate) async fn send(&mut self, message: Message) {
        self.socket.send(message).await.unwrap();
    }

    /// The next event or error, as the public API describes it; how the connection was closed, if it was.
    pub(crate) async fn next(&mut self) -> Result<Value, Option<u16>> {
        loop {
            let message = timeout(HANG_TIMEOUT, self.socket.next()).await.expect("a frame comes, or the end");
            match message {
                Some(Ok(Message::Text(text))) => {
                    let event = serde_json::from_str(&text).unwrap();
                    check_object("WebSocketServerEvent", &event);
                    return Ok(event);
                }
                Some(Ok(Message::Ping(_))) => self.pings += 1,
                Some(Ok(Message::Close(frame))) => return Err(frame.map(|frame| frame.code.into())),
                Some(Ok(Message::Pong(_))) => {}
                Some(Ok(other)) => panic!("nothing else is sent: {other}"),
                Some(Err(_)) | None => return Err(None),
            }
        }
    }

    /// The events up to the end of a response, or to an error.
    pub(crate) async fn rest(&mut self) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            let event = self.next().await.unwrap_or_else(|code| panic!("closed with {code:?} after {events:#?}"));
            let is_last = event["type"] == "error" || ENDS.iter().any(|end| event["type"] == *end);
            events.push(event);
            if is_last {
                return events;
            }
        }
    }

    /// The response that a request is answered with.
    pub(crate) async fn answer(&mut self, request: Value) -> Value {
        self.create(request).await;
        let events = self.rest().await;
        let last = events.last().unwrap();
        assert_eq!(last["type"], "response.completed", "{last:#}");
        last["response"].clone()
    }

    /// The error that a request is refused with: `status code`.
    pub(crate) async fn refusal(&mut self, request: Value) -> String {
        self.create(request).await;
        self.error().await
    }

    /// The next frame, which is an error.
    pub(crate) async fn error(&mut self) -> String {
        let event = self.next().await.unwrap();
        assert_eq!(event["type"], "error", "{event:#}");
        format!("{} {}", event["status"], event["error"]["code"].as_str().unwrap())
    }

    /// The next event of this type.
    pub(crate) async fn until(&mut self, kind: &str) -> Value {
        loop {
            let event = self.next().await.unwrap_or_else(|code| panic!("closed with {code:?} before {kind}"));
            if event["type"] == kind {
                return event;
            }
        }
    }

    /// Closes it as one should.
    pub(crate) async fn close(mut self) {
        self.socket.close(None).await.unwrap();
        while let Some(Ok(_)) = timeout(HANG_TIMEOUT, self.socket.next()).await.expect("the server closes too") {}
    }

    /// The code that the server closes it with.
    pub(crate) async fn closed(mut self) -> Option<u16> {
        loop {
            if let Err(code) = self.next().await {
                while let Some(Ok(_)) = timeout(HANG_TIMEOUT, self.socket.next()).await.expect("the server closes too")
                {
                }
                return code;
            }
        }
    }
}
