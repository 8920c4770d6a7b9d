//! `[approvals]`: who decides what workers ask, besides people.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use approvals::{Kind as Asked, Rule, Rules, Then, Webhook};

use super::super::kind::Kind;
use super::super::problem::Source;
use super::super::reading::{Reading, Table};
use super::super::{Approvals, Config, Hook, Secret, Told};

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

const WEBHOOK: &str = "https://example.com/approvals";
/// Where decision links lead, on this server.
const LINKS: &str = "/api/approvals/by-token/";

const THEN: &[(&str, Then)] = &[("allow", Then::Allow), ("deny", Then::Deny), ("ask", Then::Ask)];
/// What a rule may decide.
const BY_RULE: &[(&str, Asked)] = &[
    ("command", Asked::Command),
    ("file_change", Asked::FileChange),
    ("permissions", Asked::Permissions),
    ("tool_confirmation", Asked::ToolConfirmation),
];

pub(super) fn approvals(reading: &mut Reading<'_>, own_url: &str) -> Approvals {
    let table = reading.table("approvals");
    let mut section = reading.section("[approvals]", "[approvals]", "approvals", table);
    section.has_table("rules");
    section.has_table("hooks");
    let deadline = section.value(
        "deadline",
        &Kind::duration(SECOND..=7 * DAY),
        "10m",
        "How long a decision may take; then the answer is no.",
    );
    let url = section.address("webhook", &Kind::url(WEBHOOK), "Told of each request, with links that decide it.");
    let authorization = section.secret("webhook_authorization", "What the webhook is sent as `authorization` header.");
    let public_url = section.value(
        "public_url",
        &Kind::url("https://gateway.example.com"),
        own_url,
        "Where the links of the webhook lead: this server, as their reader reaches it.",
    );
    let webhook =
        url.map(|url| Told { url, authorization, links: format!("{}{LINKS}", public_url.trim_end_matches('/')) });
    if let Some(Err(error)) = webhook.as_ref().map(Told::webhook) {
        section.complain("webhook", error.to_string());
    }
    section.finish();
    let rules = rules(reading, table);
    let hooks = reading.list(table, "[[approvals.hooks]]", "hooks");
    let hooks = hooks.into_iter().filter_map(|table| hook(reading, table)).collect();
    Approvals { deadline, rules, hooks, webhook }
}

impl Told {
    /// The same, with links that lead to where the server is reached, if the port was left to the system.
    pub(crate) fn webhook_from(
        &self,
        config: &Config,
        address: SocketAddr,
    ) -> Result<Webhook, approvals::WebhookError> {
        let links = match self.links.strip_prefix(&config.url_at(config.listen)) {
            Some(path) => format!("{}{path}", config.url_at(address)),
            None => self.links.clone(),
        };
        Webhook::new(&self.url, self.authorization.as_ref().map(Secret::reveal), &links)
    }

    /// The same as the approvals have it.
    pub(crate) fn webhook(&self) -> Result<Webhook, approvals::WebhookError> {
        Webhook::new(&self.url, self.authorization.as_ref().map(Secret::reveal), &self.links)
    }
}

fn rules<'a>(reading: &mut Reading<'a>, table: Table<'a>) -> Rules {
    let tables = reading.list(table, "[[approvals.rules]]", "rules");
    let (rules, sources): (Vec<Rule>, Vec<Source>) = tables.into_iter().map(|table| rule(reading, table)).unzip();
    Rules::new(rules).unwrap_or_else(|error| {
        use approvals::RuleError::{AllowsEveryCommand, NoCommand, NoDirectory, NotForRules};
        let (AllowsEveryCommand { number }
        | NoDirectory { number }
        | NoCommand { number, .. }
        | NotForRules { number, .. }) = error;
        reading.complain(sources[number - 1].clone(), error.to_string());
        Rules::default()
    })
}

fn rule<'a>(reading: &mut Reading<'a>, table: Table<'a>) -> (Rule, Source) {
    const HEADER: &str = "[[approvals.rules]]";
    let mut section = reading.section(HEADER, HEADER, "", table).only_in_file();
    let rule = Rule {
        kind: section.optional("kind", &Kind::choice(BY_RULE), "What is asked for; anything if left out."),
        command: section.value(
            "command",
            &Kind::words("[\"git\", \"status\"]"),
            "",
            "The first words of the command; all of them if it runs what its arguments say.",
        ),
        cwd: section
            .optional("cwd", &Kind::path(), "The directory that it runs in, or one above it.")
            .map(|cwd: PathBuf| cwd.to_string_lossy().into()),
        thread: section.optional("thread", &Kind::text(), "The id of the thread."),
        key: section.optional("key", &Kind::text(), "The id of the caller's key."),
        then: section
            .needed("then", &Kind::choice(THEN), "What is decided; \"ask\" leaves it to hooks and people.")
            .unwrap_or_default(),
    };
    let source = section.source_of("then");
    section.finish();
    (rule, source)
}

fn hook<'a>(reading: &mut Reading<'a>, table: Table<'a>) -> Option<Hook> {
    const HEADER: &str = "[[approvals.hooks]]";
    let mut section = reading.section(HEADER, HEADER, "", table).only_in_file();
    let name = section.needed("name", &Kind::name(), "What the history of an approval calls it.");
    let command = section.needed(
        "command",
        &Kind::words("[\"/usr/local/bin/decide\"]"),
        "Is given each request as JSON on stdin, and may decide it with JSON on stdout.",
    );
    let cwd = section.value("cwd", &Kind::path(), ".", "Where it starts.");
    let env =
        section.value("env", &Kind::words("[\"TOKEN\"]"), "", "Variables of the server's environment that it may see.");
    let kinds = section.value("kinds", &Kind::kinds(), "", "What it is asked about; everything if left out.");
    let timeout =
        section.value("timeout", &Kind::duration(SECOND..=DAY), "30s", "How long it may take; then others decide.");
    let may_allow_for_session =
        section.value("for_session", &Kind::flag(), "false", "Whether it may allow more than this once.");
    section.finish();
    Some(Hook { name: name?, command: command?, cwd, env, kinds, timeout, may_allow_for_session })
}
