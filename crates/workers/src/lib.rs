//! The pool of workers: it keeps them running, gives every turn its place, holds what waits for a person or a caller, and
//! leaves nothing running.
//!
//! A [`Pool`] is started from a [`Plan`]. Whoever wants a turn makes an [`Order`] and reads the [`Turn`], a stream of
//! events that ends exactly once. Who runs where is decided by a pure board under a lock that is never held across an
//! await; one keeper a worker starts it, watches it and starts it again.

mod admission;
mod beginning;
mod board;
mod closing;
mod confinement;
mod desk;
mod forget;
mod git_guard;
mod idle;
mod keeper;
mod limits;
mod meter;
mod models;
mod notice;
mod parked;
mod permit;
mod plan;
mod pool;
mod post;
mod provider;
mod record;
mod refused;
mod register;
mod running;
mod shared;
mod stall_clock;
mod tip;
mod tips;
mod tokens;
mod told;
mod turn;
mod view;
mod words;
mod workspace;

pub use admission::confine;
pub use codex::ModelSummary as ModelView;
pub use confinement::NotConfinable;
pub use limits::Limits;
pub use meter::{IMAGE_TOKENS, input_tokens, text_tokens};
pub use notice::{At, Notice, Notify, UsageSource};
pub use parked::{NoSuchCall, ToolResult};
pub use permit::{LimitReached, PermitChange, TurnPermit};
pub use plan::{
    Afterwards, Caller, Group, Order, Plan, Profile, Reach, ThreadChoice, ToolsAccess, Transport, mark_arguments,
};
pub use pool::{NoSuchWorker, Pool};
pub use refused::Refused;
pub use tip::{Tip, TipClaim};
pub use tokens::{WorkerToken, WorkerTokens};
pub use told::{Found, Recorded};
pub use turn::Turn;
pub use view::{GroupView, Load, TurnView, WorkerState, WorkerView};
