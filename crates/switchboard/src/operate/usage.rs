//! `switchboard usage`: how many tokens the turns of each key have used, day by day.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::Value;

use super::{EXIT_CODES, ServerFlags, rows, segment};
use crate::print::table;

#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Usage {
    /// Of this key
    #[arg(long, value_name = "ID")]
    key: Option<String>,
    /// Since this day (in UTC), else the last 30
    #[arg(long, value_name = "YYYY-MM-DD")]
    from: Option<String>,
    /// Until this day, else today
    #[arg(long, value_name = "YYYY-MM-DD")]
    to: Option<String>,
    #[command(flatten)]
    flags: ServerFlags,
}

const COUNTS: [&str; 6] =
    ["turns", "input_tokens", "cached_input_tokens", "output_tokens", "reasoning_output_tokens", "estimated_tokens"];

/// Runs the command.
pub(crate) async fn run(usage: &Usage) -> Result<ExitCode> {
    let filters = [("key", &usage.key), ("from", &usage.from), ("to", &usage.to)];
    let given = filters.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", segment(value.as_ref()?))));
    let path = format!("/api/usage?{}", given.collect::<Vec<_>>().join("&"));
    usage.flags.ask(async |server| server.get(&path).await, list).await
}

pub(super) fn list(answer: &Value) -> String {
    let [turns, input, cached, output, reasoning, estimated] = COUNTS;
    let mut listed = rows(answer, "usage", ["day", "key", turns, input, cached, output, reasoning, estimated]);
    let days = answer["usage"].as_array().map(Vec::as_slice).unwrap_or_default();
    let [turns, input, cached, output, reasoning, estimated] = COUNTS.map(|count| {
        let sum = days.iter().filter_map(|day| day[count].as_i64()).fold(0, i64::saturating_add);
        sum.to_string()
    });
    listed.push(["all".into(), String::new(), turns, input, cached, output, reasoning, estimated]);
    table(["DAY", "KEY", "TURNS", "INPUT", "CACHED", "OUTPUT", "REASONING", "ESTIMATED"], &listed)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::list;

    #[test]
    fn days_are_listed_with_their_sum() {
        let day = |day: &str, input: i64| {
            json!({
                "day": day, "key": "0a1b", "turns": 1, "input_tokens": input, "cached_input_tokens": 0,
                "output_tokens": 5, "reasoning_output_tokens": 2, "estimated_tokens": 1,
            })
        };
        let answer = json!({ "usage": [day("2026-01-02", 1000), day("2026-01-01", 10)] });
        expect![[r#"
            DAY         KEY   TURNS  INPUT  CACHED  OUTPUT  REASONING  ESTIMATED
            2026-01-02  0a1b  1      1000   0       5       2          1
            2026-01-01  0a1b  1      10     0       5       2          1
            all               2      1010   0       10      4          2
        "#]]
        .assert_eq(&list(&answer));
    }
}
