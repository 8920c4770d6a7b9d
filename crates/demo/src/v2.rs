//! The dialect of today: `thread/*` and `turn/*`.

mod calls;
mod gate;
mod handshake;
mod history;
mod models;
mod shapes;
mod speech;
mod threads;
mod tools;
mod turns;

pub(crate) use calls::call;
pub(crate) use handshake::user_agent;
pub(crate) use speech::{DeltaFrame, ask, decision, say};
pub(crate) use threads::{absolute, default_settings};

/// The codex version that is spoken.
pub(crate) fn version() -> &'static str {
    include_str!("../../../schema/VERSION").trim()
}
