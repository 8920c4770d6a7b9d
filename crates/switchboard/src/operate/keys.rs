//! `switchboard keys`: which keys there are, making one and revoking one. The text of a key is printed once, by the
//! command that makes it.

use std::num::{NonZeroU32, NonZeroU64};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{EXIT_CODES, ServerFlags, cell, rows, segment};
use crate::print::table;

#[derive(Args)]
#[command(after_help = after_help())]
pub(crate) struct Keys {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    flags: ServerFlags,
}

#[derive(Subcommand)]
enum Action {
    /// List the keys, the oldest first (what it does without a word)
    List,
    /// Make a key, and print its text this once
    Add(Add),
    /// Make a key, and all that it created, invalid for ever; their open streams end
    Revoke {
        /// Its id
        id: String,
    },
}

#[derive(Args)]
struct Add {
    /// What it is for
    name: String,
    /// What it may do: use, tools, operate, keys (create and revoke keys), approvals:session, approvals:own; may be given
    /// several times
    #[arg(long = "scope", value_name = "SCOPE", value_delimiter = ',', default_value = "use")]
    scopes: Vec<String>,
    /// A profile that it may use, else every one; may be given several times
    #[arg(long = "profile", value_name = "NAME", value_delimiter = ',')]
    profiles: Vec<String>,
    /// How many requests a minute
    #[arg(long, value_name = "N")]
    requests_per_minute: Option<NonZeroU32>,
    /// How many turns at the same time
    #[arg(long, value_name = "N")]
    turns_max: Option<NonZeroU32>,
    /// How many tokens, read and written, a day (in UTC)
    #[arg(long, value_name = "N")]
    tokens_per_day: Option<NonZeroU64>,
}

fn after_help() -> String {
    const LINEAGE: &str = "\
To create and to revoke keys needs the scope `keys`: the first key, SWITCHBOARD_KEY of the server and this command on the
server's machine have it. To list them needs `operate` or `keys`. A key that another key creates has at most the scopes,
profiles and limits of that key, counts against its limits, and is revoked with it.";
    format!("{LINEAGE}\n\n{EXIT_CODES}")
}

/// Runs the command.
pub(crate) async fn run(keys: &Keys) -> Result<ExitCode> {
    match &keys.action {
        None | Some(Action::List) => keys.flags.ask(async |server| server.get("/api/keys").await, list).await,
        Some(Action::Add(add)) => {
            let order = add.order();
            keys.flags.ask(async |server| server.post("/api/keys", &order).await, made).await
        }
        Some(Action::Revoke { id }) => {
            let path = format!("/api/keys/{}/revoke", segment(id));
            keys.flags.ask(async |server| server.post(&path, &json!({})).await, revoked).await
        }
    }
}

impl Add {
    fn order(&self) -> Value {
        let profiles = (!self.profiles.is_empty()).then_some(&self.profiles);
        json!({
            "name": self.name,
            "scopes": self.scopes,
            "profiles": profiles,
            "limits": {
                "requests_per_minute": self.requests_per_minute,
                "turns_max": self.turns_max,
                "tokens_per_day": self.tokens_per_day,
            },
        })
    }
}

pub(super) fn list(answer: &Value) -> String {
    let keys = answer["keys"].as_array().map(Vec::as_slice).unwrap_or_default();
    let rest = keys.iter().map(|key| {
        let limits = &key["limits"];
        let limits = ["requests_per_minute", "turns_max", "tokens_per_day"].map(|limit| cell(&limits[limit]));
        (words(&key["scopes"]), words(&key["profiles"]), limits)
    });
    let fields = rows(answer, "keys", ["id", "name", "parent", "created_at", "revoked_at"]).into_iter();
    let listed: Vec<_> = fields
        .zip(rest)
        .map(|([id, name, parent, made, revoked], (scopes, profiles, [requests, turns, tokens]))| {
            [id, name, scopes, profiles, requests, turns, tokens, parent, made, revoked]
        })
        .collect();
    table(
        ["ID", "NAME", "SCOPES", "PROFILES", "REQUESTS/MIN", "TURNS", "TOKENS/DAY", "MADE BY", "MADE", "REVOKED"],
        &listed,
    )
}

/// A list in one cell; `all` for none at all.
fn words(list: &Value) -> String {
    match list.as_array() {
        Some(words) => words.iter().map(cell).collect::<Vec<_>>().join(","),
        None => "all".into(),
    }
}

pub(super) fn made(answer: &Value) -> String {
    let [id, secret] = [&answer["id"], &answer["secret"]].map(cell);
    format!("key {secret}\n    (shown this once; callers send it as `Authorization: Bearer KEY`; its id is {id})\n")
}

pub(super) fn revoked(answer: &Value) -> String {
    let id = cell(&answer["id"]);
    match answer["descendants"].as_array().map_or(0, Vec::len) {
        0 => format!("{id} is not valid any more\n"),
        1 => format!("{id} and the key that it created are not valid any more\n"),
        count => format!("{id} and the {count} keys that descend from it are not valid any more\n"),
    }
}
