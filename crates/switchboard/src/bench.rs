//! `switchboard bench`: the same load on any server that speaks the OpenAI API, from the caller's side. Without a server to
//! measure it starts one of its own, with the demo worker. Servers take turns, and each figure is the median of its rounds.

mod deltas;
mod figures;
mod link;
mod load;
mod own;
mod tally;
mod target;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::Args;

use crate::config::parse_duration;
use crate::print::{Form, print};
use figures::{Figures, table};
use load::{Load, Want};
use own::OwnServer;
use tally::Tally;
use target::{Api, Header, Target};

/// What to measure, and how hard.
#[derive(Args)]
#[command(after_help = "\
Without --against, a server with the demo worker is started, measured and stopped. The key of another server is --key or
SWITCHBOARD_KEY. Of several servers, the first is what the others are compared with. One elsewhere is measured through a tunnel.
Whatever stands behind a server is asked too: with a real model this costs tokens.

With --json, one line for each load and server; while streams are read also one when all are open (`all_open`) and one
when they were held for as long as --hold says (`held`).")]
pub(crate) struct Bench {
    /// A server of this machine to measure, such as http://127.0.0.1:4180; may be given several times
    #[arg(long, value_name = "URL")]
    against: Vec<String>,
    /// The key of each server, in their order; the last counts for the rest
    #[arg(long, value_name = "KEY")]
    key: Vec<String>,
    /// The model to ask of each server, in their order; the last counts for the rest
    #[arg(long, value_name = "MODEL", default_value = "codex")]
    model: Vec<String>,
    /// Which of the two APIs to ask
    #[arg(long, value_enum, default_value_t = Api::Chat)]
    api: Api,
    /// A header to send with each request, such as `x-team: red`; may be given several times
    #[arg(long, value_name = "NAME: VALUE")]
    header: Vec<Header>,
    /// How many connections ask for whole answers at once; one measurement for each
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,16,64")]
    connections: Vec<usize>,
    /// How many whole answers each measurement asks for
    #[arg(long, value_name = "N", default_value_t = 512)]
    requests: usize,
    /// What whole answers are asked with
    #[arg(long, value_name = "TEXT", default_value = "Say hello. [[text]]")]
    prompt: String,
    /// How many streams are read at once; one measurement for each
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,100")]
    streams: Vec<usize>,
    /// How many streams follow each other on each connection
    #[arg(long, value_name = "N", default_value_t = 1)]
    streams_each: usize,
    /// What streams are asked with
    #[arg(long, value_name = "TEXT", default_value = "Count from 1 to 100. [[slow 100 20]]")]
    stream_prompt: String,
    /// Cuts the streams when all have been open for so long, instead of reading them to their ends
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    hold: Option<Duration>,
    /// How often each measurement is taken
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,
    /// Print figures as lines of JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) async fn run(bench: &Bench) -> Result<ExitCode> {
    let form = Form::of(bench.json);
    let own = if bench.against.is_empty() { Some(OwnServer::start().await?) } else { None };
    let measured = bench.measure(&bench.targets(own.as_ref())?, form).await;
    if let Some(own) = own {
        own.stop().await;
    }
    if let Form::Text = form {
        print(&table(&measured?))?;
    } else {
        measured?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Bench {
    fn targets(&self, own: Option<&OwnServer>) -> Result<Vec<Target>> {
        let nth = |given: &[String], at: usize| given.get(at).or(given.last()).cloned();
        let model = |at| nth(&self.model, at).unwrap_or_default();
        if let Some(own) = own {
            return Ok(vec![Target::new(own.url(), Some(own.key()), self.api, &model(0), &self.header)?]);
        }
        let named = self.against.iter().enumerate().map(|(at, url)| {
            let key = nth(&self.key, at).or_else(|| std::env::var("SWITCHBOARD_KEY").ok());
            Target::new(url, key.as_deref(), self.api, &model(at), &self.header)
        });
        named.collect()
    }

    /// Every load on every server, in turns.
    async fn measure(&self, targets: &[Target], form: Form) -> Result<Vec<Vec<Figures>>> {
        ensure!(self.rounds > 0, "--rounds 0 measures nothing: ask for one at least");
        let mut measured = Vec::new();
        for load in self.loads() {
            let mut rounds = vec![Vec::new(); targets.len()];
            for _ in 0..self.rounds {
                for (target, rounds) in targets.iter().zip(&mut rounds) {
                    let figures = load.run(target, Tally::new(form, load.connections)).await;
                    rounds.push(figures.with_context(|| format!("{load} on {target}"))?);
                }
            }
            let medians: Vec<Figures> = rounds.iter().filter_map(|rounds| Figures::median(rounds)).collect();
            if let Form::Json = form {
                medians.iter().try_for_each(|figures| print(&figures.to_line()))?;
            }
            measured.push(medians);
        }
        Ok(measured)
    }

    fn loads(&self) -> Vec<Load> {
        let whole = |connections: &usize| Load {
            want: Want::Whole { each: self.requests.div_ceil(*connections) },
            connections: *connections,
            prompt: self.prompt.clone(),
        };
        let streams = |connections: &usize| Load {
            want: Want::Streams { each: self.streams_each, hold: self.hold },
            connections: *connections,
            prompt: self.stream_prompt.clone(),
        };
        let is_some = |count: &&usize| **count > 0;
        let whole = self.connections.iter().filter(is_some).map(whole);
        whole.chain(self.streams.iter().filter(is_some).map(streams)).collect()
    }
}
