//! What the whole server costs, from the caller's connection to the worker's pipe. Load, servers and worker are processes of their
//! own; what counts is the CPU time of the server's process alone, so that the worker's is not in it, and neither is the load's.
//! Contenders take turns, and every figure is the median of its rounds.

pub(crate) mod bare;
mod client;
mod load;
mod peer;
mod prepared;
mod servers;
pub(crate) mod upstream;

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use client::BareClient;
use load::{Load, Loaded};
use servers::Server;

use crate::rounds::{Parts, ROUNDS, middle};

const CONNECTIONS: [usize; 3] = [1, 16, 64];
const WHOLE_REQUESTS: usize = 2_000;
/// The bare server needs more of them for a time that can be measured.
const BARE_REQUESTS: usize = 10_000;
const STREAMS: usize = 100;
const PACED_PROMPT: &str = "[[slow 1000000 20]]";
const PACED_SECONDS: u64 = 5;
const BURST_PROMPT: &str = "[[deltas 5000]]";
/// Each of them has its own worker, which may have as many turns.
const HELD_STREAMS: usize = servers::TURNS_MAX;
const HELD_PROMPT: &str = "[[slow 1000000 5000]]";
const HELD_SECONDS: u64 = 20;
const FIRST_TOKENS: usize = 200;
const TEXT_PROMPT: &str = "[[text]]";
/// A peer is slow enough to be measured by fewer.
const PEER_REQUESTS: usize = 500;
const PEER_BURST_PROMPT: &str = "[[deltas 100]]";
const WHOLE_OVER_BARE: f64 = 4.0;
const PACED_OVER_BARE: f64 = 1.3;
const BURST_OVER_PACED: f64 = 0.2;
const MEMORY_OVER_BARE: f64 = 2.0;
const RESPONSES_OVER_CHAT: f64 = 1.5;

/// A part of the measurement.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    /// CPU time of whole answers
    Whole,
    /// CPU time of streams
    Streams,
    /// Time to the first text
    FirstToken,
    /// Memory of streams that are held
    Held,
    /// The same load on a peer
    Peer,
}

pub(crate) fn run(parts: &Parts<Part>) -> Result<()> {
    let mut bars = Bars::default();
    if parts.has(Part::Held) {
        held(&mut bars)?;
    }
    let (switchboard, bare) = (Server::switchboard()?, Server::bare()?);
    println!("CPU time of the server's process alone, median of {ROUNDS} rounds in turns");
    if parts.has(Part::Whole) {
        whole(&switchboard, &bare, &mut bars)?;
    }
    if parts.has(Part::Streams) {
        streams(&switchboard, &bare, &mut bars)?;
    }
    if parts.has(Part::FirstToken) {
        first_tokens(&switchboard)?;
    }
    if parts.has(Part::Peer) {
        let upstream = Server::upstream()?;
        match peer::start(&upstream) {
            Ok(peer) => compare_with(&peer, &switchboard)?,
            Err(error) => println!("no peer was measured: {error:#}"),
        }
    }
    bars.judge()
}

/// What each stream takes of memory while it is open; the servers are new, so that nothing freed is used again.
fn held(bars: &mut Bars) -> Result<()> {
    let descriptors = raise_descriptors();
    // The server leaves half of its descriptors to workers.
    let streams = HELD_STREAMS.min(usize::try_from(descriptors / 2)?);
    println!("{streams} held streams, a delta every 5 s in each ({descriptors} descriptors for each process)");
    let load = Load::held(streams, HELD_SECONDS, HELD_PROMPT);
    let mut each = Vec::new();
    for server in [Server::switchboard()?, Server::bare()?] {
        let before = server.resident_kilobytes()?;
        let loaded = load.run(&server)?;
        let (held, stream) = (loaded.held.context("nothing was held")?, loaded.figures.stream.context("no stream")?);
        let kilobytes = (held.kilobytes - before) / f64::from(u32::try_from(streams)?);
        println!(
            "  {:<12}{kilobytes:>6.1} kB/stream    gap p50 {:.1} ms  p99 {:.1} ms    {:.1} µs CPU/delta",
            server.name,
            stream.gap.p50_ms,
            stream.gap.p99_ms,
            held.cpu_seconds / held.deltas * 1e6,
        );
        each.push(kilobytes);
    }
    bars.add("memory of a held stream over bare", each[0] / each[1], MEMORY_OVER_BARE);
    Ok(())
}

