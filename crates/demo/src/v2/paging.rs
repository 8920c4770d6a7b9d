//! Lists, page by page, with the real worker's cursors.

use serde::{Deserialize, Serialize};

use crate::lines::Refusal;

const PAGE_DEFAULT: usize = 25;
const PAGE_MAX: usize = 100;

/// Which way a list runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum SortDirection {
    Asc,
    Desc,
}

/// What a cursor counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub(super) enum Scope {
    #[serde(rename = "turns")]
    Turns,
    #[serde(rename = "itemsByCreatedAtOrdinal")]
    Items,
}

/// A place in a list, in the real worker's form.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Cursor {
    requested_thread_id: String,
    rollout_ordinal: usize,
    include_anchor: bool,
    scope: Scope,
}

impl Cursor {
    /// The cursor of the last of so many; none of none.
    pub(super) fn last(thread_id: &str, scope: Scope, count: usize) -> Option<String> {
        count.checked_sub(1).map(|last| Self::at(thread_id, scope, last, true))
    }

    fn at(thread_id: &str, scope: Scope, rollout_ordinal: usize, include_anchor: bool) -> String {
        let cursor = Self { requested_thread_id: thread_id.to_owned(), rollout_ordinal, include_anchor, scope };
        serde_json::to_string(&cursor).expect("a cursor is plain JSON")
    }

    fn read(text: &str, thread_id: &str, scope: Scope) -> Result<Self, Refusal> {
        serde_json::from_str(text)
            .ok()
            .filter(|cursor: &Self| cursor.requested_thread_id == thread_id && cursor.scope == scope)
            .ok_or_else(|| Refusal::invalid(format!("invalid cursor: {text}")))
    }

    fn admits(&self, at: usize, direction: SortDirection) -> bool {
        match direction {
            _ if at == self.rollout_ordinal => self.include_anchor,
            SortDirection::Asc => at > self.rollout_ordinal,
            SortDirection::Desc => at < self.rollout_ordinal,
        }
    }
}

/// One page of a list.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Page<T> {
    data: Vec<T>,
    next_cursor: Option<String>,
    backwards_cursor: Option<String>,
}

impl<T> Page<T> {
    pub(super) fn cut(
        all: Vec<T>,
        thread_id: &str,
        scope: Scope,
        cursor: Option<&str>,
        limit: Option<usize>,
        direction: SortDirection,
    ) -> Result<Self, Refusal> {
        let cursor = cursor.map(|text| Cursor::read(text, thread_id, scope)).transpose()?;
        let mut places: Vec<(usize, T)> = all.into_iter().enumerate().collect();
        if direction == SortDirection::Desc {
            places.reverse();
        }
        places.retain(|(at, _)| cursor.as_ref().is_none_or(|cursor| cursor.admits(*at, direction)));
        let has_more = places.len() > page(limit);
        places.truncate(page(limit));
        let first = places.first().map(|(at, _)| Cursor::at(thread_id, scope, *at, true));
        let last = places.last().map(|(at, _)| Cursor::at(thread_id, scope, *at, false));
        Ok(Self {
            next_cursor: last.filter(|_| has_more),
            backwards_cursor: first,
            data: places.into_iter().map(|(_, entry)| entry).collect(),
        })
    }
}

/// How many entries a page has.
pub(super) fn page(limit: Option<usize>) -> usize {
    limit.unwrap_or(PAGE_DEFAULT).clamp(1, PAGE_MAX)
}
