//! What a worker tells of itself and of the account, in the dialect and in its neighbour's words.

use wire::Json;

use super::fields::Fields;
use crate::event::ConnectionEvent;

/// The event of a notification that is not of a conversation; `None` for those that say again what a `codex/event/*` says.
pub(crate) fn event(method: &str, params: &Json) -> Option<ConnectionEvent> {
    // 0.57 to 0.60 send every event of a turn a second time in the shape of v2, without saying of which thread.
    if ["thread/", "turn/", "item/"].iter().any(|prefix| method.starts_with(prefix)) {
        return None;
    }
    let fields: Option<Fields<'_>> = params.parse().ok();
    let known = fields.and_then(|fields| known(method, &fields, params));
    Some(known.unwrap_or_else(|| ConnectionEvent::Raw { method: method.into(), params: params.clone() }))
}

fn known(method: &str, fields: &Fields<'_>, params: &Json) -> Option<ConnectionEvent> {
    let event = match method {
        "account/rateLimits/updated" => ConnectionEvent::RateLimits { params: params.clone() },
        "authStatusChange" | "account/updated" => ConnectionEvent::AccountUpdated { params: params.clone() },
        "loginChatGptComplete" | "account/login/completed" => {
            ConnectionEvent::LoginCompleted { success: fields.get("success")?, error: fields.text("error") }
        }
        "mcpServer/oauthLogin/completed" => ConnectionEvent::ToolServerLogin {
            name: fields.text("name")?,
            success: fields.get("success")?,
            error: fields.text("error"),
        },
        _ => return None,
    };
    Some(event)
}
