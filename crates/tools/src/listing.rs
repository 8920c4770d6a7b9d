//! Reads the lists of a tool server over its connection, page by page, as far as they fit.

use std::time::Duration;

use rmcp::model::ErrorData;
use serde_json::{Map, Value, json};

use crate::catalog::Lists;
use crate::connection::{CallError, Connection};
use crate::handshake::{Era, meta};
use crate::limits::Limits;

/// What was read, and what could not be.
#[derive(Default)]
pub(crate) struct Read {
    pub(crate) lists: Lists,
    pub(crate) problems: Vec<Problem>,
}

/// A list of which not all can be offered.
pub(crate) enum Problem {
    /// It could not be read to its end; `field` of an answer holds it.
    Unread { field: &'static str, what: String },
    /// Something of it was left out.
    Cut { what: String },
}

impl Problem {
    /// What is wrong, in words.
    pub(crate) fn what(&self) -> &str {
        match self {
            Self::Unread { what, .. } | Self::Cut { what } => what,
        }
    }
}

/// Reads every list that the server says it has.
pub(crate) async fn read_all(connection: &Connection, timeout: Duration, limits: &Limits) -> Read {
    let agreement = connection.agreement();
    let capabilities = &agreement.capabilities;
    // A server that names no capability at all most likely forgot to.
    let is_silent = capabilities.as_object().is_none_or(Map::is_empty);
    let mut read = Read::default();
    let mut room = limits.listed_bytes_max;
    for (capability, method, field) in [
        ("tools", "tools/list", "tools"),
        ("resources", "resources/list", "resources"),
        ("resources", "resources/templates/list", "resourceTemplates"),
        ("prompts", "prompts/list", "prompts"),
    ] {
        if capabilities.get(capability).is_none() && !(is_silent && capability == "tools") {
            continue;
        }
        let mut items = Vec::new();
        let come = read_list(connection, (method, field), timeout, limits, &mut room, &mut items).await;
        match come {
            Ok(None) => {}
            Ok(Some(left_out)) => read.problems.push(Problem::Cut { what: format!("`{method}` {left_out}") }),
            // Many servers with resources have no templates, and say so with an error.
            Err(CallError::Refused(_)) if method == "resources/templates/list" => {}
            Err(CallError::Refused(_)) if method == "tools/list" && agreement.tools.is_some() => {}
            Err(error) => read.problems.push(Problem::Unread { field, what: format!("`{method}` failed: {error}") }),
        }
        *read.lists.named(field) = items;
    }
    if read.lists.tools.is_empty()
        && let Some(tools) = agreement.tools.as_ref().and_then(Value::as_array)
    {
        read.lists.tools.clone_from(tools);
    }
    read
}

/// Reads one list; says if something was left out.
async fn read_list(
    connection: &Connection,
    (method, field): (&str, &str),
    timeout: Duration,
    limits: &Limits,
    room: &mut usize,
    items: &mut Vec<Value>,
) -> Result<Option<String>, CallError> {
    let mut cursor = Value::Null;
    for _ in 0..limits.pages_max {
        let mut params = json!({});
        if connection.agreement().era == Era::Modern {
            params["_meta"] = meta();
        }
        if !cursor.is_null() {
            params["cursor"] = cursor.clone();
        }
        let mut page = connection.ask(method, params, timeout).await?;
        let Some(listed) = page.get_mut(field).and_then(Value::as_array_mut).map(std::mem::take) else {
            return Ok(Some(format!("answered without a list `{field}`")));
        };
        for item in listed {
            let bytes = item.to_string().len();
            if items.len() == limits.listed_max || bytes > *room {
                return Ok(Some(format!("listed too much: only the first {} are offered", items.len())));
            }
            *room -= bytes;
            items.push(item);
        }
        let next = page.get_mut("nextCursor").map(Value::take).unwrap_or_default();
        // A cursor that leads to itself would never end.
        if next.is_null() || next == cursor {
            return Ok(None);
        }
        cursor = next;
    }
    let why = format!("the list has more than {} pages", limits.pages_max);
    Err(CallError::Refused(ErrorData::internal_error(why, None)))
}
