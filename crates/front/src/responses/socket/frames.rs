//! The messages of a WebSocket as texts: what a caller wants, and the events of a response, each a frame of its own.

use axum::body::Bytes;
use serde_json::Value;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use super::super::following::each;
use crate::error::{Code, Error};
use crate::openai::chunks::HEARTBEAT;

/// What an event of a stream has in front of its JSON.
const DATA: &[u8] = b"\ndata: ";

/// What a caller wants.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// A response to this request.
    Response(Value),
    /// One without an answer, for the next to go on from.
    EmptyResponse(Value),
    /// It only says that it has read a response.
    Nothing,
}

impl Wanted {
    pub(super) fn read(mut message: Value) -> Result<Self, Error> {
        let Some(fields) = message.as_object_mut() else {
            return Err(Error::new(Code::InvalidValue, "a message must be an object"));
        };
        match fields.remove("type").unwrap_or_default() {
            Value::String(kind) if kind == "response.create" => {}
            Value::String(kind) if kind == "response.processed" => return Ok(Self::Nothing),
            Value::Null => return Err(about("type", "`type` is missing; send response.create")),
            other => return Err(about("type", &format!("`type` must be \"response.create\", not {other}"))),
        }
        if fields.get("background") == Some(&Value::Bool(true)) {
            let why =
                "`background` cannot be used here: close the connection, and the response ends; send a POST instead";
            return Err(Error::new(Code::Unsupported, why).about("background"));
        }
        let generate = fields.remove("generate").unwrap_or_default();
        // Whatever is said of the stream, this is one.
        fields.remove("stream_options");
        fields.insert("stream".into(), true.into());
        match generate {
            Value::Null | Value::Bool(true) => Ok(Self::Response(message)),
            Value::Bool(false) => Ok(Self::EmptyResponse(message)),
            other => Err(about("generate", &format!("`generate` must be true or false, not {other}"))),
        }
    }
}

fn about(field: &str, why: &str) -> Error {
    Error::new(Code::InvalidValue, why).about(field)
}

/// The frames that tell these events of a stream.
pub(super) fn frames(events: &Bytes) -> impl Iterator<Item = Message> {
    let beat = (**events == *HEARTBEAT).then(|| Message::Ping(Bytes::new()));
    let told = each(events).filter_map(|event| {
        let begin = memchr::memmem::find(&event, DATA)? + DATA.len();
        let json = event.slice(begin..event.len() - 2);
        Utf8Bytes::try_from(json).ok().map(Message::Text)
    });
    beat.into_iter().chain(told)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::body::parse;

    fn check(text: &str, expected: &Expect) {
        let read = match parse(text.as_bytes()).and_then(Wanted::read) {
            Ok(wanted) => format!("{wanted:?}"),
            Err(error) => error.frame(),
        };
        expected.assert_eq(&read);
    }

    #[test]
    fn a_message_is_a_request_and_how_it_comes_is_passed_over() {
        check(
            r#"{"type":"response.create","model":"m","input":"x","stream":false,"stream_options":{"include_obfuscation":true}}"#,
            &expect![[r#"Response(Object {"input": String("x"), "model": String("m"), "stream": Bool(true)})"#]],
        );
        check(
            r#"{"type":"response.create","generate":false}"#,
            &expect![[r#"EmptyResponse(Object {"stream": Bool(true)})"#]],
        );
        check(
            r#"{"type":"response.create","generate":true,"background":false}"#,
            &expect![[r#"Response(Object {"background": Bool(false), "stream": Bool(true)})"#]],
        );
        check(r#"{"type":"response.processed","response_id":"resp_1"}"#, &expect!["Nothing"]);
    }

    #[test]
    fn what_is_no_request_is_refused_with_the_place() {
        check(
            "{",
            &expect![[
                r#"{"type":"error","status":400,"error":{"message":"the body cannot be used: EOF while parsing an object at line 1 column 1","type":"invalid_request_error","param":null,"code":"invalid_json"}}"#
            ]],
        );
        check(
            "[]",
            &expect![[
                r#"{"type":"error","status":400,"error":{"message":"a message must be an object","type":"invalid_request_error","param":null,"code":"invalid_value"}}"#
            ]],
        );
        check(
            "{}",
            &expect![[
                r#"{"type":"error","status":400,"error":{"message":"`type` is missing; send response.create","type":"invalid_request_error","param":"type","code":"invalid_value"}}"#
            ]],
        );
        check(
            r#"{"type":"response.append","input":[]}"#,
            &expect![[
                r#"{"type":"error","status":400,"error":{"message":"`type` must be \"response.create\", not \"response.append\"","type":"invalid_request_error","param":"type","code":"invalid_value"}}"#
            ]],
        );
        check(
            r#"{"type":7}"#,
            &expect![[
                r#"{"type":"error","status":400,"error":{"message":"`type` must be \"response.create\", not 7","type":"invalid_request_error","param":"type","code":"invalid_value"}}"#
            ]],
        );
        check(
            r#"{"type":"response.create","background":true}"#,
            &expect![[
                r#"{"type":"error","status":400,"error":{"message":"`background` cannot be used here: close the connection, and the response ends; send a POST instead","type":"invalid_request_error","param":"background","code":"unsupported_value"}}"#
            ]],
        );
        check(
            r#"{"type":"response.create","generate":"no"}"#,
            &expect![[
                r#"{"type":"error","status":400,"error":{"message":"`generate` must be true or false, not \"no\"","type":"invalid_request_error","param":"generate","code":"invalid_value"}}"#
            ]],
        );
    }

    #[test]
    fn each_event_is_a_frame_and_a_heartbeat_is_a_ping() {
        let events = Bytes::from_static(b"event: a\ndata: {\"type\":\"a\"}\n\nevent: b\ndata: {\"type\":\"b\"}\n\n");
        let texts: Vec<_> = frames(&events).map(|frame| frame.into_text().unwrap().to_string()).collect();
        assert_eq!(texts, [r#"{"type":"a"}"#, r#"{"type":"b"}"#]);
        let beat = Bytes::from_static(HEARTBEAT);
        assert_eq!(frames(&beat).collect::<Vec<_>>(), [Message::Ping(Bytes::new())]);
    }
}
