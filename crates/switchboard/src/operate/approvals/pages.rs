//! All pages of a list of approvals: what waits begins with the oldest, so that no flood of later requests hides it.

use serde_json::{Value, json};

use crate::server::{Server, ServerError};

/// How many approvals are shown unless the user names another number.
pub(super) const ROWS_MAX: u32 = 1_000;
/// How many are read at once: each may hold a request of some MiB.
const PAGE_ROWS: u32 = 10;

/// Which approvals a command lists.
#[derive(Clone, Copy, Debug)]
pub(super) enum ApprovalSelection {
    /// Those that wait, the oldest first.
    Pending,
    /// All, the newest first.
    All,
}

/// Up to so many approvals, each as `keep` leaves it, with how many there are.
pub(super) async fn read(
    server: &Server,
    which: ApprovalSelection,
    rows_max: u32,
    keep: impl Fn(Value) -> Value,
) -> Result<Value, ServerError> {
    let (query, cursor) = match which {
        ApprovalSelection::Pending => ("state=pending&order=asc", "after"),
        ApprovalSelection::All => ("order=desc", "before"),
    };
    let mut approvals = Vec::new();
    let (mut from, mut next, mut total) = (String::new(), Value::Null, Value::Null);
    while approvals.len() < rows_max as usize {
        let rows = PAGE_ROWS.min(rows_max - u32::try_from(approvals.len()).unwrap_or(rows_max));
        let mut page: Value = server.get(&format!("/api/approvals?{query}&limit={rows}{from}")).await?;
        (next, total) = (page["next"].take(), page["total"].take());
        if let Value::Array(found) = page["approvals"].take() {
            approvals.extend(found.into_iter().map(&keep));
        }
        match next.as_str() {
            Some(next) => from = format!("&{cursor}={}", super::segment(next)),
            None => break,
        }
    }
    Ok(json!({ "approvals": approvals, "next": next, "total": total }))
}