/// As many as the system allows; servers and load inherit it.
fn raise_descriptors() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// What a caller waits longer for the first text than by the bare client.
fn first_tokens(switchboard: &Server) -> Result<()> {
    println!("first text of a turn in a new thread, one after the other");
    let client = BareClient::start()?;
    let load = Load::streams(1, FIRST_TOKENS, TEXT_PROMPT);
    let (mut ours, mut bare) = ((switchboard.name, Vec::new()), Vec::new());
    for _ in 0..ROUNDS {
        ours.1.push(load.run(switchboard)?);
        bare.push(client.measure(FIRST_TOKENS, TEXT_PROMPT)?);
    }
    let of = |figure: fn(load::Spread) -> f64| {
        let ours =
            median(&ours, |round| round.figures.stream.as_ref().map_or(f64::NAN, |stream| figure(stream.first_token)));
        (ours, middle(bare.iter().copied().map(figure).collect()))
    };
    for (what, (ours, bare)) in [("p50", of(|spread| spread.p50_ms)), ("p99", of(|spread| spread.p99_ms))] {
        println!("  {what}  switchboard {ours:.2} ms  bare client {bare:.2} ms: {:+.2} ms", ours - bare);
    }
    Ok(())
}

/// The same load on a peer, reported.
fn compare_with(peer: &Server, switchboard: &Server) -> Result<()> {
    println!("{}, in front of a scripted provider", peer.name);
    let whole = Load::whole(CONNECTIONS[1], PEER_REQUESTS);
    let [ours, theirs] = in_turns(&[(switchboard, whole.clone()), (peer, whole)])?
        .map(|rounds| median(&rounds, |round| round.cpu_seconds / round.figures.requests * 1e6));
    println!(
        "  whole answers  switchboard {ours:.0} µs CPU/request  {} {theirs:.0} µs: {:.1}×",
        peer.name,
        theirs / ours
    );
    let burst = Load::streams(CONNECTIONS[1], 1, PEER_BURST_PROMPT);
    let [ours, theirs] = in_turns(&[(switchboard, burst.clone()), (peer, burst)])?.map(|rounds| {
        let deltas = |round: &Loaded| round.figures.stream.as_ref().map_or(f64::NAN, |stream| stream.deltas);
        median(&rounds, |round| round.cpu_seconds / deltas(round) * 1e6)
    });
    println!(
        "  streams        switchboard {ours:.1} µs CPU/delta  {} {theirs:.1} µs: {:.1}×",
        peer.name,
        theirs / ours
    );
    Ok(())
}

/// CPU time of each whole answer.
fn whole(switchboard: &Server, bare: &Server, bars: &mut Bars) -> Result<()> {
    println!("whole answers");
    let client = BareClient::start()?;
    for connections in CONNECTIONS {
        let loads =
            [(switchboard, Load::whole(connections, WHOLE_REQUESTS)), (bare, Load::whole(connections, BARE_REQUESTS))];
        let [ours, bare] = in_turns(&loads)?.map(|rounds| {
            let cpu = median(&rounds, |round| round.cpu_seconds / round.figures.requests * 1e6);
            let rate = median(&rounds, |round| round.figures.requests_per_second);
            let spread = |of: fn(load::Spread) -> f64| median(&rounds, |round| round.figures.answer.map_or(0.0, of));
            println!(
                "  {connections:>3} connections  {:<12}{cpu:>8.1} µs CPU/request {rate:>8.0} requests/s    p50 {:.2} ms  p99 {:.2} ms",
                rounds.0,
                spread(|spread| spread.p50_ms),
                spread(|spread| spread.p99_ms),
            );
            cpu
        });
        let cpu = |_| client.cpu_each(connections, WHOLE_REQUESTS, TEXT_PROMPT);
        let client = middle((0..ROUNDS).map(cpu).collect::<Result<_>>()?);
        println!(
            "  {connections:>3} connections  bare client {client:>8.1} µs CPU/turn: what is beyond it is {:.2}× bare",
            (ours - client) / bare
        );
        bars.add(&format!("whole answers at {connections} connections, over bare"), ours / bare, WHOLE_OVER_BARE);
    }
    Ok(())
}

