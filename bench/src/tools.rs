//! What it costs to have tool servers behind Switchboard: calls through `/mcp` beside the same server reached directly, the start
//! of thirteen servers beside one alone, and memory. No bar is set: times are reported with their ratios, and only a call or a
//! start that fails is a failure. Contenders take turns, and every figure is the median of its rounds.

pub(crate) mod bridge;
mod callers;
mod installed;
mod switchboard;
mod ways;

use std::time::Duration;

use anyhow::Result;

use callers::Era;
use installed::Installed;
use switchboard::{Switchboard, ToolServer};
use ways::{Direct, Round, Way};

use crate::rounds::{Parts, ROUNDS, middle};

const CALLERS: [usize; 2] = [1, 32];
const SERVERS: u32 = 13;

/// A part of the measurement.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    /// Calls per second and CPU time of each, and memory after them
    Calls,
    /// Time until the templates are ready, and memory with them
    Start,
    /// Time until real servers are ready, if they are installed
    RealStart,
}

pub(crate) fn run(parts: &Parts<Part>) -> Result<()> {
    if parts.has(Part::Start) {
        start()?;
    }
    if parts.has(Part::RealStart) {
        match Installed::find()? {
            Some(installed) => start_of_real(&installed)?,
            None => println!("no real servers were measured: `cargo xtask tool-servers` installs them"),
        }
    }
    if parts.has(Part::Calls) {
        calls()?;
    }
    Ok(())
}

/// How long none, one and thirteen of the same server take to be ready, and what Switchboard needs for them.
fn start() -> Result<()> {
    let mut all = [0, 1, SERVERS].map(|count| (count, Vec::new(), Vec::new()));
    for _ in 0..ROUNDS {
        for (count, seconds, kilobytes) in &mut all {
            let servers =
                (0..*count).map(|at| ToolServer::template(&format!("rust-{at}"))).collect::<Result<Vec<_>>>()?;
            let (switchboard, ready) = Switchboard::start(&servers)?;
            seconds.push(ready.as_secs_f64());
            kilobytes.push(switchboard.running.resident_kilobytes()?);
        }
    }
    println!("start of the template until `/api/tools` calls all of them ready, median of {ROUNDS} rounds in turns");
    let [none, one, many] = all.map(|(count, seconds, kilobytes)| {
        let (seconds, kilobytes) = (middle(seconds), middle(kilobytes));
        println!("  {count:>2} servers  {:>6.0} ms    switchboard {kilobytes:>6.0} kB", seconds * 1e3);
        (seconds, kilobytes)
    });
    let (first, further) = (one.1 - none.1, (many.1 - one.1) / f64::from(SERVERS - 1));
    println!("  {SERVERS} take {:.2}× the time of one alone", many.0 / one.0);
    println!("  switchboard has {first:.0} kB for the first, code among it, and {further:.0} kB for each further one");
    Ok(())
}

/// The same of thirteen real servers, each alone and then all of them.
fn start_of_real(installed: &Installed) -> Result<()> {
    let servers = installed.servers();
    println!("start of {} real servers", servers.len());
    // What only the first start of all has to read from the disk counts for nobody.
    Switchboard::start(&servers)?;
    let (mut slowest, mut sum) = (Duration::ZERO, Duration::ZERO);
    for server in &servers {
        let (_, ready) = Switchboard::start(std::slice::from_ref(server))?;
        println!("  {:<16}{:>6.0} ms alone", server.name, ready.as_secs_f64() * 1e3);
        (slowest, sum) = (slowest.max(ready), sum + ready);
    }
    let (switchboard, all) = Switchboard::start(&servers)?;
    println!(
        "  all at once     {:>6.0} ms: {:.2}× the slowest alone, {:.2}× one after the other; switchboard {:.0} kB",
        all.as_secs_f64() * 1e3,
        all.as_secs_f64() / slowest.as_secs_f64(),
        all.as_secs_f64() / sum.as_secs_f64(),
        switchboard.running.resident_kilobytes()?,
    );
    Ok(())
}

/// What a call costs on each of the ways to the same server.
fn calls() -> Result<()> {
    // The HTTP client of `rmcp` wants one, though no call here is encrypted.
    _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (switchboard, _) = Switchboard::start(&[ToolServer::template("rust")?])?;
    let before = switchboard.running.resident_kilobytes()?;
    let bridge = bridge::start()?;
    let direct = runtime.block_on(Direct::start())?;
    let ways = [
        Way::direct(&direct)?,
        Way::bridge(&bridge, Era::Legacy),
        Way::bridge(&bridge, Era::Modern),
        Way::switchboard(&switchboard, Era::Legacy)?,
        Way::switchboard(&switchboard, Era::Modern)?,
    ];
    println!("calls of the template, median of {ROUNDS} rounds in turns; between are the bridge and switchboard");
    for callers in CALLERS {
        let mut rounds = ways.each_ref().map(|_| Vec::new());
        for _ in 0..ROUNDS {
            for (way, rounds) in ways.iter().zip(&mut rounds) {
                rounds.push(runtime.block_on(way.round(callers))?);
            }
        }
        report(callers, ways.each_ref().map(|way| way.name), rounds.map(|rounds| median(&rounds)));
    }
    let after = switchboard.running.resident_kilobytes()?;
    println!("memory of switchboard: {before:.0} kB before, {after:.0} kB after: {:.2}×", after / before);
    Ok(())
}

fn report(callers: usize, names: [&str; 5], rounds: [Round; 5]) {
    println!("  callers: {callers:<2}            calls/s    µs CPU/call: between   server  callers      all");
    let [direct, ..] = rounds;
    for (name, round) in names.iter().zip(&rounds) {
        let Round { calls_per_second, between, server, callers } = round;
        let (rate, cpu) = (calls_per_second / direct.calls_per_second, round.cpu() / direct.cpu());
        println!(
            "    {name:<20}{calls_per_second:>8.0}{between:>25.0}{server:>9.0}{callers:>9.0}{:>9.0}    {rate:.2}× calls/s, {cpu:.2}× CPU of direct",
            round.cpu(),
        );
    }
    let [_, legacy_bridge, modern_bridge, legacy, modern] = rounds;
    for (era, ours, bridge) in [("legacy", legacy, legacy_bridge), ("modern", modern, modern_bridge)] {
        let (rate, cpu) = (ours.calls_per_second / bridge.calls_per_second, ours.between / bridge.between);
        println!("    {era}: switchboard has {rate:.2}× the calls/s and {cpu:.2}× the CPU time of the bridge");
    }
}

/// Each figure for itself.
fn median(rounds: &[Round]) -> Round {
    let of = |figure: fn(&Round) -> f64| middle(rounds.iter().map(figure).collect());
    Round {
        calls_per_second: of(|round| round.calls_per_second),
        between: of(|round| round.between),
        server: of(|round| round.server),
        callers: of(|round| round.callers),
    }
}
