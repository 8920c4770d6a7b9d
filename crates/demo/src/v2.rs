//! The dialect of today: `thread/*` and `turn/*`.

mod calls;
mod gate;
mod handshake;
mod history;
mod models;
mod open;
mod paging;
mod permissions;
mod raw;
mod shapes;
mod speech;
mod threads;
mod tools;
mod turns;

pub(crate) use calls::call;
pub(crate) use handshake::user_agent;
pub(crate) use open::{absolute, default_settings};
pub(crate) use speech::{DeltaFrame, ask, decision, say, say_in};
pub(crate) use threads::unload_quiet;

/// The codex version that is spoken.
pub(crate) fn version() -> &'static str {
    include_str!("../../../schema/VERSION").trim()
}
