//! `/api/usage`: how many tokens the turns of each key have used, day by day, the newest first.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use store::{UsageAdded, UsageFilter};

use super::Asked;
use crate::Desk;
use crate::day::Day;
use crate::error::{Code, Error};
use crate::keys::{Caller, Scope};
use crate::written::written;

/// How many days are told besides today if nobody says since when.
const DAYS_BACK: u32 = 29;

/// How many rows an answer has at most: a month of 300 keys.
const ROWS_MAX: u32 = 10_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    key: Option<String>,
    from: Option<String>,
    to: Option<String>,
}

#[derive(Serialize)]
pub(crate) struct Used {
    from: String,
    to: String,
    usage: Vec<DayOfKey>,
}

/// What one key has used on one day.
#[derive(Serialize)]
struct DayOfKey {
    day: String,
    key: String,
    turns: i64,
    input_tokens: i64,
    cached_input_tokens: i64,
    output_tokens: i64,
    reasoning_output_tokens: i64,
    /// Of those read and written, how many the worker did not report.
    estimated_tokens: i64,
}

/// An operator sees every key, anybody else its own.
pub(crate) async fn list(
    State(desk): State<Arc<Desk>>,
    caller: Caller,
    Asked(wanted): Asked<Wanted>,
) -> Result<Json<Used>, Error> {
    let today = Day::today();
    let to = day("to", wanted.to, today)?;
    let from = day("from", wanted.from, today.back(DAYS_BACK))?;
    let own = (!caller.scopes.has(Scope::Operate)).then(|| caller.key.to_string());
    if own.is_some() && wanted.key.is_some() && own != wanted.key {
        return Ok(Json(Used { from, to, usage: Vec::new() }));
    }
    let filter = UsageFilter {
        key: own.or(wanted.key),
        from_day: Some(from.clone()),
        to_day: Some(to.clone()),
        ..UsageFilter::default()
    };
    written(&desk.store).await;
    let rows = desk.store.read(move |reader| reader.usage_of_days(&filter, ROWS_MAX + 1)).await?;
    if rows.len() > ROWS_MAX as usize {
        let message =
            format!("that is more than {ROWS_MAX} days of keys; name a `key`, or fewer days with `from` and `to`");
        return Err(Error::new(Code::InvalidValue, message));
    }
    Ok(Json(Used { from, to, usage: rows.into_iter().map(DayOfKey::from).collect() }))
}

fn day(name: &str, asked: Option<String>, default: Day) -> Result<String, Error> {
    match asked {
        None => Ok(default.to_string()),
        Some(day) if Day::is_written(&day) => Ok(day),
        Some(_) => Err(Error::new(Code::InvalidValue, format!("`{name}` must be a day in UTC such as {default}"))),
    }
}

impl From<UsageAdded> for DayOfKey {
    fn from(row: UsageAdded) -> Self {
        Self {
            day: row.day,
            key: row.key,
            turns: row.turns,
            input_tokens: row.input,
            cached_input_tokens: row.cached,
            output_tokens: row.output,
            reasoning_output_tokens: row.reasoning,
            estimated_tokens: row.estimated,
        }
    }
}
