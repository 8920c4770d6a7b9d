//! What must survive: approvals and their audit, parked calls, threads, responses, keys, usage, and the lists and the audit of
//! tools, in one SQLite file.
//!
//! There are two ways in. [`Store::commit`] is durable when it returns, and all that wait for it at the same time share one
//! transaction. [`Store::note`] returns at once and is written behind, the last value of a row standing for those before it.
//! [`Store::read`] sees what is written. A file that is damaged, foreign or of a newer Switchboard is refused and left as it
//! is; while the disk is full, commits fail, notes wait, [`Store::health`] says so, and all goes on when there is room.
//!
//! ```no_run
//! # async fn example(approval: store::Approval) -> Result<(), Box<dyn std::error::Error>> {
//! use store::{ApprovalFilter, ApprovalState, Change, Limits, Store};
//!
//! let store = Store::open("/var/lib/switchboard/switchboard.db", Limits::default())?;
//! store.commit(vec![Change::Approval(approval)]).await?;
//! let pending = ApprovalFilter { state: Some(ApprovalState::Pending), ..ApprovalFilter::default() };
//! for approval in store.read(move |reader| reader.approvals(&pending)).await? {
//!     println!("{} waits for a decision", approval.id);
//! }
//! store.close().await?;
//! # Ok(())
//! # }
//! ```

mod apply;
mod backoff;
mod behind;
mod change;
mod clock;
mod create;
mod desk;
mod error;
mod health;
mod inspect;
mod limits;
mod migrations;
mod reader;
mod readers;
mod rows;
mod secret;
mod store;
mod sweep;
mod table;
mod words;
mod writer;

pub use change::Change;
pub use clock::ClockReading;
pub use desk::Counts;
pub use error::{OpenError, ReadError, WriteError};
pub use health::Health;
pub use limits::Limits;
pub use reader::{
    ApprovalFilter, ListOrder, ParkedCallFilter, Reader, ResponseSummary, ThreadFilter, ToolCallFilter, UsageFilter,
};
pub use rows::{
    Approval, AuditEntry, DecisionLink, Key, KeyOrigin, ParkedCall, Response, Thread, ToolCall, ToolList, UsageAdded,
};
pub use secret::{NoRandomness, SecretHash, random_hex};
pub use store::Store;
pub use sweep::{Keep, Retention, Swept};
pub use words::{ApprovalState, ParkedCallState, ToolCallOutcome, TurnState};