/// CPU time of each delta that arrives.
fn streams(switchboard: &Server, bare: &Server, bars: &mut Bars) -> Result<()> {
    println!("{STREAMS} streams");
    let paced = Load::held(STREAMS, PACED_SECONDS, PACED_PROMPT);
    let loads = [(switchboard, paced.clone()), (bare, paced.clone()), (switchboard, paced.of_responses())];
    let [paced, bare_paced, responses_paced] = in_turns(&loads)?.map(|rounds| {
        let held = |round: &Loaded| round.held.map_or(f64::NAN, |held| held.cpu_seconds / held.deltas * 1e6);
        report("paced", &rounds, held)
    });
    let burst = Load::streams(STREAMS, 1, BURST_PROMPT);
    let loads = [(switchboard, burst.clone()), (bare, burst.clone()), (switchboard, burst.of_responses())];
    let [burst, bare_burst, responses_burst] = in_turns(&loads)?.map(|rounds| {
        let deltas = |round: &Loaded| round.figures.stream.as_ref().map_or(f64::NAN, |stream| stream.deltas);
        report("burst", &rounds, |round| round.cpu_seconds / deltas(round) * 1e6)
    });
    println!("  burst is {:.2}× bare; the third of each are responses", burst / bare_burst);
    bars.add("paced deltas over bare", paced / bare_paced, PACED_OVER_BARE);
    bars.add("deltas of a burst over paced", burst / paced, BURST_OVER_PACED);
    bars.add("paced deltas of responses over chat", responses_paced / paced, RESPONSES_OVER_CHAT);
    bars.add("deltas of a burst of responses over chat", responses_burst / burst, RESPONSES_OVER_CHAT);
    Ok(())
}

fn report(what: &str, rounds: &Rounds, cpu: impl Fn(&Loaded) -> f64) -> f64 {
    let cpu = median(rounds, cpu);
    let gap = |of: fn(load::Spread) -> f64| {
        median(rounds, |round| round.figures.stream.as_ref().map_or(f64::NAN, |stream| of(stream.gap)))
    };
    let deltas = median(rounds, |round| round.figures.stream.as_ref().map_or(f64::NAN, |stream| stream.deltas));
    println!(
        "  {what:<8}{:<12}{cpu:>8.2} µs CPU/delta {deltas:>8.0} deltas    gap p50 {:.2} ms  p99 {:.2} ms",
        rounds.0,
        gap(|gap| gap.p50_ms),
        gap(|gap| gap.p99_ms),
    );
    cpu
}

/// Who was measured, and what came of each round.
type Rounds = (&'static str, Vec<Loaded>);

fn in_turns<const CONTENDERS: usize>(loads: &[(&Server, Load); CONTENDERS]) -> Result<[Rounds; CONTENDERS]> {
    let mut all: [Rounds; CONTENDERS] = std::array::from_fn(|at| (loads[at].0.name, Vec::new()));
    for _ in 0..ROUNDS {
        for ((server, load), (_, rounds)) in loads.iter().zip(&mut all) {
            rounds.push(load.run(server)?);
        }
    }
    Ok(all)
}

fn median((_, rounds): &Rounds, figure: impl Fn(&Loaded) -> f64) -> f64 {
    middle(rounds.iter().map(figure).collect())
}

/// The bars, and by how much each was met or missed.
#[derive(Default)]
struct Bars(Vec<(String, f64, f64)>);

impl Bars {
    fn add(&mut self, what: &str, ratio: f64, bar: f64) {
        self.0.push((what.to_owned(), ratio, bar));
    }

    fn judge(self) -> Result<()> {
        let is_met = |(_, ratio, bar): &&(String, f64, f64)| ratio <= bar;
        for row @ (what, ratio, bar) in &self.0 {
            println!("{} {what}: {ratio:.2}× (bar {bar}×)", if is_met(&row) { "met   " } else { "missed" });
        }
        let missed = self.0.iter().filter(|row| !is_met(row)).count();
        ensure!(missed == 0, "{missed} of {} bars are missed", self.0.len());
        Ok(())
    }
}
