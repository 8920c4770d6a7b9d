//! Everything HTTP.

mod accept;
mod attempts;
mod error;
mod feed;
mod guard;
mod host;
pub mod keys;
mod log;
mod metrics;
mod ring;
mod route;
mod sse;
mod stall;
mod time;

pub use accept::ConnectionLimits;
pub use feed::Feed;

pub(crate) struct Desk {
    guard: std::sync::Arc<guard::Guard>,
    feed: Feed,
}
