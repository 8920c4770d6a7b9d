//! What it costs to know what a line is: the peek with all its checks, against others.

use std::hint::black_box;

use anyhow::ensure;
use wire::{Frame, Framer, Limits, peek};

use crate::cpu::{Contender, race};
use crate::lines::generate;

const LINES: u32 = 200_000;
const OVER_VALUE: f64 = 2.0;
const OVER_CODEX_CODES: f64 = 6.0;

pub(crate) fn run() -> anyhow::Result<()> {
    let lines = generate(LINES);
    let stream = lines.join("\n").into_bytes();
    let depth_max = Limits::default().depth_max;
    check_all_lines_are_read(&lines, depth_max)?;

    let mut contenders = [
        Contender::new("newline split", || {
            black_box(memchr::memchr_iter(b'\n', &stream).count());
        }),
        Contender::new("framer", || each_line(&stream, |line| _ = black_box(line.len()))),
        Contender::new("peek", || peek_all(&lines, depth_max)),
        Contender::new("serde_json::Value", || {
            for line in &lines {
                _ = black_box(serde_json::from_str::<serde_json::Value>(line));
            }
        }),
        Contender::new("codex-codes", || {
            for line in &lines {
                _ = black_box(codex_codes::ServerMessage::from_json_str(line));
            }
        }),
    ];
    race(&mut contenders);
    let line_bytes = stream.len() / lines.len();
    println!("{LINES} lines of {line_bytes} bytes on average, one thread, CPU time");
    let nanos = contenders.each_ref().map(|contender| contender.nanos_each(LINES));
    for (contender, nanos) in contenders.iter().zip(nanos) {
        println!("  {:<20} {nanos:>8.1} ns/line", contender.name);
    }
    let [_, _, peek, value, codex_codes] = nanos;
    let (over_value, over_codex_codes) = (value / peek, codex_codes / peek);
    println!("peek is {over_value:.1}× serde_json::Value (bar {OVER_VALUE}×)");
    println!("peek is {over_codex_codes:.1}× codex-codes (bar {OVER_CODEX_CODES}×)");
    ensure!(over_value >= OVER_VALUE, "below the bar over serde_json::Value");
    ensure!(over_codex_codes >= OVER_CODEX_CODES, "below the bar over codex-codes");
    Ok(())
}

fn peek_all(lines: &[String], depth_max: usize) {
    for line in lines {
        _ = black_box(peek(line.as_bytes(), depth_max));
    }
}

fn each_line(stream: &[u8], mut take: impl FnMut(&[u8])) {
    let mut framer = Framer::new(Limits::default().line_bytes_max);
    for mut read in stream.chunks(64 << 10) {
        while let Some(frame) = framer.next(&mut read) {
            if let Frame::Line(line) = frame {
                take(line);
            }
        }
    }
}

/// A contender that fails early would look fast.
fn check_all_lines_are_read(lines: &[String], depth_max: usize) -> anyhow::Result<()> {
    for line in lines {
        let is_peeked = peek(line.as_bytes(), depth_max).is_ok();
        let is_typed = codex_codes::ServerMessage::from_json_str(line).is_ok();
        ensure!(is_peeked && is_typed, "a contender cannot read {line}");
    }
    Ok(())
}
