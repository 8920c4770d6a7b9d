//! The pool with real processes: the demo worker, and with the feature `real-codex` the real one.

mod approvals;
mod deaths;
mod fault_run;
mod parking;
mod placing;
mod reattach;
mod support;
mod turns;
