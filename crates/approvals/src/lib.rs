//! What waits for a decision: recorded before anyone sees it, decided exactly once by a rule, a hook, a person or the
//! deadline, and audited. Nothing is ever allowed because time passed, a process went or something failed.
//!
//! ```no_run
//! # async fn example(store: store::Store, wanted: approvals::Wanted) -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//!
//! use approvals::{Approvals, Filter, Person, Settings, Verdict};
//!
//! let approvals = Approvals::open(store, Settings::default(), Arc::new(|_notice| {})).await?;
//! let ticket = approvals.ask(wanted).await?;
//! let seen = approvals.get(ticket.id()).await?.expect("it was recorded");
//! approvals.decide(&seen.id, &seen.shown_hash, Verdict::Allow, Person::operator("ada")).await?;
//! assert!(ticket.decided().await.verdict.allows());
//! # Ok(())
//! # }
//! ```

mod approvals;
mod audit;
mod book;
mod case;
mod clerk;
mod consult;
mod error;
mod escalation;
mod excerpt;
mod hook;
mod limits;
mod link;
mod offers;
mod record;
mod repeats;
mod rules;
mod settings;
mod shown;
mod stamp;
mod ticket;
mod verdict;
mod view;
mod wanted;
mod webhook;
mod who;
mod words;

pub use approvals::{Approvals, LinkView};
pub use audit::Step;
pub use error::{DecideError, LinkError, Refused};
pub use escalation::Escalation;
pub use excerpt::excerpt;
pub use hook::Hook;
pub use limits::Limits;
pub use link::TokenError;
pub use offers::Offers;
pub use rules::{Rule, RuleError, Rules, Then};
pub use settings::{Notice, Notify, Settings};
pub use shown::Origin;
pub use stamp::Stamp;
pub use store::{ApprovalFilter as Filter, ListOrder};
pub use supervise::escaped;
pub use ticket::Ticket;
pub use verdict::{By, Decided, Person, Powers, Verdict, Withdrawal};
pub use view::{DecidedView, View};
pub use wanted::Wanted;
pub use webhook::{Webhook, WebhookError};
pub use who::{Kind, Who};
