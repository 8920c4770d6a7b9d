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

/// A list that was not read to its end.
pub(crate) struct Problem {
    /// The field of an answer that holds it.
    pub(crate) field: &'static str,
    pub(crate) what: String,
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
            Ok(()) => {}
            // Many servers with resources have no templates, and say so with an error.
            Err(CallError::Refused(_)) if method == "resources/templates/list" => {}
            Err(CallError::Refused(_)) if method == "tools/list" && agreement.tools.is_some() => {}
            Err(error) => read.problems.push(Problem { field, what: format!("`{method}` failed: {error}") }),
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

/// Reads one list; what there is no room for is left out.
async fn read_list(
    connection: &Connection,
    (method, field): (&str, &str),
    timeout: Duration,
    limits: &Limits,
    room: &mut usize,
    items: &mut Vec<Value>,
) -> Result<(), CallError> {
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
        let listed = page.get_mut(field).and_then(Value::as_array_mut).map(std::mem::take);
        for item in listed.into_iter().flatten() {
            let bytes = item.to_string().len();
            if items.len() == limits.listed_max || bytes > *room {
                tracing::warn!(
                    method,
                    items = items.len(),
                    "a list of a tool server is too long: the rest is left out"
                );
                return Ok(());
            }
            *room -= bytes;
            items.push(item);
        }
        let next = page.get_mut("nextCursor").map(Value::take).unwrap_or_default();
        // A cursor that leads to itself would never end.
        if next.is_null() || next == cursor {
            return Ok(());
        }
        cursor = next;
    }
    let why = format!("the list has more than {} pages", limits.pages_max);
    Err(CallError::Refused(ErrorData::internal_error(why, None)))
}
