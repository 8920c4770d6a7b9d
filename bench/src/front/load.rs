//! One load on one server, by a process of its own (`switchboard bench`), with the server's CPU time around it and between the
//! marks that the load tells.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use super::servers::Server;
use crate::program::{beside, program};

const PROMPT: &str = "[[text]]";

/// What is asked for.
#[derive(Clone)]
pub(super) struct Load {
    arguments: Vec<String>,
    /// Whether nobody wants to know what went wrong.
    is_quiet: bool,
}

/// What came of it.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) figures: Figures,
    /// Of the whole load.
    pub(super) cpu_seconds: f64,
    /// While all streams were open.
    pub(super) held: Option<Held>,
}

/// What was measured while all streams were open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) cpu_seconds: f64,
    pub(super) deltas: f64,
    pub(super) kilobytes: f64,
}

/// What the load itself says.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Figures {
    pub(super) requests: f64,
    pub(super) requests_per_second: f64,
    pub(super) answer: Option<Spread>,
    pub(super) stream: Option<Stream>,
}

/// Of streams.
#[derive(Debug, Deserialize)]
pub(super) struct Stream {
    pub(super) deltas: f64,
    pub(super) first_token: Spread,
    pub(super) gap: Spread,
}

/// Two percentiles.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Spread {
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
}

/// A line of the load's output.
#[derive(Deserialize)]
#[serde(untagged)]
enum Told {
    Mark { mark: String, deltas: f64 },
    Figures(Figures),
}

impl Load {
    /// Whole answers.
    pub(super) fn whole(connections: usize, requests: usize) -> Self {
        let flags = ["--streams", "0", "--prompt", PROMPT];
        Self::new(&flags).with("--connections", &connections).with("--requests", &requests)
    }

    /// Streams of this prompt, read to their ends.
    pub(super) fn streams(connections: usize, each: usize, prompt: &str) -> Self {
        let flags = ["--connections", "0", "--stream-prompt", prompt];
        Self::new(&flags).with("--streams", &connections).with("--streams-each", &each)
    }

    /// Streams that are cut when all have been open for so long.
    pub(super) fn held(connections: usize, seconds: u64, prompt: &str) -> Self {
        Self::streams(connections, 1, prompt).with("--hold", &format_args!("{seconds}s"))
    }

    /// The same of the Responses API.
    pub(super) fn of_responses(self) -> Self {
        self.with("--api", &"responses")
    }

    /// The same, of which failure is expected.
    pub(super) fn quietly(self) -> Self {
        Self { is_quiet: true, ..self }
    }

    fn new(flags: &[&str]) -> Self {
        Self { arguments: flags.iter().map(|flag| (*flag).to_owned()).collect(), is_quiet: false }
    }

    fn with(mut self, flag: &str, value: &impl ToString) -> Self {
        self.arguments.extend([flag.to_owned(), value.to_string()]);
        self
    }

    pub(super) fn run(&self, server: &Server) -> Result<Loaded> {
        let mut load = program(&beside("switchboard")?);
        load.args(["bench", "--json", "--rounds", "1", "--against", &server.url, "--key", &server.key]);
        load.args(&self.arguments);
        if self.is_quiet {
            load.stderr(Stdio::null());
        }
        let before = server.cpu_seconds()?;
        let mut load = load.stdout(Stdio::piped()).spawn()?;
        let stdout = BufReader::new(load.stdout.take().context("no stdout")?);
        let (mut begun, mut held, mut figures) = (None, None, None);
        for line in stdout.lines() {
            match serde_json::from_str(&line?)? {
                Told::Mark { mark, deltas } => {
                    let cpu_seconds = server.cpu_seconds()?;
                    match begun {
                        None if mark == "all_open" => begun = Some((cpu_seconds, deltas)),
                        Some((cpu_before, deltas_before)) => {
                            held = Some(Held {
                                cpu_seconds: cpu_seconds - cpu_before,
                                deltas: deltas - deltas_before,
                                kilobytes: server.resident_kilobytes()?,
                            });
                        }
                        None => {}
                    }
                }
                Told::Figures(told) => figures = Some(told),
            }
        }
        ensure!(load.wait()?.success(), "the load on {} failed", server.name);
        let cpu_seconds = server.cpu_seconds()? - before;
        Ok(Loaded { figures: figures.context("the load tells no figures")?, cpu_seconds, held })
    }
}
