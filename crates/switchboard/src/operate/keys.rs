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
#[command(after_help = EXIT_CODES)]
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
    /// Make a key invalid for ever; its open streams end
    Revoke {
        /// Its id
        id: String,
    },
}

#[derive(Args)]
struct Add {
    /// What it is for
    name: String,
    /// What it may do: use, tools, operate, approvals:session, approvals:own; may be given several times
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

fn list(answer: &Value) -> String {
    let keys = answer["keys"].as_array().map(Vec::as_slice).unwrap_or_default();
    let rest = keys.iter().map(|key| {
        let limits = &key["limits"];
        let limits = ["requests_per_minute", "turns_max", "tokens_per_day"].map(|limit| cell(&limits[limit]));
        (words(&key["scopes"]), words(&key["profiles"]), limits)
    });
    let fields = rows(answer, "keys", ["id", "name", "created_at", "revoked_at"]).into_iter();
    let listed: Vec<_> = fields
        .zip(rest)
        .map(|([id, name, made, revoked], (scopes, profiles, [requests, turns, tokens]))| {
            [id, name, scopes, profiles, requests, turns, tokens, made, revoked]
        })
        .collect();
    table(["ID", "NAME", "SCOPES", "PROFILES", "REQUESTS/MIN", "TURNS", "TOKENS/DAY", "MADE", "REVOKED"], &listed)
}

/// A list in one cell; `all` for none at all.
fn words(list: &Value) -> String {
    match list.as_array() {
        Some(words) => words.iter().map(cell).collect::<Vec<_>>().join(","),
        None => "all".into(),
    }
}

fn made(answer: &Value) -> String {
    let [id, secret] = [&answer["id"], &answer["secret"]].map(cell);
    format!("key {secret}\n    (shown this once; callers send it as `Authorization: Bearer KEY`; its id is {id})\n")
}

fn revoked(answer: &Value) -> String {
    format!("{} is not valid any more\n", cell(&answer["id"]))
}
