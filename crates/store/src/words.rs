//! The closed lists of words that a column may hold, each as an enum; any other word in the file is damage.

use rusqlite::ToSql;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef};

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$word_doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$word_doc])* $variant,)+ }

        impl $name {
            /// All of them, in the order of their lives.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The word itself.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.pad(self.as_str())
            }
        }

        impl ToSql for $name {
            fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                Ok(ToSqlOutput::Borrowed(ValueRef::Text(self.as_str().as_bytes())))
            }
        }

        impl FromSql for $name {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                let word = value.as_str()?;
                Self::ALL.iter().find(|one| one.as_str() == word).copied().ok_or(FromSqlError::InvalidType)
            }
        }
    };
}

words! {
    /// Where an approval is in its life. Whatever is not pending has ended and never changes again.
    ApprovalState {
        /// It waits for a decision.
        Pending = "pending",
        /// It was allowed.
        Allowed = "allowed",
        /// It was denied.
        Denied = "denied",
        /// It was denied and its turn ended with it.
        Cancelled = "cancelled",
        /// Its deadline passed.
        Expired = "expired",
        /// The worker that asked is gone; nothing was executed.
        Orphaned = "orphaned",
        /// The worker no longer asks: it was answered elsewhere, or its turn is over.
        Resolved = "resolved",
    }
}

words! {
    /// Where a parked call is in its life.
    ParkedCallState {
        /// It waits for the caller's result.
        Waiting = "waiting",
        /// The result is there, and the worker may not have heard of it yet.
        Answered = "answered",
        /// Its deadline passed.
        Expired = "expired",
        /// The worker that asked is gone.
        Orphaned = "orphaned",
    }
}

words! {
    /// What became of a call of a tool server's tool.
    ToolCallOutcome {
        /// The tool did what it was asked to.
        Succeeded = "succeeded",
        /// The tool says that it failed.
        Failed = "failed",
        /// It asked its caller something; the caller comes back with another call, or never.
        InputRequired = "input_required",
        /// It was never called: its arguments were wrong, or nobody allowed it.
        Refused = "refused",
        /// The caller no longer wanted it.
        Cancelled = "cancelled",
        /// Its answer took too long.
        TimedOut = "timed_out",
        /// Its server was gone before it answered; the work may have been done.
        Lost = "lost",
    }
}

words! {
    /// Whether a thread's last turn is over.
    TurnState {
        /// It was running when this was written.
        Running = "running",
        /// It has ended.
        Ended = "ended",
    }
}
