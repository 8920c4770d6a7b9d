//! What an agent, a tool server, a workspace or the network tried against an earlier version, and must not achieve any more.

#[cfg(feature = "real-codex")]
mod agent;
mod configuration;
mod control;
#[cfg(feature = "real-codex")]
mod control_real;
mod network;
mod old_codex;
mod processes;
mod tokens;

/// The operator's key.
const KEY: &str = "the-operators-key-0123456789abcdef0123456789";
