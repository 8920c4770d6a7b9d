//! A deterministic worker that speaks the app-server protocol as codex does: the embedded default where codex is not
//! installed, and the shim of the tests. It shares no code with the client side, so that no mistake is made twice alike.
//!
//! [`run`] is the whole program. Inside, [`Worker`] decides purely; the shells move bytes.

mod answers;
mod approval;
mod burst;
mod clock;
mod config;
mod deeds;
mod faults;
mod home;
mod ids;
mod incoming;
mod items;
mod lines;
mod made_up;
mod options;
mod outputs;
mod perform;
mod play;
mod record;
mod run;
mod script;
mod shapes;
mod shell;
mod speech;
mod stage;
mod thread;
mod turn;
mod v1;
mod v2;
mod worker;

#[cfg(test)]
mod tests;

pub use clock::Now;
pub use home::{Home, HomeError};
pub use options::{Dialect, Listen, ListenError, Options};
pub use outputs::{ConnectionId, Ending, Grandchild, Output};
pub use run::{RunError, run};
pub use script::{Script, ScriptError};
pub use worker::Worker;
