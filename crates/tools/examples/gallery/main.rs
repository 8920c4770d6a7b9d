//! A gallery of tool servers, good and broken, each played over stdio by hand-written JSON-RPC: `gallery NAME`.
//!
//! It shares no code with Switchboard and uses no MCP library: common code would hide common mistakes.

mod calls;
mod faults;
mod good;
mod hostile;
mod lines;
mod localcowork;
mod processes;
mod shelf;

use std::env;
use std::process::ExitCode;
use std::time::Duration;

use good::Eras;
use lines::{log, say_line};

/// One server of the gallery.
struct Exhibit {
    name: &'static str,
    about: &'static str,
    /// Plays it until its stdin is closed. Some take a number of milliseconds.
    play: fn(Option<Duration>),
}

const fn exhibit(name: &'static str, about: &'static str, play: fn(Option<Duration>)) -> Exhibit {
    Exhibit { name, about, play }
}

const GALLERY: [Exhibit; 41] = [
    exhibit("legacy", "good: begins with `initialize`, lists two tools a page", |_| good::serve(Eras::LEGACY)),
    exhibit("modern", "good: every request stands for itself", |_| good::serve(Eras::MODERN)),
    exhibit("dual", "good: speaks both, as the host begins", |_| good::serve(Eras::DUAL)),
    exhibit("legacy-shelf", "good: as `legacy`, with tools that add a prompt and a resource", |_| {
        good::serve(Eras::LEGACY.with_open_shelf());
    }),
    exhibit("modern-shelf", "good: as `modern`, with tools that add a prompt and a resource", |_| {
        good::serve(Eras::MODERN.with_open_shelf());
    }),
    exhibit("slow", "good: as `dual`, but only after MS (6000) milliseconds", processes::slow),
    exhibit("deaf-to-discover", "good: as `legacy`, but says nothing to methods it does not know", |_| {
        good::serve(Eras::DEAF);
    }),
    exhibit("d1", "sends a message before anyone asked", |_| faults::d1()),
    exhibit("d2", "answers with ids that are strings, whatever they were", |_| faults::d2()),
    exhibit("d3", "knows no handshake", |_| faults::d3()),
    exhibit("d4", "answers notifications", |_| faults::d4()),
    exhibit("d5", "names the fields of its handshake in its own way", |_| faults::d5()),
    exhibit("d6", "sends its tools with the handshake", |_| faults::d6()),
    exhibit("d7", "has a tool with `parameters` and no `inputSchema`", |_| faults::d7()),
    exhibit("d8", "says of no tool what its arguments are", |_| faults::d8()),
    exhibit("d9", "writes its log to stdout", |_| faults::d9()),
    exhibit("d10", "ends with code 3 where it should answer `initialize`", |_| faults::d10()),
    exhibit("d11", "reads and never answers", |_| faults::d11()),
    exhibit("d12", "says nothing for MS (6000) milliseconds, then all of it", faults::d12),
    exhibit("d13", "lists its tools before the handshake too", |_| faults::d13()),
    exhibit("d14", "asks for confirmation in a field that MCP does not know", |_| faults::d14()),
    exhibit("d15", "speaks only a version that does not exist", |_| faults::d15()),
    exhibit("d16", "has two tools of one name, and a name with a dot", |_| faults::d16()),
    exhibit("d17", "stays when its stdin is closed, until a signal ends it", |_| faults::d17()),
    exhibit("d18", "leaves a process behind", |_| faults::d18()),
    exhibit("d19", "writes its schemas in draft-04", |_| faults::d19()),
    exhibit("d20", "answers `server/discover` after MS (7000) milliseconds, though it is awake", faults::d20),
    exhibit("adr", "LocalCowork's TypeScript server before its fix: pushes its tools, knows no `initialize`", |_| {
        localcowork::adr();
    }),
    exhibit("localcowork-python", "LocalCowork's Python dialect: `params_schema`, `server_info`, inline tools", |_| {
        localcowork::python();
    }),
    exhibit("localcowork-typescript", "LocalCowork's TypeScript dialect: flags under `metadata`, inline tools", |_| {
        localcowork::typescript();
    }),
    exhibit("import-error", "ends with a Python traceback before it reads anything", |_| processes::import_error()),
    exhibit("silent", "reads and never answers", |_| faults::d11()),
    exhibit("noisy", "as `dual`, with banners on stdout and 100 KiB of stderr before", |_| processes::noisy()),
    exhibit("orphan", "leaves a process behind that is in a session of its own", |_| processes::orphan()),
    exhibit("stubborn", "stays when its stdin is closed, until a signal ends it", |_| faults::d17()),
    exhibit("crash-loop", "answers the handshake and dies of the first `tools/list`, each time", |_| {
        processes::crash_loop();
    }),
    exhibit("no-list", "answers lists with a text", |_| hostile::no_list()),
    exhibit("bare-result", "answers calls with a long text", |_| hostile::bare_result()),
    exhibit("endless-pages", "has always one more page of its list", |_| hostile::endless_pages()),
    exhibit("early-ping", "asks for a sign of life with its handshake", |_| hostile::early_ping()),
    exhibit("inquisitive", "asks more than anybody can answer", |_| hostile::inquisitive()),
];

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let Some(name) = words.first() else { return usage() };
    if name == "--list" {
        GALLERY.iter().for_each(|Exhibit { name, about, .. }| say_line(&format!("{name:24}{about}")));
        return ExitCode::SUCCESS;
    }
    let Some(exhibit) = GALLERY.iter().find(|exhibit| exhibit.name == name) else { return usage() };
    let millis = words.get(1).and_then(|word| word.parse().ok()).map(Duration::from_millis);
    (exhibit.play)(millis);
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    log("usage: gallery NAME [MS]; `gallery --list` names them all");
    ExitCode::from(2)
}
