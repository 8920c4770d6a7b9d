//! Methods that a binary's own list names and its schema does not. Each is explained; a new one, or one that is gone,
//! fails the check against the real binary until somebody has explained it.

use std::path::Path;

use anyhow::{Result, ensure};

use super::history::{Kind, told};
use super::methods::MethodTable;

/// Calls beyond the schema, and what there is to know of each.
pub(super) const CALLS: [(&str, &str); 3] = [
    ("getConversationSummary", "kept for v1 clients, left out of the schema; `thread/read` tells more"),
    ("gitDiffToRemote", "kept for v1 clients, left out of the schema; nothing replaces it"),
    ("getAuthStatus", "kept for v1 clients, left out of the schema; `account/read` replaces it"),
];

/// Compares with what the binary itself says.
pub(super) fn check(binary: &Path, table: &MethodTable) -> Result<()> {
    let listed = told::own_list(binary)?;
    let found: Vec<&str> = listed.iter().map(String::as_str).filter(|method| !table.has(Kind::Call, method)).collect();
    let explained = CALLS.map(|(method, _)| method);
    ensure!(
        found == explained,
        "beyond its schema the binary lists {found:?}, of which {explained:?} are explained; update {}",
        file!()
    );
    Ok(())
}
