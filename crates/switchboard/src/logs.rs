//! Logs on stderr: lines for a person at a terminal, JSON for everybody else. What is logged names threads, turns and
//! callers by their ids, and at the level `info` never says what they talk about.

use std::io::{self, IsTerminal};

use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::{Log, LogFormat};

/// Logs from here on, everything of this process.
pub(crate) fn start(log: &Log) {
    // The level was read with the configuration.
    let levels: Targets = log.level.parse().unwrap_or_default();
    let is_json = match log.format {
        LogFormat::Json => true,
        LogFormat::Text => false,
        LogFormat::Auto => !io::stderr().is_terminal(),
    };
    let lines = fmt::layer().with_writer(io::stderr);
    let started = if is_json {
        registry().with(levels).with(lines.json().flatten_event(true)).try_init()
    } else {
        registry().with(levels).with(lines.with_target(false).with_ansi(io::stderr().is_terminal())).try_init()
    };
    // A process logs once; only a second start could fail.
    debug_assert!(started.is_ok());
}
