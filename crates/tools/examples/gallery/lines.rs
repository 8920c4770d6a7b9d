//! JSON-RPC by hand: one message a line, each flushed at once.

use std::io::{self, BufRead, Write};
use std::process;
use std::time::Duration;

use serde_json::{Value, json};

/// What the host says, message by message, until it closes our stdin.
pub(crate) fn heard() -> impl Iterator<Item = Value> {
    let lines = io::stdin().lock().lines().map_while(Result::ok).filter(|line| !line.trim().is_empty());
    lines.filter_map(|line| match serde_json::from_str(&line) {
        Ok(message) => Some(message),
        Err(error) => {
            say(&failed(&Value::Null, -32700, &format!("Parse error: {error}")));
            None
        }
    })
}

/// Sends a message.
pub(crate) fn say(message: &Value) {
    say_line(&message.to_string());
}

/// Writes any line to stdout, in one write. Whoever no longer reads it wants us to end.
pub(crate) fn say_line(line: &str) {
    let mut stdout = io::stdout().lock();
    if stdout.write_all(format!("{line}\n").as_bytes()).and_then(|()| stdout.flush()).is_err() {
        process::exit(0);
    }
}

/// Writes a line to stderr, read or not.
pub(crate) fn log(line: &str) {
    drop(writeln!(io::stderr(), "{line}"));
}

/// The answer to a request.
pub(crate) fn done(id: &Value, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

/// The answer to a request that failed.
pub(crate) fn failed(id: &Value, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

/// The answer to a method that nobody knows.
pub(crate) fn unknown(id: &Value, method: &str) -> Value {
    failed(id, -32601, &format!("Unknown method: {method}"))
}

/// A notification.
pub(crate) fn told(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

/// The method of a message, empty if it is an answer.
pub(crate) fn method_of(message: &Value) -> &str {
    message["method"].as_str().unwrap_or_default()
}

/// Does nothing for a while.
#[expect(clippy::disallowed_methods, reason = "plays servers that are slow, and knows no runtime")]
pub(crate) fn pause(duration: Duration) {
    std::thread::sleep(duration);
}
