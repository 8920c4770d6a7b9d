//! How a request becomes a WebSocket: what it must say for that, and what it is answered.

use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use crate::error::{Code, Error};

/// The one version that there is.
const VERSION: &str = "13";

/// The answer to a request that asks for a WebSocket; any other is refused.
pub(super) fn answer(headers: &HeaderMap) -> Result<Response, Error> {
    let is_asked =
        has_word(headers, &header::CONNECTION, "upgrade") && has_word(headers, &header::UPGRADE, "websocket");
    if !is_asked {
        return Err(refused("GET is for WebSockets here; send a POST, or ask for `upgrade: websocket`"));
    }
    if !has_word(headers, &header::SEC_WEBSOCKET_VERSION, VERSION) {
        return Err(refused("send `sec-websocket-version: 13`; there is no other"));
    }
    let key = headers.get(header::SEC_WEBSOCKET_KEY).ok_or_else(|| refused("`sec-websocket-key` is missing"))?;
    let agreed = [
        (header::CONNECTION, "upgrade".to_owned()),
        (header::UPGRADE, "websocket".to_owned()),
        (header::SEC_WEBSOCKET_ACCEPT, derive_accept_key(key.as_bytes())),
    ];
    Ok((StatusCode::SWITCHING_PROTOCOLS, agreed).into_response())
}

fn has_word(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|said| said.trim().eq_ignore_ascii_case(word))
}

pub(super) fn refused(why: &str) -> Error {
    Error::new(Code::UpgradeRequired, why)
}
