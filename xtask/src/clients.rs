//! `cargo xtask clients`: real OpenAI clients against a running server, as `docs/openai-clients.md` has it.
//! The scenarios are scripts in `clients/`; a test of the crate `switchboard` starts the servers and plays them; this command
//! installs the clients, names them to the test, and makes a table of what it found. `--write` writes it into the page.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::codex::{self, Codex};
use crate::difference;
use crate::run;
use crate::workspace::{self, Workspace};

mod install;
mod table;

use install::Api;
pub(crate) use install::Installed;
use table::Table;

/// Names the clients to the test, one a line: the API, the name, the program and its script, with tabs between.
const CLIENTS: &str = "SWITCHBOARD_CLIENTS";
/// Names the file into which the test writes its rows.
const ROWS: &str = "SWITCHBOARD_CLIENTS_ROWS";

const PAGE: &str = "docs/openai-clients.md";
const TABLE_BEGINS: &str = "<!-- Written by `cargo xtask clients --write`. -->\n";
const TABLE_ENDS: &str = "<!-- Until here. -->\n";

/// A build, and every client with both workers.
const TIMEOUT: Duration = Duration::from_secs(30 * 60);

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Try these clients alone, by a part of their name or by their API: `chat`, `responses`
    only: Vec<String>,
    /// Write the table into the page
    #[arg(long, conflicts_with = "only")]
    write: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let (installed, codex) = (Installed::all()?, Codex::committed()?);
    let is_wanted =
        |client: &&Installed| arguments.only.is_empty() || arguments.only.iter().any(|part| client.is_called(part));
    let wanted: Vec<&Installed> = installed.iter().filter(is_wanted).collect();
    let table = tried(&wanted, &codex)?;
    match &arguments.only[..] {
        [] if arguments.write => write(&table),
        [] => compare(&table),
        _ => Ok(()),
    }
}

/// Fails if a client fails, or if the page says otherwise.
pub(crate) fn check(installed: &[Installed], codex: &Codex) -> Result<()> {
    compare(&tried(&installed.iter().collect::<Vec<_>>(), codex)?)
}

/// The tables of a trial in which nothing failed.
fn tried(clients: &[&Installed], codex: &Codex) -> Result<String> {
    let file = Workspace::load()?.target_directory.join("clients/rows.jsonl");
    fs::remove_file(&file).ok();
    let named: Vec<String> = clients.iter().map(|client| client.line()).collect();
    let mut cargo = run::cargo("test --package switchboard --features switchboard/clients --test it clients::");
    cargo.env(CLIENTS, named.join("\n")).env(ROWS, &file).env(codex::PATH_VARIABLE, &codex.binary);
    let played = run::to_end(&mut cargo, TIMEOUT);
    let rows = fs::read_to_string(&file).unwrap_or_default();
    let (mut text, mut complaints) = (Vec::new(), Vec::new());
    for api in Api::ALL {
        let names: Vec<&str> =
            clients.iter().filter(|client| client.api == api).map(|client| client.name.as_str()).collect();
        if names.is_empty() {
            continue;
        }
        let table = Table::of(api.word(), &names, &rows)?;
        text.push(format!("### `{}`\n\n{}", api.path(), table.text));
        complaints.extend(table.complaint);
    }
    let text = text.join("\n");
    println!("\n{text}");
    if !complaints.is_empty() {
        bail!("{}", complaints.join("\n"));
    }
    played?;
    Ok(text)
}

fn compare(table: &str) -> Result<()> {
    let page = fs::read_to_string(path()).with_context(|| format!("cannot read {PAGE}"))?;
    if let Some(difference) = difference::between(&page, &with_table(&page, table)?) {
        bail!("{PAGE} is not what the clients do; `cargo xtask clients --write` rewrites it\n{difference}");
    }
    println!("{PAGE} is what the clients do");
    Ok(())
}

fn write(table: &str) -> Result<()> {
    let page = fs::read_to_string(path()).with_context(|| format!("cannot read {PAGE}"))?;
    fs::write(path(), with_table(&page, table)?).with_context(|| format!("cannot write {PAGE}"))?;
    println!("{PAGE} written: look at `git diff {PAGE}`");
    Ok(())
}

fn path() -> PathBuf {
    workspace::root().join(PAGE)
}

fn with_table(page: &str, table: &str) -> Result<String> {
    let (before, rest) = page.split_once(TABLE_BEGINS).context("the page has no place for the table")?;
    let (_, after) = rest.split_once(TABLE_ENDS).context("the page's table has no end")?;
    Ok(format!("{before}{TABLE_BEGINS}\n{table}\n{TABLE_ENDS}{after}"))
}

#[cfg(test)]
mod tests {
    use super::{TABLE_BEGINS, TABLE_ENDS, with_table};

    #[test]
    fn the_table_of_the_page_is_replaced_and_nothing_else() {
        let page = format!("# Clients\n\n{TABLE_BEGINS}\nold\n\n{TABLE_ENDS}\nNotes.\n");
        let expected = format!("# Clients\n\n{TABLE_BEGINS}\nnew\n\n{TABLE_ENDS}\nNotes.\n");
        assert_eq!(with_table(&page, "new\n").unwrap(), expected);
        assert!(with_table("# Clients\n", "new\n").is_err());
    }
}
