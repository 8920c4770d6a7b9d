//! `cargo xtask schema`: upstream's own words about its protocol, kept in `schema/`.
//! A real binary is asked twice, with and without its experimental part; the answers are trimmed so that
//! the same binary always gives the same bytes. `--check` compares instead of writing.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

use crate::codex::{Codex, committed_version};
use crate::difference;
use crate::workspace;

mod bundle;
mod methods;
mod trim;

pub(crate) use methods::{Method, MethodTable};
pub(crate) use trim::{pretty, trimmed};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Ask this native binary
    #[arg(long, value_name = "PATH", conflicts_with = "version")]
    codex: Option<PathBuf>,
    /// Ask this published version, installed by npm below target/ [default: the one in schema/VERSION]
    #[arg(long, value_name = "X.Y.Z")]
    version: Option<String>,
    /// Write nothing; fail if `schema/` is not what the binary says
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let codex = match (&arguments.codex, &arguments.version) {
        (Some(path), _) => Codex::at(path)?,
        (None, Some(version)) => Codex::published(version)?,
        (None, None) => Codex::published(&committed_version()?)?,
    };
    if arguments.check { check(&codex) } else { write(&codex) }
}

/// Fails with the first differences between `schema/` and what the binary says.
pub(crate) fn check(codex: &Codex) -> Result<()> {
    let mut differences = String::new();
    for file in files_of(codex)? {
        let committed = fs::read_to_string(file.path()).unwrap_or_default();
        if let Some(difference) = difference::between(&committed, &file.text) {
            differences += &format!("\nschema/{}:\n{difference}", file.name);
        }
    }
    if !differences.is_empty() {
        let version = &codex.version;
        bail!("schema/ is not what codex {version} says; `cargo xtask schema` rewrites it{differences}");
    }
    println!("schema/ is what codex {} says", codex.version);
    Ok(())
}

fn write(codex: &Codex) -> Result<()> {
    fs::create_dir_all(workspace::root().join("schema"))?;
    for file in files_of(codex)? {
        fs::write(file.path(), &file.text).with_context(|| format!("cannot write schema/{}", file.name))?;
        println!("schema/{} written, {} bytes", file.name, file.text.len());
    }
    Ok(())
}

/// One file of `schema/`.
struct SchemaFile {
    name: &'static str,
    text: String,
}

impl SchemaFile {
    fn path(&self) -> PathBuf {
        workspace::root().join("schema").join(self.name)
    }
}

fn files_of(codex: &Codex) -> Result<[SchemaFile; 3]> {
    let whole = bundle::ask(&codex.binary, bundle::Extent::Experimental)?;
    let stable = bundle::ask(&codex.binary, bundle::Extent::Stable)?;
    let table = MethodTable::compared(&whole, &stable)?;
    Ok([
        SchemaFile { name: "VERSION", text: format!("{}\n", codex.version) },
        SchemaFile { name: "app-server.json", text: pretty(&trimmed(whole)) },
        SchemaFile { name: "methods.json", text: table.to_text() },
    ])
}
