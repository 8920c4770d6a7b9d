//! What can be written, the row that a change is about, and how much room it takes while it waits.

use rusqlite::ToSql;

use crate::rows::{
    Approval, AuditEntry, DecisionLink, Key, KeyOrigin, ParkedCall, Response, Thread, ToolCall, ToolList, UsageAdded,
};
use crate::table::Table;

/// One change: a whole row put, a row removed, an entry or a sum added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Puts an approval. One that has ended keeps its state and verdict: a change of those is rejected.
    Approval(Approval),
    /// Adds an entry to the audit.
    Audit(AuditEntry),
    /// Puts a decision link; an earlier one of the same approval and verdict stops working.
    DecisionLink(DecisionLink),
    /// Puts a parked call.
    ParkedCall(ParkedCall),
    /// Removes a parked call.
    ParkedCallDone {
        /// The model's id of the call.
        id: String,
        /// The key's id.
        key: String,
        /// The thread.
        thread: String,
    },
    /// Puts a thread.
    Thread(Thread),
    /// Removes a thread.
    ThreadGone {
        /// The thread's id.
        id: String,
    },
    /// Puts a response.
    Response(Response),
    /// Puts a response if it is there and still has that status: one that was removed meanwhile stays away.
    ResponseIfStill {
        /// The status that it was read with.
        status: String,
        /// The row as it is to be.
        row: Response,
    },
    /// Removes a response.
    ResponseGone {
        /// The response's id.
        id: String,
    },
    /// Puts a key.
    Key(Key),
    /// Puts which key created a key.
    KeyOrigin(KeyOrigin),
    /// Adds to the usage of a key, thread and day.
    Usage(UsageAdded),
    /// Puts what a tool server offers.
    ToolList(ToolList),
    /// Removes what a tool server offered.
    ToolListGone {
        /// The server's name.
        server: String,
    },
    /// Adds a call to the audit of tools. One whose id is there already is rejected.
    ToolCall(ToolCall),
}

/// The row that a change is about; two changes with the same subject are one, the later.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Subject {
    Approval(String),
    DecisionLink(String, String),
    ParkedCall(String, String, String),
    Thread(String),
    Response(String),
    Key(String),
    KeyOrigin(String),
    Usage(String, String, String),
    ToolList(String),
}

impl Change {
    /// `None` for what is only ever added, or depends on what is there, and so never stands for another.
    pub(crate) fn subject(&self) -> Option<Subject> {
        Some(match self {
            Self::Audit(_) | Self::ToolCall(_) | Self::ResponseIfStill { .. } => return None,
            Self::Approval(row) => Subject::Approval(row.id.clone()),
            Self::DecisionLink(row) => Subject::DecisionLink(row.approval.clone(), row.verdict.clone()),
            Self::ParkedCall(row) => Subject::ParkedCall(row.id.clone(), row.key.clone(), row.thread.clone()),
            Self::ParkedCallDone { id, key, thread } => Subject::ParkedCall(id.clone(), key.clone(), thread.clone()),
            Self::Thread(row) => Subject::Thread(row.id.clone()),
            Self::ThreadGone { id } => Subject::Thread(id.clone()),
            Self::Response(row) => Subject::Response(row.id.clone()),
            Self::ResponseGone { id } => Subject::Response(id.clone()),
            Self::Key(row) => Subject::Key(row.id.clone()),
            Self::KeyOrigin(row) => Subject::KeyOrigin(row.key.clone()),
            Self::Usage(row) => Subject::Usage(row.key.clone(), row.thread.clone(), row.day.clone()),
            Self::ToolList(row) => Subject::ToolList(row.server.clone()),
            Self::ToolListGone { server } => Subject::ToolList(server.clone()),
        })
    }

    /// Whether people would miss it more than a thread's last use: it is then the last to be dropped at a bound.
    pub(crate) fn is_evidence(&self) -> bool {
        matches!(
            self,
            Self::Approval(_) | Self::Audit(_) | Self::ParkedCall(_) | Self::ParkedCallDone { .. } | Self::ToolCall(_)
        )
    }

    /// About how many bytes it holds.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Approval(row) => bytes_of(&row.cells()),
                Self::Audit(row) => bytes_of(&row.cells()),
                Self::DecisionLink(row) => bytes_of(&row.cells()),
                Self::ParkedCall(row) => bytes_of(&row.cells()),
                Self::Thread(row) => bytes_of(&row.cells()),
                Self::Response(row) => bytes_of(&row.cells()),
                Self::ResponseIfStill { status, row } => status.len() + bytes_of(&row.cells()),
                Self::Key(row) => bytes_of(&row.cells()),
                Self::KeyOrigin(row) => bytes_of(&row.cells()),
                Self::ParkedCallDone { id, key, thread } => id.len() + key.len() + thread.len(),
                Self::ThreadGone { id } | Self::ResponseGone { id } => id.len(),
                Self::Usage(row) => row.key.len() + row.thread.len() + row.day.len(),
                Self::ToolList(row) => bytes_of(&row.cells()),
                Self::ToolListGone { server } => server.len(),
                Self::ToolCall(row) => bytes_of(&row.cells()),
            }
    }
}

fn bytes_of(cells: &[&dyn ToSql]) -> usize {
    use rusqlite::types::{ToSqlOutput, ValueRef};
    let texts = cells.iter().map(|cell| match cell.to_sql() {
        Ok(ToSqlOutput::Borrowed(ValueRef::Text(bytes))) => bytes.len(),
        _ => 0,
    });
    texts.sum()
}
