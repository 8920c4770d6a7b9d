//! `switchboard schema methods`: the table of methods, for people and for programs.

use std::fmt::Write as _;

use codex::protocol::{Extent, Kind, METHODS, Method, NEWEST, Until};
use serde_json::{Value, json};

/// The table as text: what the schema has, what workers list besides, what only older versions had.
pub(super) fn to_text() -> String {
    let mut text = String::new();
    let is_unlisted = |row: &&Method| matches!(row.extent, Extent::Unlisted(_));
    let (today, gone): (Vec<&Method>, Vec<&Method>) = METHODS.iter().partition(|row| row.until == Until::Today);
    let (beside, listed): (Vec<&Method>, Vec<&Method>) = today.into_iter().partition(is_unlisted);
    add_rows(&mut text, &format!("The protocol of codex {NEWEST}, and since which tested version:"), &listed);
    add_rows(&mut text, "\nWhat workers list beside their schema:", &beside);
    add_rows(&mut text, "\nWhat only older versions have:", &gone);
    let count = |kind| listed.iter().filter(|row| row.kind == kind).count();
    let experimental = listed.iter().filter(|row| row.extent == Extent::Experimental).count();
    writeln!(
        text,
        "\n{} calls, {} notifications, {} requests, {} client notification ({experimental} experimental); {} beside the \
         schema, {} only in older versions",
        count(Kind::Call),
        count(Kind::Notification),
        count(Kind::Request),
        count(Kind::ClientNotification),
        beside.len(),
        gone.len()
    )
    .expect("text");
    text
}

fn add_rows(text: &mut String, title: &str, rows: &[&Method]) {
    writeln!(text, "{title}\n").expect("text");
    for row in rows {
        let mark = match (row.extent, row.until) {
            (_, Until::Version(until)) => format!("until {until}"),
            (Extent::Experimental, _) => "experimental".to_owned(),
            (Extent::Unlisted(why), _) => why.to_owned(),
            (Extent::Stable, _) => String::new(),
        };
        let line = format!("{:<48} {:<20} {:<8} {mark}", row.method, word_of(row.kind), row.since);
        writeln!(text, "{}", line.trim_end()).expect("text");
    }
}

fn word_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Call => "call",
        Kind::ClientNotification => "client notification",
        Kind::Notification => "notification",
        Kind::Request => "request",
    }
}

/// The table as one JSON object.
pub(super) fn to_json() -> Value {
    let row = |row: &Method| {
        json!({
            "method": row.method,
            "kind": row.kind,
            "experimental": row.extent == Extent::Experimental,
            "since": row.since,
            "until": match row.until { Until::Today => None, Until::Version(version) => Some(version) },
            "beside_schema": match row.extent { Extent::Unlisted(why) => Some(why), _ => None },
        })
    };
    json!({"version": NEWEST, "methods": METHODS.iter().map(row).collect::<Vec<_>>()})
}
