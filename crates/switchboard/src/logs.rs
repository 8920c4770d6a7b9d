//! Logs on stderr: lines for a person at a terminal, JSON for everybody else. What is logged names threads, turns and
//! callers by their ids, and at the level `info` never says what they talk about.

use std::io::{self, IsTerminal};

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::{Log, LogFormat};

/// Logs from here on, everything of this process.
pub(crate) fn start(log: &Log) {
    let levels = levels(&log.level);
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

fn levels(level: &str) -> Targets {
    // The level was read with the configuration.
    let levels: Targets = level.parse().unwrap_or_default();
    if level.contains(TRANSPORT) {
        return levels;
    }
    let levels = levels.with_targets(QUOTES_ADDRESSES.map(|target| (target, LevelFilter::OFF)));
    if level.contains(TALKATIVE) {
        return levels;
    }
    // At `info` it repeats what callers of tools say, and at `warn`, with each error, what tools answer.
    let at_most = |most: LevelFilter| levels.default_level().map_or(most, |level| level.min(most));
    let (all, answers) = (at_most(LevelFilter::WARN), at_most(LevelFilter::ERROR));
    levels.with_target(TALKATIVE, all).with_target(TALKATIVE_OF_ANSWERS, answers)
}

/// The library under the tools' endpoint.
const TALKATIVE: &str = "rmcp";
const TALKATIVE_OF_ANSWERS: &str = "rmcp::service";
const TRANSPORT: &str = "rmcp::transport";
/// Its client over HTTP logs errors with the whole address, in which tokens stand (3.8). `tools` tells of the same errors without.
const QUOTES_ADDRESSES: [&str; 4] = [
    "rmcp::transport::worker",
    "rmcp::transport::streamable_http_client",
    "rmcp::transport::common::client_side_sse",
    "rmcp::transport::common::reqwest",
];

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::levels;

    #[test]
    fn what_callers_say_is_logged_only_by_request() {
        assert!(!levels("info").would_enable("rmcp::service", &Level::INFO));
        assert!(levels("info").would_enable("rmcp::transport", &Level::WARN));
        for level in ["trace", "info", "warn", "info,tools=debug"] {
            assert!(!levels(level).would_enable("rmcp::service", &Level::WARN), "{level}");
            assert!(levels(level).would_enable("rmcp::service", &Level::ERROR), "{level}");
        }
        assert!(!levels("off").would_enable("rmcp::service", &Level::ERROR));
        assert!(levels("info").would_enable("tools", &Level::INFO));
        assert!(!levels("error").would_enable("rmcp::service", &Level::WARN));
        assert!(levels("info,rmcp=debug").would_enable("rmcp::service", &Level::DEBUG));
    }

    #[test]
    fn addresses_of_tool_servers_are_logged_only_where_that_very_part_is_asked_for() {
        for target in ["rmcp::transport::worker", "rmcp::transport::common::reqwest::streamable_http_client"] {
            for level in ["trace", "info", "info,rmcp=debug"] {
                assert!(!levels(level).would_enable(target, &Level::ERROR), "{level} {target}");
            }
            assert!(levels("info,rmcp::transport=debug").would_enable(target, &Level::DEBUG), "{target}");
        }
        assert!(levels("info").would_enable("rmcp::transport::streamable_http_server::tower", &Level::WARN));
    }
}
