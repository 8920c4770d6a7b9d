//! Servers whose fault is in the process: it dies, is slow or loud, or leaves others behind.

use std::io::{self, Write};
use std::process::{self, Command, Stdio};
use std::time::Duration;

use super::faults::Plain;
use super::good::{self, Eras};
use super::lines::{heard, log, method_of, pause, say, say_line};

const STDERR_BYTES: usize = 100 << 10;

pub(crate) fn slow(boot: Option<Duration>) {
    pause(boot.unwrap_or(Duration::from_secs(6)));
    good::serve(Eras::DUAL);
}

pub(crate) fn import_error() {
    log("Traceback (most recent call last):");
    log("  File \"server.py\", line 3, in <module>");
    log("    import pandas");
    log("ModuleNotFoundError: No module named 'pandas'");
    process::exit(1);
}

pub(crate) fn noisy() {
    say_line("🚀 Gallery MCP server v1.0.0");
    say_line("listening on stdio …");
    let mut stderr = io::stderr().lock();
    for _ in 0..STDERR_BYTES / 64 {
        drop(writeln!(stderr, "{:063}", 0));
    }
    drop(stderr);
    good::serve(Eras::DUAL);
}

pub(crate) fn orphan() {
    leave("setsid", &["sleep", "300"]);
    Plain::new().serve_well();
}

pub(crate) fn crash_loop() {
    let mut plain = Plain::new();
    for message in heard() {
        if method_of(&message) == "tools/list" {
            log("fatal: cannot bear to be asked");
            process::exit(1);
        }
        plain.answer(&message).iter().for_each(say);
    }
}

/// Starts a process that nobody will end. It keeps none of our streams, so that only its ancestry betrays it.
#[expect(clippy::disallowed_methods, reason = "plays a server that leaves processes behind")]
pub(crate) fn leave(program: &str, words: &[&str]) {
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.spawn() {
        Ok(child) => log(&format!("left behind {}", child.id())),
        Err(error) => log(&format!("cannot leave a process behind: {error}")),
    }
}
