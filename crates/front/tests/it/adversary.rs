//! Attacks of agents, workspaces and callers that worked once, replayed: each must fail now.

mod approvals;
mod config;
mod directories;
mod groups;
mod guessing;
mod keys;
mod stderr;
