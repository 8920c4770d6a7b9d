//! What `demo-worker` is told on the command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// Speak the app-server protocol as a codex worker does, without a model.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// The dialect to speak: v2 is today's, v1 the one of workers up to 0.107.
    #[arg(long, value_enum, default_value_t = Dialect::V2)]
    pub dialect: Dialect,
    /// A TOML file that says what to play, and which faults to commit.
    #[arg(long, value_name = "FILE")]
    pub script: Option<PathBuf>,
    /// Write every line that is received to this file.
    #[arg(long, value_name = "FILE")]
    pub capture: Option<PathBuf>,
    /// Where to listen: stdio://, unix://PATH or ws://IP:PORT (port 0: the system chooses, and stderr tells).
    #[arg(long, value_name = "ADDRESS", default_value = "stdio://")]
    pub listen: Listen,
    /// How standard output is written: what is ready at once, or each line by itself, as codex does.
    #[arg(long, value_enum, default_value_t = Writes::Gathered)]
    pub writes: Writes,
}

/// What one write to standard output holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Writes {
    /// All lines that are ready.
    Gathered,
    /// One line.
    Lines,
}

/// A dialect of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Dialect {
    /// `newConversation`, `sendUserTurn`, `codex/event/*`.
    V1,
    /// `thread/*`, `turn/*`.
    V2,
}

/// Where a worker listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// Standard input and output, one message a line.
    Stdio,
    /// A WebSocket over a unix socket.
    Unix(PathBuf),
    /// A WebSocket over TCP.
    Ws(SocketAddr),
}

/// An address that is none.
#[derive(Debug, thiserror::Error)]
#[error("expected stdio://, unix://PATH or ws://IP:PORT")]
pub struct ListenError;

impl FromStr for Listen {
    type Err = ListenError;

    fn from_str(text: &str) -> Result<Self, ListenError> {
        if text == "stdio://" {
            Ok(Self::Stdio)
        } else if let Some(path) = text.strip_prefix("unix://").filter(|path| !path.is_empty()) {
            Ok(Self::Unix(PathBuf::from(path)))
        } else if let Some(address) = text.strip_prefix("ws://") {
            address.parse().map(Self::Ws).map_err(|_| ListenError)
        } else {
            Err(ListenError)
        }
    }
}
